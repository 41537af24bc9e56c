"""The jobs of a home: what can be asked for, who sees what, and files that survive whatever is done to them."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from melete.app import job_file, job_history, jobs
from melete.app.job_file import DamagedJobsError
from melete.app.jobs import JobNotFoundError, JobStore
from melete.app.occurrences import Plan
from melete.core.errors import LimitError, StorageError, StoreError, UsageError
from melete.core.job import Job, JobDraft, JobRun, Occurrence, Repeat
from melete.testing import ManualClock

ZONE = ZoneInfo("Europe/Berlin")
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
DRAFT = JobDraft(name="report", prompt="Sum it up.", schedule="every 1h")


def story(folder: Path, act: Callable[[JobStore, ManualClock], Awaitable[None]]) -> None:
    clock = ManualClock(START)
    asyncio.run(act(JobStore(folder / "cron", clock=clock, zone=ZONE), clock))  # type: ignore[arg-type]


def row(job: Job, due: datetime, **fields: Any) -> Occurrence:
    return Occurrence(id=f"{job.id}-{due:%H%M}", job=job.id, due=due, **fields)


def test_a_job_is_made_and_read_by_another_process(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        other = JobStore(tmp_path / "cron", clock=clock, zone=ZONE)
        assert await other.list() == [job]
        assert await other.get(job.id) == job
        assert (job.state, job.next_run_at, job.display) == ("scheduled", START + timedelta(hours=1), "every hour")
        assert (tmp_path / "cron" / "jobs.json").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "cron").stat().st_mode & 0o777 == 0o700

    story(tmp_path, act)


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        assert await store.list() == []
        assert await store.refresh() == []
        with pytest.raises(JobNotFoundError):
            await store.history("none")
        assert not (tmp_path / "cron").exists()

    story(tmp_path, act)


def test_a_job_of_somebody_else_is_as_good_as_none(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT, owner="key:a")
        mine = await store.create(DRAFT)
        assert [one.id for one in await store.list()] == [job.id, mine.id]
        assert [one.id for one in await store.list(owner="key:a")] == [job.id]
        assert await store.list(owner="key:b") == []
        tries = [
            lambda: store.get(job.id, owner="key:b"),
            lambda: store.change(job.id, {"name": "x"}, owner="key:b"),
            lambda: store.pause(job.id, owner="key:b"),
            lambda: store.resume(job.id, owner="key:b"),
            lambda: store.remove(job.id, owner="key:b"),
            lambda: store.history(job.id, owner="key:b"),
            lambda: store.get(mine.id, owner="key:a"),
        ]
        for refused in tries:
            with pytest.raises(JobNotFoundError):
                await refused()
        assert (await store.get(job.id)).name == "report"

    story(tmp_path, act)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"schedule": "now and then"}, "is no schedule"),
        ({"deliver": "telegram"}, "use local"),
        ({"skills": ("cooking",)}, "no skill called 'cooking'"),
        ({"cwd": "some/where"}, "not absolute"),
        ({"name": "  "}, "the name of a job is empty"),
        ({"prompt": "\n"}, "the prompt of a job is empty"),
        ({"schedule": "2025-01-01T10:00"}, "in the past"),
    ],
)
def test_what_cannot_be_is_refused_with_nothing_stored(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        kept = await store.create(DRAFT)
        with pytest.raises(UsageError) as error:
            await store.create(msgspec.structs.replace(DRAFT, **fields))
        assert said in str(error.value)
        with pytest.raises(UsageError):
            await store.change(kept.id, msgspec.to_builtins(fields))
        assert await store.list() == [kept]

    story(tmp_path, act)


@pytest.mark.parametrize(
    "changes",
    [{"timeout": -1}, {"misfire": "often"}, {"repeat": {"times": 0}}, {"id": "x"}, {"owner": "me"}, {"name": None}],
)
def test_a_change_of_the_wrong_kind_names_the_field(tmp_path: Path, changes: dict[str, Any]) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        with pytest.raises(UsageError, match=next(iter(changes))):
            await store.change(job.id, changes)

    story(tmp_path, act)


def test_a_check_of_the_application_is_asked_before_anything_is_stored(tmp_path: Path) -> None:
    async def check(draft: JobDraft) -> None:
        if draft.model:
            raise UsageError(f"no model {draft.model}")

    async def act() -> None:
        store = JobStore(tmp_path, clock=ManualClock(START), zone=ZONE, check=check)
        with pytest.raises(UsageError):
            await store.create(msgspec.structs.replace(DRAFT, model="gpt-0"))
        job = await store.create(DRAFT)
        with pytest.raises(UsageError):
            await store.change(job.id, {"model": "gpt-0"})
        assert await store.list() == [job]

    asyncio.run(act())


def test_a_new_schedule_begins_now_and_other_changes_leave_the_time(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        clock.advance(600)
        renamed = await store.change(job.id, {"name": "other", "schedule": "every 1h", "timeout": 5})
        assert (renamed.name, renamed.next_run_at, renamed.timeout) == ("other", job.next_run_at, 5.0)
        changed = await store.change(job.id, {"schedule": "every 2h"})
        assert changed.next_run_at == START + timedelta(seconds=600, hours=2)

    story(tmp_path, act)


def test_a_pause_counts_for_nothing_and_resuming_goes_on_from_now(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        paused = await store.pause(job.id, reason="holiday")
        assert (paused.state, paused.enabled, paused.paused_at, paused.paused_reason) == (
            "paused", False, START, "holiday",
        )  # fmt: skip
        assert paused.next_run_at is None
        clock.advance(5 * 3600 + 60)
        assert (await store.pause(job.id)).paused_at == START
        resumed = await store.resume(job.id)
        assert (resumed.state, resumed.paused_at, resumed.paused_reason) == ("scheduled", None, "")
        assert (resumed.next_run_at, resumed.settled_until) == (START + timedelta(hours=6), clock.now())

    story(tmp_path, act)


def test_what_has_nothing_left_to_do_cannot_be_resumed(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(msgspec.structs.replace(DRAFT, schedule="30m"))
        await store.pause(job.id)
        clock.advance(7200)
        with pytest.raises(UsageError, match="nothing left to do"):
            await store.resume(job.id)
        again = await store.change(job.id, {"schedule": "30m", "enabled": True})
        assert again.next_run_at == clock.now() + timedelta(minutes=30)

    story(tmp_path, act)


def test_a_beginning_is_stored_once_and_only_for_the_job_that_was_planned_for(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        due = START + timedelta(hours=1)
        plan = Plan(settled_until=due, due=due)
        begun = await store.begin(job, plan, occurrence=row(job, due, run="r1"))
        assert begun is not None
        assert (begun.state, begun.running and begun.running.run) == ("running", "r1")
        assert await store.begin(job, plan, occurrence=row(job, due)) is None
        assert await store.begin(begun, plan, occurrence=row(job, due)) is None
        assert [one.status for one in await store.history(job.id)] == ["started"]
        await store.note(row(job, due, run="r1", session="s1"))
        await store.end(row(job, due, run="r1", session="s1", status="ran"))
        ended = await store.get(job.id)
        assert (ended.state, ended.running, ended.last_status) == ("scheduled", None, "ran")
        assert ended.runs == (JobRun(session="s1", run="r1"),)
        assert ended.repeat.completed == 1
        assert [(one.status, one.session) for one in await store.history(job.id)] == [("ran", "s1")]

    story(tmp_path, act)


class PowerCutError(Exception):
    """The end of everything, in a test."""


def cut(what: object, *_: object) -> None:
    raise PowerCutError


def rows_cut(history: job_history.JobHistory, rows: tuple[Occurrence, ...]) -> None:
    """Half of the first row reaches the disk, and nothing after it."""
    history.path.write_bytes(msgspec.json.encode(rows[0])[:40])
    raise PowerCutError


@pytest.mark.parametrize("crash", [cut, rows_cut])
def test_a_beginning_that_a_crash_cut_off_is_finished_by_whoever_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: Callable[..., None]
) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        due = START + timedelta(hours=2)
        missed = row(job, START + timedelta(hours=1), status="missed")
        with monkeypatch.context() as patched:
            patched.setattr(job_history.JobHistory, "add", crash)
            with pytest.raises(PowerCutError):
                await store.begin(job, Plan(settled_until=due, due=due, rows=(missed,)), occurrence=row(job, due))
        other = JobStore(tmp_path / "cron", clock=clock, zone=ZONE)
        (found,) = await other.refresh()
        assert (found.state, found.settled_until) == ("running", due)
        assert [one.status for one in await other.history(job.id)] == ["started", "missed"]
        size = other.past.path.stat().st_size
        await other.refresh()
        assert other.past.path.stat().st_size == size

    story(tmp_path, act)


@pytest.mark.parametrize("meanwhile", ["paused", "removed", "changed"])
def test_a_job_that_is_another_one_by_now_does_not_begin(tmp_path: Path, meanwhile: str) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        due = START + timedelta(hours=1)
        clock.advance(3700)
        if meanwhile == "removed":
            await store.remove(job.id)
        elif meanwhile == "paused":
            await store.pause(job.id)
        else:
            await store.change(job.id, {"schedule": "every 3h"})
        assert await store.begin(job, Plan(settled_until=due, due=due), occurrence=row(job, due)) is None
        assert await store.known(row(job, due).id) is None

    story(tmp_path, act)


def test_history_is_told_in_pages_and_each_occurrence_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_history, "BLOCK", 100)
    monkeypatch.setattr(job_history, "LARGEST", 3_000)

    async def act(store: JobStore, clock: ManualClock) -> None:
        one, two = await store.create(DRAFT), await store.create(DRAFT)
        dues = [START + timedelta(minutes=n) for n in range(40)]
        with store.file.locked():
            for due in dues:
                store.past.add([row(one, due), row(two, due), row(one, due, status="ran", why="é" * 30)])
        found = await store.history(one.id, limit=1000)
        assert [one_row.due for one_row in found] == dues[::-1]
        assert {one_row.status for one_row in found} == {"ran"}
        pages, before = list[Occurrence](), ""
        while page := await store.history(one.id, limit=7, before=before):
            pages += page
            before = page[-1].id
        assert pages == found
        assert len(await store.history(two.id, limit=1000)) == 40
        assert len(list((tmp_path / "cron").glob("history-*.jsonl"))) > 2
        assert await store.known(row(one, dues[0]).id) == found[-1]

    story(tmp_path, act)


def test_half_a_row_at_the_end_harms_no_other(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        with store.file.locked():
            store.past.add([row(job, START)])
            whole = store.past.path.read_bytes()
            for cut in range(len(whole) + 1):
                store.past.path.write_bytes(whole + whole[:cut])
                store.past.add([row(job, START + timedelta(hours=1))])
                found = {one.due for one in store.past.of(job.id, limit=10)}
                assert found == {START, START + timedelta(hours=1)}

    story(tmp_path, act)


DAMAGE: list[Callable[[bytes], bytes]] = [
    lambda data: data[: len(data) // 2],
    lambda data: b"",
    lambda data: b"\0" * len(data),
    lambda data: data.replace(b'"version": 1', b'"version": 2'),
    lambda data: data.replace(b'"every 1h"', b"7"),
    lambda data: data.replace(b"T12:00:00Z", b"T12:00:00"),
    lambda data: data.replace(b'"jobs": [', b'"jobs": [' + msgspec.json.decode(data)["jobs"][0]["id"].encode()),
    lambda data: b"\xff\xfe" + data,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_never_written_over(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        path = tmp_path / "cron" / "jobs.json"
        damaged = damage(path.read_bytes())
        path.write_bytes(damaged)
        tries: list[Callable[[], Awaitable[Any]]] = [
            store.list,
            store.refresh,
            lambda: store.create(DRAFT),
            lambda: store.remove(job.id),
            lambda: store.begin(job, Plan(settled_until=START)),
        ]
        for refused in tries:
            with pytest.raises(DamagedJobsError) as error:
                await refused()
            assert str(path) in error.value.what
            assert "mend the file" in error.value.next
        assert path.read_bytes() == damaged
        (copy,) = (tmp_path / "cron").glob("jobs.damaged-*.json")
        assert copy.read_bytes() == damaged

    story(tmp_path, act)


def test_a_schedule_that_cannot_be_read_names_its_job(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        await store.create(DRAFT)
        path = tmp_path / "cron" / "jobs.json"
        path.write_bytes(path.read_bytes().replace(b'"every 1h"', b'"every so often"'))
        before = path.read_bytes()
        with pytest.raises(StoreError, match="the job 'report'"):
            await store.refresh()
        assert path.read_bytes() == before

    story(tmp_path, act)


def test_a_home_that_cannot_be_written_says_so_and_keeps_what_it_has(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        (tmp_path / "cron").write_text("in the way")
        with pytest.raises(StorageError):
            await store.create(DRAFT)
        (tmp_path / "cron").unlink()
        job = await store.create(DRAFT)
        (tmp_path / "cron" / "history.jsonl").mkdir()
        due = START + timedelta(hours=1)
        with pytest.raises(StorageError):
            await store.begin(job, Plan(settled_until=due, due=due), occurrence=row(job, due))
        assert await store.get(job.id) == job

    story(tmp_path, act)


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        stores = [JobStore(tmp_path / "cron", clock=clock, zone=ZONE) for _ in range(4)]
        made = await asyncio.gather(*(stores[n % 4].create(DRAFT, owner=f"key:{n % 3}") for n in range(40)))
        await asyncio.gather(*(stores[n % 4].change(job.id, {"name": f"n{n}"}) for n, job in enumerate(made)))
        assert {job.name for job in await store.list()} == {f"n{n}" for n in range(40)}

    story(tmp_path, act)


def test_a_lock_that_is_never_given_back_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_file, "LOCK_SECONDS", 0.05)

    async def act(store: JobStore, clock: ManualClock) -> None:
        await store.create(DRAFT)
        with store.file.locked(), pytest.raises(StorageError, match="locked"):
            await store.create(DRAFT)
        assert len(await store.list()) == 1

    story(tmp_path, act)


def test_there_are_bounds_to_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_JOBS", 3)
    monkeypatch.setattr(jobs, "MOST_OF_A_KEY", 1)
    monkeypatch.setattr(jobs, "LONGEST", 100)

    async def act(store: JobStore, clock: ManualClock) -> None:
        await store.create(DRAFT, owner="key:a")
        with pytest.raises(LimitError, match="1 jobs of this key"):
            await store.create(DRAFT, owner="key:a")
        await store.create(DRAFT, owner="key:b")
        job = await store.create(DRAFT)
        with pytest.raises(LimitError, match="3 jobs"):
            await store.create(DRAFT)
        with pytest.raises(LimitError, match="characters"):
            await store.change(job.id, {"prompt": "x" * 90})
        assert len(await store.list()) == 3

    story(tmp_path, act)


def test_a_job_settled_in_a_far_future_goes_on_when_the_clock_is_right_again(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        far = START + timedelta(days=3650)
        assert await store.begin(job, Plan(settled_until=far))
        (found,) = await store.refresh()
        assert found.next_run_at == START + timedelta(hours=1)
        assert await store.list() == [found]
        before = store.file.state()
        await store.refresh()
        assert store.file.state() == before

    story(tmp_path, act)


def test_another_zone_moves_what_is_to_come(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(msgspec.structs.replace(DRAFT, schedule="0 18 * * *"))
        assert job.next_run_at == datetime(2026, 1, 1, 17, tzinfo=UTC)
        moved = JobStore(tmp_path / "cron", clock=clock, zone=ZoneInfo("Asia/Tokyo"))
        (found,) = await moved.refresh()
        assert found.next_run_at == datetime(2026, 1, 2, 9, tzinfo=UTC)
        assert "Asia/Tokyo" in found.display

    story(tmp_path, act)


def test_a_repeat_that_is_begun_anew_counts_from_nothing(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(msgspec.structs.replace(DRAFT, repeat=Repeat(times=1)))
        due = START + timedelta(hours=1)
        clock.advance(3600)
        assert await store.begin(job, Plan(settled_until=due, due=due), occurrence=row(job, due))
        await store.end(row(job, due, status="ran"))
        assert (await store.get(job.id)).state == "finished"
        clock.advance(86_400)
        again = await store.change(job.id, {"repeat": {"times": 1}})
        assert (again.state, again.next_run_at) == ("scheduled", clock.now() + timedelta(hours=1))

    story(tmp_path, act)


def test_the_output_of_an_occurrence_is_a_file_with_a_head(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(DRAFT)
        path = await store.keep_output(row(job, START, status="ran", session="s1"), job, "All is well.")
        text = (tmp_path / "cron" / path).read_text()
        assert path == f"output/{job.id}/1200.md"
        assert text.startswith("# report\n")
        assert "- session: s1\n" in text
        assert text.endswith("\n\nAll is well.\n")

    story(tmp_path, act)


def test_a_schedule_that_was_changed_by_hand_counts_from_the_next_look(tmp_path: Path) -> None:
    async def act(store: JobStore, clock: ManualClock) -> None:
        job = await store.create(msgspec.structs.replace(DRAFT, schedule="0 20 * * *"))
        await store.refresh()
        path = tmp_path / "cron" / "jobs.json"
        (tmp_path / "new").write_bytes(path.read_bytes().replace(b"0 20 * * *", b"0 14 * * *"))
        (tmp_path / "new").rename(path)
        await store.pause((await store.create(DRAFT)).id)  # what this process writes in between hides nothing
        found = {one.id: one for one in await store.refresh()}
        assert found[job.id].next_run_at == datetime(2026, 1, 1, 13, tzinfo=UTC)

    story(tmp_path, act)
