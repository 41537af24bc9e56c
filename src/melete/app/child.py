"""A child: a conversation that has less than its parent. Part of the composition root.

It has a session, an environment session, a step budget and a share of the money of its own; of its parent it has the tools, as
far as they were asked for, the rules, and the taint of what its goal was made from. Memory, context files and questions to a
person it has not.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, cast

from msgspec import Struct, structs

from melete.agent.approvals import ONCE, Desk
from melete.agent.brief import brief
from melete.agent.budget import RunBudget
from melete.agent.checkpointing import Turn
from melete.agent.delegate import delegating
from melete.agent.run import Start, title_of
from melete.app.background import Waking, open_processes
from melete.app.child_copy import WORKTREE, Copy, Left, Moved, open_copy
from melete.app.children import Children
from melete.app.opening import Options
from melete.app.places import key_of, open_place
from melete.app.service import Conversation, How
from melete.app.skills import Skills
from melete.core.delegation import BLOCKED, DELEGATE, SUBAGENT, Outcome, Rules, Status, Task
from melete.core.errors import EnvironmentFailure, MeleteError, SessionNotFoundError
from melete.core.event import Answered, Asked, Opened, Question, RunEnded
from melete.core.message import Message, Origin, Taint, Text, Thinking, ToolCall
from melete.core.model import ModelClient
from melete.core.plugin import Lazy
from melete.core.policy import Limits
from melete.core.ports import Environment, Memory
from melete.core.session import Session, SessionRef
from melete.core.tool import Tool, ToolError
from melete.core.transcript import Transcript
from melete.security.taint import UNTRUSTED, worst

log = logging.getLogger("melete.delegation")
_status_of: Lazy[Callable[[RunEnded], Status]] = Lazy("melete.app.child_report:status_of")
_error_of: Lazy[Callable[[RunEnded], str]] = Lazy("melete.app.child_report:error_of")
RUNTIME = Origin(kind="runtime", who="delegation")
MCP = "mcp"
"""How the names of toolsets begin that MCP servers bring."""
OWN = frozenset({"local", "sandbox"})
"""Environments of which a child has an instance of its own; of others, which take long to begin, it uses the parent's."""
TREE, READ = "files.tree", "files.read"
"""Keys of `ToolContext.state`, as tools/known.py has them: locks that agents of one tree share, and what a model has read."""
MOST_STALE = 200
BUSY = "the child {} is at work: nothing was begun. Wait for its report, then resume it"
_program: "Lazy[type[Child]]" = Lazy("melete.app.child_program:ProgramChild")
_program_model: "Lazy[Callable[..., ModelClient]]" = Lazy("melete.models.program:ProgramModel")
Ask = Callable[[Question], Awaitable[str | None]]


class Order(Struct, frozen=True, kw_only=True):
    """What a child is made from: parent and task, the child's own rules, its account and model, and who is asked.

    `over` is when the parent's time is up, by the monotonic clock, `turn` that with which its changes are taken back,
    and `taint` what the task was made from. With `argv` the child is this program, and `model` only stands in its place.
    """

    parent: Conversation
    task: Task
    rules: Rules
    share: RunBudget
    model: ModelClient
    over: float
    turn: Turn
    taint: Taint = "none"
    ask: Ask | None = None
    argv: tuple[str, ...] = ()


class Lent:
    """An environment that another session holds open: everything is passed on but its end."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    async def aclose(self) -> None:
        """It stays open; what was begun in it ends with the processes of this session."""


class ChildDesk(Desk):
    """Who decides about a child's risky calls: nobody, the person whom its parent can ask, or the settings' yes to all."""

    def __init__(self, session: Session, *, ask: Ask | None, yes: bool, goal: str) -> None:
        super().__init__(session, attended=lambda: yes or ask is not None, timeout=0.0)
        self._session_ = session
        self._ask = ask
        self._yes = yes
        self._goal = goal

    async def ask(self, question: Question) -> str | None:
        """The answer, on record in the child's own log; None where nobody gave one."""
        await self._session_.record(Asked(question=question), durable=True)
        if self._yes:
            log.warning("a child's call is allowed by delegation.subagent_auto_approve: %s", question.text)
            answer: str | None = ONCE
            who: Origin | None = RUNTIME
        else:
            asked = structs.replace(question, text=f"child ({title_of(self._goal)}): {question.text}")
            answer, who = await self._ask(asked) if self._ask else None, None
        status = "timeout" if answer is None else "accepted"
        await self._session_.record(Answered(question=question.id, value=answer or "", status=status, by=who))
        return answer


