"""A process that is killed while jobs run leaves no doubt: what it had begun is reported, and nothing is done twice."""

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from melete.app.job_file import JobFile
from melete.app.job_history import JobHistory
from melete.app.job_states import created
from melete.app.jobs import JobStore
from melete.app.schedule import occurrences, parse
from melete.core.event import RunStarted
from melete.core.job import Job, JobDraft, Occurrence
from melete.store.log import LogReader
from melete.testing import Fault, ManualClock, Say, ScriptedModel
from tests.story.jobs_at_work import START
from tests.talking import environ

ROOT = Path(__file__).resolve().parents[2]
UTC = ZoneInfo("UTC")
PATIENCE = 30.0


@contextmanager
def working(model: ScriptedModel, *, since: float, speed: float) -> Generator["subprocess.Popen[bytes]"]:
    """A process that runs the jobs; killed with the block."""
    process = subprocess.Popen(
        [sys.executable, "-B", "-m", "tests.story.jobs_worker", str(since), str(speed)], cwd=ROOT, env=environ(model)
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def put(cron: Path, job: Job) -> None:
    file = JobFile(cron)
    with file.locked():
        file.write((*file.read(), job))


def until(wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not wanted():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


def rows(cron: Path, job: Job) -> list[Occurrence]:
    """Its history, the oldest first."""
    return list(reversed(JobHistory(cron).of(job.id, limit=100_000)))


def begun(home: Path) -> Counter[str]:
    """How often a run was begun for each occurrence, by the sessions' logs."""
    found: Counter[str] = Counter()
    for path in (home / ".melete" / "state" / "sessions").glob("*.log"):
        reader = LogReader(path)
        found.update(fact.about["occurrence"] for fact in reader.new() if isinstance(fact, RunStarted))
        reader.close()
    return found


@pytest.mark.parametrize("policy", ["report", "repeat"])
def test_a_run_that_was_killed_is_reported_and_repeated_only_where_the_job_says_so(own_home: Path, policy: str) -> None:
    cron = own_home / ".melete" / "cron"
    draft = JobDraft(name="j", prompt="p", schedule="1m", interrupted=policy, timeout=0)  # type: ignore[arg-type]
    put(cron, created(draft, id="j1", owner="", now=START, zone=UTC))
    (job,) = JobFile(cron).read()
    with ScriptedModel([Fault("stall", seconds=600.0), "Done."]) as model:
        since = time.time() - 65
        with working(model, since=since, speed=1.0):
            until(lambda: bool(model.requests) and any(row.session for row in rows(cron, job)))
        assert [row.status for row in rows(cron, job)] == ["started"]
        with working(model, since=since, speed=1.0):
            until(lambda: len(rows(cron, job)) > (policy == "repeat") and rows(cron, job)[-1].status != "started")
            found = rows(cron, job)
        if policy == "report":
            time.sleep(0.3)
    expected = [("interrupted", "schedule"), ("ran", "again")][: 1 + (policy == "repeat")]
    assert [(row.status, row.how) for row in found] == expected
    assert "process that ran it ended" in found[0].why
    assert all(count == 1 for count in begun(own_home).values())
    assert len(model.requests) == len(expected)


def test_processes_killed_at_random_leave_each_occurrence_with_one_row_and_at_most_one_run(own_home: Path) -> None:
    cron, chance = own_home / ".melete" / "cron", random.Random(5)
    ways = [("every 1h", "once", "report"), ("*/30 * * * *", "all", "repeat"), ("every 45m", "skip", "report")]
    jobs: list[Job] = []
    for number, (schedule, misfire, policy) in enumerate(ways):
        draft = JobDraft(name=f"n{number}", prompt="p", schedule=schedule, misfire=misfire, interrupted=policy)  # type: ignore[arg-type]
        jobs.append(created(draft, id=f"job{number}", owner="", now=START, zone=UTC))
        put(cron, jobs[-1])
    with ScriptedModel(lambda request, number: Fault("slow", seconds=0.02, reply=Say(text="x" * 100))) as model:
        since, speed = time.time(), 9_000.0  # an hour in 0.4 seconds
        for _ in range(8):
            with working(model, since=since, speed=speed):
                time.sleep(chance.uniform(0.4, 1.4))
        with working(model, since=since, speed=speed):
            seen = START + timedelta(seconds=(time.time() - since) * speed)
            until(lambda: all(job.settled_until > seen for job in JobFile(cron).read()))
            until(lambda: sum("ran" in [row.status for row in rows(cron, job)] for job in jobs) == len(jobs))
    runs = begun(own_home)
    assert runs
    assert all(count == 1 for count in runs.values()), runs
    late = ManualClock(START + timedelta(days=1000))
    stand = {job.id: job for job in asyncio.run(JobStore(cron, clock=late, zone=UTC).refresh())}
    for job in jobs:
        found = rows(cron, job)
        covered = Counter[datetime]()
        for row in found:
            if row.how != "again":
                due = occurrences(parse(job.schedule, START, zone=UTC), row.due - timedelta(seconds=1), UTC)
                covered.update(next(due) for _ in range(row.count))
        expected: list[datetime] = []
        for at in occurrences(parse(job.schedule, START, zone=UTC), START, UTC):
            if at > stand[job.id].settled_until:
                break
            expected.append(at)
        assert sorted(covered) == expected
        assert set(covered.values()) == {1}
        unended = [row for row in found if row.status == "started"]
        assert len(unended) <= 1, "only the last process, killed just now, may leave one"
        assert {row.status for row in found} <= {"ran", "missed", "skipped", "interrupted", "started"}
