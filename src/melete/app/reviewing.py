"""The review itself: a run over what a session did, which reads and proposes and can do nothing else. Composition root.

With the model of the session it goes on with that session's very bytes and one message more, in a log of its own; another model
is shown the turns round the signals.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from uuid import uuid4

from msgspec import Struct, convert, structs

from melete.agent.agent import RUNTIME, Agent
from melete.agent.approvals import Desk as Nobody
from melete.agent.budget import Budgeted, RunBudget, characters, estimate
from melete.agent.compact import Compactor
from melete.agent.context import Surroundings
from melete.agent.dispatch import Dispatch
from melete.agent.loopwatch import LoopWatch
from melete.agent.results import failure
from melete.agent.run import Run, Start
from melete.app.memory import OFF, remembered
from melete.app.opening import Options, asked_for
from melete.app.prefill import read_prefill
from melete.app.review_brought import brought
from melete.app.review_near import near, own_lines, seen
from melete.app.skills import HERE, library, platform
from melete.app.toolsets import BYTES_PER_TOKEN, open_tools
from melete.app.wire import Melete
from melete.core.errors import ConfigError, MeleteError, SessionNotFoundError, StorageError
from melete.core.event import (
    EPOCH,
    Compacted,
    Delta,
    Fact,
    Framed,
    Opened,
    Reply,
    RunEnded,
    Stop,
    ToolEnded,
    ToolProgress,
)
from melete.core.message import Message, Text, ToolCall, user
from melete.core.model import ModelClient, ModelRequest
from melete.core.plugin import Lazy
from melete.core.policy import Allowance, Limits, Step
from melete.core.ports import Change, Environment, Memory, Processes, SkillLibrary
from melete.core.session import Session, SessionRef
from melete.core.skill import Here
from melete.core.tool import Tool
from melete.core.transcript import Transcript
from melete.learn.briefs import OPENING, PROPOSES, READS, STRESSED, SYSTEM, brief, kept
from melete.learn.facts import Brief, Debt, Proposed, Review, fields_of
from melete.learn.gate_evidence import Outside
from melete.learn.gates import A_DAY
from melete.learn.inbox import inbox
from melete.learn.proposing import Desk, ProposingMemory, ProposingSkills, held_back, made_today
from melete.learn.windows import windows
from melete.tools.known import SKILLS as READ

if TYPE_CHECKING:
    from melete.skills.manage import Keeper

_strict: Lazy[Callable[..., Any]] = Lazy("melete.skills.format:strict")

log = logging.getLogger("melete.learn")
End = Literal["ended", "failed", "cancelled"]
SOURCE: Final = "review"
"""What `Opened.source` and `RunStarted.surface` say of a review's log."""
TOOLSETS: Final = ("skills", "memory", "session_search")
SECONDS: Final = 900.0
"""Wall time of a review."""
SPARE: Final = 16_000
"""Tokens that a review needs beside the conversation."""
SHARE: Final = 0.4
"""Share of another model's window that the windows may fill."""
MOST_SHOWN: Final = 60_000
REVIEW_OF, SHOWN_AS = "review_of", "shown"
"""Keys of `Opened.about`: the session that is reviewed, and whether it is shown whole or in windows."""
NEW: Final[dict[str, Any]] = {"seq": 0, "run": "", "at": EPOCH}
OVER: Final = frozenset({Stop.DONE, Stop.OUT_OF_STEPS, Stop.OUT_OF_BUDGET, Stop.LOOPING})
"""Ends of the run that end the review; what was proposed by then counts."""


class Job(Struct, frozen=True, kw_only=True):
    """A review that is due: of a session's facts behind `after` up to `upto`, because of these signals.

    Its `id` is that of the claim in the ledger; `log` names the session in which an interrupted review of it is recorded.
    """

    id: str
    session: str
    after: int
    upto: int
    why: str = ""
    brief: Brief = "both"
    signals: tuple[Debt, ...] = ()
    log: str = ""


OnBegun = Callable[[str], Awaitable[None]]
"""Called once with the id of the session in which the review is recorded, before the model is asked."""


