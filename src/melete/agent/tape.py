"""A session whose facts are known beforehand: each that the loop makes must be the recorded one, byte for byte. Layer 2.

Work that goes on side by side is put into the recorded order: whoever makes a fact waits until the recording has come to it.
What clocks and chance gave (times, durations, ids, prices) is taken from the recording; all else must come out equal.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NoReturn

import msgspec

from melete.agent.checksum import differing
from melete.agent.difference import Difference, parting, shortened
from melete.agent.recording import Recording, comes_by_mail, is_delivered
from melete.core.errors import StoreError
from melete.core.event import (
    Answered,
    Asked,
    CancelAsked,
    Compacted,
    Fact,
    Reply,
    RunEnded,
    RunStarted,
    Said,
    Spent,
    Steered,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Message, Text
from melete.core.session import InboxMessage, SessionRef
from melete.core.transcript import Transcript

PATIENCE = 500
"""Turns of the event loop without a new fact after which none will come: nothing here waits for time or the world."""

Encode = Callable[[Fact], bytes]


class Stopped(StoreError):
    """The recording is over, or the loop has left it: nothing more is stored."""


class SoFar:
    """The conversation up to a fact, and which facts its messages stand in."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.places: list[int] = []
        self.heard: tuple[str, int] = ("", 0)
        """The segment and the number of messages of the last request whose checksum was right."""

    def apply(self, fact: Fact) -> None:
        """Take in the next fact."""
        self.transcript.apply(fact)
        if isinstance(fact, Said | Steered | Reply | ToolEnded | Compacted):
            count = len(self.transcript.messages)
            if isinstance(fact, Compacted):
                self.places.clear()
            self.places += [fact.seq] * (count - len(self.places))


