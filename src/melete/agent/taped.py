"""What a run is made of when it is made again: model, tools, questions and clock answer out of the recording. Layer 2.

Everything else is the real thing: the run, the loop, its limits and guards, the inbox, the desk, the door of the calls.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from melete.agent import arguments, loopwatch
from melete.agent.agent import RUNTIME, TIME_IS_UP, WRONG_FORM, Agent
from melete.agent.approvals import Desk
from melete.agent.compact import KEEPS, Compactor, cut_picture, cut_result, prune, pruned
from melete.agent.dispatch import Door
from melete.agent.loopwatch import LoopWatch
from melete.agent.recording import GIVEN, is_closed
from melete.agent.run import Over, Run, Start
from melete.agent.tape import Tape
from melete.core.errors import LimitError, StoreError
from melete.core.event import (
    EPOCH,
    Answered,
    Asked,
    Compacted,
    Delta,
    Fact,
    Notice,
    Question,
    Reply,
    Retried,
    RunEnded,
    Said,
    Spent,
    Stop,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from melete.core.message import ToolCall
from melete.core.model import Capabilities, ContextOverflowError, ModelError, ModelRequest
from melete.core.policy import Limits
from melete.core.session import Session
from melete.core.tool import ToolError
from melete.core.transcript import ASIDE

DOUBT = "; but it is small beside that model's window: asked again"


class TapedModel:
    """Implements `ModelClient`: answers each request with what was answered then, and fails as the model did."""

    wire = ""
    can = Capabilities()

    def __init__(self, tape: Tape, requests: list[tuple[ModelRequest, Reply]] | None) -> None:
        self._tape = tape
        self._requests = requests
        self.name = tape.recording.started.model
        self.provider = tape.recording.started.provider

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Yield the recorded tries and the reply; raise what ended the request."""
        while True:
            await self._tape.give_way()
            fact = self._tape.coming()
            match fact:
                case Retried() if fact.cause == ContextOverflowError.__name__:
                    raise ContextOverflowError(fact.reason.removesuffix(DOUBT))
                case Retried():
                    self.name, self.provider = fact.model or self.name, fact.provider or self.provider
                    yield msgspec.structs.replace(fact, run="", at=EPOCH)
                case Reply():
                    self._name_the_payer()
                    if self._requests is not None:
                        self._requests.append((request, fact))
                    yield msgspec.structs.replace(fact, run="", at=EPOCH, asked="")
                    return
                case _:
                    await self._end(fact)

    def _name_the_payer(self) -> None:
        """A reply may be without a name: then the bill tells who was asked."""
        spent = next((fact for fact in self._tape.rest() if isinstance(fact, Spent)), None)
        if spent:
            self.name, self.provider = spent.model, spent.provider

    async def _end(self, fact: Fact | None) -> None:
        """Raise what the recording goes on with in place of a reply."""
        match fact:
            case Compacted():
                raise ContextOverflowError("the request did not fit")
            case RunEnded(stop=Stop.OUT_OF_BUDGET):
                raise LimitError(fact.error or "")
            case RunEnded(stop=Stop.CONTEXT_FULL):
                raise ContextOverflowError(fact.error or "")
            case RunEnded(stop=Stop.FAILED):
                raise ModelError(fact.error or "")
            case None | RunEnded(stop=Stop.CANCELLED):
                await self._tape.nothing()
            case _:
                await self._tape.leave("the loop asks the model in its place")

    async def aclose(self) -> None:
        """There is nothing to release."""


@dataclass(kw_only=True)
class TapedAgent(Agent):
    """An agent whose remarks come from the recording where they depend on that day's prices, windows and settings."""

    tape: Tape

    def before_request(self, session: Session) -> Sequence[Notice]:  # noqa: ARG002 - the agent's signature
        """The notices that were stored before the request."""
        return self._notices()

    def after_reply(self, session: Session) -> Sequence[Notice]:  # noqa: ARG002 - the agent's signature
        """The notices that were stored behind the reply, of the cache."""
        return self._notices("cache")

    async def send_back(self, reply: Reply, session: Session) -> bool:  # noqa: ARG002 - the agent's signature
        """Send the answer back with the words that were found then."""
        fact = self.tape.coming()
        if isinstance(fact, RunEnded) and fact.stop == Stop.FAILED and fact.error:
            raise ModelError(fact.error)
        if not isinstance(fact, Said) or fact.message.by != RUNTIME or not fact.message.text.startswith(WRONG_FORM):
            return False
        await session.append(fact.message)
        return True

    def _notices(self, *about: str) -> Sequence[Notice]:
        found: list[Notice] = []
        for fact in self.tape.rest():
            if not isinstance(fact, Notice) or not (fact.about in (about or GIVEN) or fact.about.startswith(ASIDE)):
                break
            found.append(msgspec.structs.replace(fact, run="", at=EPOCH))
        return found