class Steps(Limits, frozen=True, kw_only=True):
    """Limits without a last call to sum up, which nobody reads; they end as soon as all is `done`."""

    done: Callable[[], bool]

    def steps(self) -> Iterator[Step]:
        """`max_steps` passes at most."""
        for number in range(1, self.max_steps + 1):
            if self.done():
                return
            yield Step(number=number)


class Still(Compactor):
    """Makes no room: what is reviewed stays as it was sent, byte for byte."""

    async def fit(self, session: Session) -> None:
        """Nothing."""

    async def shrink(self, session: Session, *, pictures: bool = False) -> bool:  # noqa: ARG002 - as it is called
        """Nothing is taken away."""
        return False


class Door(Dispatch):
    """Lets through what reads and what proposes; to anything else the answer is no, whatever the schemas say."""

    async def _attempt(self, call: ToolCall, parent: object) -> ToolEnded:
        if call.name not in self.tools:
            what = f"a review reads and proposes; {call.name} is not available"
            return failure(call, what, outcome="denied", fields={"tools": sorted(self.tools)})
        return await super()._attempt(call, parent)


class Place:
    """Stands for the environment of a review: a working folder by name, in which nothing is read and nothing runs."""

    name = SOURCE

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd


class Parent(Struct, frozen=True, kw_only=True):
    """What is reviewed: a session's facts up to where the review goes, and what they add up to."""

    ref: SessionRef
    facts: tuple[Fact, ...]
    state: Transcript

    @property
    def opened(self) -> Opened:
        """How the session was begun."""
        return self.state.opened or Opened()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation, without a last reply whose calls have no outcome."""
        return self.state.messages[:-1] if self.state.open_calls else self.state.messages


class Parts(Struct, frozen=True, kw_only=True):
    """What a reviewer works with: its tools, and the library and the memory that only take proposals."""

    tools: tuple[Tool, ...]
    skills: SkillLibrary | None = None
    memory: Memory | None = None


class Seat(Struct, frozen=True, kw_only=True):
    """What a reviewer is shown: a frame, messages, and the brief behind them; `whole` says that it is all of the session."""

    frame: Framed
    messages: tuple[Message, ...]
    ask: Message
    whole: bool


async def review(app: Melete, job: Job, *, on_begun: OnBegun | None = None) -> Review:
    """Run the review to its end and return the fact that says how it ended: it is in the ledger already.

    Whatever goes wrong is in it as `failed`. A task that is cancelled here stores `cancelled` before the cancellation goes on,
    and what was proposed until then stays. Raises StorageError alone.
    """
    sitting = Sitting(app, job, on_begun)
    try:
        ended = await sitting.held()
    except asyncio.CancelledError:
        await sitting.over("cancelled")
        raise
    except StorageError:
        raise
    except MeleteError as error:
        return await sitting.over("failed", error=str(error))
    except Exception as error:  # nobody waits for it: it must not end what goes on
        log.exception("the review %s of %s failed", job.id, job.session)
        return await sitting.over("failed", error=f"{type(error).__name__}: {error}")
    status: End = "cancelled" if ended.stop == Stop.CANCELLED else "ended" if ended.stop in OVER else "failed"
    return await sitting.over(status, said=ended.text, error=ended.error or "")


async def release(app: Melete) -> Sequence[Proposed]:
    """Judge anew what waits for nothing but another day, as many as this one has room for; returns what they are now.

    Does nothing where a person wants to be asked. Raises StoreError.
    """
    rows = await asyncio.to_thread(app.ledger.read)
    waiting = [item.proposal for item in inbox(rows) if held_back(item)]
    settings, made = app.loaded.settings, list[Proposed]()
    if not waiting or settings.learning.autonomy != "auto" or not settings.skills.enabled:
        return ()
    for old in waiting[: max(0, A_DAY - made_today(rows, app.clock))]:
        with suppress(SessionNotFoundError):
            parent = await _parent(app, old.session)
            keeper = library(app, parent.opened.cwd)
            desk = _desk(app, parent, review=old.review, model=old.model, after=min(old.turns, default=1) - 1)
            desk.brought = await brought(app, parent.ref, keeper)
            skills = ProposingSkills(keeper, desk, own=partial(own_lines, keeper))
            new, _ = await skills.propose_again(convert(old.change, Change))
            if new.status == "refused":
                await desk.replaced(old, new)
            made.append(new)
    return made


class Sitting:
    """One review from its beginning to its end."""

    def __init__(self, app: Melete, job: Job, on_begun: OnBegun | None) -> None:
        self._app = app
        self._job = job
        self._on_begun = on_begun
        self._settings = app.loaded.settings.learning
        self._logs: list[SessionRef] = []
        self._model = ""
        self._taken = 0
        self._desk: Desk | None = None

    async def held(self) -> RunEnded:
        """Hold the review; a conversation that does not fit is shown in windows after all. Raises MeleteError."""
        app, job = self._app, self._job
        parent = await _parent(app, job.session, upto=job.upto)
        skills = library(app, parent.opened.cwd) if app.loaded.settings.skills.enabled else None
        async with AsyncExitStack() as stack:
            tools = await _tools(app, stack, skills)
            model, same = await _model(app, parent)
            stack.push_async_callback(app.models.close, model)
            self._model = model.name
            parts = self._parts(parent, tools, skills, brought=await brought(app, parent.ref, skills))
            stands = kept(inbox(await asyncio.to_thread(app.ledger.read)), job.session)
            behind = [fact for fact in parent.facts if fact.seq > job.after]

            def ask(frame: Framed | None = None) -> str:
                close = near(behind, job.signals, skills, frame=frame) if skills else ()
                return brief(job.brief, job.signals, tools=[tool.name for tool in tools], near=close, kept=stands)

            if same and (seat := _whole(parent, tools, model, ask=ask(parent.state.frame), kind=job.brief)):
                ended = await self._run(parent, model, seat, parts)
                if ended.stop != Stop.CONTEXT_FULL:
                    return ended
            return await self._run(parent, model, _windows(parent, tools, model, job, ask=ask()), parts)

    async def over(self, status: "End", *, said: str = "", error: str = "") -> Review:
        """Tell the ledger how it ended and what it has cost, which its proposals share."""
        app, job = self._app, self._job
        facts = [fact for ref in self._logs for fact in await app.store.facts(ref)]
        spent = Transcript(facts)
        if self._desk:
            await self._desk.settle(spent.usage, spent.usd)
        ended = Review(
            id=job.id, session=job.session, after=job.after, upto=job.upto, why=job.why, brief=job.brief, status=status,
            log=self._logs[-1].id if self._logs else job.log, model=self._model, usage=spent.usage, usd=spent.usd,
            steps=sum(isinstance(fact, Reply) for fact in facts), said=app.redact(said), error=app.redact(error),
        )  # fmt: skip
        number = await app.ledger.append(ended.kind, fields_of(ended))
        return structs.replace(ended, number=number)

    def _parts(
        self, parent: Parent, tools: tuple[Tool, ...], skills: "Keeper | None", *, brought: Sequence[Outside]
    ) -> Parts:
        app, job = self._app, self._job
        desk = self._desk = _desk(app, parent, review=job.id, model=self._model, after=job.after)
        desk.brought = brought
        notes = remembered(app) if app.loaded.settings.memory.enabled else None
        library_ = ProposingSkills(skills, desk, own=partial(own_lines, skills)) if skills else None
        memory = ProposingMemory(notes, desk) if notes else None
        return Parts(tools=tools, skills=cast("SkillLibrary | None", library_), memory=cast("Memory | None", memory))

    async def _run(self, parent: Parent, model: ModelClient, seat: Seat, parts: Parts) -> RunEnded:
        ref, begun = await self._log(parent, seat), asyncio.get_running_loop().time()
        async with self._app.store.claim(ref) as session:
            if session.transcript.frame is None:
                await session.record(seat.frame, *([_carried(parent)] if seat.whole else ()))
            if self._on_begun:
                await self._on_begun(ref.id)
            own = session.messages[len(seat.messages) :]
            asked = any(one.text.startswith(OPENING) for one in own)
            watch, used = LoopWatch(), sum(one.role == "assistant" for one in own)
            left = max(1, self._settings.review_steps - used)
            limits = Steps(max_steps=left, seconds=SECONDS, done=partial(self._all_taken, session))
            budget = self._budget(ref)
            nobody = Nobody(session, attended=lambda: False, timeout=1.0)
            shared = self._shared(session, parent, parts, budget=budget, nobody=nobody)
            if parts.skills:
                shared.state[READ] = await seen(seat.messages, parts.skills)
            given, agents = self._app.loaded.settings.model, self._app.loaded.settings.agent
            ran = asked_for(parent.state.run, parent.ref) if parent.state.run and seat.whole else Options()
            where, home = self._app.loaded.origin("agent.prefill").where, self._app.loaded.home.root
            agent = Agent(
                model=Budgeted(model, budget, estimate=estimate(session)),
                dispatch=Door(parts.tools, guards=(), shared=shared, watch=watch),
                compactor=Still(window=lambda: model.can.context, threshold=1.0),
                limits=limits,
                watch=watch,
                late=lambda: asyncio.get_running_loop().time() - begun > SECONDS,
                ephemeral=agents.ephemeral_prompt if seat.whole else "",
                prefill=read_prefill(agents.prefill, where=where, home=home) if seat.whole else (),
                effort=ran.effort or given.effort,
                temperature=given.temperature if ran.temperature is None else ran.temperature,
                max_output=ran.max_output or given.max_output,
                answer_schema=ran.answer.schema if ran.answer else None,
                redact=self._app.redact,
                base_url=self._app.models.address(model),
                role=SOURCE,
                cache_key=parent.ref.id if seat.whole else "",
            )
            run = Run(agent, session, nobody, emit=unseen, start=Start(surface=SOURCE, pid=os.getpid(), env=Place.name))
            return await run.execute(None if asked else seat.ask)

    def _all_taken(self, session: Session) -> bool:
        """Whether the last reply proposed, and was taken at its word; a single lesson where there should be more is not the end."""
        desk, turns = self._desk, {one.turn for one in self._job.signals if one.weight}
        if desk is None or not turns:
            return False
        taken, self._taken = desk.taken - self._taken, desk.taken
        last = next((one for one in reversed(session.messages) if one.role == "assistant"), None)
        every = last is not None and 0 < taken == len(last.calls)
        return every and (taken > 1 or desk.taken >= len(turns))

    async def _log(self, parent: Parent, seat: Seat) -> SessionRef:
        """The log of the review, that of an interrupted one where it was shown the same; a new one else."""
        app, job, shown = self._app, self._job, "all" if seat.whole else "windows"
        if job.log and not self._logs:
            with suppress(SessionNotFoundError):
                old = await app.store.find(job.log)
                before = Transcript(await app.store.facts(old)).opened
                if before and before.about.get(SHOWN_AS) == shown:
                    self._logs.append(old)
                    return old
        title = f"Review of {parent.state.title or job.session}"
        about = {REVIEW_OF: job.session, SHOWN_AS: shown}
        owner, cwd = parent.ref.owner or parent.opened.owner, parent.opened.cwd
        made = Opened(owner=owner, source=SOURCE, cwd=cwd, parent=job.session, title=title, about=about)
        self._logs.append(await app.store.create(made))
        return self._logs[-1]

    def _budget(self, ref: SessionRef) -> RunBudget:
        day = self._app.loaded.settings.budget.day
        run = Allowance(usd=self._settings.review_usd)
        return RunBudget(self._app.ledger, who=ref.id, run=run, day=Allowance(usd=day.usd, tokens=day.tokens))

    def _shared(
        self, session: Session, parent: Parent, parts: Parts, *, budget: RunBudget, nobody: Nobody
    ) -> Surroundings:
        app, cwd, frame = self._app, parent.opened.cwd or "/", parent.state.frame
        names = frozenset(schema.name for schema in frame.tools) if frame else frozenset[str]()
        state: dict[str, Any] = {HERE: Here(tools=names, platform=platform(), cwd=cwd)}
        if not app.loaded.settings.memory.user_enabled:
            state[OFF] = {"user": "nothing is remembered about the person (memory.user_enabled)"}
        return Surroundings(
            env=cast("Environment", Place(cwd)),
            processes=cast("Processes", None),
            store=app.store,
            session=session,
            budget=budget,
            approvals=nobody,
            group=app.group,
            emit=unseen,
            redact=app.redact,
            skills=parts.skills,
            memory=parts.memory,
            state=state,
        )


async def _parent(app: Melete, session: str, *, upto: int | None = None) -> Parent:
    ref = await app.store.find(session)
    facts = tuple(fact for fact in await app.store.facts(ref) if upto is None or fact.seq <= upto)
    return Parent(ref=ref, facts=facts, state=Transcript(facts))


def _desk(app: Melete, parent: Parent, *, review: str, model: str, after: int) -> Desk:
    return Desk(
        ledger=app.ledger,
        clock=app.clock,
        redact=app.redact,
        review=review,
        session=parent.ref.id,
        facts=parent.facts,
        after=after,
        model=model,
        auto=app.loaded.settings.learning.autonomy == "auto",
        strict=wrong_form,
    )


def unseen(_: Delta | ToolProgress) -> None:
    """Nobody watches a review."""


def wrong_form(text: str, name: str) -> str:
    """What is wrong with a SKILL.md of this name, by the rules for one that is to be written; empty where nothing is."""
    try:
        _strict.load()(text, name=name)
    except MeleteError as error:
        return error.what
    return ""


def _carried(parent: Parent) -> Compacted:
    """What a review's log begins with: the session's messages, as they were sent."""
    begins = parent.state.segment or parent.ref.id
    return Compacted(segment=uuid4().hex[:12], parent=begins, messages=parent.messages, how="what is reviewed")


async def _tools(app: Melete, stack: AsyncExitStack, skills: "Keeper | None") -> tuple[Tool, ...]:
    """The tools that a review may use, of those that sessions have here; raises ConfigError without one to propose."""
    there = [*(app.loaded.settings.tools.enabled or app.registry.names("tools"))]
    only = [name for name in TOOLSETS if name in there]
    opened = (await open_tools(app, stack, only=only, skills=skills)).tools if only else ()
    tools = tuple(tool for tool in opened if tool.name in (*READS, *PROPOSES))
    if not any(tool.name in PROPOSES for tool in tools):
        raise ConfigError("a review has nothing to propose with", next="switch on skills.enabled or memory.enabled")
    return tools


async def _model(app: Melete, parent: Parent) -> tuple[ModelClient, bool]:
    """The model that reviews, and whether it is the one that answered last in the session. Raises ConfigError."""
    ran, chosen = parent.state.run, app.models.named("review")

    def same(model: ModelClient) -> bool:
        return ran is not None and (model.provider, model.name) == (ran.provider, ran.model)

    first = app.open_model(chosen or parent.opened.about.get("model", ""))
    if chosen or ran is None or same(first):
        return first, same(first)
    try:
        other = app.open_model(f"{ran.provider}/{ran.model}")
    except ConfigError:  # it was named by an address, or is gone
        return first, False
    spare = first if same(other) else other
    await app.models.close(spare)
    return (other, True) if spare is first else (first, False)


def _whole(parent: Parent, tools: Sequence[Tool], model: ModelClient, *, ask: str, kind: Brief) -> Seat | None:
    """All of the session, as it was sent; None where its frame has no tool to propose with or the rest does not fit behind it."""
    frame, messages = parent.state.frame, parent.messages
    if frame is None or not messages:
        return None
    proposes = {tool.name for tool in tools}.intersection(STRESSED[kind])
    request = ModelRequest(model=model.name, system=frame.system, tools=frame.tools, messages=messages)
    taken = parent.state.last_usage.total or characters(request)
    if not proposes.issubset(schema.name for schema in frame.tools) or taken + SPARE > model.can.context:
        return None
    stored = structs.replace(frame, why=SOURCE, **NEW)
    return Seat(frame=stored, messages=messages, ask=user(ask, by=RUNTIME), whole=True)


def _windows(parent: Parent, tools: Sequence[Tool], model: ModelClient, job: Job, *, ask: str) -> Seat:
    """The turns round the signals, behind the brief."""
    room = min(MOST_SHOWN, int(SHARE * model.can.context) * BYTES_PER_TOKEN)
    seen = windows(parent.facts, job.signals, after=job.after, room=room)
    parts = (Text(text=ask.replace(" above", " below")), Text(text=seen, taint="tool"))
    schemas = tuple(tool.shown for tool in tools)
    frame = Framed(system=(SYSTEM,), tools=schemas, model=model.name, wire=model.wire, why=SOURCE)
    return Seat(frame=frame, messages=(), ask=Message(role="user", parts=parts, by=RUNTIME), whole=False)