class Child(Conversation):
    """A conversation on behalf of another one."""

    order: Order
    copy: Copy | None = None

    async def hand_over(self, outcome: Outcome, *, others: list[Left]) -> Outcome:
        """Its outcome with what it has left in its copy; all that it has begun is ended first."""
        if self.copy is None:
            return outcome
        await self._processes.aclose()
        await self.env.aclose()
        merge = await self.copy.deliver(self.ref.id, title_of(self.order.task.goal), others=others)
        fields = {name: value for name, value in outcome.fields.items() if name != "files_changed"}
        return structs.replace(outcome, fields={**fields, "merge": merge})

    def budget(self) -> RunBudget:
        """Its share of the parent's account."""
        return self.order.share

    async def _remembered(self, window: int) -> str:
        del window
        return ""

    def _memory(self) -> Memory | None:
        return None

    def _limits(self) -> Limits:
        given = self.app.loaded.settings
        steps = self.options.max_steps or given.delegation.max_iterations
        left = max(1.0, self.order.over - time.monotonic())
        return Limits(max_steps=steps, seconds=left, loop_guard=given.agent.loop_guard)

    def _desk(self, session: Session) -> Desk:
        given = self.app.loaded.settings.delegation
        ask = self.order.ask if given.approvals == "ask" else None
        return ChildDesk(session, ask=ask, yes=given.subagent_auto_approve, goal=self.order.task.goal)

    def _turn(self, start: Start) -> Turn:
        del start
        return self.order.turn

    def _routed(self, prompt: Message | None) -> ModelClient:
        del prompt
        return self.model

    def unsaid(self) -> str:
        """What it had to say when it was stopped and its log does not have."""
        return ""


@asynccontextmanager
async def open_child(order: Order) -> AsyncGenerator[Child]:
    """The child that is ordered, in a new session or, to go on, its old one. Raises ToolError, and what opening a place raises."""
    parent = order.parent
    app, given = parent.app, parent.app.loaded.settings.delegation
    async with AsyncExitStack() as stack:
        before = await _before(order)
        if before:
            stack.enter_context(at_work(parent, before.ref))
            order = _as_before(order, before.opened.about)
        task = order.task
        key = key_of(before.ref if before else None, before.opened.about if before else {})
        copy = await _copy(order, key, before)
        if copy:
            stack.push_async_callback(copy.aclose)
        env = _place(order, key, copy)
        stack.push_async_callback(env.aclose)
        tools, sets = _tools(order)
        options = Options(
            owner=parent.ref.owner,
            surface=SUBAGENT,
            cwd=env.cwd,
            max_steps=given.max_iterations,
            effort="" if order.argv else given.reasoning_effort or parent.options.effort,
            yolo=parent.options.yolo,
            extra="" if before else brief(task, order.rules, folder=env.cwd, copy_of=copy.top if copy else ""),
            waits=True,
            learns=False,
        )
        ref = before.ref if before else await _begun(order, env, key)
        if not before:
            stack.enter_context(at_work(parent, ref))
        waking = Waking(app, ref)
        processes = open_processes(app, ref, env, waking, surface=SUBAGENT)
        stack.push_async_callback(processes.aclose)
        kind = _program.load() if order.argv else Child
        child = kind(app, options, ref, env=env, processes=processes, waking=waking)
        stack.callback(app.close_hub, ref.id)
        child.order, child.sets = order, sets
        child.model = _program_model.load()(order.argv, env) if order.argv else order.model
        child.prefill = parent.prefill
        child.skills = Skills(app, options, env, cwd=parent.skills.cwd)
        child.grants = set(parent.grants)
        if task.role == "orchestrator":
            child.children = Children(app, rules=order.rules, above=parent.children)
            stack.push_async_callback(child.children.aclose)
            await child.children.begin(child)
            tools = [*tools, delegating(child.children)]
        child.tools = tools
        child.skills.among(tools)
        child.skills.state[TREE] = parent.skills.state.setdefault(TREE, {})
        stack.push_async_callback(child.compacting.aclose)
        if copy:
            child.copy, copy.spare = copy, False
        yield child


@contextmanager
def at_work(parent: Conversation, child: SessionRef) -> Generator[None]:
    """The child is at work for its parent until the block ends; raises ToolError where it is already."""
    held = parent.children.held if parent.children else set[str]()
    if child.id in held:
        raise ToolError(BUSY.format(child.id))
    held.add(child.id)
    try:
        yield
    finally:
        held.discard(child.id)


async def stale(parent: Conversation) -> list[str]:
    """The files that the parent has read and that are others by now, at most so many of those it read last."""
    known: dict[str, tuple[int, float]] = parent.skills.state.get(READ, {})
    found: list[str] = []
    for path, before in [*known.items()][-MOST_STALE:]:
        try:
            stat = await parent.env.stat(path)
        except (OSError, EnvironmentFailure):
            continue
        if stat is None or (stat.size, stat.mtime) != before:
            found.append(path)
    return found


def goal_of(order: Order) -> Message:
    """What a child is told first: its goal, tainted as what its parent had in view when it gave it."""
    task = order.task
    text = task.goal or "Go on from where you stopped, and report."
    if task.resume and task.context:
        text = f"{text}\n\n{task.context}"
    return Message(role="user", parts=(Text(text=text, taint=order.taint),), by=RUNTIME)


def taint_of(session: Session) -> Taint:
    """The worst that a conversation has in view, for what is made from it; `none` without any text from outside."""
    found = {
        part.taint
        for message in session.messages
        for part in message.parts
        if not isinstance(part, Thinking | ToolCall) and part.taint in UNTRUSTED
    }
    return worst(found) if found else "none"


