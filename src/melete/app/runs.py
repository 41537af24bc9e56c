"""The runs of a process that serves many: started, found, followed, and brought to an end. Part of the composition root.

A run belongs to the application, not to whoever asked for it: clients come and go. What is known of it stands in its session's
log, so that it is found after a restart as well.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial

from msgspec import Struct, structs

from melete.agent.hub import Hub, Subscription
from melete.agent.run import Start, new_run_id
from melete.app.events import START, Batch, Place, each, own_events, session_events, stored_events
from melete.app.opening import Options
from melete.app.service import Conversation, How
from melete.app.warm import Kept, Warm
from melete.app.wire import Melete
from melete.core.errors import LimitError, MeleteError, SessionBusyError, SessionNotFoundError
from melete.core.event import Event, Fact, Question, RunEnded, RunStarted
from melete.core.message import Message
from melete.core.session import SessionRef
from melete.core.transcript import Transcript

log = logging.getLogger("melete.runs")
NOTHING: Mapping[str, str] = {}
AT_ONCE = 4
"""Runs that may be opening at a time: in a burst the first ones reach their model while the last still wait."""
FORGET = 30.0
"""Seconds after the end of a run for which its deltas can be read again."""
FULL = 1.0
"""Seconds after which a run is tried again that nobody waits for."""
LATELY = 64
"""Runs that have ended whose deltas are kept at most."""


class TooManyRunsError(LimitError):
    """As many runs go on as may; nothing was begun."""


class StoppingError(MeleteError):
    """The server is about to stop and begins nothing new."""


class RunState(Struct, frozen=True, kw_only=True):
    """What is known of a run: `status` is queued, running, waiting (for a person), done, failed, cancelled, limit or interrupted.

    `questions` are open, `answered` those that somebody has answered. `ended` is its last fact where it has one; `resumed_as` the
    run that goes on with what was cut off. `seq` is the number of its latest fact, `upto` that of its session's.
    """

    run: str
    ref: SessionRef
    status: str
    started: RunStarted
    ended: RunEnded | None = None
    questions: tuple[Question, ...] = ()
    answered: frozenset[str] = frozenset()
    seq: int = 0
    upto: int = 0
    resumed_as: str = ""


class Wanted(Struct, frozen=True, kw_only=True):
    """How a run is to begin: under the id `run` or a new one, `about` as `RunStarted` has it.

    `history` stands before the prompt of a session without messages; with `watched`, the caller reads the events at once.
    With `woken`, background processes may begin further runs in its session once it has ended.
    """

    run: str = ""
    about: Mapping[str, str] = NOTHING
    history: tuple[Fact, ...] = ()
    watched: bool = False
    woken: bool = False


class Going:
    """A run that was begun in this process."""

    def __init__(self, app: Melete, run: str, conversation: Conversation) -> None:
        self.run = run
        self.ref = conversation.ref
        self.began: datetime = app.clock.now()
        self.hub = conversation.hub
        self._app = app
        self._conversation = conversation
        self._end: asyncio.Future[RunEnded] = asyncio.get_running_loop().create_future()
        self._born = self.hub.place
        self._live: Subscription | None = self.hub.join()
        self._readers: set[Subscription] = set()
        self._cancelled = False

    async def ended(self) -> RunEnded:
        """Its last fact, once it is there; raises what kept it from being stored: SessionBusyError, StorageError."""
        return await asyncio.shield(self._end)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._end.done()

    @property
    def told(self) -> bool:
        """Whether anything of it can be read."""
        return self.hub.place > self._born

    def cancel(self) -> None:
        """Stop it, as soon as its results are stored; also before it has begun. A run that has ended is left as it is."""
        if not self.over:
            self._cancelled = True
            self._conversation.cancel()

    def begin(self) -> None:
        """Its beginning is stored: somebody may have cancelled it before."""
        if self._cancelled:
            self._conversation.cancel()

    def events(self, after: Place = START, *, tick: float = 15.0) -> AsyncGenerator[Event | None]:
        """Its events behind `after`, each once, to its end; None after `tick` seconds of silence.

        A run that ends without a last fact ends this as well.
        """
        return each(self.batches(after, tick=tick))

    async def batches(self, after: Place = START, *, tick: float = 15.0, whole: bool = False) -> AsyncGenerator[Batch]:
        """Its events behind `after` as many at once as there are; with `whole`, all of the session's, to its end."""
        first = None if whole else self._live
        if first:  # this reader has had everything since the beginning
            self._live = None
        mine = first or self.hub.join()
        start = after if whole else max(after, self._born)
        if first and start == self._born:
            start = None
        self._readers.add(mine)
        if self.over:
            mine.close()
        events = own_events(self._app, self.ref, hub=self.hub, live=mine, after=start, tick=tick)
        try:
            async with aclosing(events):
                async for batch in events:
                    told = batch if whole else [event for event in batch if event.run == self.run]
                    if told or not batch:
                        yield told
                    if any(isinstance(event, RunEnded) and event.run == self.run for event in batch):
                        return
        finally:
            self._readers.discard(mine)
            self.hub.leave(mine)

    def unread(self) -> None:
        """Nobody is going to ask for the events at once: keep none for them."""
        if self._live:
            self._live, live = None, self._live
            self.hub.leave(live)

    def finish(self, ended: RunEnded | Exception) -> None:
        """Tell those who wait."""
        self.unread()
        for reader in self._readers:
            reader.close()
        if self._end.done():
            return
        if isinstance(ended, Exception):
            self._end.set_exception(ended)
            self._end.exception()  # told to those who wait; nobody need
        else:
            self._end.set_result(ended)


