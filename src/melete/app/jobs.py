"""The jobs of a home: made, changed, paused and removed by their owners, by any process. Part of the composition root.

`Jobs` of core/job.py over two files: job_file.py holds the jobs, job_history.py what became of each occurrence. Whoever runs a
job (job_runner.py) stores that it begins before it does, and how it ended before anything else happens.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from melete.app import job_states as states
from melete.app.job_file import JobFile
from melete.app.job_history import JobHistory
from melete.app.occurrences import Plan, is_ahead
from melete.app.schedule import ScheduleError
from melete.core.errors import LimitError, StoreError
from melete.core.job import Job, JobDraft, Occurrence
from melete.core.ports import Clock
from melete.store.disk import wait_for

T = TypeVar("T")
Check = Callable[[JobDraft], Awaitable[None]]
MOST_JOBS = 1_000
MOST_OF_A_KEY = 200
LONGEST = 4_000_000
"""Characters that the prompts of all jobs have together: the file is written whole each time."""
MOST_ROWS = 1_000


class JobNotFoundError(StoreError):
    """There is no such job, or none of this owner's."""

    exit_code = 2


class JobBusyError(StoreError):
    """The job runs right now."""


async def anything(draft: JobDraft) -> None:
    """A check that lets every draft pass."""


class JobStore:
    """The jobs in `folder`, times without a zone being in `zone`; `check` raises for models and toolsets that do not exist."""

    def __init__(self, folder: Path, *, clock: Clock, zone: tzinfo, check: Check = anything) -> None:
        self.zone = zone
        self.file = JobFile(folder)
        self.past = JobHistory(folder)
        self._clock = clock
        self._check = check
        self._written: tuple[int, ...] | None = None

    async def list(self, *, owner: str = "") -> Sequence[Job]:
        """All jobs, the oldest first."""
        return [job for job in await _in_thread(self.file.read) if _sees(owner, job)]

    async def get(self, id: str, *, owner: str = "") -> Job:
        """One of them; raises JobNotFoundError."""
        return _one(await _in_thread(self.file.read), id, owner)

    async def create(self, draft: JobDraft, *, owner: str = "", id: str = "") -> Job:
        """Make a job, under a new id unless one is given; raises UsageError for what cannot be, LimitError for too many."""
        job = states.created(draft, id=id or uuid4().hex[:12], owner=owner, now=self._clock.now(), zone=self.zone)
        await self._check(job)

        def add() -> None:
            with self._changing() as before:
                jobs = (*(other for other in before if other.id != job.id), job)
                _check_bounds(jobs, owner)
                self.file.write(jobs)

        await _in_thread(add)
        return job

    async def change(self, id: str, changes: Mapping[str, Any], *, owner: str = "") -> Job:
        """Change some fields of what was asked for, by their names; raises UsageError for what cannot be."""
        now = self._clock.now()
        before = await self.get(id, owner=owner)
        await self._check(states.changed(before, changes, now=now, zone=self.zone))

        def change(job: Job) -> Job:
            return states.changed(job, changes, now=now, zone=self.zone)

        return await self._replace(id, change, owner=owner)

    async def pause(self, id: str, *, reason: str = "", owner: str = "") -> Job:
        """Let it rest: what is due meanwhile does not count."""
        now = self._clock.now()
        return await self._replace(
            id, lambda job: states.paused(job, reason=reason, now=now, zone=self.zone), owner=owner
        )

    async def resume(self, id: str, *, owner: str = "") -> Job:
        """Let it go on with what is due from now on; raises UsageError when nothing is."""
        now = self._clock.now()
        return await self._replace(
            id, lambda job: states.changed(job, {"enabled": True}, now=now, zone=self.zone), owner=owner
        )

    async def remove(self, id: str, *, owner: str = "") -> None:
        """Remove it; its history and outputs stay. A run of it is cancelled by the process that it goes on in."""

        def drop() -> None:
            with self._changing() as jobs:
                gone = _one(jobs, id, owner)
                self.file.write([job for job in jobs if job.id != gone.id])

        await _in_thread(drop)

    async def history(self, id: str, *, owner: str = "", limit: int = 50, before: str = "") -> Sequence[Occurrence]:
        """What became of its occurrences, the last changed first, those older than the occurrence `before`."""
        job = await self.get(id, owner=owner)
        return await _in_thread(lambda: self.past.of(job.id, limit=max(1, min(limit, MOST_ROWS)), before=before))

    # ---- for the runner

    async def begin(self, job: Job, plan: Plan, *, occurrence: Occurrence | None = None) -> Job | None:
        """Store what a plan settles, and that an occurrence begins, durably, before anything is done.

        None, nothing stored, when the job is not any more what the plan was made for.
        """

        def act() -> Job | None:
            with self._changing() as jobs:
                now = next((other for other in jobs if other.id == job.id), None)
                if now is None or (now.settled_until, now.again_at) != (job.settled_until, job.again_at):
                    return None
                if occurrence is not None and (now.running is not None or _rests(now, occurrence)):
                    return None
                new = states.begun(now, plan, occurrence, zone=self.zone)
                rows = (*plan.rows, *([occurrence] if occurrence else []))
                self.file.write(_with(jobs, new), unwritten=rows)
                try:
                    self.past.add(rows)
                except StoreError:
                    self.file.write(jobs)  # as if nothing had been
                    raise
                return new

        return await _in_thread(act)

    async def note(self, row: Occurrence) -> None:
        """Store more of what is known of an occurrence that runs."""
        await self._record(row, lambda job: states.at_work(job, row))

    async def end(self, row: Occurrence) -> None:
        """Store how an occurrence ended."""
        await self._record(row, lambda job: states.ended(job, row, zone=self.zone))

    async def known(self, id: str) -> Occurrence | None:
        """The last row of an occurrence."""
        return await _in_thread(lambda: self.past.find(id))

    async def keep_output(self, row: Occurrence, job: Job, text: str) -> str:
        """Put an answer into a file and return its path below HOME/cron; raises StorageError."""
        return await _in_thread(lambda: self.past.keep_output(row, job, text))

    async def refresh(self) -> Sequence[Job]:
        """All jobs as they stand by clock and zone, those that were settled too far ahead set back; what that changes is stored.

        What this process has written itself is not worked out anew.
        """

        def stand() -> Sequence[Job]:
            if not self.file.state():
                return []
            now = self._clock.now()
            with self._changing() as jobs:
                anew = self.file.state() != self._written
                found = [self._standing(job, now, anew=anew) for job in jobs]
                if found != list(jobs):
                    self.file.write(found)
                self._written = self.file.state()
                return found

        return await _in_thread(stand)

    async def claim(self, name: str) -> int | None:
        """As JobFile.claim."""
        return await _in_thread(lambda: self.file.claim(name))

    # ---- inside

    def _standing(self, job: Job, now: datetime, *, anew: bool) -> Job:
        try:
            if job.enabled and is_ahead(job, now, self.zone):
                return states.standing(states.set_back(job, now), self.zone)
            return states.standing(job, self.zone) if anew else job
        except ScheduleError as error:
            raise StoreError(
                f"the job {job.name!r} ({job.id}) has a schedule that cannot be read: {error.what}; no job runs",
                kept=f"{self.file.path} was not touched",
                next="change its schedule, or remove it",
            ) from error

    async def _replace(self, id: str, change: Callable[[Job], Job], *, owner: str) -> Job:
        def replace() -> Job:
            with self._changing() as jobs:
                new = change(_one(jobs, id, owner))
                after = _with(jobs, new)
                _check_bounds(after, owner)
                self.file.write(after)
                return new

        return await _in_thread(replace)

    async def _record(self, row: Occurrence, change: Callable[[Job], Job]) -> None:
        """Add a row, then change the job if it is still there and this is what it runs."""

        def act() -> None:
            with self._changing() as jobs:
                self.past.add((row,))
                new = [change(job) if job.running is not None and job.running.id == row.id else job for job in jobs]
                if new != list(jobs):
                    self.file.write(new)

        await _in_thread(act)

    @contextmanager
    def _changing(self) -> Generator[Sequence[Job], None, None]:
        """The jobs, everybody else shut out; rows that a crash has kept from the history are added first."""
        with self.file.locked():
            content = self.file.content()
            mine = self.file.state() == self._written
            if content.unwritten and not self.past.ends_with(content.unwritten[-1]):
                self.past.add(content.unwritten)
                self.file.write(content.jobs)
            yield content.jobs
            if mine:
                self._written = self.file.state()


