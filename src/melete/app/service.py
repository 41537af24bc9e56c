"""What surfaces call: open a conversation, run a prompt in it, reach one that runs elsewhere. Part of the composition root."""

import os
import stat
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import msgspec
from msgspec import Struct

from melete.agent.agent import Agent
from melete.agent.approvals import ApprovalGuard, Desk
from melete.agent.budget import Budgeted, RunBudget
from melete.agent.compact import Compactor
from melete.agent.context import Surroundings
from melete.agent.dispatch import Dispatch
from melete.agent.loopwatch import LoopWatch
from melete.agent.prompt import build
from melete.agent.run import Run
from melete.app.frame import layers, shown
from melete.app.logs import log_session
from melete.app.plugins import add_installed
from melete.app.toolsets import open_tools
from melete.app.wire import Melete
from melete.core.errors import SessionNotFoundError, UsageError
from melete.core.event import Framed, Notice, Opened, RunEnded, Stop
from melete.core.message import Image, Message, Origin, Part, Text
from melete.core.model import ModelClient, ModelRequest
from melete.core.plugin import Lazy
from melete.core.policy import Allowance, Limits
from melete.core.ports import Environment, Opener, Processes
from melete.core.session import InboxMessage, Receipt, Session, SessionRef
from melete.core.tool import Tool
from melete.core.transcript import Transcript

Kind = Literal["steer", "queue", "answer", "cancel"]
IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
LARGEST_IMAGE = 20_000_000
_processes: Lazy[Callable[..., Processes]] = Lazy("melete.environments.processes:Background")


class Options(Struct, frozen=True, kw_only=True):
    """How a conversation is opened.

    `session` is an id, an unambiguous beginning of one, or a title; `latest` continues the session that changed last.
    `attended` says that a person can answer questions on this surface. None leaves a choice to the settings.
    """

    session: str = ""
    latest: bool = False
    owner: str = ""
    surface: str = "cli"
    cwd: str = ""
    env: str = ""
    toolsets: tuple[str, ...] = ()
    max_steps: int | None = None
    budget_usd: float | None = None
    yolo: bool = False
    attended: bool = False
    extra: str = ""


class Conversation:
    """An open session in this process: environment, tools and model stay warm between its runs."""

    def __init__(
        self, app: Melete, options: Options, ref: SessionRef, *, env: Environment, processes: Processes
    ) -> None:
        self.app = app
        self.ref = ref
        self.options = options
        self.env = env
        self.hub = app.hub(ref.id)
        self.tools: Sequence[Tool] = ()
        self.model: ModelClient
        self._left: list[ModelClient] = []
        self._processes = processes
        self._state: dict[str, Any] = {}
        self._run: Run | None = None
        self._cancelled = False
        self._grants: set[tuple[str, str]] = set()

    async def use_model(self, name: str) -> None:
        """Answer with another model, `[PROVIDER/]NAME`, from the next run on; raises ConfigError and keeps the old one."""
        model = self.app.open_model(name)
        self._left.append(self.model)  # a run that goes on now still uses it: closed at the end
        self.model = model

    async def close_models(self) -> None:
        """Release the connections of every model that answered here."""
        for model in (*self._left, self.model):
            await model.aclose()

    async def run(self, prompt: Message | None) -> RunEnded:
        """Own the session, run to the end, let it go; events go to `hub`. Raises SessionBusyError, StorageError."""
        self._cancelled = False
        with log_session(self.ref.id):
            return await self._run_claimed(prompt)

    async def _run_claimed(self, prompt: Message | None) -> RunEnded:
        async with self.app.store.claim(self.ref) as session:
            frame = await self._frame(session)
            run = self._run = self._make(session, self.model)
            if self._cancelled:
                run.cancel()
            try:
                return await run.execute(prompt, opening=(*frame, *self._remarks()))
            finally:
                self._run = None

    def cancel(self) -> None:
        """Stop the run, also one that is only beginning; does nothing when there is none."""
        self._cancelled = True
        if self._run:
            self._run.cancel()

    def _remarks(self) -> Sequence[Notice]:
        """What the person should know before a run."""
        if self.options.budget_usd is None or self.model.can.usd_input is not None:
            return ()
        text = (
            f"the price of {self.model.name} is not known, so the limit in dollars cannot be kept; the one in tokens is"
        )
        return (Notice(text=text, level="warning", about="budget"),)

    async def transcript(self) -> Transcript:
        """The state of the session as it is stored now, whoever runs it."""
        return Transcript(await self.app.store.facts(self.ref))

    @property
    def running(self) -> bool:
        """Whether a run is going on in this process."""
        return self._run is not None

    async def _frame(self, session: Session) -> Sequence[Framed]:
        """The frame to store; none when the stored one fits: it is reused byte for byte."""
        stored = session.transcript.frame
        tools = shown(self.tools)
        if stored and [t.name for t in stored.tools] == [t.name for t in tools]:
            return ()
        name, wire = self.model.name, self.model.wire
        if stored:
            return (Framed(system=stored.system, tools=tools, model=name, wire=wire, why="other tools"),)
        made = await layers(self.app, self.env, surface=self.options.surface, extra=self.options.extra)
        return (Framed(system=build(made), tools=tools, model=name, wire=wire),)

    def _make(self, session: Session, model: ModelClient) -> Run:
        settings, options = self.app.loaded.settings, self.options
        limits = Limits(
            max_steps=options.max_steps or settings.agent.max_steps,
            seconds=settings.budget.run.seconds,
            loop_guard=settings.agent.loop_guard,
        )
        run_usd = options.budget_usd if options.budget_usd is not None else settings.budget.run.usd
        budget = RunBudget(
            self.app.ledger,
            who=self.ref.id,
            run=Allowance(usd=run_usd, tokens=settings.budget.run.tokens),
            day=Allowance(usd=settings.budget.day.usd, tokens=settings.budget.day.tokens),
        )
        waits = settings.approvals.unattended == "wait"
        desk = Desk(session, attended=lambda: options.attended or waits, timeout=settings.approvals.timeout)
        shared = Surroundings(
            env=self.env,
            processes=self._processes,
            store=self.app.store,
            session=session,
            budget=budget,
            approvals=desk,
            group=self.app.group,
            emit=self.hub.emit,
            redact=self.app.redact,
            state=self._state,
        )
        watch = LoopWatch()
        yolo = options.yolo or settings.approvals.mode == "off"
        guards = [ApprovalGuard(desk, yolo=yolo, granted=self._grants)]
        over = time.monotonic() + limits.seconds
        agent = Agent(
            model=Budgeted(model, budget, estimate=_estimate(session)),
            dispatch=Dispatch(self.tools, guards=guards, shared=shared, watch=watch if limits.loop_guard else None),
            compactor=Compactor(window=lambda: model.can.context, threshold=settings.compaction.threshold),
            limits=limits,
            watch=watch,
            late=lambda: time.monotonic() > over,
        )
        return Run(agent, session, desk, emit=self.hub.emit, surface=options.surface, pid=os.getpid())


