"""The children of one conversation: begun, bounded, watched and reported. Implements `Runner`. Part of the composition root."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import structs

from melete.agent.results import encode
from melete.app.child_settings import command_of
from melete.app.sections_delegation import DelegationSettings
from melete.app.wire import Melete
from melete.core.delegation import Outcome, Rules, Status, Task
from melete.core.errors import ConfigError, MeleteError
from melete.core.event import ChildNow, Delegated, Fact, Reply, Spent, ToolEnded, ToolProgress, ToolStarted
from melete.core.message import Taint, Usage
from melete.core.plugin import Lazy
from melete.core.session import Session, SessionRef
from melete.core.tool import ToolContext, ToolError

if TYPE_CHECKING:
    from melete.agent.budget import RunBudget
    from melete.app import child_background, child_copy, child_report
    from melete.app.child import Child, Order
    from melete.app.service import Conversation
    from melete.core.model import ModelClient

log = logging.getLogger("melete.delegation")
MANY = 10
"""Tasks of one call beyond which a warning about the cost is logged."""
BEAT, IDLE, AT_TOOL = 30.0, 450.0, 1_200.0
"""Seconds between two signs of life, and without any news after which there are none: thinking, and at a tool."""
SOON = 0.1
"""Seconds after which a child waits for its model, so that what its report needs can be made ready."""
SHOWN = 120
DEEPEST = 3
"""Levels of children that there may be, whatever the settings say."""
_open_child: "Lazy[Callable[[Order], AbstractAsyncContextManager[Child]]]" = Lazy("melete.app.child:open_child")
_order: "Lazy[Callable[..., Order]]" = Lazy("melete.app.child:Order")
_drive: "Lazy[Callable[..., Awaitable[tuple[Status, str]]]]" = Lazy("melete.app.child:drive")
_end: "Lazy[Callable[..., child_report.End]]" = Lazy("melete.app.child_report:End")
_outcome_of: "Lazy[Callable[..., Awaitable[Outcome]]]" = Lazy("melete.app.child_report:outcome_of")
_failed: "Lazy[Callable[[Status, str], Outcome]]" = Lazy("melete.app.child_report:failed")
_diagnose: "Lazy[Callable[..., Awaitable[str]]]" = Lazy("melete.app.child_report:diagnose")
_prepare: "Lazy[Callable[[Melete], None]]" = Lazy("melete.app.child_report:prepare")
_settle: "Lazy[Callable[..., Awaitable[int]]]" = Lazy("melete.app.child_report:settle_calls")
_behind: "Lazy[Callable[[Children], child_background.Behind]]" = Lazy("melete.app.child_background:Behind")
_stale: "Lazy[Callable[[Conversation], Awaitable[list[str]]]]" = Lazy("melete.app.child:stale")
_taint: "Lazy[Callable[[Session], Taint]]" = Lazy("melete.app.child:taint_of")
Within = Callable[[float, Awaitable[Any]], Awaitable[Any]]


@dataclass(kw_only=True)
class Row:
    """A child that runs: what is known of it, the call that asked for it, and when something was heard of it."""

    now: ChildNow
    call: str
    began: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)


def rules_of(given: DelegationSettings) -> Rules:
    """What the settings allow an agent that nobody has delegated to."""
    return Rules(
        most=given.max_concurrent_children,
        deepest=min(given.max_spawn_depth, DEEPEST),
        orchestrators=given.orchestrator_enabled and not given.command,
        background=given.background,
        timeout=given.child_timeout_seconds,
        programs=bool(given.command),
        isolation=given.isolation,
    )


class Children:
    """Starts the children of a conversation, at most `rules.most` at a time; `above` are those that its own agent is one of.

    Raises ConfigError for settings of children that do not go together.
    """

    def __init__(self, app: Melete, *, rules: Rules | None = None, above: "Children | None" = None) -> None:
        self.app = app
        self.given = app.loaded.settings.delegation
        self.argv = command_of(app.loaded)
        self.of: Conversation
        self._rules = rules or rules_of(self.given)
        self._above = above
        self._rows: dict[str, Row] = {}
        self.at_work: dict[str, ChildNow] = {}
        """The children that run, and those below them, by their sessions; kept where nobody is above."""
        self.held: set[str] = set()
        """The children that are open here, also those that wait to begin: none is opened twice."""
        self._left: dict[str, list[child_copy.Left]] = {}
        """What the children of a call that work in copies have left."""
        self._gate = asyncio.Semaphore(self._rules.most)
        self._behind: child_background.Behind | None = None

    @property
    def rules(self) -> Rules:
        """What is allowed here."""
        return self._rules

    async def begin(self, conversation: "Conversation") -> None:
        """Belong to this conversation, and go on with what an earlier process has left in the background."""
        self.of = conversation
        conversation.children = self
        try:
            self.app.models.for_children()
        except ConfigError as error:
            self.app.models.problems["children"] = f"the model of children cannot be used: {error}"
        if not self.app.ephemeral and (self.app.loaded.home.state / "children" / conversation.ref.id).is_dir():
            await self.behind.go_on()

    @property
    def behind(self) -> "child_background.Behind":
        """The children in the background."""
        if self._behind is None:
            self._behind = _behind.load()(self)
        return self._behind

    def awaited(self) -> Sequence[str]:
        """The children in the background that have not reported yet, in words."""
        return self._behind.awaited() if self._behind else ()

    async def settle(self, session: Session) -> None:
        """Give delegations that a kill cut off what their children had."""
        if session.transcript.open_calls:
            await _settle.load()(self.app, session, env=self.of.env)

    async def aclose(self) -> None:
        """Stop what works in the background; it is stored, and goes on when the session is open again."""
        if self._behind:
            await self._behind.aclose()

    def shares(self, ctx: ToolContext, tasks: Sequence[Task]) -> "Sequence[RunBudget]":
        """Set aside a part of the run's budget for each of these tasks."""
        del ctx
        if len(tasks) > MANY:
            log.warning("%d children in one call: each sends requests of its own, which cost", len(tasks))
        budget, several = self._work.budget, len(tasks)
        return [budget.share(self.of.ref.id, among=several - number) for number in range(several)]

    async def child(self, ctx: ToolContext, task: Task, *, number: int, share: "RunBudget") -> Outcome:
        """Run a child to its end; what goes wrong with it is in its outcome."""
        work = self._work
        try:
            async with self._gate:
                order = self.order(task, share, ask=ctx.ask)
                return await self.run(order, call=ctx.call_id, number=number, within=ctx.within, session=work.session)
        except asyncio.CancelledError:
            return _failed.load()("interrupted", "it was stopped before it began")
        finally:
            work.budget.release(share)

    async def later(self, ctx: ToolContext, tasks: Sequence[Task]) -> Sequence[str | Outcome]:
        """Begin the children in the background; the id of each one's session, or why it did not begin."""
        shares, begun, budget = self.shares(ctx, tasks), list[str | Outcome](), self._work.budget
        try:
            for task, share in zip(tasks, shares, strict=True):
                try:
                    begun.append(await self.behind.begin(ctx.call_id, self.order(task, share)))
                except (ToolError, MeleteError) as error:
                    budget.release(share)
                    begun.append(_failed.load()("error", self.app.redact(str(error))))
        finally:
            for share in shares[len(begun) :]:
                budget.release(share)
        return begun

    def model(self) -> "ModelClient | None":
        """The model that the settings name for children; raises ToolError where it cannot be used."""
        try:
            return self.app.models.for_children()
        except ConfigError as error:
            raise ToolError(f"the model of children cannot be used: {error}. Nothing was begun") from error

    def order(self, task: Task, share: "RunBudget", *, ask: Any = None) -> "Order":
        """What a child of the run that goes on now is made from."""
        work = self._work
        return _order.load()(
            parent=self.of,
            task=task,
            rules=structs.replace(self._rules, depth=self._rules.depth + 1),
            share=share,
            model=self.model() or work.model,
            over=work.over,
            turn=work.turn,
            taint=_taint.load()(work.session),
            ask=ask,
            argv=self.argv,
        )

    async def run(self, order: "Order", *, call: str, number: int, within: Within, session: Session) -> Outcome:
        """Open the child, let it work within its time, and store how it ended; what goes wrong is in its outcome."""
        began = time.monotonic()
        try:
            async with _open_child.load()(order) as child:
                async with self.watched(child, order, call=call, number=number) as row:
                    await session.record(self.begun(row), durable=True)
                    status, error = await _drive.load()(child, order, within)
                    outcome = await self.outcome(child, status, error=error, seconds=time.monotonic() - began)
                    await session.record(self.ended(row, outcome), durable=True)
                self.remember(order.task, outcome)
                return outcome
        except (ToolError, MeleteError) as error:  # also of the store: what its siblings have is not lost with it
            return _failed.load()("error", self.app.redact(str(error)))
        except Exception as error:
            log.exception("a child could not be run")
            return _failed.load()("error", self.app.redact(f"{type(error).__name__}: {error}"))

    @asynccontextmanager
    async def watched(self, child: "Child", order: "Order", *, call: str, number: int) -> AsyncGenerator[Row]:
        """Say how far the child is, for as long as the block lasts."""
        task = order.task
        now = ChildNow(
            child=child.ref.id,
            parent=self.of.ref.id,
            goal=self.app.redact(task.goal)[:SHOWN] or task.resume,
            task=number,
            role=task.role,
            depth=order.rules.depth,
            model=child.model.name,
        )
        if not self._rows:
            self.app.listeners.append(self._heard)
        row = self._rows[child.ref.id] = Row(now=now, call=call)
        self._tell(row)
        beat = self.app.group.create_task(self._beat(row))
        try:
            yield row
        finally:
            beat.cancel()
            if row.now.status == "running":  # it could not be followed to its end
                row.now = structs.replace(row.now, status="interrupted", tool="")
                self._tell(row)
            self._rows.pop(child.ref.id, None)
            if not self._rows:
                self.app.listeners.remove(self._heard)

    async def outcome(self, child: "Child", status: Status, *, error: str, seconds: float) -> Outcome:
        """What the child brings back, with the files that its parent has to read again."""
        most = min(self.given.max_summary_chars, 90_000 // max(1, self._rules.most))
        end = _end.load()(asked=self.of.ref, status=status, error=error, seconds=seconds, most=most, env=child.env)
        outcome = await _outcome_of.load()(self.app, child.ref, end)
        if child.copy:
            row = self._rows.get(child.ref.id)
            outcome = await child.hand_over(outcome, others=self._left.setdefault(row.call if row else "", []))
        if status in ("timeout", "error", "failed"):
            about = f"child {child.ref.id}: {status}: {error}\nmodel {child.model.name} ({child.model.provider})"
            if path := await _diagnose.load()(self.app, child.ref, about):
                outcome = structs.replace(outcome, fields={**outcome.fields, "diagnostic_path": path})
        notes = [str(outcome.fields.get("note", ""))]
        if old := await _stale.load()(self.of):
            notes.append(f"changed since you read them, so read them again before you rely on them: {', '.join(old)}")
        if not child.order.argv and (none := [one for one in child.order.task.toolsets if one not in child.sets]):
            notes.append(f"toolsets that no child has here: {', '.join(none)}")
        if note := "; ".join(filter(None, notes)):
            outcome = structs.replace(outcome, fields={**outcome.fields, "note": self.app.redact(note)})
        return outcome

    def remember(self, task: Task, outcome: Outcome) -> None:
        """Tell a memory provider that a child has come back."""
        self.of.provided.delegated(task.goal, str(outcome.fields.get("summary") or outcome.status), outcome.session)

    @property
    def _work(self) -> Any:
        work = self.of.work
        if work is None:
            raise ToolError("no run goes on here: nothing was begun")
        return work

    def begun(self, row: Row) -> Delegated:
        """The fact that a child begins, for its parent's log."""
        return self._fact(row, "running")

    def _fact(self, row: Row, status: str, **more: Any) -> Delegated:
        now = row.now
        return Delegated(
            child=now.child, status=status, goal=now.goal, call=row.call, task=now.task, role=now.role, depth=now.depth,
            model=now.model, **more,
        )  # fmt: skip

    def ended(self, row: Row, outcome: Outcome) -> Delegated:
        """The fact that a child has ended, for its parent's log."""
        fields, now = outcome.fields, row.now
        row.now = structs.replace(now, status=outcome.status, tool="", seconds=time.monotonic() - row.began)
        self._tell(row)
        return self._fact(
            row,
            outcome.status,
            summary=str(fields.get("summary") or fields.get("error") or "")[:SHOWN],
            usage=Usage(**fields.get("tokens", {})),
            steps=fields.get("api_calls", 0),
            seconds=fields.get("duration_seconds", 0.0),
            usd=fields.get("cost_usd"),
            entry=encode(fields),
            taint=outcome.taint,
        )

    def _heard(self, ref: SessionRef, fact: Fact) -> None:
        """A fact of some session: one of a child of ours says how far it is."""
        row = self._rows.get(ref.id)
        if row is None:
            return
        now = row.now
        match fact:
            case ToolStarted() if "/" not in fact.call.id:
                now = structs.replace(now, tool=fact.call.name)
            case ToolEnded() if "/" not in fact.result.call:
                now = structs.replace(now, tool="")
            case Reply():
                now = structs.replace(now, steps=now.steps + 1)
            case Spent():
                usd = now.usd if fact.usd is None else (now.usd or 0.0) + fact.usd
                now = structs.replace(now, tokens=now.tokens + fact.usage.total, usd=usd)
            case _:
                return
        row.now, row.heard = now, time.monotonic()
        self._tell(row)

    def _tell(self, row: Row) -> None:
        """Show how far a child is to whoever looks on, also to those who look on from above."""
        row.now = structs.replace(row.now, seconds=round(time.monotonic() - row.began, 1))
        self.passed(row.call, row.now)

    def passed(self, call: str, now: ChildNow) -> None:
        """Show a child, of this conversation or of one below it."""
        doing = now.tool or ("thinking" if now.status == "running" else now.status)
        text = f"{now.goal}: {doing}, {now.steps} steps"
        self.of.hub.emit(ToolProgress(call=call, text=text, child=now))
        if self._above is None:
            self.at_work[now.child] = now
            if now.status != "running":
                del self.at_work[now.child]
        elif row := self._above.row(self.of.ref.id):
            row.heard = time.monotonic()
            self._above.passed(row.call, now)

    def row(self, child: str) -> Row | None:
        """A child that runs."""
        return self._rows.get(child)

    async def _beat(self, row: Row) -> None:
        """A sign of life now and then, for as long as there is news now and then."""
        await asyncio.sleep(SOON)
        _prepare.load()(self.app)
        while True:
            await asyncio.sleep(BEAT)
            if time.monotonic() - row.heard > (AT_TOOL if row.now.tool else IDLE):
                return
            self._tell(row)