def _check_bounds(jobs: Sequence[Job], owner: str) -> None:
    """Raise LimitError for more than a home can hold, or a key may have."""
    own = sum(job.owner == owner for job in jobs)
    if len(jobs) > MOST_JOBS or (owner and own > MOST_OF_A_KEY):
        many = f"{MOST_OF_A_KEY} jobs of this key" if owner and own > MOST_OF_A_KEY else f"{MOST_JOBS} jobs"
        raise LimitError(f"there are {many} already", kept=states.UNCHANGED, next="remove some that are finished")
    if sum(len(job.prompt) for job in jobs) > LONGEST:
        raise LimitError(
            f"the prompts of all jobs have more than {LONGEST:,} characters together",
            kept=states.UNCHANGED,
            next="put long instructions into a file that the job reads",
        )


def _rests(job: Job, occurrence: Occurrence) -> bool:
    """Whether the job was paused meanwhile; what a person asks for runs nevertheless."""
    return not job.enabled and occurrence.how != "now"


def _with(jobs: Sequence[Job], new: Job) -> Sequence[Job]:
    return [new if job.id == new.id else job for job in jobs]


def _sees(owner: str, job: Job) -> bool:
    return owner in ("", job.owner)


def _one(jobs: Sequence[Job], id: str, owner: str) -> Job:
    found = next((job for job in jobs if job.id == id and _sees(owner, job)), None)
    if found is None:
        raise JobNotFoundError(f"there is no job {id!r}", next="see GET /api/jobs")
    return found


async def _in_thread(act: Callable[[], T]) -> T:
    """Do what blocks beside the loop, to its end, even when nobody waits any more."""
    result: list[T] = []
    cancelled = await wait_for(lambda: result.append(act()))
    if cancelled is not None:
        raise cancelled
    return result[0]
