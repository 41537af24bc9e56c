"""The runs of a process that serves many: started, found, followed, and brought to an end. Part of the composition root.

A run belongs to the application, not to whoever asked for it: clients come and go. What is known of it stands in its session's
log, so that it is found after a restart as well.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, structs

from melete.agent.hub import Subscription
from melete.agent.run import Start, new_run_id
from melete.app.events import START, Place, own_events, stored_events
from melete.app.opening import Options
from melete.app.service import Conversation, How
from melete.app.warm import Kept, Warm
from melete.app.wire import Melete
from melete.core.errors import LimitError, MeleteError, SessionNotFoundError
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


class TooManyRunsError(LimitError):
    """As many runs go on as may; nothing was begun."""


class StoppingError(MeleteError):
    """The server is about to stop and begins nothing new."""


class RunState(Struct, frozen=True, kw_only=True):
    """What is known of a run: `status` is queued, running, waiting (for a person), done, failed, cancelled, limit or interrupted.

    `ended` is its last fact where it has one; `resumed_as` the run that goes on with what was cut off.
    """

    run: str
    ref: SessionRef
    status: str
    started: RunStarted
    ended: RunEnded | None = None
    questions: tuple[Question, ...] = ()
    seq: int = 0
    resumed_as: str = ""


class Wanted(Struct, frozen=True, kw_only=True):
    """How a run is to begin: under the id `run` or a new one, `about` as `RunStarted` has it.

    `history` stands before the prompt of a session without messages; with `watched`, the caller reads the events at once.
    """

    run: str = ""
    about: Mapping[str, str] = NOTHING
    history: tuple[Fact, ...] = ()
    watched: bool = False


class Going:
    """A run that was begun in this process."""

    def __init__(self, app: Melete, run: str, conversation: Conversation) -> None:
        self.run = run
        self.ref = conversation.ref
        self.conversation = conversation
        self.began: datetime = app.clock.now()
        self._app = app
        self._end: asyncio.Future[RunEnded] = asyncio.get_running_loop().create_future()
        self._live: Subscription | None = conversation.hub.join()

    async def ended(self) -> RunEnded:
        """Its last fact, once it is there; raises what kept it from being stored: SessionBusyError, StorageError."""
        return await asyncio.shield(self._end)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._end.done()

    def cancel(self) -> None:
        """Stop it, as soon as its results are stored."""
        self.conversation.cancel()

    async def events(self, after: Place = START, *, tick: float = 15.0) -> AsyncGenerator[Event | None]:
        """Its events behind `after`, each once, to its end; None after `tick` seconds of silence."""
        hub = self.conversation.hub
        mine, self._live = self._live or hub.join(), None  # the first reader has everything since the beginning
        with mine:
            async for event in own_events(self._app, self.ref, hub=hub, live=mine, after=after, tick=tick):
                if event is None or event.run == self.run:
                    yield event
                    if isinstance(event, RunEnded):
                        return

    def unread(self) -> None:
        """Nobody is going to ask for the events at once: keep none for them."""
        if self._live:
            self._live, live = None, self._live
            self.conversation.hub.leave(live)

    def finish(self, ended: RunEnded | Exception) -> None:
        """Tell those who wait."""
        self.unread()
        if self._end.done():
            return
        if isinstance(ended, Exception):
            self._end.set_exception(ended)
            self._end.exception()  # told to those who wait; nobody need
        else:
            self._end.set_result(ended)


class Runs:
    """Starts runs in warm conversations, at most `most` at a time, and knows those that go on."""

    def __init__(self, app: Melete, *, most: int, warm: Warm) -> None:
        self.app = app
        self.warm = warm
        self.stopping = False
        self._most = most
        self._going: dict[str, Going] = {}
        self._opening = 0
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._changed = asyncio.Event()

    @property
    def going(self) -> Sequence[Going]:
        """The runs that go on here, the oldest first."""
        return tuple(self._going.values())

    async def start(self, prompt: Message | None, options: Options, how: Wanted | None = None) -> Going:
        """Begin a run; when this returns, its prompt is on the disk. It goes on whatever becomes of the caller.

        Raises TooManyRunsError, StoppingError, SessionBusyError, SessionNotFoundError, ConfigError, StorageError.
        """
        if self.stopping:
            raise StoppingError("the server is stopping", kept="nothing was begun", next="try again in a moment")
        if len(self._going) + self._opening >= self._most:
            raise TooManyRunsError(
                f"{self._most} runs go on already", kept="nothing was begun", next="try again later (server.max_runs)"
            )
        self._opening += 1
        try:
            async with self._gate:
                return await self._begin(prompt, options, how or Wanted())
        finally:
            self._opening -= 1
            self._changed.set()

    async def _begin(self, prompt: Message | None, options: Options, wanted: Wanted) -> Going:
        kept = await self.warm.take(options)
        begun = asyncio.Event()
        start = Start(id=wanted.run or new_run_id(), surface=options.surface, about=known(options, wanted.about))
        how = How(start=start, history=wanted.history, begun=begun.set)
        going = Going(self.app, start.id, kept.conversation)
        if not wanted.watched:
            going.unread()
        self._going[start.id] = going
        self.app.group.create_task(self._run(going, kept, prompt, how=how, begun=begun))
        await begun.wait()
        if going.over:  # an end without a beginning: nothing was stored
            await going.ended()
        return going

    async def _run(self, going: Going, kept: Kept, prompt: Message | None, *, how: How, begun: asyncio.Event) -> None:
        hub = going.conversation.hub
        try:
            going.finish(await going.conversation.run(prompt, how))
        except MeleteError as error:
            log.warning("run %s: %s", going.run, error)
            going.finish(error)
        except Exception as error:
            log.exception("run %s failed", going.run)
            going.finish(error)
        finally:
            going.finish(StoppingError("the server stopped before the run ended"))
            del self._going[going.run]
            self._changed.set()
            self.warm.release(kept)
            asyncio.get_running_loop().call_later(FORGET, hub.forget_before, hub.place)
            begun.set()

    def find(self, run: str) -> Going | None:
        """The run with this id, if it goes on here."""
        return self._going.get(run)

    async def state(self, run: str, *, owner: str) -> RunState:
        """What is known of a run, wherever it ran; raises SessionNotFoundError for one that this owner may not see."""
        ref = await self.where(run, owner=owner)
        facts = await self.app.store.facts(ref)
        state = Transcript(fact for fact in facts if fact.run == run)
        if state.run is None:
            raise SessionNotFoundError(f"there is no run {run!r}", next="see GET /v1/runs")
        after = next((f.run for f in facts if isinstance(f, RunStarted) and f.about.get("resumes") == run), "")
        found = RunState(
            run=run, ref=ref, status="", started=state.run, ended=state.ended, seq=state.seq, resumed_as=after
        )
        if state.ended is not None:
            return structs.replace(found, status=status_of(state.ended))
        alive = run in self._going or (facts[-1].run in ("", run) and await self.app.store.owned(ref))
        questions = tuple(state.questions.values()) if alive else ()
        status = ("waiting" if questions else "running") if alive else "interrupted"
        return structs.replace(found, status=status, questions=questions)

    async def where(self, run: str, *, owner: str) -> SessionRef:
        """The session of a run; raises SessionNotFoundError for one that this owner may not see."""
        if (going := self._going.get(run)) is not None and owner in ("", going.ref.owner):
            return SessionRef(id=going.ref.id, owner=owner)
        found = await self.app.store.of_run(run, owner=owner)
        return SessionRef(id=found.id, owner=owner)

    def events(
        self, run: str, ref: SessionRef, *, after: Place = START, tick: float = 15.0
    ) -> AsyncGenerator[Event | None]:
        """The events of a run behind `after`, with its deltas where it goes on here; None after `tick` seconds of silence."""
        if going := self._going.get(run):
            return going.events(after, tick=tick)
        return stored_events(self.app, ref, run=run, after=after, tick=tick)

    async def drain(self, seconds: float) -> int:
        """Begin nothing new and wait for what goes on; what has not ended by then is cancelled. Returns how many were."""
        self.stopping = True
        if await self._quiet(seconds):
            return 0
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


def known(options: Options, about: Mapping[str, str]) -> dict[str, str]:
    """What is stored of how a run was asked for, so that it can go on in the same way after a restart."""
    own = {
        "model": options.model,
        "toolsets": ",".join(options.toolsets),
        "budget_usd": "" if options.budget_usd is None else str(options.budget_usd),
        "max_steps": "" if options.max_steps is None else str(options.max_steps),
        "extra": options.extra,
    }
    return {**{key: value for key, value in own.items() if value}, **about}


def status_of(ended: RunEnded) -> str:
    """The status of a run that ended so: done, failed, cancelled or limit."""
    return ended.stop if ended.stop in ("done", "failed", "cancelled") else "limit"