class TapedCompactor(Compactor):
    """Shortens where the recording does, by the same rule where the rule is one of ours."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(window=lambda: 0, threshold=1.0)
        self._tape = tape

    async def fit(self, session: Session) -> None:
        """Make the compactions that come before the request."""
        while await self.shrink(session):
            pass

    async def shrink(self, session: Session, *, pictures: bool = False) -> bool:  # noqa: ARG002 - what was cut is known
        """Make the next compaction; False when none comes next."""
        fact = self._tape.coming()
        if not isinstance(fact, Compacted):
            return False
        cut = cut_picture if "picture" in fact.how else cut_result
        for keep in KEEPS if fact.how.startswith("old ") else ():
            if pruned(session.messages, keep, cut) == list(fact.messages):
                await prune(session, keep, cut, how=fact.how)
                return True
        await session.record(msgspec.structs.replace(fact, run="", at=EPOCH))
        return True

    def roomy(self, request: ModelRequest) -> bool:  # noqa: ARG002 - the window of that day is not known
        """Whether the server was asked again although it said that the request was too long."""
        fact = self._tape.coming()
        return isinstance(fact, Retried) and fact.cause == ContextOverflowError.__name__


class TapedDesk(Desk):
    """Questions that wait for as long as they did."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape, attended=lambda: True, timeout=0.0)
        self._tape = tape

    def patience(self, question: Question) -> float:
        """No time at all for a question that nobody answered in time, else a day."""
        silent = (
            isinstance(fact, Answered) and fact.question == question.id and fact.status == "timeout"
            for fact in self._tape.rest()
        )
        return 0.0 if any(silent) else 86_400.0


class Part:
    """What the recording holds of one call: its own facts, the calls that its tool made, and its end."""

    def __init__(self, call: str, facts: Sequence[Fact], asked_by: Mapping[str, str]) -> None:
        self.own: list[ToolStarted | Asked] = []
        self.inner: dict[str, ToolCall] = {}
        self.ended: ToolEnded | None = None
        self.places: list[int] = []
        self._asked_by = asked_by
        for at, fact in enumerate(facts):
            if self.ended is None and self._holds(call, fact):
                self.places.append(at)

    def _holds(self, call: str, fact: Fact) -> bool:
        match fact:
            case ToolStarted() if fact.call.id == call:
                self.own.append(fact)
            case Asked() if self._asked_by.get(fact.question.id) == call:
                self.own.append(fact)
            case ToolEnded() if fact.result.call == call:
                self.ended = fact
            case ToolStarted() if _is_inner(fact.call.id, call):
                self.inner[fact.call.id] = fact.call
            case ToolEnded() if _is_inner(fact.result.call, call):
                result = fact.result
                self.inner.setdefault(result.call, ToolCall(id=result.call, name=result.name, arguments="{}"))
            case _:
                return False
        return True


