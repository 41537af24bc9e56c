"""What a running call is handed: `ToolContext` for one call of one session. Layer 2."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from melete.agent import results
from melete.core.event import Delta, Question, ToolProgress
from melete.core.message import Taint, ToolCall
from melete.core.policy import Budget, Decision
from melete.core.ports import Approvals, Environment, Memory, Processes, SkillLibrary
from melete.core.session import Session, Store
from melete.core.tool import Tool

log = logging.getLogger("melete.tools")
Nested = Callable[["CallContext", str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@dataclass(kw_only=True)
class Surroundings:
    """What all calls of a session share."""

    env: Environment
    processes: Processes
    store: Store
    session: Session
    budget: Budget
    approvals: Approvals
    group: asyncio.TaskGroup
    emit: Callable[[Delta | ToolProgress], None]
    redact: Callable[[str], str]
    skills: SkillLibrary | None = None
    memory: Memory | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    state: dict[str, Any] = field(default_factory=dict[str, Any])


class CallContext:
    """The ToolContext of one call; `parent` is the context of the call that made it, where a tool did."""

    def __init__(
        self, shared: Surroundings, call: ToolCall, *, tool: Tool, arguments: Any, nested: Nested,
        parent: "CallContext | None" = None,
    ) -> None:  # fmt: skip
        self._shared = shared
        self._nested = nested
        self._parent = parent
        self.tool = tool
        self.arguments = arguments
        self.decision: Decision | None = None
        self.env = shared.env
        self.processes = shared.processes
        self.store = shared.store
        self.session = shared.session
        self.budget = shared.budget
        self.skills = shared.skills
        self.memory = shared.memory
        self.tools = shared.tools
        self.state = shared.state
        self.call_id = call.id
        self._deadlines: dict[asyncio.Timeout, float] = {}
        self.late = False
        self._open_questions = 0
        self.heard: dict[str, Taint] = {}
        """Untrusted text that calls inside this one have brought, by their tools."""
        self.unseen = 0
        """Pictures that such calls have opened: code gets none."""

    async def ask(self, question: Question) -> str | None:
        """Ask the person; the deadline stands still meanwhile, and so does that of every call round this one."""
        with self._standing_still():
            return await self._shared.approvals.ask(question)

    @contextmanager
    def _standing_still(self) -> Generator[None]:
        with self._parent._standing_still() if self._parent else nullcontext():
            self._stop_timer()
            try:
                yield
            finally:
                self._start_timer()

    def _stop_timer(self) -> None:
        self._open_questions += 1
        if self._open_questions == 1:
            now = asyncio.get_running_loop().time()
            for timer in self._running():
                self._deadlines[timer] = (timer.when() or 0.0) - now
                timer.reschedule(None)

    def _start_timer(self) -> None:
        self._open_questions -= 1
        if self._open_questions == 0:
            now = asyncio.get_running_loop().time()
            for timer in self._running():
                timer.reschedule(now + self._deadlines[timer])

    def _running(self) -> list[asyncio.Timeout]:
        return [timer for timer in self._deadlines if not timer.expired()]

    def say(self, progress: str) -> None:
        """Show progress, secrets redacted."""
        self._shared.emit(ToolProgress(call=self.call_id, text=self._shared.redact(progress)))

    async def spill(self, name: str, text: str) -> str:
        """Keep a long text beside the log, secrets redacted."""
        clean = await results.aside(lambda: self._shared.redact(text), len(text))
        return await self.store.spill(self.session.ref, name, clean)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run another tool through the same door."""
        return await self._nested(self, name, arguments)

    def spawn(self, task: Coroutine[Any, Any, None]) -> None:
        """Run something beside the call, owned by the run."""
        self._shared.group.create_task(_logged(task, self.tool.name))

    async def within(self, seconds: float, work: Awaitable[Any]) -> Any:
        """Await `work` at most `seconds`, questions not counted; raises TimeoutError, and says in `late` that it was this."""
        timer = asyncio.timeout(None if self._open_questions else seconds)
        try:
            async with timer:
                self._deadlines[timer] = seconds
                return await work
        finally:
            self.late = timer.expired()
            self._deadlines.pop(timer, None)  # what the call left running has no deadline to stop


async def _logged(task: Coroutine[Any, Any, None], tool: str) -> None:
    try:
        await task
    except Exception:
        log.exception("what %s left running failed", tool)  # nobody waits for it: it must not end what goes on
