"""What is to become of a job's occurrences at a moment: which one runs, which are made up for, and a row for all others.

Part of the composition root, pure. Of the job's past only `settled_until` counts: what was due until then has its row. So nothing
is forgotten while nobody looks, and nothing happens twice.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import islice, takewhile
from typing import Literal
from zlib import crc32

from msgspec import Struct, structs

from melete.app.schedule import GRACE, Once, Schedule, next_after, occurrences, parse, period
from melete.core.job import Job, Occurrence

PUNCTUAL = 60.0
"""Seconds by which an occurrence may be late and still be on time; half a period, if that is less."""
LEAST, MOST = 120.0, 7_200.0
"""The bounds, in seconds, of the half period within which an occurrence is caught up."""
PAGE = 1_000
"""Occurrences that are judged at a time: after a year without a scheduler there may be half a million."""
APART = 20
"""Occurrences, the newest, that get a row each where many were missed; those before share one."""
_HASHES = 2**32


class Plan(Struct, frozen=True, kw_only=True):
    """What to do with a job now: store `rows`, run `due` if there is one, and take what is due until `settled_until` as settled.

    `again_at` is what is still to run again.
    """

    settled_until: datetime
    rows: tuple[Occurrence, ...] = ()
    due: datetime | None = None
    how: Literal["schedule", "late", "again"] = "schedule"
    again_at: datetime | None = None


class Held(Struct, frozen=True, kw_only=True):
    """Since when, and why, a job that is due waits: what was seen in time is not too late for having waited."""

    since: datetime
    why: str


def occurrence_id(job: str, due: datetime, *, how: str = "schedule") -> str:
    """The id of an occurrence: the same whoever asks, so that a row which is written twice counts once."""
    kind = {"again": "-again", "now": f"-{due.microsecond:06}-now"}.get(how, "")
    return f"{job}-{due:%Y%m%dT%H%M%SZ}{kind}"


def begins_at(job: Job, due: datetime, *, schedule: Schedule, zone: tzinfo) -> datetime:
    """When an occurrence starts, jitter included: at most half a period after it is due, and always the same."""
    if not job.jitter:
        return due
    room = min(job.jitter, (period(schedule, due, zone) or 2 * job.jitter) / 2)
    share = crc32(f"{job.id} {due:%Y%m%dT%H%M%SZ}".encode()) / _HASHES
    return due + timedelta(seconds=round(room * share, 3))


def next_run(job: Job, zone: tzinfo) -> datetime | None:
    """When the job starts next, as far as anybody knows now; None while it rests and when it never does again."""
    times = job.repeat.times
    if not job.enabled or (times is not None and job.repeat.completed >= times):
        return None
    if job.again_at is not None:
        return job.again_at
    schedule = parse(job.schedule, job.scheduled_at, zone=zone)
    due = next_after(schedule, job.settled_until, zone)
    return None if due is None else begins_at(job, due, schedule=schedule, zone=zone)


def window(job: Job, schedule: Schedule, due: datetime, *, zone: tzinfo) -> float:
    """Seconds for which an occurrence can be caught up."""
    if job.catch_up is not None:
        return job.catch_up
    if isinstance(schedule, Once):
        return GRACE
    return min(MOST, max(LEAST, (period(schedule, due, zone) or 0.0) / 2))


def is_ahead(job: Job, now: datetime, zone: tzinfo) -> bool:
    """Whether the job is settled until a time that is more than a whole period ahead: the clock was set back."""
    ahead = (job.settled_until - now).total_seconds()
    if ahead <= MOST:
        return False
    schedule = parse(job.schedule, job.scheduled_at, zone=zone)
    return not isinstance(schedule, Once) and ahead > (period(schedule, now, zone) or 0.0)


def plan(job: Job, now: datetime, *, zone: tzinfo, busy: bool = False, held: Held | None = None) -> Plan | None:
    """What to do with the job now; None for nothing. `busy`: its last run goes on."""
    if not job.enabled:
        return None
    planning = _Planning(job, now, zone, held=held)
    if job.again_at is not None:
        return None if busy else planning.again(job.again_at)
    due = planning.due()
    if not due or (busy and job.misfire == "all"):
        return None
    if len(due) > PAGE:
        return planning.page(due[: PAGE - job.misfire_limit])
    if busy:
        return planning.none(due, "skipped", "the run before was still going on")
    return planning.choose(due)


class _Planning:
    """The judgement of one job at one moment."""

    def __init__(self, job: Job, now: datetime, zone: tzinfo, *, held: Held | None) -> None:
        self.job = job
        self.now = now
        self.zone = zone
        self.schedule = parse(job.schedule, job.scheduled_at, zone=zone)
        self.seen = held.since if held and job.misfire != "skip" else now
        self.cause = held.why if held else "no scheduler was at work"

    def due(self) -> list[datetime]:
        """What is due and has no row; one more than PAGE stands for any number."""
        found: list[datetime] = []
        surely = self.now - timedelta(seconds=self.job.jitter)
        for at in islice(occurrences(self.schedule, self.job.settled_until, self.zone), PAGE + 1):
            if at > surely and self.begins(at) > self.now:
                break
            found.append(at)
        return found

    def begins(self, due: datetime) -> datetime:
        return begins_at(self.job, due, schedule=self.schedule, zone=self.zone)

    def late(self, due: datetime) -> float:
        return (self.seen - self.begins(due)).total_seconds()

    def punctual(self, due: datetime) -> bool:
        return self.late(due) <= min(PUNCTUAL, (period(self.schedule, due, self.zone) or 2 * PUNCTUAL) / 2)

    def timely(self, due: datetime) -> bool:
        if self.job.misfire == "skip":
            return self.punctual(due)
        return self.late(due) <= window(self.job, self.schedule, due, zone=self.zone)

    def again(self, due: datetime) -> Plan:
        """What was interrupted runs once more, if it is not too late."""
        if self.late(due) <= window(self.job, self.schedule, due, zone=self.zone):
            return Plan(settled_until=self.job.settled_until, due=due, how="again")
        row = self.row(due, "missed", f"it was interrupted, and to run again is too late: {self.cause}")
        row = structs.replace(row, id=occurrence_id(self.job.id, due, how="again"), how="again")
        return Plan(settled_until=self.job.settled_until, rows=(row,))

    def choose(self, due: list[datetime]) -> Plan:
        """The one that runs, by the job's way of making up for what is late."""
        timely = list(takewhile(self.timely, reversed(due)))
        if not timely:
            return self.none(due, "missed", self.why_missed(due[-1]))
        if self.job.misfire == "all":
            chosen = timely[: self.job.misfire_limit][-1]
            why = f"it came too late, or more than {self.job.misfire_limit} waited: {self.cause}"
        else:
            chosen = timely[0]
            why = f"a later one runs in its place: {self.cause}"
        rows = self.rows([at for at in due if at < chosen], "missed", why)
        how = "schedule" if self.punctual(chosen) else "late"
        return Plan(settled_until=chosen, rows=rows, due=chosen, how=how)

    def page(self, due: list[datetime]) -> Plan:
        """Far too many: the oldest are given up, whatever else is due."""
        row = self.row(due[0], "missed", f"many more were due behind it: {self.cause}")
        return Plan(settled_until=due[-1], rows=(structs.replace(row, count=len(due), until=due[-1]),))

    def none(self, due: list[datetime], status: Literal["missed", "skipped"], why: str) -> Plan:
        """Nothing runs."""
        return Plan(settled_until=due[-1], rows=self.rows(due, status, why))

    def why_missed(self, due: datetime) -> str:
        late = round(self.late(due))
        if self.job.misfire == "skip":
            return f"it came {late} seconds late, and this job makes up for nothing: {self.cause}"
        most = round(window(self.job, self.schedule, due, zone=self.zone))
        return f"it came {late} seconds late, and is caught up within {most}: {self.cause}"

    def rows(self, due: Sequence[datetime], status: Literal["missed", "skipped"], why: str) -> tuple[Occurrence, ...]:
        """A row for each of the newest, and one for all before."""
        if len(due) <= APART + 1:
            return tuple(self.row(at, status, why) for at in due)
        old, new = due[:-APART], due[-APART:]
        first = structs.replace(self.row(old[0], status, why), count=len(old), until=old[-1])
        return (first, *(self.row(at, status, why) for at in new))

    def row(self, due: datetime, status: Literal["missed", "skipped"], why: str) -> Occurrence:
        return Occurrence(id=occurrence_id(self.job.id, due), job=self.job.id, due=due, status=status, why=why)
