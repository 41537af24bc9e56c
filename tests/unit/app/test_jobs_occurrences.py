"""What becomes of occurrences: whatever the clock does and however seldom anybody looks, each has one run or one row."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from melete.app.job_states import begun, created, ended
from melete.app.occurrences import APART, Held, Plan, begins_at, is_ahead, next_run, occurrence_id, plan, window
from melete.app.schedule import occurrences, parse
from melete.core.job import Job, JobDraft, JobStatus, Occurrence, Repeat

ZONE = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)


def job(schedule: str = "every 1h", **fields: Any) -> Job:
    draft = JobDraft(name="a job", prompt="do it", schedule=schedule, **fields)
    return created(draft, id="j1", owner="", now=NOW, zone=ZONE)


def later(**how: float) -> datetime:
    return NOW + timedelta(**how)


def due_until(one: Job, until: datetime) -> list[datetime]:
    found: list[datetime] = []
    for at in occurrences(parse(one.schedule, one.scheduled_at, zone=ZONE), NOW, ZONE):
        if at > until:
            break
        found.append(at)
    return found


def covered(one: Job, rows: tuple[Occurrence, ...]) -> list[datetime]:
    """The points in time that rows stand for."""
    schedule = parse(one.schedule, one.scheduled_at, zone=ZONE)
    found: list[datetime] = []
    for row in rows:
        found.append(row.due)
        if row.until is not None:
            inner = occurrences(schedule, row.due, ZONE)
            while found[-1] < row.until:
                found.append(next(inner))
        assert row.until is None or len([at for at in found if row.due <= at <= row.until]) == row.count
    return found


def carried_out(one: Job, todo: Plan, *, status: JobStatus = "ran") -> Job:
    if todo.due is None:
        return begun(one, todo, None, zone=ZONE)
    row = Occurrence(id=occurrence_id(one.id, todo.due, how=todo.how), job=one.id, due=todo.due, how=todo.how)
    return ended(begun(one, todo, row, zone=ZONE), structs.replace(row, status=status), zone=ZONE)


LOOKS = st.integers(1, 400) | st.integers(1, 4_000) | st.integers(1, 80_000)
SCHEDULES = st.sampled_from(
    ["every 1m", "every 1h", "every 7h", "*/5 * * * *", "0 9,15 * * MON-SAT", "30 2 * * *", "90m"]
)


WAYS = st.fixed_dictionaries(
    {
        "misfire": st.sampled_from(["skip", "once", "all"]),
        "misfire_limit": st.integers(1, 5),
        "catch_up": st.sampled_from([None, 0.0, 600.0, 86_400.0]),
        "jitter": st.sampled_from([0.0, 30.0, 600.0]),
    }
)


@given(SCHEDULES, st.lists(st.tuples(LOOKS, st.booleans()), min_size=1, max_size=8), WAYS)
def test_each_occurrence_runs_once_or_has_one_row(
    schedule: str, looks: list[tuple[int, bool]], ways: dict[str, Any]
) -> None:
    one = job(schedule, **ways)
    now, found = NOW, list[datetime]()
    for seconds, busy in looks:
        now += timedelta(seconds=seconds)
        if busy:
            one = structs.replace(one, running=Occurrence(id="other", job="j1", due=NOW))
        for _ in range(100_000):
            todo = plan(one, now, zone=ZONE, busy=busy)
            if todo is None:
                break
            assert todo.due is None or not busy
            found += [*covered(one, todo.rows), *([todo.due] if todo.due else [])]
            one = carried_out(one, todo) if not busy else begun(one, todo, None, zone=ZONE)
        one = structs.replace(one, running=None)
    last = plan(one, now, zone=ZONE)
    while last is not None:
        found += [*covered(one, last.rows), *([last.due] if last.due else [])]
        one = carried_out(one, last)
        last = plan(one, now, zone=ZONE)
    assert found == [
        at
        for at in due_until(one, now)
        if begins_at(one, at, schedule=parse(schedule, one.scheduled_at, zone=ZONE), zone=ZONE) <= now
    ]


@given(SCHEDULES, st.floats(0, 3600), st.integers(0, 10**7))
def test_jitter_is_the_same_each_time_bounded_and_keeps_the_order(schedule: str, jitter: float, offset: int) -> None:
    one = job(schedule, jitter=jitter)
    parsed = parse(schedule, one.scheduled_at, zone=ZONE)
    dues = [at for at, _ in zip(occurrences(parsed, NOW, ZONE), range(20), strict=False)]
    begins = [begins_at(one, at, schedule=parsed, zone=ZONE) for at in dues]
    assert begins == [begins_at(one, at, schedule=parsed, zone=ZONE) for at in dues]
    assert begins == sorted(begins)
    for due, begin in zip(dues, begins, strict=True):
        assert due <= begin <= due + timedelta(seconds=jitter)
    assert next_run(one, ZONE) == begins[0]


def test_what_is_due_runs() -> None:
    assert plan(job(), later(minutes=59), zone=ZONE) is None
    assert plan(job(), later(hours=1, seconds=2), zone=ZONE) == Plan(settled_until=later(hours=1), due=later(hours=1))


@pytest.mark.parametrize(
    ("misfire", "due", "how", "statuses"),
    [
        ("skip", None, "schedule", ["missed", "missed", "missed"]),
        ("once", later(hours=3), "late", ["missed", "missed"]),
        ("all", later(hours=3), "late", ["missed", "missed"]),
    ],
)
def test_what_is_late_is_made_up_for_as_the_job_wants(
    misfire: str, due: datetime | None, how: str, statuses: list[str]
) -> None:
    """Half a period is 30 minutes: of three that are due only the last can be caught up."""
    todo = plan(job(misfire=misfire), later(hours=3, minutes=20), zone=ZONE)
    assert todo is not None
    assert (todo.due, todo.how if todo.due else "schedule") == (due, how)
    assert [row.status for row in todo.rows] == statuses
    assert all("no scheduler was at work" in row.why for row in todo.rows)
    assert todo.settled_until == later(hours=3)


def test_all_that_can_be_caught_up_run_one_after_the_other_up_to_the_limit() -> None:
    one = job(misfire="all", catch_up=86_400.0, misfire_limit=2)
    now, runs, missed = later(hours=5, minutes=1), list[datetime](), list[datetime]()
    while (todo := plan(one, now, zone=ZONE)) is not None:
        assert todo.due is not None
        missed += [row.due for row in todo.rows]
        runs.append(todo.due)
        one = carried_out(one, todo)
    assert runs == [later(hours=4), later(hours=5)]
    assert missed == [later(hours=1), later(hours=2), later(hours=3)]


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [("every 1h", 1800), ("every 1m", 120), ("every 1d", 7200), ("@daily", 7200), ("30m", 120), ("*/10 * * * *", 300)],
)
def test_an_occurrence_is_caught_up_within_half_a_period(schedule: str, seconds: float) -> None:
    one = job(schedule)
    parsed = parse(schedule, NOW, zone=ZONE)
    assert one.next_run_at is not None
    assert window(one, parsed, one.next_run_at, zone=ZONE) == seconds
    assert window(structs.replace(one, catch_up=5.0), parsed, one.next_run_at, zone=ZONE) == 5.0


def test_what_happens_once_is_missed_two_minutes_later() -> None:
    one = job("30m")
    assert plan(one, later(minutes=32), zone=ZONE) == Plan(
        settled_until=later(minutes=30), due=later(minutes=30), how="late"
    )
    todo = plan(one, later(minutes=32, seconds=1), zone=ZONE)
    assert todo is not None
    assert todo.due is None
    assert carried_out(one, todo).state == "failed"
    assert carried_out(one, todo).next_run_at is None


def test_a_job_that_still_runs_is_skipped() -> None:
    todo = plan(job(), later(hours=2, seconds=1), zone=ZONE, busy=True)
    assert todo is not None
    assert [(row.status, row.due) for row in todo.rows] == [("skipped", later(hours=1)), ("skipped", later(hours=2))]
    assert plan(job(misfire="all"), later(hours=2, seconds=1), zone=ZONE, busy=True) is None


def test_what_was_seen_in_time_is_not_too_late_for_having_waited() -> None:
    held = Held(since=later(hours=1), why="all 4 places were taken")
    assert plan(job("1h"), later(hours=9), zone=ZONE, held=held) == Plan(
        settled_until=later(hours=1), due=later(hours=1)
    )
    todo = plan(job("1h", misfire="skip"), later(hours=9), zone=ZONE, held=held)
    assert todo is not None
    assert todo.due is None
    assert "all 4 places were taken" in todo.rows[0].why


def test_of_very_many_that_were_missed_the_newest_have_a_row_each() -> None:
    todo = plan(job("every 1m", catch_up=0.0), later(minutes=200, seconds=30), zone=ZONE)
    assert todo is not None
    assert len(todo.rows) == APART + 1
    assert todo.rows[0].count == 200 - APART
    assert todo.rows[0].due == later(minutes=1)
    assert todo.rows[-1].due == later(minutes=200)


def test_thousands_that_were_missed_are_judged_in_pages() -> None:
    one, count, pages = job("* * * * *"), 0, 0
    now = later(days=2)
    while (todo := plan(one, now, zone=ZONE)) is not None:
        pages += 1
        count += sum(row.count for row in todo.rows) + (todo.due is not None)
        one = carried_out(one, todo)
    assert count == 2 * 24 * 60
    assert pages == 3


def test_an_interrupted_one_runs_again_once_if_the_job_wants() -> None:
    one = carried_out(
        job(interrupted="repeat"), Plan(settled_until=later(hours=1), due=later(hours=1)), status="interrupted"
    )
    assert (one.again_at, one.next_run_at, one.repeat.completed) == (later(hours=1), later(hours=1), 0)
    again = plan(one, later(hours=1, minutes=5), zone=ZONE)
    assert again is not None
    assert again == Plan(settled_until=later(hours=1), due=later(hours=1), how="again")
    assert plan(one, later(hours=1, minutes=5), zone=ZONE, busy=True) is None
    two = carried_out(one, again, status="interrupted")
    assert (two.again_at, two.next_run_at, two.repeat.completed) == (None, later(hours=2), 1)
    late = plan(one, later(hours=1, minutes=31), zone=ZONE)
    assert late is not None
    assert (late.due, late.rows[0].how, late.rows[0].status) == (None, "again", "missed")
    reported = carried_out(job(), Plan(settled_until=later(hours=1), due=later(hours=1)), status="interrupted")
    assert (reported.again_at, reported.last_status) == (None, "interrupted")


def test_repeats_are_counted_and_end_the_job() -> None:
    one = job(repeat=Repeat(times=2, completed=7))
    for _ in range(2):
        todo = plan(one, later(hours=one.repeat.completed + 1), zone=ZONE)
        assert todo is not None
        one = carried_out(one, todo, status="failed")
    assert (one.repeat.completed, one.state, one.next_run_at) == (2, "finished", None)


def test_a_job_that_rests_is_not_due() -> None:
    assert plan(job(enabled=False), later(days=9), zone=ZONE) is None


def test_a_clock_that_was_set_back_is_noticed_once_it_is_more_than_a_period() -> None:
    one = structs.replace(job("every 1d"), settled_until=later(days=400))
    assert is_ahead(one, NOW, ZONE)
    assert not is_ahead(one, later(days=399, hours=1), ZONE)
    assert not is_ahead(structs.replace(job("30m"), settled_until=later(days=400)), NOW, ZONE)
