"""A job that fails, hangs, loses its folder, its key or its place on the disk has a row that says what happened."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from melete.app import job_file, job_runner
from melete.app.key_file import KeyFile
from melete.core.errors import ConfigError, UsageError
from melete.core.event import RunEnded
from melete.core.session import SessionRef
from melete.testing import Call, Fault, ScriptedModel
from tests.story.jobs_at_work import START, at_work, eventually


def said(log: pytest.LogCaptureFixture, text: str) -> Callable[[], Awaitable[bool]]:
    """Whether it stands in the log, asked later."""

    async def stands() -> bool:
        return text in log.text

    return stands


def test_a_run_that_fails(own_home: Path) -> None:
    asyncio.run(fails())


async def fails() -> None:
    with ScriptedModel([Fault("unauthorized"), "Better."]) as model:
        async with at_work(model) as works:
            job = await works.job()
            works.clock.advance(3600)
            (row,) = await works.ended(job)
            assert row.status == "failed"
            assert row.why.startswith("failed: ")
            stands = await works.jobs.store.get(job.id)
            assert (stands.state, stands.last_status, stands.last_error) == ("scheduled", "failed", row.why)
            assert "- status: failed" in works.output(row)
            works.clock.advance(3600)
            await works.ended(job, 2)
            stands = await works.jobs.store.get(job.id)
            assert (stands.last_status, stands.last_error) == ("ran", "")


def test_a_limit_that_is_reached(own_home: Path) -> None:
    asyncio.run(limited())


async def limited() -> None:
    with ScriptedModel([Call("terminal", {"command": "true"}), "That is all I got."]) as model:
        async with at_work(model) as works:
            job = await works.job("30m", max_steps=1)
            works.clock.advance(1800)
            (row,) = await works.ended(job)
            assert (row.status, row.why) == ("failed", "out_of_steps")
            assert "That is all I got." in works.output(row)
            assert (await works.jobs.store.get(job.id)).state == "failed"


def test_a_run_of_which_nothing_is_heard_is_cancelled(own_home: Path) -> None:
    asyncio.run(silent())


async def silent() -> None:
    with ScriptedModel([Fault("stall", seconds=600.0)]) as model:
        async with at_work(model) as works:
            job = await works.job(timeout=0.2)
            works.clock.advance(3600)
            (row,) = await works.ended(job)
            assert (row.status, row.why) == ("failed", "nothing was heard of it for 0.2 seconds")
            facts = await works.app.store.facts(SessionRef(id=row.session))
            assert isinstance(facts[-1], RunEnded)
            assert facts[-1].stop == "cancelled"


def test_a_run_that_makes_itself_heard_goes_on(own_home: Path) -> None:
    asyncio.run(slow())


async def slow() -> None:
    with ScriptedModel([Fault("slow", seconds=0.05)]) as model:
        async with at_work(model) as works:
            job = await works.job(timeout=20)
            works.clock.advance(3600)
            await works.until(job, lambda rows: bool(rows and rows[0].session))
            works.clock.advance(1700)  # the wall clock does not count
            assert [row.status for row in await works.ended(job)] == ["ran"]


def test_a_folder_that_is_gone(own_home: Path, tmp_path: Path) -> None:
    asyncio.run(folder_gone(tmp_path / "project"))


async def folder_gone(folder: Path) -> None:
    folder.mkdir()
    with ScriptedModel(["In the folder."]) as model:
        async with at_work(model) as works:
            job = await works.job(cwd=str(folder))
            works.clock.advance(3600)
            assert [row.status for row in await works.ended(job)] == ["ran"]
            folder.rmdir()
            works.clock.advance(3600)
            row = (await works.ended(job, 2))[-1]
            assert (row.status, row.session, row.run) == ("failed", "", "")
            assert str(folder) in row.why
            with pytest.raises(UsageError, match="no folder"):
                await works.jobs.run_now(job.id)
            assert len(await works.ended(job, 3)) == 3


def test_a_toolset_that_is_not_there_is_refused_when_the_job_is_made(own_home: Path) -> None:
    asyncio.run(not_there())


async def not_there() -> None:
    with ScriptedModel() as model:
        async with at_work(model, ticks=False) as works:
            with pytest.raises(ConfigError, match="nails"):
                await works.job(toolsets=("nails",))
            job = await works.job()
            with pytest.raises(ConfigError, match="nails"):
                await works.jobs.store.change(job.id, {"toolsets": ["nails"]})
            assert await works.jobs.store.list() == [job]


@pytest.mark.parametrize("name", ["nobody/knows", "anthropic/"])
def test_a_model_that_cannot_be_asked_is_refused_when_the_job_is_made(own_home: Path, name: str) -> None:
    asyncio.run(no_model(name))


async def no_model(name: str) -> None:
    with ScriptedModel() as model:
        providers = {"box": {"base_url": model.base_url}}
        async with at_work(
            model, ticks=False, settings={"model.base_url": "", "model.name": "box/any", "providers": providers}
        ) as works:
            with pytest.raises(ConfigError):
                await works.job(model=name)
            assert (await works.job(model="box/other")).model == "box/other"


def test_a_job_that_is_removed_while_it_runs_is_cancelled(own_home: Path) -> None:
    asyncio.run(removed())


async def removed() -> None:
    with ScriptedModel([Fault("stall", seconds=600.0)]) as model:
        async with at_work(model) as works:
            job = await works.job()
            works.clock.advance(3600)
            rows = await works.until(job, lambda rows: bool(rows and rows[0].session))
            await works.jobs.store.remove(job.id)
            await works.jobs.idle()
            row = await works.jobs.store.known(rows[0].id)
            assert row is not None
            assert (row.status, row.why) == ("cancelled", "the job was removed")


def test_jobs_of_a_key_that_was_taken_away_do_not_run(own_home: Path) -> None:
    asyncio.run(taken_away())


async def taken_away() -> None:
    with ScriptedModel(["Once."]) as model:
        async with at_work(model) as works:
            owner = works.key("ci")
            job, other = await works.job(owner=owner), await works.job(owner=works.key("talk", scope="chat"))
            works.clock.advance(3600)
            assert [row.status for row in await works.ended(job)] == ["ran"]
            KeyFile(works.app.loaded.home).remove("ci")
            works.clock.advance(3600)
            for one, who in ((job, owner), (other, "key:talk")):
                paused = await works.standing(one, lambda job: job.state == "paused")
                assert paused.paused_reason == f"{who} may not run jobs any more"
    assert len(model.requests) == 1


def test_an_end_that_cannot_be_stored_is_stored_as_soon_as_it_can(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(job_runner, "RETRY", 0.02)
    monkeypatch.setattr(job_file, "LOCK_SECONDS", 0.05)
    asyncio.run(locked_out(caplog))


async def locked_out(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedModel([Fault("slow", seconds=0.05)]) as model:
        async with at_work(model) as works:
            job = await works.job()
            works.clock.advance(3600)
            await works.until(job, lambda rows: bool(rows and rows[0].session))
            with works.jobs.store.file.locked():  # as a process that hangs would
                await eventually(said(caplog, "cannot be stored"))
                assert (await works.jobs.store.get(job.id)).state == "running"
            assert [row.status for row in await works.ended(job)] == ["ran"]


def put(path: Path, data: bytes) -> None:
    """Replace a file at once."""
    path.with_name("new").write_bytes(data)
    path.with_name("new").rename(path)


def test_a_damaged_file_stops_the_jobs_until_it_is_mended(own_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(damaged(caplog))


async def damaged(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedModel(["Mended."]) as model:
        async with at_work(model) as works:
            job = await works.job()
            path = works.jobs.store.file.path
            whole = path.read_bytes()
            put(path, whole[:-30])
            works.clock.advance(3600)
            await eventually(said(caplog, "cannot be read"))
            assert path.read_bytes() == whole[:-30]
            put(path, whole)
            assert [row.status for row in await works.ended(job)] == ["ran"]
    assert caplog.text.count("jobs do not run here") == 1


def test_a_clock_that_jumps_ahead_and_back_again_costs_one_row(own_home: Path) -> None:
    asyncio.run(jumps())


async def jumps() -> None:
    with ScriptedModel(["One.", "Two."]) as model:
        async with at_work(model) as works:
            job = await works.job("every 1h", catch_up=0)
            works.clock.advance(86_400 * 30 + 1800)
            rows = await works.until(job, bool)
            assert sum(row.count for row in rows) == 720
            await works.standing(job, lambda job: job.settled_until > START)
            works.clock.advance(-86_400 * 30)
            works.jobs.changed.set()
            await works.standing(job, lambda job: job.settled_until <= works.clock.now())
            stands = await works.jobs.store.get(job.id)
            assert stands.next_run_at is not None
            works.clock.advance((stands.next_run_at - works.clock.now()).total_seconds())
            rows = await works.until(job, lambda rows: any(row.status == "ran" for row in rows))
            assert [row.due for row in rows if row.status == "ran"] == [stands.next_run_at]


def test_the_end_of_the_server_interrupts_what_runs(own_home: Path) -> None:
    asyncio.run(server_ends())


async def server_ends() -> None:
    with ScriptedModel([Fault("stall", seconds=600.0), "Again."]) as model:
        async with at_work(model) as works:
            job = await works.job(interrupted="repeat")
            works.clock.advance(3600)
            await works.until(job, lambda rows: bool(rows and rows[0].session))
        assert [(row.status, row.why) for row in await works.rows(job)] == [("interrupted", "the server stopped")]
        async with at_work(model) as works:
            works.clock.advance(3700)
            rows = await works.ended(job, 2)
            assert [(row.status, row.how) for row in rows] == [("interrupted", "schedule"), ("ran", "again")]
            assert (await works.jobs.store.get(job.id)).repeat.completed == 1
