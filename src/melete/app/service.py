"""What surfaces call: open a conversation, run a prompt in it, reach one that runs elsewhere. Part of the composition root."""

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from melete.agent.agent import Agent
from melete.agent.approvals import ApprovalGuard, Desk, Rules
from melete.agent.budget import Budgeted, RunBudget, characters, estimate
from melete.agent.cachewatch import LIVES, CacheWatch
from melete.agent.checkpointing import Turn
from melete.agent.context import Surroundings
from melete.agent.dispatch import Dispatch
from melete.agent.loopwatch import LoopWatch
from melete.agent.prompt import build, says_folder
from melete.agent.run import Beside, Run, Start
from melete.agent.smart import Smart
from melete.agent.title import entitle
from melete.app.as_of import pinned
from melete.app.background import IN_A_ROW, Waking, open_processes, sweep
from melete.app.checkpoints import checkpoint_guards
from melete.app.compacting import Compacting
from melete.app.frame import layers, note_of, tools_of, why_new
from melete.app.grants import GrantFile
from melete.app.logs import log_session
from melete.app.memory import Memories
from melete.app.memory_provider import Provided
from melete.app.modelbook import notes
from melete.app.opening import Options
from melete.app.places import choose, folder_here, folder_of, key_of, open_place
from melete.app.prefill import read_prefill
from melete.app.routing import is_simple
from melete.app.skills import Skills
from melete.app.toolsets import Toolbox, open_tools
from melete.app.vendors import vendors
from melete.app.wire import Melete
from melete.core.claim import Checked
from melete.core.errors import ConfigError, SessionNotFoundError
from melete.core.event import EPOCH, Fact, Framed, Notice, Opened, RunEnded
from melete.core.message import Image, Message
from melete.core.model import ModelClient
from melete.core.plugin import Lazy
from melete.core.policy import Allowance, Limits
from melete.core.ports import Environment, Memory, Processes
from melete.core.session import Session, SessionRef
from melete.core.tool import Tool
from melete.core.transcript import Transcript

if TYPE_CHECKING:
    from melete.app.children import Children

_children: "Lazy[Callable[..., Children]]" = Lazy("melete.app.children:Children")
_verify: "Lazy[Callable[..., Awaitable[Sequence[Checked]]]]" = Lazy("melete.app.verifying:verify")
_claims: Lazy[Callable[[str], Sequence[object]]] = Lazy("melete.agent.claim_words:claims")
NEW: Mapping[str, Any] = {"seq": 0, "run": "", "at": EPOCH}
"""A fact that is to be stored anew."""


@dataclass(kw_only=True)
class Work:
    """What the run that goes on now works with: until when, on which account, and under which name changes are taken back."""

    session: Session
    model: ModelClient
    budget: RunBudget
    over: float
    turn: Turn


class How(Struct, frozen=True, kw_only=True):
    """How one run of a conversation begins: `history` stands before the prompt of a session that has no messages yet.

    `begun` is called once the beginning and the prompt are on the disk.
    """

    start: Start
    history: tuple[Fact, ...] = ()
    begun: Callable[[], None] | None = None


