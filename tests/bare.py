"""A run with nothing round it: the loop, real tools' door, a store in memory and whatever model a test gives it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from melete.agent.agent import Agent
from melete.agent.approvals import Desk
from melete.agent.budget import RunBudget
from melete.agent.cachewatch import CacheWatch
from melete.agent.compact import Compactor
from melete.agent.context import Surroundings
from melete.agent.dispatch import Dispatch
from melete.agent.loopwatch import LoopWatch
from melete.agent.run import Run
from melete.core.event import Delta, Fact, Framed, Opened, RunEnded, ToolProgress
from melete.core.message import Message, user
from melete.core.model import ModelClient
from melete.core.policy import Allowance, Limits
from melete.core.ports import Clock
from melete.core.session import Session, SessionRef, Store
from melete.core.tool import Tool
from melete.environments.processes import Background
from melete.store import open_store
from melete.store.memory import MemoryStore
from melete.testing.clock import ManualClock
from melete.testing.environment import MemoryEnvironment

F = TypeVar("F")


class Bare:
    """One session; each `say` is a run of its own with a new Agent, as in the application."""

    def __init__(self, store: Store, ref: SessionRef, group: asyncio.TaskGroup, clock: Clock) -> None:
        self.store = store
        self.ref = ref
        self.session: Session
        self.deltas: list[Delta | ToolProgress] = []
        self._group = group
        self._clock = clock

    async def say(
        self,
        said: Message | str | None,
        model: ModelClient,
        *,
        tools: Sequence[Tool] = (),
        limits: Limits = Limits(loop_guard=False),  # noqa: B008 - a frozen value
        threshold: float = 0.5,
        **fields: Any,
    ) -> RunEnded:
        """Run a prompt to its end; `fields` are those of Agent."""
        async with self.store.claim(self.ref) as session:
            self.session = session
            desk = Desk(session, attended=lambda: False, timeout=1.0)
            env = MemoryEnvironment()
            shared = Surroundings(
                env=env,
                processes=Background(env, spawn=self._group.create_task, clock=self._clock),
                store=self.store,
                session=session,
                budget=RunBudget(None, who="test", run=Allowance(), day=Allowance()),
                approvals=desk,
                group=self._group,
                emit=self.deltas.append,
                redact=lambda text: text,
            )
            agent = Agent(
                model=model,
                dispatch=Dispatch(tools, guards=(), shared=shared),
                compactor=Compactor(window=lambda: model.can.context, threshold=threshold),
                limits=limits,
                watch=LoopWatch(),
                late=lambda: False,
                cache=fields.pop("cache", None) or CacheWatch(),
                **fields,
            )
            run = Run(agent, session, desk, emit=self.deltas.append)
            return await run.execute(user(said) if isinstance(said, str) else said, opening=self._frame(tools))

    async def log(self) -> Sequence[Fact]:
        """All stored facts."""
        return await self.store.facts(self.ref)

    async def facts(self, kind: type[F]) -> list[F]:
        """The stored facts of one kind."""
        return [fact for fact in await self.log() if isinstance(fact, kind)]

    def _frame(self, tools: Sequence[Tool]) -> Sequence[Framed]:
        frame, shown = self.session.transcript.frame, tuple(tool.shown for tool in tools)
        return () if frame and frame.tools == shown else (Framed(system=("Be brief.",), tools=shown),)


@asynccontextmanager
async def bare(clock: Clock | None = None, *, folder: Path | None = None) -> AsyncGenerator[Bare]:
    """An empty session, in memory or, read anew for each run, in a folder."""
    clock = clock or ManualClock(step=0.001)
    store = open_store(folder, clock=clock) if folder else MemoryStore(clock=clock)
    ref = await store.create(Opened())
    async with asyncio.TaskGroup() as group:
        yield Bare(store, ref, group, clock)
    await store.aclose()


def alone(test: Callable[[Bare], Any], clock: Clock | None = None, *, folder: Path | None = None) -> None:
    """Run an async test in a session of its own."""

    async def main() -> None:
        problem: Exception | None = None
        async with bare(clock, folder=folder) as here:
            try:
                await test(here)
            except Exception as error:  # noqa: BLE001 - raised again outside of the group, which would wrap it
                problem = error
        if problem is not None:
            raise problem

    asyncio.run(main())
