"""What a running call is handed: `ToolContext` for one call of one session. Layer 2."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from melete.core.event import Delta, Question, ToolProgress
from melete.core.message import ToolCall
from melete.core.policy import Budget
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
        self.env = shared.env
        self.processes = shared.processes
        self.store = shared.store
        self.session = shared.session
        self.budget = shared.budget
        self.skills = shared.skills
        self.memory = shared.memory
        self.state = shared.state
        self.call_id = call.id
        self._deadline: asyncio.Timeout | None = None
        self.late = False
        self._open_questions = 0
        self._left = 0.0

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
        if self._open_questions == 1 and self._deadline:
            self._left = (self._deadline.when() or 0.0) - asyncio.get_running_loop().time()
            self._deadline.reschedule(None)

    def _start_timer(self) -> None:
        self._open_questions -= 1
        if self._open_questions == 0 and self._deadline:
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._left)

    def say(self, progress: str) -> None:
        """Show progress, secrets redacted."""
        self._shared.emit(ToolProgress(call=self.call_id, text=self._shared.redact(progress)))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run another tool through the same door."""
        return await self._nested(self, name, arguments)

    def spawn(self, task: Coroutine[Any, Any, None]) -> None:
        """Run something beside the call, owned by the run."""
        self._shared.group.create_task(_logged(task, self.tool.name))

    async def within(self, seconds: float, work: Awaitable[Any]) -> Any:
        """Await `work` at most `seconds`, questions not counted; raises TimeoutError, and says in `late` that it was this."""
        timer = asyncio.timeout(seconds)
        try:
            async with timer as self._deadline:
                return await work
        finally:
            self.late = timer.expired()
            self._deadline = None  # what the call left running has no deadline to stop


async def _logged(task: Coroutine[Any, Any, None], tool: str) -> None:
    try:
        await task
    except Exception:
        log.exception("what %s left running failed", tool)  # nobody waits for it: it must not end what goes on