class Conversation:
    """An open session in this process: environment, tools and model stay warm between its runs."""

    def __init__(
        self,
        app: Melete,
        options: Options,
        ref: SessionRef,
        *,
        env: Environment,
        processes: Processes,
        waking: Waking | None = None,
    ) -> None:
        self.app = app
        self.ref = ref
        self.options = options
        self.env = env
        self.hub = app.hub(ref.id)
        self.tools: Sequence[Tool] = ()
        self.sets: Mapping[str, Sequence[str]] = {}
        self.work: Work | None = None
        self.children: Children | None = None
        self.prefill: Sequence[Message] = ()
        self.remark = self.moved = ""
        self.waking = waking or Waking(app, ref)
        self.model: ModelClient
        self.skills = Skills(app, options, env, cwd=env.cwd)
        self.memory = Memories(app, ref)
        self.provided = Provided(app, ref)
        self.compacting = Compacting(app, ref)
        self._left: list[ModelClient] = []
        self._processes = processes
        self._run: Run | None = None
        self._cancelled = False
        self.grants: set[str] = set()
        self._judge: ModelClient | None = None
        self._cheap: ModelClient | None = None

    async def use_model(self, name: str) -> None:
        """Answer with another model, `[PROVIDER/]NAME`, from the next run on; raises ConfigError and keeps the old one."""
        model = self.app.open_model(name)
        self._left.append(self.model)  # a run that goes on now still uses it: closed at the end
        self.model = model

    @property
    def works_in_background(self) -> bool:
        """Whether programs that the agent started still run, or have something to say."""
        children = self.children is not None and bool(self.children.awaited())
        running = any(one.owned and one.status == "running" for one in self._processes.list())
        return children or running or self.waking.pending

    def _awaited(self) -> Sequence[str]:
        """The background processes that a run is still to hear of, where it is one that waits for them."""
        if not self.options.waits:
            return ()
        told = self.children.awaited() if self.children else ()
        return [
            *told,
            *(f"{one.id} ({' '.join(one.command.split())})" for one in self._processes.list() if one.awaited),
        ]

    async def adopt(self, options: Options) -> None:
        """Take other options for the runs to come: limits, who attends, what is added to the prompt, the model.

        Raises what opening the model raises, and keeps the options as they were.
        """
        if options.model != self.options.model:
            opened = Transcript(await self.app.store.facts(self.ref)).opened
            model = _model_of(self.app, opened, options)
            await self.app.models.close(self.model)
            self.model = model
        self.options = options

    async def close_models(self) -> None:
        """Release the connections of every model that answered here."""
        await self.compacting.aclose()
        for model in (*self._left, self.model, *([self._cheap] if self._cheap else [])):
            await self.app.models.close(model)

    async def run(self, prompt: Message | None, how: How | None = None) -> RunEnded:
        """Own the session, run to the end, let it go; events go to `hub`. Raises SessionBusyError, StorageError."""
        self._cancelled = False
        self.waking.begin(prompted=prompt is not None)
        try:
            with log_session(self.ref.id):
                how = how or How(start=Start(surface=self.options.surface, about=self.options.noted))
                return await self._run_claimed(prompt, how)
        finally:
            self.waking.end()

    async def _run_claimed(self, prompt: Message | None, how: How) -> RunEnded:
        async with self.app.store.claim(self.ref) as session:
            if how.history and not session.messages:
                await session.record(*how.history)
            self.provided.begin(prompt, session.transcript)
            box, frame = await self._frame(session)
            model = self._routed(prompt)
            budget = self.budget()
            start = structs.replace(how.start, pid=os.getpid(), env=self.env.name)
            run = self._run = self._make(session, model, budget, tools=box.tools, start=start)
            if self.children:
                await self.children.settle(session)
            if self._cancelled:
                run.cancel()
            titled = self._titled(session, prompt, budget)
            try:
                prompt = await self.skills.said(session.transcript, frame, prompt)
                prompt = await self.provided.said(await self.compacting.said(session, prompt, model))
                remarks = self._remarks(model, prompt, new=bool(frame))
                with self.waking.heard_by(session):
                    return await run.execute(prompt, opening=(*frame, *remarks), beside=titled, begun=how.begun)
            finally:
                self._run = self.work = None
                await self.skills.told(session)
                await self.memory.told(session)

    def _routed(self, prompt: Message | None) -> ModelClient:
        """The model for this run: the cheaper one for a simple message, where the settings say so."""
        routing = self.app.loaded.settings.model.routing
        if prompt is None or not (routing.enabled and routing.model and is_simple(prompt, routing)):
            return self.model
        if self._cheap is None:
            try:
                self._cheap = self.app.models.open(routing.model, spared=True)
            except ConfigError as error:
                self.app.models.problems["routing"] = f"model.routing cannot be used: {error}"
                return self.model
        return self._cheap

    def _titled(self, session: Session, prompt: Message | None, budget: RunBudget) -> Beside | None:
        """What names a new session beside its first run, where the settings name a model for it."""
        if prompt is None or session.transcript.title or not self.app.models.named("title") or not prompt.text.strip():
            return None
        try:
            model = self.app.models.model("title")
        except ConfigError as error:
            self.app.models.problems["title"] = f"auxiliary.title cannot be used: {error}"
            return None
        self._left.append(model)
        return partial(entitle, session, Budgeted(model, budget, estimate=characters), prompt)

    def budget(self) -> RunBudget:
        """An account for one run, over the day's."""
        settings = self.app.loaded.settings.budget
        usd = self.options.budget_usd if self.options.budget_usd is not None else settings.run.usd
        return RunBudget(
            self.app.ledger,
            who=self.ref.id,
            run=Allowance(usd=usd, tokens=settings.run.tokens),
            day=Allowance(usd=settings.day.usd, tokens=settings.day.tokens),
        )

    def cancel(self) -> None:
        """Stop the run, also one that is only beginning; does nothing when there is none."""
        self._cancelled = True
        if self._run:
            self._run.cancel()

    def _remarks(self, model: ModelClient, prompt: Message | None, *, new: bool) -> Sequence[Notice]:
        """What the person should know before a run."""
        found = [("settings", text) for text in self.app.models.problems.values()]
        if self.waking.held:
            text = f"{IN_A_ROW} runs in a row were begun by background processes: what they said since then waited until now"
            found.append(("background", text))
        if new and self.remark:
            found.append(("environment", self.remark))
        found += [("memory", text) for text in (*(self.memory.remarks if new else ()), *self.provided.problems())]
        if self.moved:
            found.append(("environment", self.moved))
        if new and model.provider in vendors():  # of a server of one's own nothing is expected to be known
            found += [("model", text) for text in notes(self.app.loaded.home, model.provider, model.name, model.can)]
        if (model.provider, model.name) != (self.model.provider, self.model.name):
            found.append(("routing", f"a short message: {model.name} answers it (model.routing)"))
        if self.options.budget_usd is not None and model.can.usd_input is None:
            text = (
                f"the price of {model.name} is not known, so the limit in dollars cannot be kept; the one in tokens is"
            )
            found.append(("budget", text))
        if prompt and not model.can.images and any(isinstance(part, Image) for part in prompt.parts):
            found.append(("images", f"{model.name} takes no images; it is told that one was left out"))
        return [
            Notice(text=text, level="info" if about in ("routing", "model") else "warning", about=about)
            for about, text in found
        ]

    async def transcript(self) -> Transcript:
        """The state of the session as it is stored now, whoever runs it."""
        return Transcript(await self.app.store.facts(self.ref))

    @property
    def running(self) -> bool:
        """Whether a run is going on in this process."""
        return self._run is not None

    async def _frame(self, session: Session) -> tuple[Toolbox, Sequence[Framed]]:
        """The tools of a run, and the frame to store; none when the stored one fits: it is reused byte for byte."""
        stored, window = session.transcript.frame, self.model.can.context
        box = tools_of(self.app, self.tools, window=window, stored=stored)
        name, wire = self.model.name, self.model.wire
        if stored and self._says_the_same(stored):
            if box.shown is stored.tools:
                return box, ()
            return box, (structs.replace(stored, tools=box.shown, model=name, wire=wire, why="other tools", **NEW),)
        extra = self.options.extra.strip()
        if stored and stored.instructed and self.options.keeps_extra:
            extra = extra or stored.system[1]  # behind the identity
        kept = {"memory": await self._remembered(window), "skills": await self.skills.block()}
        made = await layers(self.app, self.env, surface=self.options.surface, extra=extra, window=window, kept=kept)
        why = why_new(stored, made)
        framed = Framed(system=build(made), tools=box.shown, model=name, wire=wire, why=why)
        return box, (structs.replace(framed, instructed=bool(extra), place=made.place),)

    async def _remembered(self, window: int) -> str:
        """What a new frame says is remembered."""
        return await self.provided.behind(await self.memory.block(self.tools, window))

    def _says_the_same(self, stored: Framed) -> bool:
        """Whether a stored frame holds the instructions that the coming run is to have."""
        extra = self.options.extra.strip()
        if stored.place != note_of(self.env) or not says_folder(stored.system, self.env.cwd):
            return False
        if extra:
            return extra in stored.system
        return self.options.keeps_extra or not stored.instructed

    def _make(
        self, session: Session, model: ModelClient, budget: RunBudget, *, tools: Sequence[Tool], start: Start
    ) -> Run:
        settings, options = self.app.loaded.settings, self.options
        limits, desk = self._limits(), self._desk(session)
        over = time.monotonic() + limits.seconds
        self.work = Work(session=session, model=model, budget=budget, over=over, turn=self._turn(start))
        shared = Surroundings(
            env=self.env,
            processes=self._processes,
            store=self.provided.store,
            session=session,
            budget=budget,
            approvals=desk,
            group=self.app.group,
            emit=self.hub.emit,
            redact=self.app.redact,
            skills=self.skills.library,
            memory=self._memory(),
            state=self.skills.state,
        )
        watch = LoopWatch()
        guards = [self._guard(desk, budget), *checkpoint_guards(self.app, self.env, self.work.turn)]
        agent = Agent(
            model=Budgeted(model, budget, estimate=estimate(session)),
            dispatch=Dispatch(tools, guards=guards, shared=shared, watch=watch if limits.loop_guard else None),
            compactor=self.compacting.compactor(model, budget),
            limits=limits,
            watch=watch,
            redact=self.app.redact,
            base_url=self.app.models.address(model),
            cache=CacheWatch(life=LIVES[settings.model.cache_ttl]),
            late=lambda: time.monotonic() > over,
            awaited=self._awaited,
            ephemeral=settings.agent.ephemeral_prompt,
            prefill=tuple(self.prefill),
            effort=options.effort or settings.model.effort,
            temperature=settings.model.temperature if options.temperature is None else options.temperature,
            max_output=options.max_output or settings.model.max_output,
            answer_schema=options.answer.schema if options.answer else None,
            complaint=options.answer.complaint if options.answer else None,
            verify=self._verify(start.id),
            doubts=int(settings.verify.claims == "check"),
        )
        return Run(agent, session, desk, emit=self.hub.emit, start=start)

    def _memory(self) -> Memory | None:
        """The memory that tools may use."""
        return self.provided.hearing(self.memory.handed(self.skills.state))

    def _limits(self) -> Limits:
        """How far a run may go."""
        settings = self.app.loaded.settings
        return Limits(
            max_steps=self.options.max_steps or settings.agent.max_steps,
            seconds=settings.budget.run.seconds,
            loop_guard=settings.agent.loop_guard,
        )

    def _desk(self, session: Session) -> Desk:
        """Who is asked what a person must decide."""
        given = self.app.loaded.settings.approvals
        waits = given.unattended == "wait"
        return Desk(session, attended=lambda: self.options.attended or waits, timeout=given.timeout)

    def _turn(self, start: Start) -> Turn:
        """With what the changes of a run can be taken back."""
        return Turn(name=start.id, session=self.ref.id)

    def _verify(self, run: str) -> Callable[[str], Awaitable[Sequence[Checked]]] | None:
        """What checks the claims of answers."""
        if self.app.loaded.settings.verify.claims == "off":
            return None

        async def verified(text: str) -> Sequence[Checked]:
            if not _claims.load()(text):  # the log, and what reads commands, are for those that claim something
                return ()
            return await _verify.load()(self.app, self.ref, text, env=self.env, run=run)

        return verified

    def _guard(self, desk: Desk, budget: RunBudget) -> ApprovalGuard:
        """What asks before risky calls, as the settings of the start say."""
        home, given = self.app.loaded.home, self.app.loaded.settings.approvals
        rules = Rules(
            mode="off" if self.options.yolo else given.mode,
            after_untrusted=given.after_untrusted,
            home=str(home.user or ""),
            own=str(home.root),
        )
        lasting = None if self.app.ephemeral else GrantFile(home.grants, clock=self.app.clock)
        smart = Smart(partial(self._judging, budget))
        return ApprovalGuard(desk, rules=rules, session=self.grants, lasting=lasting, smart=smart)

    def _judging(self, budget: RunBudget) -> ModelClient:
        """The model that judges calls in mode `smart`, on the run's account; raises ConfigError, NoModelError."""
        if self._judge is None:
            self._judge = self.app.models.model("approve")
            self._left.append(self._judge)
        return Budgeted(self._judge, budget, estimate=characters)