class Runs:
    """Starts runs in warm conversations, at most `most` at a time, and knows those that go on.

    `stopping`: nothing new is begun. `over`: the process is about to end, and with it every stream. `settled`: what an earlier
    server left unfinished has been seen to.
    """

    def __init__(self, app: Melete, *, most: int, warm: Warm) -> None:
        self.app = app
        self.warm = warm
        self.stopping = False
        self.over = False
        self.settled = True
        self._left: set[str] | None = None
        self._seen = asyncio.Event()
        self._ending = False
        self._most = most
        self._going: dict[str, Going] = {}
        self._sessions: dict[str, Going] = {}
        self._lately: dict[str, Hub] = {}
        self._opening: set[object] = set()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._changed = asyncio.Event()

    @property
    def going(self) -> Sequence[Going]:
        """The runs that go on here, the oldest first."""
        return tuple(self._going.values())

    async def start(self, prompt: Message | None, options: Options, *, how: Wanted | None = None) -> Going:
        """Begin a run; when this returns, its prompt is on the disk. It goes on whatever becomes of the caller.

        Raises TooManyRunsError, StoppingError, SessionBusyError, SessionNotFoundError, ConfigError, StorageError.
        """
        while options.session and not self._open_to(options.session):
            await self._seen.wait()
        self._check_open()
        if len(self._going) + len(self._opening) >= self._most:
            raise TooManyRunsError(
                f"{self._most} runs go on already", kept="nothing was begun", next="try again later (server.max_runs)"
            )
        place = object()
        self._opening.add(place)
        try:
            async with self._gate:
                self._check_open()
                return await self._begin(prompt, options, how or Wanted(), place=place)
        finally:
            self._opening.discard(place)
            self._changed.set()

    def leave(self, sessions: Iterable[str]) -> None:
        """Say in which sessions an earlier server left something unfinished: until it is seen to, nobody else begins there."""
        self._left = set(sessions)
        self._tell()

    def seen_to(self, session: str) -> None:
        """Say that nothing is left there; what waits begins."""
        if self._left is not None:
            self._left.discard(session)
            self._tell()

    def _tell(self) -> None:
        self._seen.set()
        self._seen = asyncio.Event()

    def _open_to(self, session: str) -> bool:
        return self.settled or self.stopping or (self._left is not None and session not in self._left)

    def _check_open(self) -> None:
        if self.stopping:
            raise StoppingError("the server is stopping", kept="nothing was begun", next="try again in a moment")

    async def _begin(self, prompt: Message | None, options: Options, wanted: Wanted, *, place: object) -> Going:
        kept = await self.warm.take(options)
        begun = asyncio.Event()
        start = Start(id=wanted.run or new_run_id(), surface=options.surface, about=known(options, wanted.about))
        going = Going(self.app, start.id, kept.conversation)
        kept.run = going.run
        self._listen(kept.conversation, woken=wanted.woken)
        if not wanted.watched:
            going.unread()
        self._going[start.id] = self._sessions[going.ref.id] = going
        self._opening.discard(place)
        if self._ending:
            going.cancel()
        how = How(start=start, history=wanted.history)
        self.app.group.create_task(self._run(going, kept, prompt, how=how, begun=begun))
        await begun.wait()
        if going.over:  # an end without a beginning: nothing was stored
            await going.ended()
        return going

    async def _run(self, going: Going, kept: Kept, prompt: Message | None, *, how: How, begun: asyncio.Event) -> None:
        def stored() -> None:
            begun.set()
            going.begin()

        try:
            going.finish(await kept.conversation.run(prompt, structs.replace(how, begun=stored)))
        except MeleteError as error:
            log.warning("run %s: %s", going.run, error)
            going.finish(error)
        except Exception as error:
            log.exception("run %s failed", going.run)
            going.finish(error)
        finally:
            going.finish(StoppingError("the server stopped before the run ended"))
            del self._going[going.run], self._sessions[going.ref.id]
            self._changed.set()
            self.warm.release(kept)
            self._remember(going)
            begun.set()

    def _listen(self, conversation: Conversation, *, woken: bool) -> None:
        """Begin a run when background processes have something to say and none goes on, or leave it to the next prompt."""

        def begin() -> None:
            if not self.stopping:
                self.app.group.create_task(self._wake(conversation))

        conversation.waking.idle = begin if woken else _leave

    async def hold(self, options: Options) -> Conversation:
        """Have a conversation open without a run, so that what works for it in the background goes on; raises as `start` does."""
        kept = await self.warm.take(options)
        self._listen(kept.conversation, woken=True)
        self.warm.release(kept)
        return kept.conversation

    async def _wake(self, conversation: Conversation) -> None:
        """Begin a run that reads what background processes have said, as the last one was begun; wait while there are too many."""
        options = structs.replace(conversation.options, session=conversation.ref.id, latest=False, answer=None)
        wanted = Wanted(about={"woken": "processes"}, woken=True)
        try:
            due = await conversation.waking.due()
            while due and not self.stopping:
                try:
                    await self.start(None, options, how=wanted)
                except TooManyRunsError:
                    await asyncio.sleep(FULL)
                else:
                    due = False
        except SessionBusyError:
            log.info("%s: whoever runs it reads what its processes have said", conversation.ref.id)
        except MeleteError as error:
            log.warning("%s: no run begins for what its processes have said: %s", conversation.ref.id, error)

    def _remember(self, going: Going) -> None:
        """Keep the deltas of a run that has ended for a while, for readers that were cut off."""
        self._lately[going.run] = going.hub
        asyncio.get_running_loop().call_later(FORGET, self._forget, going.run)
        while len(self._lately) > LATELY:
            self._forget(next(iter(self._lately)))

    def _forget(self, run: str) -> None:
        """Let go of the deltas of a run that has ended; those of a run that goes on in its session stay."""
        hub = self._lately.pop(run, None)
        if hub is not None and hub.holds(run):
            hub.forget_before(hub.place)

    def find(self, run: str) -> Going | None:
        """The run with this id, if it goes on here."""
        return self._going.get(run)

    async def state(self, run: str, *, owner: str) -> RunState:
        """What is known of a run, wherever it ran; raises SessionNotFoundError for one that this owner may not see."""
        ref = await self.where(run, owner=owner)
        facts, alive = await self.read(ref, lambda _: run)
        state = Transcript(fact for fact in facts if fact.run == run)
        if state.run is None:
            raise SessionNotFoundError(f"there is no run {run!r}", next="see GET /v1/runs")
        after = next((f.run for f in facts if isinstance(f, RunStarted) and f.about.get("resumes") == run), "")
        found = RunState(
            run=run,
            ref=ref,
            status="",
            started=state.run,
            ended=state.ended,
            answered=frozenset(state.answered),
            seq=state.seq,
            upto=facts[-1].seq,
            resumed_as=after,
        )
        if state.ended is not None:
            return structs.replace(found, status=status_of(state.ended))
        questions = tuple(state.questions.values()) if alive else ()
        status = ("waiting" if questions else "running") if alive else "interrupted"
        return structs.replace(found, status=status, questions=questions)

    async def read(self, ref: SessionRef, which: Callable[[Sequence[Fact]], str]) -> tuple[Sequence[Fact], bool]:
        """The facts of a session, and whether the run that `which` finds in them goes on, here or in another process.

        Of a run that does not, these are all that there will be.
        """
        facts = await self.app.store.facts(ref)
        while True:
            run, last = which(facts), facts[-1]
            if any(isinstance(fact, RunEnded) and fact.run == run for fact in reversed(facts)):
                return facts, False
            if run in self._going or (last.run in ("", run) and await self.app.store.owned(ref)):
                return facts, True
            facts = await self.app.store.facts(ref)  # it may have ended since they were read
            if facts[-1].seq == last.seq:
                return facts, False

    async def where(self, run: str, *, owner: str) -> SessionRef:
        """The session of a run; raises SessionNotFoundError for one that this owner may not see."""
        if (going := self._going.get(run)) is not None and owner in ("", going.ref.owner):
            return SessionRef(id=going.ref.id, owner=owner)
        found = await self.app.store.of_run(run, owner=owner)
        return SessionRef(id=found.id, owner=owner)

    def events(
        self, run: str, ref: SessionRef, *, after: Place = START, tick: float = 15.0
    ) -> AsyncGenerator[Event | None]:
        """The events of a run behind `after`; None after `tick` seconds of silence.

        Its deltas are among them where it goes on here, and for a while after its end.
        """
        return each(self.batches(run, ref, after=after, tick=tick))

    def batches(self, run: str, ref: SessionRef, *, after: Place = START, tick: float = 15.0) -> AsyncGenerator[Batch]:
        """As `events`, as many at once as there are."""
        if going := self._going.get(run):
            return going.batches(after, tick=tick)
        if (hub := self._lately.get(run)) is not None and hub.holds(run):
            return self._ended_here(ref, hub, run=run, after=after)
        return stored_events(self.app, ref, run=run, times=self, after=after, tick=tick)

    async def _ended_here(self, ref: SessionRef, hub: Hub, *, after: Place, run: str = "") -> AsyncGenerator[Batch]:
        """What is behind `after` of a run that has ended here a moment ago; without `run`, of its session up to there."""
        with hub.join() as nothing_more:
            nothing_more.close()
            events = own_events(self.app, ref, hub=hub, live=nothing_more, after=after)
            async with aclosing(events):
                async for batch in events:
                    if told := [event for event in batch if run in ("", event.run)]:
                        yield told

    def session_events(self, ref: SessionRef, *, after: Place = START, tick: float = 15.0) -> AsyncGenerator[Batch]:
        """All events of a session behind `after`, as many at once as there are, until it is deleted or the server ends.

        Facts come from whichever process writes them; deltas from runs that go on here. An empty batch is so much silence.
        """
        return session_events(self.app, ref, here=partial(self._here, tick=tick), times=self, after=after, tick=tick)

    def _here(self, session: str, after: Place, *, tick: float) -> AsyncGenerator[Batch] | None:
        """What is behind `after` to the end of the run that goes on in a session here, or of one that has just ended."""
        if (going := self._sessions.get(session)) is not None and going.told:
            return going.batches(after, whole=True, tick=tick)
        hub = self.app.hubs.get(session)
        if hub is None or not hub.kept(after=after):
            return None
        return self._ended_here(SessionRef(id=session), hub, after=after)

    def place(self, run: str) -> Place | None:
        """Where the events of a run that goes on here are, None for any other."""
        going = self._going.get(run)
        return None if going is None else going.hub.place

    async def drain(self, seconds: float) -> int:
        """Begin nothing new and wait for what goes on; what has not ended by then is cancelled. Returns how many were."""
        self.stopping = True
        self._tell()
        if await self._quiet(seconds):
            return 0
        self._ending = True
        late = list(self._going.values())
        for going in late:
            log.warning("run %s is cancelled: the server stops", going.run)
            going.cancel()
        await self._quiet(seconds=10.0)
        return len(late)

    async def _quiet(self, seconds: float) -> bool:
        """Whether nothing went on any more within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                while self._going or self._opening:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True


def _leave() -> None:
    """What background processes say waits for the next prompt."""


def known(options: Options, about: Mapping[str, str]) -> dict[str, str]:
    """What is stored of how a run was asked for, so that it can go on in the same way after a restart."""
    own = {
        "model": options.model,
        "toolsets": ",".join(options.toolsets),
        "budget_usd": "" if options.budget_usd is None else str(options.budget_usd),
        "max_steps": "" if options.max_steps is None else str(options.max_steps),
        "extra": options.extra,
    }
    return {**options.noted, **{key: value for key, value in own.items() if value}, **about}


def status_of(ended: RunEnded) -> str:
    """The status of a run that ended so: done, failed, cancelled or limit."""
    return ended.stop if ended.stop in ("done", "failed", "cancelled") else "limit"
