"""A job never runs twice at a time, and no more jobs than may; each occurrence that this costs has its reason in the history."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from melete.app.job_runner import JobRunner
from melete.app.jobs import JobBusyError
from melete.app.runs import TooManyRunsError
from melete.app.scheduler import Ticker, make_jobs
from melete.testing import Say, ScriptedModel
from melete.testing.replies import Reply
from tests.story.jobs_at_work import at_work, eventually


class Door:
    """A script that holds the answers back until the door is opened."""

    def __init__(self) -> None:
        self.marks = 0
        self.waiting: Callable[[], None] = lambda: None

    def __call__(self, request: dict[str, Any], number: int) -> Reply:
        self.marks += 1
        self.waiting()
        return Say(text=f"Answer {number}.")


def held(works_until: "asyncio.Event", loop: asyncio.AbstractEventLoop) -> Door:
    """A door that opens when the event of this loop is set; the model's server answers from threads of its own."""
    door = Door()

    async def opened() -> None:
        await works_until.wait()

    door.waiting = lambda: asyncio.run_coroutine_threadsafe(opened(), loop).result(30)
    return door


def active(ticker: Ticker) -> Callable[[], Awaitable[bool]]:
    """Whether it is the one that ticks, asked later."""

    async def ticks() -> bool:
        return ticker.active

    return ticks


def test_what_is_due_while_the_job_still_runs_is_skipped(own_home: Path) -> None:
    asyncio.run(still_running())


async def still_running() -> None:
    opening = asyncio.Event()
    with ScriptedModel(held(opening, asyncio.get_running_loop())) as model:
        async with at_work(model) as works:
            job = await works.job(timeout=0)
            works.clock.advance(3600)
            await works.until(job, lambda rows: len(rows) == 1)
            works.clock.advance(3600)
            rows = await works.until(job, lambda rows: len(rows) == 2)
            assert [row.status for row in rows] == ["started", "skipped"]
            assert "still going on" in rows[1].why
            with pytest.raises(JobBusyError):
                await works.jobs.run_now(job.id)
            opening.set()
            assert [row.status for row in await works.ended(job, 2)] == ["ran", "skipped"]
            works.clock.advance(3600)
            assert [row.status for row in await works.ended(job, 3)] == ["ran", "skipped", "ran"]


def test_where_all_are_to_run_they_run_one_after_the_other(own_home: Path) -> None:
    asyncio.run(one_after_the_other())


async def one_after_the_other() -> None:
    opening = asyncio.Event()
    with ScriptedModel(held(opening, asyncio.get_running_loop())) as model:
        async with at_work(model) as works:
            job = await works.job(misfire="all", catch_up=86_400, timeout=0)
            works.clock.advance(3600)
            await works.until(job, lambda rows: len(rows) == 1)
            works.clock.advance(7200)
            await asyncio.sleep(0.2)
            assert await works.statuses(job) == ["started"]
            opening.set()
            rows = await works.ended(job, 3)
            assert [row.status for row in rows] == ["ran"] * 3
    assert len(model.requests) == 3


def test_no_more_jobs_run_than_may_and_the_others_wait(own_home: Path) -> None:
    asyncio.run(places())


async def places() -> None:
    opening = asyncio.Event()
    with ScriptedModel(held(opening, asyncio.get_running_loop())) as model:
        async with at_work(model, settings={"cron.max_parallel": 2}) as works:
            jobs = [await works.job("30m", name=f"job {n}", timeout=0) for n in range(5)]
            works.clock.advance(1800)
            for job in jobs[:2]:
                await works.until(job, lambda rows: len(rows) == 1)
            await asyncio.sleep(0.2)
            assert [len(await works.rows(job)) for job in jobs] == [1, 1, 0, 0, 0]
            with pytest.raises(TooManyRunsError):
                await works.jobs.run_now(jobs[4].id)
            works.clock.advance(600)  # more than what happens once is caught up within: they were seen in time
            opening.set()
            for job in jobs:
                (row,) = await works.ended(job)
                assert (row.status, row.how) == ("ran", "schedule")


def test_a_second_server_of_the_home_does_not_tick_until_the_first_ends(own_home: Path) -> None:
    asyncio.run(second())


async def second() -> None:
    with ScriptedModel(["One.", "Two."]) as model:
        async with at_work(model) as works:
            await eventually(active(works.ticker))
            other: JobRunner = make_jobs(works.app, works.runs)
            late = Ticker(other, tick=60.0, poll=0.02)
            async with asyncio.TaskGroup() as group:
                group.create_task(late.run())
                job = await works.job()
                works.clock.advance(3600)
                await works.ended(job)
                assert (works.ticker.active, late.active) == (True, False)
                works.ticker.stop()
                await eventually(active(late))
                works.clock.advance(3600)
                assert [row.status for row in await works.ended(job, 2)] == ["ran", "ran"]
                await other.idle()
                late.stop()
    assert len(model.requests) == 2


def test_two_processes_that_run_a_job_at_once_begin_it_once(own_home: Path) -> None:
    asyncio.run(at_once())


async def at_once() -> None:
    opening = asyncio.Event()
    with ScriptedModel(held(opening, asyncio.get_running_loop())) as model:
        async with at_work(model, ticks=False) as works:
            others = [works.jobs, *(make_jobs(works.app, works.runs) for _ in range(4))]
            job = await works.job(timeout=0)
            begun = await asyncio.gather(*(one.run_now(job.id) for one in others), return_exceptions=True)
            assert sum(isinstance(one, JobBusyError) for one in begun) == 4
            opening.set()
            assert [row.status for row in await works.ended(job)] == ["ran"]
            for one in others:
                await one.idle()
    assert len(model.requests) == 1