class Tape:
    """Implements `Session` for one run; `facts` are those that came out equal, `difference` the first that did not."""

    def __init__(self, recording: Recording, so_far: SoFar, *, encode: Encode) -> None:
        self.recording = recording
        self.facts: list[Fact] = []
        self.difference: Difference | None = None
        self.requests = 0
        self.unrecorded = 0
        self.on_cancel: Callable[[], None] = lambda: None
        self._so_far = so_far
        self._encode = encode
        self._at = 0
        self._run = ""
        self._stopped = False
        self._changed = asyncio.Event()
        self._watcher: asyncio.Task[object] | None = None
        self._waiting: list[Fact] = []
        first = recording.facts[0]
        self._ref = SessionRef(
            id=first.session, owner=so_far.transcript.opened.owner if so_far.transcript.opened else ""
        )
        self._pass_foreign()

    # ---- a session ---------------------------------------------------------------------------------------------------

    @property
    def ref(self) -> SessionRef:
        """The session's address."""
        return self._ref

    @property
    def transcript(self) -> Transcript:
        """The state that the facts so far add up to."""
        return self._so_far.transcript

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation of the current segment."""
        return self._so_far.transcript.messages

    async def record(self, *facts: Fact, durable: bool = False) -> Sequence[Fact]:  # noqa: ARG002 - nothing is stored
        """Compare the facts with the recording once it has come to them; raises Stopped when it never does."""
        if not facts:
            return ()
        await self._turn(facts[0])
        stored = [self._take(fact) for fact in facts]
        if asyncio.current_task() is not self._watcher:
            await asyncio.sleep(0)  # where a cancel that came here in the recording is noticed
            await self.give_way()
        return stored

    async def append(self, *messages: Message) -> None:
        """Record user messages as `Said` facts."""
        await self.record(*(Said(message=message) for message in messages))

    def begin(self, run: str) -> None:
        """Stamp the facts from here on with this run's id."""
        self._run = run

    def pending(self) -> Sequence[InboxMessage]:
        """The messages that the next facts of the recording carry."""
        found: list[InboxMessage] = []
        for fact in self.rest():
            if not comes_by_mail(fact) and not is_delivered(fact):
                break
            found.append(_message(fact))
        return found

    def settle(self, message: str) -> None:
        """The recording holds no inbox: there is nothing to remove."""

    # ---- what comes next ---------------------------------------------------------------------------------------------

    def rest(self) -> Iterator[Fact]:
        """What is still to come, without what the loop does not make."""
        facts, foreign = self.recording.facts, self.recording.foreign
        return (facts[at] for at in range(self._at, len(facts)) if at not in foreign)

    @property
    def next(self) -> Fact | None:
        """The fact that must come now; None at the end."""
        facts = self.recording.facts
        return facts[self._at] if self._at < len(facts) else None

    def coming(self) -> Fact | None:
        """The next fact that the loop itself makes, answers and cancels left aside; None at the end."""
        return next((fact for fact in self.rest() if not comes_by_mail(fact)), None)

    # ---- waiting -----------------------------------------------------------------------------------------------------

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until it is so; raises Stopped when the replay ends before."""
        while not self._stopped and not ready():
            await self._changed.wait()
        if self._stopped:
            raise Stopped("the replay has ended")

    async def reach(self, fact: Fact) -> None:
        """Wait until this very fact must come now."""
        await self.until(lambda: self.next is fact)

    async def nothing(self) -> NoReturn:
        """Wait for what never comes: a cancellation, or the end of the replay."""
        await self.until(lambda: False)
        raise Stopped("the replay has ended")

    async def give_way(self) -> None:
        """Let answers and cancels go first that the recording has next."""
        while self._watcher and not self._stopped and self.mail_is_next():
            await self._changed.wait()

    def mail_is_next(self) -> bool:
        """Whether an answer or a cancel must come now."""
        return self.next is not None and comes_by_mail(self.next)

    @contextmanager
    def watched(self) -> Generator[None]:
        """Say that the task of the block takes answers and cancels in."""
        self._watcher = asyncio.current_task()
        try:
            yield
        finally:
            self._watcher = None
            self._tell()

    async def see_to_the_end(self, run: asyncio.Task[None]) -> None:
        """Wait for the run; where nothing moves any more although the recording goes on, say so and end it."""
        idle, before = 0, -1
        while not run.done():
            await asyncio.sleep(0)
            idle, before = (0 if self._at != before else idle + 1), self._at
            if idle <= PATIENCE:
                continue
            if self._stopped:  # somebody waits for an answer that will not come
                run.cancel()
            else:
                self.differ(self._stuck())
                self._stop()
            idle = 0

    def differ(self, what: str, *, field: str = "", values: tuple[str, str] = ("", ""), request: int = 0) -> None:
        """Note where the loop has left the recording; only the first place counts."""
        fact = self.next or self.recording.facts[-1]
        if self.difference is None:
            self.difference = Difference(
                seq=fact.seq,
                type=_type(fact),
                what=self._missing() or what,
                field=field,
                recorded=values[0],
                replayed=values[1],
                request=request,
            )

    def _stuck(self) -> str:
        made = " and ".join(dict.fromkeys(_type(fact) for fact in self._waiting))
        return f"the loop does not come to this fact{f'; it goes on with {made}' if made else ''}"

    async def leave(self, what: str) -> NoReturn:
        """End the replay here, because the loop does something else than the recording."""
        self.differ(what)
        self._stop()
        await self.nothing()

    # ---- comparing ---------------------------------------------------------------------------------------------------

    async def _turn(self, fact: Fact) -> None:
        """Wait until the recording has come to a fact of this kind and, where it has one, of this name."""
        self._waiting.append(fact)
        try:
            await self.until(lambda: self._is_due(fact))
        finally:
            self._waiting.remove(fact)

    def _is_due(self, fact: Fact) -> bool:
        if self.next is None:
            self._stop()
            return False
        if _name(self.next) == _name(fact):
            return True
        if all(_name(later) != _name(fact) for later in self.rest()):
            self.differ(f"in its place the loop makes {_type(fact)}")
            self._stop()
        return False

    def _take(self, fact: Fact) -> Fact:
        """Compare the fact with the recorded one, take it in and go on."""
        recorded = self.next
        if recorded is None:
            self._stop()
            raise Stopped("the recording is over")
        if missing := self._missing():
            self.differ(missing)
            self._stop()
            raise Stopped("the log has a gap")
        made = msgspec.structs.replace(
            fact, seq=recorded.seq, session=recorded.session, run=fact.run or self._run, at=recorded.at
        )
        made = _measured(made, recorded)
        one, other = self._encode(recorded), self._encode(made)
        self._compare(recorded, made, one, other)
        if isinstance(made, Reply):
            self._count(made)
        self._go_on(made)
        return made

    def _missing(self) -> str:
        """Which fact is missing up to here: they are numbered without gaps, and behind one nothing is proved."""
        gap = self.recording.gap
        return f"the log is not whole: fact {self.recording.facts[0].seq + gap} is missing" if gap <= self._at else ""

    def _compare(self, recorded: Fact, made: Fact, one: bytes, other: bytes) -> None:
        if one == other:
            return
        if isinstance(recorded, Reply) and isinstance(made, Reply):
            self._differ_in_request(recorded, made)
        elif type(recorded) is type(made):
            field, here, there = parting(one, other)
            self.differ("the loop makes another one", field=field, values=(here, there))
        else:
            self.differ(f"in its place the loop makes {_type(made)}")
        self._stop()
        raise Stopped("the loop has left the recording")

    def _differ_in_request(self, recorded: Reply, made: Reply) -> None:
        """Say which part of a request is not what the reply was given for, and which of its messages are new."""
        number = self.requests + self.unrecorded + 1
        parts = differing(recorded.asked, made.asked)
        if parts != ["messages"]:
            which = " and ".join(parts) or "its checksum"
        else:
            segment, heard = self._so_far.heard
            first = heard if segment == self.transcript.segment else 0
            places = self._so_far.places[first:]
            last = len(self.messages)
            span = f"message {last}" if last == first + 1 else f"messages {first + 1} to {last}"
            facts = ", ".join(str(seq) for seq in dict.fromkeys(places))
            which = f"{span} (of fact {facts})"
        what = f"request {number} of the run was not made of what the log holds now: {which}"
        self.differ(what, field="asked", values=shortened(recorded.asked, made.asked), request=number)

    def _count(self, reply: Reply) -> None:
        if reply.asked:
            self.requests += 1
            self._so_far.heard = (self.transcript.segment, len(self.messages))
        else:
            self.unrecorded += 1

    def _go_on(self, fact: Fact) -> None:
        self._so_far.apply(fact)
        self.facts.append(fact)
        self._at += 1
        self._pass_foreign()
        if self._at == self.recording.cancel_at:
            self.on_cancel()
        if self.next is None and not self.recording.whole:
            self._stopped = True
        self._tell()

    def _pass_foreign(self) -> None:
        """Take over what the loop does not make."""
        facts = self.recording.facts
        while self._at in self.recording.foreign:
            self._so_far.apply(facts[self._at])
            self.facts.append(facts[self._at])
            self._at += 1

    def _stop(self) -> None:
        self._stopped = True
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _measured(made: Fact, recorded: Fact) -> Fact:
    """The fact with what clocks, chance and that day's prices have given."""
    replace = msgspec.structs.replace
    match made, recorded:
        case (ToolEnded(), ToolEnded()) | (RunEnded(), RunEnded()):
            return replace(made, seconds=recorded.seconds)
        case Spent(), Spent():
            return replace(made, usd=recorded.usd, source=recorded.source)
        case Compacted(), Compacted():
            sizes = (recorded.tokens_before, recorded.tokens_after)
            return replace(made, segment=recorded.segment, tokens_before=sizes[0], tokens_after=sizes[1])
        case RunStarted(), RunStarted():
            return replace(made, base_url=recorded.base_url)
        case Reply(), Reply() if not recorded.asked:
            return replace(made, asked="")
        case _:
            return made


