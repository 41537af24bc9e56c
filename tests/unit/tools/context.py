"""A real context for tools: the machine's own environment in a temporary folder, and the store's twin in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from melete.core.environment import Place
from melete.core.event import Opened, Question
from melete.core.places import SandboxOptions
from melete.core.policy import Budget, Decision
from melete.core.ports import Environment, Memory, Processes, SkillLibrary
from melete.core.session import Session, Store
from melete.core.tool import Output, Tool, ToolContext
from melete.environments.local import LocalEnvironment
from melete.environments.processes import Background
from melete.environments.sandbox import Sandbox
from melete.store import open_store
from melete.store.memory import MemoryStore
from melete.testing.clock import ManualClock
from melete.tools.todo import todo

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Context:
    """What a running call may use, in a test."""

    def __init__(self, env: Environment, processes: Processes, store: Store, session: Session) -> None:
        self.env = env
        self.processes = processes
        self.store = store
        self.session = session
        self.skills: SkillLibrary | None = None
        self.memory: Memory | None = None
        self.call_id = "call-1"
        self.tool: Tool = todo
        self.tools: Mapping[str, Tool] = {}
        self.arguments: Any = None
        self.decision: Decision | None = None
        self.state: dict[str, Any] = {}
        self.asked: list[Question] = []
        self.answers: list[str | None] = []

    @property
    def budget(self) -> Budget:
        raise NotImplementedError("no tool here spends")

    async def ask(self, question: Question) -> str | None:
        self.asked.append(question)
        return self.answers.pop(0)

    def say(self, progress: str) -> None:
        raise NotImplementedError(f"no tool here says {progress}")

    async def spill(self, name: str, text: str) -> str:
        return await self.store.spill(self.session.ref, name, text)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        raise NotImplementedError(f"no tool here calls {name} with {arguments}")

    async def within(self, seconds: float, work: Awaitable[Any]) -> Any:
        async with asyncio.timeout(seconds):
            return await work

    def spawn(self, task: Coroutine[Any, Any, None]) -> None:
        task.close()
        raise NotImplementedError("no tool here spawns")


@asynccontextmanager
async def context(
    folder: Path,
    *,
    path: str = PATH,
    owner: str = "me",
    on_files: bool = False,
    where: str = "local",
    more: Mapping[str, str] | None = None,
) -> AsyncIterator[Context]:
    """A context whose processes have ended when the block ends; its sessions are in memory, or `on_files` below the folder.

    Commands run on this machine, or behind walls where `where` is "sandbox", and see the variables `more`.
    """
    clock = ManualClock(datetime(2026, 1, 1, 12, tzinfo=UTC), step=0.001)
    variables = {"PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8", **(more or {})}
    env = (
        Sandbox(Place(cwd=str(folder), variables=variables, options=SandboxOptions(network="off"), key=token_hex(6)))
        if where == "sandbox"
        else LocalEnvironment(Place(cwd=str(folder), variables=variables))
    )
    store: Store = open_store(folder / ".state", clock=clock) if on_files else MemoryStore(clock=clock)
    ref = await store.create(Opened(cwd=str(folder), owner=owner))
    async with aclosing(store), asyncio.TaskGroup() as group, store.claim(ref) as session:
        processes = Background(env, spawn=group.create_task, clock=clock)
        ctx = Context(env, processes, store, session)
        checked: ToolContext = ctx
        try:
            assert checked.env is env
            yield ctx
        finally:
            await processes.aclose()
            await env.aclose()


async def call(tool: Tool, ctx: Context, /, **arguments: Any) -> dict[str, Any]:
    """Run a tool as dispatch does: arguments validated and coerced from JSON, the result as the model gets it."""
    return dict((await output(tool, ctx, **arguments)).fields)


async def output(tool: Tool, ctx: Context, /, **arguments: Any) -> Output:
    ctx.tool = tool
    ctx.arguments = values = msgspec.json.decode(msgspec.json.encode(arguments), type=tool.arguments)
    result = await tool.run(ctx, values)
    shaped = result if isinstance(result, Output) else Output(fields=result)
    msgspec.json.encode(shaped.fields)  # whatever a tool says must be valid JSON
    return shaped


def within(folder: Path, test: Callable[[Context], Awaitable[None]], **given: Any) -> None:
    """Run an async test with a context of its own."""

    async def main() -> None:
        problem: Exception | None = None
        async with context(folder, **given) as ctx:
            try:
                await test(ctx)
            except Exception as error:  # noqa: BLE001 - raised again outside of the group, which would wrap it
                problem = error
        if problem is not None:
            raise problem

    asyncio.run(main())


def names(tools: Sequence[Tool]) -> list[str]:
    return [tool.name for tool in tools]
