"""How a job goes from one state to the next: made, changed, paused, begun, ended. Part of the composition root, pure.

Each function returns the job as it stands afterwards, with its state and next time worked out anew.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta, tzinfo
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import structs

from melete.app.occurrences import Plan, next_run
from melete.app.schedule import Once, Schedule, describe, parse, parse_new
from melete.core.errors import UsageError
from melete.core.job import Job, JobDraft, JobRun, JobState, Occurrence, Repeat

DELIVERIES = ("local",)
"""Where the answer of a job can go: `local` is a file in HOME/cron/output."""
RUNS = 5
"""Runs that a job names; its history names all."""
UNCHANGED = "nothing was changed"
_DRAFT = tuple(JobDraft.__struct_fields__)


def created(draft: JobDraft, *, id: str, owner: str, now: datetime, zone: tzinfo) -> Job:
    """A new job; raises UsageError for one that cannot be."""
    check(draft)
    schedule = parse_new(draft.schedule, now, zone=zone)
    asked = {name: getattr(draft, name) for name in _DRAFT}
    asked["repeat"] = Repeat(times=draft.repeat.times)
    job = Job(
        **asked,
        id=id,
        owner=owner,
        created_at=now,
        scheduled_at=now,
        settled_until=_settled(schedule, now),
        paused_at=None if draft.enabled else now,
    )
    return standing(job, zone)


def changed(job: Job, changes: Mapping[str, Any], *, now: datetime, zone: tzinfo) -> Job:
    """The job with some fields of what was asked for set anew; raises UsageError for what cannot be.

    It goes on from now: where it rested or was over, what was due meanwhile does not count.
    """
    draft = _merged(job, changes)
    check(draft)
    asked = {name: getattr(draft, name) for name in _DRAFT}
    new = structs.replace(job, **asked)
    if "schedule" in changes and (draft.schedule != job.schedule or job.next_run_at is None):
        schedule = parse_new(draft.schedule, now, zone=zone)
        new = structs.replace(new, scheduled_at=now, settled_until=_settled(schedule, now), again_at=None)
    elif job.next_run_at is None:
        new = structs.replace(new, settled_until=max(now, job.settled_until))
    if not new.enabled:
        new = structs.replace(new, paused_at=job.paused_at or now, again_at=None)
    else:
        new = structs.replace(new, paused_at=None, paused_reason="")
    new = standing(new, zone)
    if new.enabled and not job.enabled and new.next_run_at is None and not new.running:
        raise UsageError(
            f"the job {job.name!r} has nothing left to do", kept=UNCHANGED, next="give it another schedule or `repeat`"
        )
    return new


def paused(job: Job, *, reason: str, now: datetime, zone: tzinfo) -> Job:
    """The job at rest; one that rests already keeps since when, and why unless another reason is given."""
    rests = changed(job, {"enabled": False}, now=now, zone=zone)
    return structs.replace(rests, paused_reason=reason or rests.paused_reason)


def begun(job: Job, plan: Plan, occurrence: Occurrence | None, *, zone: tzinfo) -> Job:
    """The job after a plan was stored: settled until then, and at work if an occurrence runs."""
    last = occurrence or (plan.rows[-1] if plan.rows else None)
    new = structs.replace(
        job, settled_until=plan.settled_until, again_at=plan.again_at, running=occurrence or job.running
    )
    if occurrence is not None:
        new = structs.replace(new, last_run_at=occurrence.started)
    elif last is not None and job.running is None:
        new = structs.replace(new, last_status=last.status, last_error=last.why)
    return standing(new, zone)


def at_work(job: Job, occurrence: Occurrence) -> Job:
    """The job with more known of what it runs now."""
    return structs.replace(job, running=occurrence)


def set_back(job: Job, now: datetime) -> Job:
    """The job settled until now, after a clock that went ahead was put right."""
    return structs.replace(job, settled_until=now)


def ended(job: Job, row: Occurrence, *, zone: tzinfo) -> Job:
    """The job after an occurrence came to its end; what was interrupted runs once more where the job wants that."""
    counts = row.how != "now"
    again = job.interrupted == "repeat" and row.status == "interrupted" and row.how in ("schedule", "late")
    repeat = structs.replace(job.repeat, completed=job.repeat.completed + (counts and not again))
    runs = (JobRun(session=row.session, run=row.run), *job.runs)[:RUNS] if row.run else job.runs
    new = structs.replace(
        job,
        running=None,
        repeat=repeat,
        runs=runs,
        last_status=row.status,
        last_error="" if row.status == "ran" else row.why,
        again_at=row.due if again and job.enabled else job.again_at,
    )
    return standing(new, zone)


def standing(job: Job, zone: tzinfo) -> Job:
    """The job with state, next time and words for its schedule worked out; raises ScheduleError."""
    schedule = parse(job.schedule, job.scheduled_at, zone=zone)
    following = next_run(job, zone)
    state = _state(job, schedule, rests=following is None)
    return structs.replace(job, state=state, next_run_at=following, display=describe(schedule, zone))


def check(draft: JobDraft) -> None:
    """Raise UsageError for what cannot be done here."""
    if draft.deliver not in DELIVERIES:
        raise UsageError(
            f"answers cannot be delivered to {draft.deliver!r}",
            kept=UNCHANGED,
            next=f"use {', '.join(DELIVERIES)}: a file in HOME/cron/output",
        )
    if draft.skills:
        raise UsageError(
            f"there is no skill called {draft.skills[0]!r}",
            kept=UNCHANGED,
            next="leave `skills` out: there are none yet",
        )
    if draft.cwd and not (PurePath(draft.cwd).is_absolute() and "\0" not in draft.cwd):
        raise UsageError(f"the folder {draft.cwd!r} is not absolute", kept=UNCHANGED, next="write it from / on")
    for name in ("name", "prompt"):
        if not getattr(draft, name).strip():
            raise UsageError(f"the {name} of a job is empty", kept=UNCHANGED, next=f"give it a {name}")


def _merged(job: Job, changes: Mapping[str, Any]) -> JobDraft:
    asked = {name: getattr(job, name) for name in _DRAFT}
    try:
        return msgspec.convert({**msgspec.to_builtins(asked), **changes}, JobDraft)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"that cannot be a job: {error}", kept=UNCHANGED, next=f"its fields are {', '.join(_DRAFT)}"
        ) from error


def _settled(schedule: Schedule, now: datetime) -> datetime:
    """Now, or a moment before a time that has only just passed."""
    return schedule.at - timedelta(seconds=1) if isinstance(schedule, Once) and schedule.at <= now else now


def _state(job: Job, schedule: Schedule, *, rests: bool) -> JobState:
    if job.running is not None:
        return "running"
    if not job.enabled:
        return "paused"
    if not rests:
        return "scheduled"
    return "failed" if isinstance(schedule, Once) and job.last_status not in ("ran", None) else "finished"