def _name(fact: Fact) -> tuple[str, ...]:
    """What tells facts apart that may come in any order."""
    match fact:
        case ToolStarted():
            return (_type(fact), fact.call.id)
        case ToolEnded():
            return (_type(fact), fact.result.call)
        case Asked():
            return (_type(fact), fact.question.id)
        case Answered():
            return (_type(fact), fact.question, fact.inbox)
        case CancelAsked():
            return (_type(fact), fact.inbox)
        case _:
            return (_type(fact),)


def _type(fact: Fact) -> str:
    return str(type(fact).__struct_config__.tag)


def _message(fact: Fact) -> InboxMessage:
    """The inbox message that a fact carries."""
    match fact:
        case Answered():
            return InboxMessage(
                id=fact.inbox, kind="answer", text=fact.value, question=fact.question, by=fact.by, at=fact.at
            )
        case CancelAsked():
            return InboxMessage(id=fact.inbox, kind="cancel", by=fact.by, at=fact.at)
        case Steered():
            return _said(fact, "steer")
        case Said():
            return _said(fact, "queue")
        case _:
            raise TypeError(f"{_type(fact)} carries no message")


def _said(fact: Steered | Said, kind: Literal["steer", "queue"]) -> InboxMessage:
    first = next((part for part in fact.message.parts if isinstance(part, Text)), Text(text=""))
    by = fact.message.by
    return InboxMessage(id=fact.inbox, kind=kind, text=fact.message.text, taint=first.taint, by=by, at=fact.at)