class TapedDoor(Door):
    """The door behind which nothing runs: each call begins, asks and ends as it did."""

    def __init__(self, tape: Tape, desk: Desk, *, watch: LoopWatch | None) -> None:
        super().__init__(tape, watch=watch)
        self._tape = tape
        self._desk = desk

    def batches(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """The calls in order, those together that were at work at one time."""
        facts = self._to_next_reply()
        grouped: list[list[ToolCall]] = []
        busy, cancelled = -1, False
        for call in calls:
            part = self._part(call, facts)
            first = part.places[0] if part.places else len(facts)
            last = part.places[-1] if part.ended else len(facts)
            stopped = part.ended is not None and part.ended.outcome == "cancelled"
            never = part.ended is not None and part.ended.outcome == "not_run" and is_closed(part.ended)
            if grouped and (first < busy or (cancelled and stopped)) and not never:
                grouped[-1].append(call)
            else:
                grouped.append([call])
                busy = -1
            busy, cancelled = max(busy, last), stopped
        return grouped

    async def _attempt(self, call: ToolCall, parent: object) -> ToolEnded:
        part = self._part(call, self._to_next_reply())
        try:
            async with asyncio.TaskGroup() as group:
                for inner in part.inner.values():
                    group.create_task(self.run(inner, parent=self))
                await self._act(call, part, nested=parent is not None)
            ended = await self._outcome(part)
        except asyncio.CancelledError:
            if part.ended is None or part.ended.outcome == "cancelled" or is_closed(part.ended):
                raise
            ended = part.ended  # the tool came to its end all the same
        await self._tape.reach(ended)
        ended = msgspec.structs.replace(ended, run="")  # the run that is made again stamps it
        return loopwatch.unwarned(ended) if self._watch and parent is None else ended

    async def _act(self, call: ToolCall, part: Part, *, nested: bool) -> None:
        for fact in part.own:
            if isinstance(fact, Asked):
                await self._desk.ask(fact.question)
            else:
                understood = fact.call.arguments if nested else _understood(call, fact)
                call = msgspec.structs.replace(call, arguments=understood)
                await self._tape.record(ToolStarted(call=call, effect=fact.effect, decision=fact.decision))

    async def _outcome(self, part: Part) -> ToolEnded:
        """How the call ended; one that was closed because the run stopped ends as the run did."""
        recording, ended = self._tape.recording, part.ended
        if ended is None or ended.outcome == "cancelled":
            await self._tape.nothing()
        if not is_closed(ended):
            return ended
        if recording.ended is not None and recording.cancelled:
            return await self._tape.nothing()
        await self._tape.until(self._all_stop)
        raise lost(recording.error) if recording.ended else StoreError("what this call did could not be stored")

    def _all_stop(self) -> bool:
        """Whether what is still at work is stopped next: a failure of one call cancels those beside it."""
        fact = self._tape.next
        return isinstance(fact, ToolEnded) and (is_closed(fact) or fact.outcome == "cancelled")

    def _part(self, call: ToolCall, facts: Sequence[Fact]) -> Part:
        return Part(call.id, facts, self._tape.recording.asked_by)

    def _to_next_reply(self) -> list[Fact]:
        found: list[Fact] = []
        for fact in self._tape.rest():
            if isinstance(fact, Reply):
                break
            found.append(fact)
        return found


class TapedRun(Run):
    """A run with the recorded id, which takes answers and cancels in where the recording has them."""

    def __init__(self, agent: Agent, tape: Tape, desk: Desk) -> None:
        super().__init__(agent, tape, desk, emit=_unseen, start=_start(tape))
        self._tape = tape
        tape.on_cancel = self.cancel

    def cancel(self) -> None:
        """Stop the run, where a cancel did."""
        if self._tape.recording.cancelled:
            super().cancel()

    def _summary(self, over: Over, *, seconds: float) -> RunEnded:
        """The end, of the cause that was told then: what was raised here is not what was raised there."""
        recorded = self._tape.recording.ended
        return msgspec.structs.replace(
            super()._summary(over, seconds=seconds), cause=recorded.cause if recorded else ""
        )

    async def _watch(self) -> None:
        with self._tape.watched():
            while True:
                await self._tape.until(self._tape.mail_is_next)
                await self._take_in()


def _start(tape: Tape) -> Start:
    """How the recorded run began."""
    started = tape.recording.started
    return Start(id=tape.recording.run, surface=started.surface, pid=started.pid, env=started.env, about=started.about)


def taped_run(tape: Tape, requests: list[tuple[ModelRequest, Reply]] | None) -> Run:
    """The run of a recording, wired to be made again; each request with its recorded reply is added to `requests`."""
    recording, watch, desk = tape.recording, LoopWatch(), TapedDesk(tape)
    limits = Limits(loop_guard=recording.guarded)
    if recording.started.max_steps:
        limits = msgspec.structs.replace(limits, max_steps=recording.started.max_steps)

    def late() -> bool:
        fact = tape.coming()
        return isinstance(fact, Said) and fact.message.by == RUNTIME and TIME_IS_UP in fact.message.text

    agent = TapedAgent(
        tape=tape,
        model=TapedModel(tape, requests),
        dispatch=TapedDoor(tape, desk, watch=watch if recording.guarded else None),
        compactor=TapedCompactor(tape),
        limits=limits,
        watch=watch,
        late=late,
        pause=_no_time,
    )
    return TapedRun(agent, tape, desk)


def lost(error: str) -> Exception:
    """An unexpected failure as it is told at the end of a run: the name of its class and its words."""
    name, _, words = error.partition(": ")
    return type(name or "Exception", (Exception,), {})(words)


def _understood(call: ToolCall, started: ToolStarted) -> str:
    """The arguments as they were understood, where that is a reading of what the model wrote; else what it wrote."""
    try:
        written: Any = arguments.parse(call.arguments)
        understood: Any = msgspec.json.decode(started.call.arguments)
    except (ToolError, msgspec.DecodeError, RecursionError):
        return call.arguments
    return started.call.arguments if _reads(written, understood) else msgspec.json.encode(written).decode()


def _reads(written: Any, understood: Any) -> bool:
    """Whether a value was understood as it is, or as text for a number, or as the JSON inside a text."""
    if isinstance(written, dict) and isinstance(understood, dict):
        return list(written) == list(understood) and all(_reads(written[k], understood[k]) for k in written)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(written, list) and isinstance(understood, list):
        return len(written) == len(understood) and all(map(_reads, written, understood))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(written, str) and isinstance(understood, list | dict):
        try:
            return _reads(msgspec.json.decode(written), understood)
        except msgspec.DecodeError:
            return False
    return written == understood or (isinstance(written, int) and understood == str(written))


def _is_inner(call: str, parent: str) -> bool:
    """Whether a call was made by the tool of another one, directly."""
    return call.startswith(f"{parent}/") and "/" not in call[len(parent) + 1 :]


def _unseen(delta: Delta | ToolProgress) -> None:
    """Deltas are not recorded."""


async def _no_time(seconds: float) -> None:  # noqa: ARG001 - it has passed already
    await asyncio.sleep(0)
