"""Jobs in the real application: runs, store, files and the model's HTTP are real; the clock is turned by hand."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from melete import load
from melete.app.job_runner import JobRunner
from melete.app.key_file import KeyFile
from melete.app.runs import Runs
from melete.app.scheduler import Ticker, make_jobs
from melete.app.warm import Warm
from melete.app.wire import Melete, open_melete
from melete.core.job import Job, JobDraft, Occurrence
from melete.testing import ManualClock, ScriptedModel
from tests.talking import environ

PATIENCE = 30.0
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def eventually(wanted: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so; fails when it never is."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await wanted():
                return
            await asyncio.sleep(0.01)


@dataclass(kw_only=True)
class AtWork:
    """An application with its jobs, and the clock that they go by."""

    app: Melete
    runs: Runs
    jobs: JobRunner
    clock: ManualClock
    ticker: Ticker

    async def job(self, schedule: str = "every 1h", *, owner: str = "", **fields: Any) -> Job:
        """Make a job."""
        draft = JobDraft(**{"name": "a job", "prompt": "Do it.", **fields}, schedule=schedule)
        return await self.jobs.store.create(draft, owner=owner)

    def key(self, name: str, *, scope: str = "jobs") -> str:
        """Make a key and return the owner of what is done with it."""
        KeyFile(self.app.loaded.home).add(name, scopes=[scope], now=self.clock.now())
        return f"key:{name}"

    async def rows(self, job: Job) -> list[Occurrence]:
        """Its history, the oldest due first."""
        rows = await self.jobs.store.history(job.id, limit=1000)
        return sorted(reversed(rows), key=lambda row: row.due)

    async def statuses(self, job: Job) -> list[str]:
        """What became of its occurrences, the oldest first."""
        return [row.status for row in await self.rows(job)]

    async def until(self, job: Job, wanted: Callable[[list[Occurrence]], bool]) -> list[Occurrence]:
        """Its history once that is as wanted."""
        rows: list[Occurrence] = []

        async def found() -> bool:
            nonlocal rows
            rows = await self.rows(job)
            return wanted(rows)

        await eventually(found)
        return rows

    async def standing(self, job: Job, wanted: Callable[[Job], bool]) -> Job:
        """The job once it stands as wanted."""
        found = job

        async def stands() -> bool:
            nonlocal found
            found = await self.jobs.store.get(job.id)
            return wanted(found)

        await eventually(stands)
        return found

    async def ended(self, job: Job, count: int = 1) -> list[Occurrence]:
        """Its history once so many occurrences have an end, the job itself standing again."""
        rows = await self.until(job, lambda rows: sum(row.status != "started" for row in rows) >= count)
        await self.jobs.idle()
        return rows

    def output(self, row: Occurrence) -> str:
        """The file that an occurrence's answer was put into."""
        return (self.app.loaded.home.cron / row.output).read_text()


@asynccontextmanager
async def at_work(
    model: ScriptedModel, *, settings: Mapping[str, object] | None = None, ticks: bool = True
) -> AsyncGenerator[AtWork]:
    """The application of the test's home, its jobs looked after unless `ticks` is off; brought to an end as a server does."""
    loaded = load({"cron.timezone": "UTC", **(settings or {})}, environ=environ(model))
    async with open_melete(loaded) as app:
        clock = ManualClock(START)
        app.clock = clock
        warm = Warm(app, most=4, seconds=60.0)
        runs = Runs(app, most=100, warm=warm)
        jobs = make_jobs(app, runs)
        found = AtWork(app=app, runs=runs, jobs=jobs, clock=clock, ticker=Ticker(jobs, tick=60.0, poll=0.02))
        async with asyncio.TaskGroup() as group:
            if ticks:
                group.create_task(found.ticker.run())
            try:
                yield found
            finally:
                found.ticker.stop()
                await runs.drain(0.0)
                await jobs.idle()
                await warm.aclose()