async def drive(
    child: Child, order: Order, within: Callable[[float, Awaitable[Any]], Awaitable[Any]]
) -> tuple[Status, str]:
    """Let a child work to its end or that of its time; its status, and why it is no success. A cancellation is one of them."""
    start = Start(surface=SUBAGENT, about={"parent": order.parent.ref.id, **child.options.noted})
    left = order.over - time.monotonic()
    if left <= 0:
        return "timeout", "the time of the run that asked for it was used up before it began (budget.run.seconds)"
    seconds = min(order.rules.timeout, left)
    try:
        ended = await within(seconds, child.run(goal_of(order), How(start=start)))
    except TimeoutError:
        return "timeout", f"it did not end within {seconds:g} s (delegation.child_timeout_seconds){child.unsaid()}"
    except asyncio.CancelledError:
        return "interrupted", f"it was stopped with the run that asked for it{child.unsaid()}"
    except MeleteError as error:
        return "error", str(error)
    return _status_of.load()(ended), _error_of.load()(ended)


class Before(Struct, frozen=True, kw_only=True):
    """The session of a child that goes on."""

    ref: SessionRef
    opened: Opened


async def _before(order: Order) -> Before | None:
    """The child's session of before; raises ToolError for one that is none of this parent's children."""
    if not order.task.resume:
        return None
    app, parent = order.parent.app, order.parent.ref
    try:
        ref = await app.store.find(order.task.resume, owner=parent.owner)
        opened = Transcript(await app.store.facts(ref)).opened
    except SessionNotFoundError as error:
        raise ToolError(f"there is no session {order.task.resume!r} to resume") from error
    if opened is None or opened.parent != parent.id or opened.source != SUBAGENT:
        raise ToolError(f"{order.task.resume!r} is no child of this session: only these can be resumed")
    if await app.store.owned(ref):  # its copy and its record are those of the run that goes on
        raise ToolError(BUSY.format(ref.id))
    return Before(ref=ref, opened=opened)


def _as_before(order: Order, about: Mapping[str, str]) -> Order:
    """The order with the role and the toolsets that the child had, where this call names no others and they are allowed."""
    task, rules = order.task, order.rules
    led = about.get("role") == "orchestrator" and rules.orchestrators and rules.depth < rules.deepest
    toolsets = task.toolsets or tuple(filter(None, about.get("toolsets", "").split(",")))
    return structs.replace(
        order, task=structs.replace(task, role="orchestrator" if led else task.role, toolsets=toolsets)
    )


async def _begun(order: Order, env: Environment, key: str) -> SessionRef:
    parent, task = order.parent, order.task
    about = {"place": key, "goal": task.goal, "role": task.role, "depth": str(order.rules.depth)}
    about |= {"toolsets": ",".join(task.toolsets)} if task.toolsets else {}
    about |= {"isolation": task.isolation} if task.isolation == WORKTREE else {}
    opened = Opened(
        owner=parent.ref.owner,
        source=SUBAGENT,
        cwd=env.cwd,
        parent=parent.ref.id,
        title=title_of(task.goal),
        about=about,
    )
    return await parent.app.store.create(opened)


async def _copy(order: Order, key: str, before: Before | None) -> Copy | None:
    """The copy in which the child works, if it is to have one; one that goes on works where it did. Raises ToolError."""
    wanted = before.opened.about.get("isolation") if before else order.task.isolation
    if wanted != WORKTREE:
        return None
    return await open_copy(order.parent.env, key, session=before.ref.id if before else "")


def _place(order: Order, key: str, copy: Copy | None) -> Environment:
    """Where the child works: in its copy, else in the parent's folder."""
    app, env = order.parent.app, order.parent.env
    own = cast("Environment", Lent(env))
    if env.name in OWN:
        own = open_place(app, env.name, cwd=env.root if isinstance(env, Moved) else env.cwd, key=key)
    if copy:
        return copy.moved(own)
    return Moved(own, cwd=env.cwd, copied=env.copied, over=env.over) if isinstance(env, Moved) else own


def _tools(order: Order) -> tuple[Sequence[Tool], Mapping[str, Sequence[str]]]:
    """The parent's tools, narrowed to the toolsets that were asked for and without what no child has; raises ToolError for none.

    Code that calls tools, and delegation, are made with the parent's own session: a child never gets them.
    """
    parent, wanted = order.parent, order.task.toolsets
    if order.argv:  # a program has its own
        return (), {}
    keeps = order.parent.app.loaded.settings.delegation.inherit_mcp_toolsets
    sets = {
        name: tuple(one for one in names if one not in BLOCKED)
        for name, names in parent.sets.items()
        if not wanted or name in wanted or (keeps and name.startswith(MCP))
    }
    sets = {name: names for name, names in sets.items() if names}
    allowed = {one for names in sets.values() for one in names}
    tools = [tool for tool in parent.tools if tool.name in allowed and tool.name != DELEGATE]
    if not tools:
        there = ", ".join(sorted(name for name, names in parent.sets.items() if set(names) - BLOCKED))
        raise ToolError(
            f"none of the toolsets {', '.join(wanted)} is there for a child: nothing was begun. There are: {there}"
        )
    return tools, sets