@asynccontextmanager
async def open_conversation(app: Melete, options: Options) -> AsyncGenerator[Conversation]:
    """Open a session, a new one unless `options` names one; raises SessionNotFoundError, NoModelError, ConfigError."""
    async with AsyncExitStack() as stack:
        ref = await find_session(app, options)
        before = Transcript(await app.store.facts(ref)).opened if ref else None
        seen = pinned(app.then, before.about if before else None)
        model = _model_of(app, before, options)
        stack.push_async_callback(app.models.close, model)
        known = before.about if before else {}
        chosen = choose(app.loaded, options.env or known.get("env", ""))
        key = key_of(ref, known)
        worked = folder_of(before)
        folder = folder_here(options.cwd) if options.cwd else worked if Path(worked).is_dir() else ""
        try:
            env = open_place(app, chosen.name, cwd=folder, key=key)
        except ConfigError as error:
            if options.env or chosen.name != known.get("env") or chosen.name in app.registry.names("environments"):
                raise
            what = f"this session was begun in the environment {chosen.name!r}, which is not installed any more"
            raise ConfigError(what, next="install it again, or choose another with --env") from error
        stack.push_async_callback(env.aclose)
        skills = Skills(app, options, env, cwd=folder or env.cwd)
        children = _children.load()(app)
        opened = await open_tools(app, stack, only=options.toolsets, skills=skills.library, runner=children)
        where = app.loaded.origin("agent.prefill").where
        prefill = read_prefill(app.loaded.settings.agent.prefill, where=where, home=app.loaded.home.root)
        about = {"place": key, **({"env": options.env} if options.env else {}), **seen}
        if ref is None:  # last of what can fail: a mistake leaves no empty session behind
            cwd = folder_here(folder) or env.cwd
            ref = await app.store.create(Opened(owner=options.owner, source=options.surface, cwd=cwd, about=about))
        waking = Waking(app, ref)
        processes = open_processes(app, ref, env, waking, surface=options.surface)
        stack.push_async_callback(_end_processes, app, processes)
        conversation = Conversation(app, options, ref, env=env, processes=processes, waking=waking)
        conversation.tools, conversation.sets = opened.tools, opened.sets
        conversation.skills = skills.among(opened.tools)
        conversation.prefill = prefill
        conversation.remark = chosen.remark
        if worked and not folder:
            now = folder_here("") or env.cwd
            conversation.moved = f"the working folder of this session, {worked}, is not there: it goes on in {now}"
        conversation.model = model
        stack.push_async_callback(conversation.close_models)
        stack.push_async_callback(children.aclose)
        await children.begin(conversation)
        await conversation.provided.open(conversation, stack)
        stack.callback(app.close_hub, ref.id)
        yield conversation


async def _end_processes(app: Melete, processes: Processes) -> None:
    """End what runs in the background; where something did, look for old records as well."""
    used = bool(processes.list())
    await processes.aclose()
    if used:
        await sweep(app)


async def find_session(app: Melete, options: Options) -> SessionRef | None:
    """The session that the options name, None for a new one."""
    if options.session:
        return await app.store.find(options.session, owner=options.owner)
    if not options.latest:
        return None
    ref = await app.store.latest(owner=options.owner)
    if ref is None:
        raise SessionNotFoundError("there is no session to continue yet", next="start one with: melete run PROMPT")
    return ref


def _model_of(app: Melete, opened: Opened | None, options: Options) -> ModelClient:
    """The model that a session is pinned to, unless the command names one; raises NoModelError, ConfigError."""
    pinned = opened.about.get("model", "") if opened else ""
    opening = app.models.shared if options.shares else app.open_model
    if options.model or not pinned or app.loaded.origin("model.name").kind == "flag":
        return opening(options.model)
    try:
        return opening(pinned)
    except ConfigError as error:
        raise ConfigError(
            f"this session is to be answered by {pinned}: {error.what}",
            kept=error.kept,
            next=f"{error.next}; or name another model for this time with --model",
        ) from error
