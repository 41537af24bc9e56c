"""What a running call is handed: `ToolContext` for one call of one session. Layer 2."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from melete.core.event import Delta, Question, ToolProgress
from melete.core.message import ToolCall
from melete.core.policy import Budget
from melete.core.ports import Approvals, Environment, Memory, Processes, SkillLibrary
from melete.core.session import Session, Store
from melete.core.tool import Tool

Nested = Callable[[ToolCall, str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


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
    """The ToolContext of one call."""

    def __init__(self, shared: Surroundings, call: ToolCall, tool: Tool, *, arguments: Any, nested: Nested) -> None:
        self._shared = shared
        self._call = call
        self._nested = nested
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

    async def ask(self, question: Question) -> str | None:
        """Ask the person; the deadline stands still meanwhile."""
        timer = self._deadline
        when = timer.when() if timer else None
        asked = asyncio.get_running_loop().time()
        if timer:
            timer.reschedule(None)
        try:
            return await self._shared.approvals.ask(question)
        finally:
            if timer and when is not None:
                timer.reschedule(when + asyncio.get_running_loop().time() - asked)

    def say(self, progress: str) -> None:
        """Show progress, secrets redacted."""
        self._shared.emit(ToolProgress(call=self.call_id, text=self._shared.redact(progress)))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run another tool through the same door."""
        return await self._nested(self._call, name, arguments)

    def spawn(self, task: Coroutine[Any, Any, None]) -> None:
        """Run something beside the call, owned by the run."""
        self._shared.group.create_task(task)

    async def within(self, seconds: float, work: Awaitable[Any]) -> Any:
        """Await `work` at most `seconds`, questions not counted; raises TimeoutError."""
        async with asyncio.timeout(seconds) as self._deadline:
            return await work
