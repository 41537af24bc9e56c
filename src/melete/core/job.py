"""Scheduled work: a job, what became of each of its occurrences, and the port through which jobs are kept. Layer 0."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct

Time = Annotated[datetime, Meta(tz=True)]
JobState = Literal["scheduled", "running", "paused", "finished", "failed"]
JobStatus = Literal["started", "ran", "failed", "cancelled", "interrupted", "skipped", "missed"]


class JobRun(Struct, frozen=True, kw_only=True):
    """The session and run of one occurrence."""

    session: str
    run: str


class Repeat(Struct, frozen=True, kw_only=True):
    """How often a job runs in all, None without end, and how often it has; runs that were asked for by hand do not count."""

    times: Annotated[int, Meta(ge=1)] | None = None
    completed: Annotated[int, Meta(ge=0)] = 0


class Occurrence(Struct, frozen=True, kw_only=True):
    """One time that a job was due, and what became of it; `started` until it has an end.

    `due` is by the schedule, jitter left out; `how` is `late` where it was caught up, `again` after an interruption, `now` when it
    was asked for. `ran`: its run ended with an answer. `interrupted`: the process died in it. `skipped`: the job was still running.
    `missed`: nothing ran in time; with `count` above 1 the row stands for all occurrences from `due` to `until`, at least so
    many. `why` says so in words. `silent`: the answer says that nobody needs to be told. `output` is a path below HOME/cron.
    """

    id: str
    job: str
    due: Time
    how: Literal["schedule", "late", "again", "now"] = "schedule"
    status: JobStatus = "started"
    why: str = ""
    count: int = 1
    until: Time | None = None
    session: str = ""
    run: str = ""
    started: Time | None = None
    ended: Time | None = None
    silent: bool = False
    output: str = ""
    cost_usd: float | None = None


class JobDraft(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scheduled work as a person asks for it.

    Times in `schedule` without a zone are in the home's. An empty `model` or `toolsets` and a limit that is None leave it to the
    settings; an empty `cwd` is the home's workspace. `timeout` is the seconds that a run may be silent, 0 for any.

    An occurrence that comes late, but within `catch_up` seconds (None: half the period, 2 minutes to 2 hours; 2 minutes for what
    happens once), is made up for as `misfire` says: not at all (`skip`), the last one alone (`once`), or one after the other, the
    last `misfire_limit` of them (`all`). Each starts up to `jitter` seconds late, always the same for one occurrence. After a
    crash an occurrence is reported, or with `interrupted: repeat` run again, once.
    """

    name: Annotated[str, Meta(min_length=1, max_length=200, extra_json_schema={"pattern": r"\S"})]
    prompt: Annotated[str, Meta(min_length=1, max_length=100_000, extra_json_schema={"pattern": r"\S"})]
    schedule: Annotated[str, Meta(min_length=1, max_length=200)]
    skills: tuple[str, ...] = ()
    model: Annotated[str, Meta(max_length=200)] = ""
    deliver: str = "local"
    enabled: bool = True

    toolsets: tuple[str, ...] = ()
    cwd: Annotated[str, Meta(max_length=4_096)] = ""
    max_steps: Annotated[int, Meta(ge=1)] | None = None
    budget_usd: Annotated[float, Meta(ge=0)] | None = None
    timeout: Annotated[float, Meta(ge=0, le=86_400)] = 600.0
    repeat: Repeat = Repeat()
    misfire: Literal["skip", "once", "all"] = "once"
    misfire_limit: Annotated[int, Meta(ge=1, le=100)] = 10
    catch_up: Annotated[float, Meta(ge=0, le=31_622_400)] | None = None
    jitter: Annotated[float, Meta(ge=0, le=3_600)] = 0.0
    interrupted: Literal["report", "repeat"] = "report"


class Job(JobDraft, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Scheduled work as it stands: what was asked for, at `scheduled_at`, and what became of it.

    `owner` is the person (empty) or key that it belongs to, as its sessions do. `display` is the schedule in words. Everything that
    was due until `settled_until` has its row in the history. `running` is the occurrence whose run goes on now, `again_at` one that
    was interrupted and is to run again, and `runs` are the last few, the newest first.
    """

    id: Annotated[str, Meta(pattern=r"^[a-z0-9]{1,32}$")]
    owner: str = ""
    display: str = ""
    state: JobState = "scheduled"
    paused_at: Time | None = None
    paused_reason: str = ""
    created_at: Time
    scheduled_at: Time
    settled_until: Time
    next_run_at: Time | None = None
    last_run_at: Time | None = None
    last_status: JobStatus | None = None
    last_error: str = ""
    running: Occurrence | None = None
    again_at: Time | None = None
    runs: tuple[JobRun, ...] = ()


class Jobs(Protocol):
    """The schedule of one home. A job of somebody else is as good as none; an empty `owner` is the person, who sees all."""

    async def list(self, *, owner: str = "") -> Sequence[Job]:
        """All jobs, the oldest first."""
        ...

    async def get(self, id: str, *, owner: str = "") -> Job:
        """One of them; raises JobNotFoundError."""
        ...

    async def create(self, draft: JobDraft, *, owner: str = "") -> Job:
        """Make a job; raises UsageError for what cannot be."""
        ...

    async def change(self, id: str, changes: Mapping[str, Any], *, owner: str = "") -> Job:
        """Change some fields of what was asked for, by their names; raises UsageError for what cannot be."""
        ...

    async def pause(self, id: str, *, reason: str = "", owner: str = "") -> Job:
        """Let it rest: what is due meanwhile does not count."""
        ...

    async def resume(self, id: str, *, owner: str = "") -> Job:
        """Let it go on with what is due from now on."""
        ...

    async def remove(self, id: str, *, owner: str = "") -> None:
        """Remove it; its history and outputs stay."""
        ...

    async def history(self, id: str, *, owner: str = "", limit: int = 50, before: str = "") -> Sequence[Occurrence]:
        """What became of its occurrences, the newest first, those older than the occurrence `before`."""
        ...