@asynccontextmanager
async def open_conversation(app: Melete, options: Options) -> AsyncGenerator[Conversation]:
    """Open a session, a new one unless `options` names one; raises SessionNotFoundError, NoModelError, ConfigError."""
    async with AsyncExitStack() as stack:
        model = app.open_model()
        stack.push_async_callback(model.aclose)
        ref = await find_session(app, options)
        cwd = options.cwd or (await _folder_of(app, ref) if ref else "")
        env_name = options.env or app.loaded.settings.env.default
        add_installed(app.registry, "environments", [env_name])
        opener: Opener = app.registry.get("environments", env_name)
        env = _opened(opener, cwd, app.loaded.environ)
        stack.push_async_callback(env.aclose)
        tools = await open_tools(app, stack, only=options.toolsets)
        if ref is None:  # last of what can fail: a mistake leaves no empty session behind
            ref = await app.store.create(Opened(owner=options.owner, source=options.surface, cwd=env.cwd))
        processes = _processes.load()(env, spawn=app.group.create_task, clock=app.clock)
        stack.push_async_callback(processes.aclose)
        conversation = Conversation(app, options, ref, env=env, processes=processes)
        conversation.tools = tools
        conversation.model = model
        stack.push_async_callback(conversation.close_models)
        stack.callback(conversation.hub.close)
        yield conversation


def _opened(opener: Opener, cwd: str, variables: Mapping[str, str]) -> Environment:
    """The environment; raises UsageError for a working folder that is gone, or whose name no text can hold."""
    try:
        env = opener(cwd, variables=variables)
        env.cwd.encode()
    except FileNotFoundError as error:
        raise UsageError("the folder in which this was started is gone", next="go to another, or give --cwd") from error
    except UnicodeEncodeError as error:
        raise UsageError("the name of the working folder is not UTF-8", next="rename it, or give --cwd") from error
    return env


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


async def _folder_of(app: Melete, ref: SessionRef) -> str:
    """Where the session worked; empty when that folder is gone, so that it goes on where the person is now."""
    opened = Transcript(await app.store.facts(ref)).opened
    return opened.cwd if opened and Path(opened.cwd).is_dir() else ""


async def send(app: Melete, ref: SessionRef, message: InboxMessage, *, wait: float = 5.0) -> Receipt:
    """Put a message into a session's inbox, whichever process runs it, and say what became of it."""
    return await app.store.send(ref, message, wait=wait)


def inbox_message(app: Melete, kind: Kind, *, text: str = "", question: str = "", surface: str = "cli") -> InboxMessage:
    """A message for a session: `steer`, `queue`, `answer` (to `question`) or `cancel`."""
    by = Origin(kind="person", surface=surface)
    return InboxMessage(id=uuid4().hex, kind=kind, text=text, question=question, by=by, at=app.clock.now())


def prompt_message(text: str, images: Sequence[Path] = (), *, surface: str = "cli") -> Message:
    """A prompt with pictures; raises UsageError for a file that is none."""
    parts: list[Part] = [Text(text=text)] if text else []
    for path in images:
        media = IMAGES.get(path.suffix.lower())
        if media is None:
            raise UsageError(f"{path} is not a picture that models read", next=f"use one of {', '.join(IMAGES)}")
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"{path} is no file", next="check the path")
            if status.st_size > LARGEST_IMAGE:
                raise UsageError(f"{path} is larger than {LARGEST_IMAGE // 1_000_000} MB", next="make it smaller")
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}", next="check the path") from error
        parts.append(Image(media_type=media, data=b64encode(data).decode()))
    return Message(role="user", parts=tuple(parts), by=Origin(kind="person", surface=surface))


def exit_code(ended: RunEnded) -> int:
    """The status of a command whose run ended so: 0 answered, 1 failed, 3 a limit, 130 cancelled."""
    if ended.stop == Stop.DONE:
        return 0
    if ended.stop == Stop.CANCELLED:
        return 130
    return 3 if ended.stop in Stop.LIMITS else 1


def _estimate(session: Session) -> Callable[[ModelRequest], int]:
    """Tokens of the next prompt: what the provider counted last, or characters / 4 before the first reply."""

    def estimate(request: ModelRequest) -> int:
        known = session.transcript.last_usage.total
        return known or len(msgspec.json.encode((request.system, request.tools, request.messages))) // 4

    return estimate
