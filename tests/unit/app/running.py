"""Runs in one process without a server: the real application, warm conversations, and a scripted model."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.talking import environ

from melete import load, user
from melete.app.opening import Options
from melete.app.runs import Going, Runs, Wanted
from melete.app.warm import Warm
from melete.app.wire import Melete, open_melete
from melete.core.event import Event
from melete.testing import ScriptedModel

OPTIONS: dict[str, Any] = {"surface": "api", "attended": True, "shares": True}
PATIENCE = 30.0


class Place:
    """An application that runs."""

    def __init__(self, app: Melete, runs: Runs) -> None:
        self.app = app
        self.runs = runs
        self.warm = runs.warm

    async def start(self, prompt: str, how: Wanted | None = None, **options: Any) -> Going:
        """Begin a run."""
        return await self.runs.start(user(prompt), Options(**OPTIONS, **options), how=how)

    async def said(self, prompt: str, **options: Any) -> Going:
        """A run that has ended, its conversation given back."""
        going = await self.start(prompt, **options)
        await going.ended()
        await until(lambda: self.runs.find(going.run) is None)
        return going


@asynccontextmanager
async def place(model: ScriptedModel, *, most: int = 100, kept: int = 8, **settings: Any) -> AsyncGenerator[Place]:
    """The application of the test's home, at most `most` runs at a time and `kept` idle conversations."""
    async with asyncio.timeout(PATIENCE), open_melete(load(settings, environ=environ(model))) as app:
        warm = Warm(app, most=kept, seconds=1000.0)
        try:
            yield Place(app, Runs(app, most=most, warm=warm))
        finally:
            await warm.aclose()


async def until(there: Callable[[], object]) -> None:
    """Let others run until something is true."""
    while not there():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.001)


async def read(events: AsyncGenerator[Event | None]) -> list[Event]:
    """Events to their end."""
    return [event async for event in events if event is not None]
