"""Carries out one occurrence of a job: that it begins is stored first, then it runs, then what became of it is stored.

Part of the composition root. A job is claimed by a lock that the end of a process lets go, whatever ends it; so no two processes
run it at once, and what a dead one left is seen.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import structs

from melete.agent.run import new_run_id
from melete.app.jobs import JobBusyError, JobStore
from melete.app.occurrences import Plan, occurrence_id
from melete.app.opening import Options
from melete.app.runs import StoppingError, TooManyRunsError, Wanted
from melete.app.wire import Melete
from melete.core.errors import MeleteError, StoreError, UsageError
from melete.core.event import Event, RunEnded, Stop
from melete.core.job import Job, JobStatus, Occurrence
from melete.core.message import Message, Origin, user
from melete.core.session import SessionRef

log = logging.getLogger("melete.jobs")
SURFACE = "cron"
SILENT = "[SILENT]"
TOLD = (
    "You work on a scheduled job. Nobody reads along and nobody can answer a question: decide for yourself, and say in the "
    f"answer what you decided. If there is nothing that anybody needs to be told, answer {SILENT} alone on the first line."
)
TO_STOP = 60.0
"""Seconds that a run which was cancelled has to end."""
RETRY = 5.0
"""Seconds between two tries to store how an occurrence ended."""
RunNow = asyncio.Future[Occurrence]


class Going(Protocol):
    """A run that was begun, as app/runs.py has it."""

    run: str
    ref: SessionRef

    async def ended(self) -> RunEnded:
        """Its last fact, once it is there."""
        ...

    def cancel(self) -> None:
        """Stop it."""
        ...

    def events(self, *, tick: float) -> AsyncGenerator[Event | None]:
        """Its events to the end; None after `tick` seconds of silence."""
        ...


class Starts(Protocol):
    """What begins runs: app/runs.py."""

    stopping: bool

    async def start(self, prompt: Message | None, options: Options, *, how: Wanted | None = None) -> Going:
        """Begin a run; when this returns, its prompt is on the disk."""
        ...


class _Work:
    """An occurrence that is carried out: what is known of it, and its run once that has begun."""

    def __init__(self, job: Job, row: Occurrence) -> None:
        self.job = job
        self.row = row
        self.going: Going | None = None
        self.removed = False
        self.silent = False


class JobRunner:
    """Runs occurrences in tasks of the application, at most `most` at a time; `listeners` get every row that is stored.

    `changed` is set whenever one has ended or something was asked for.
    """

    def __init__(self, app: Melete, starts: Starts, store: JobStore, *, most: int) -> None:
        self.app = app
        self.store = store
        self.most = most
        self.changed = asyncio.Event()
        self.listeners: list[Callable[[Occurrence], None]] = []
        self._starts = starts
        self._work: dict[str, _Work] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def free(self) -> bool:
        """Whether another occurrence may begin."""
        return len(self._work) < self.most and not self._starts.stopping

    async def run_now(self, id: str, *, owner: str = "", run: str = "") -> Occurrence:
        """Run a job at once, also one that rests, as `run` or under a new id; returns the occurrence with its session and run.

        Raises JobNotFoundError, JobBusyError, TooManyRunsError, StoppingError, and what keeps a run from beginning.
        """
        job = await self.store.get(id, owner=owner)
        if self._starts.stopping:
            raise StoppingError("the server is stopping", kept="nothing was begun", next="try again in a moment")
        if not self.free:
            raise TooManyRunsError(
                f"{self.most} jobs run already", kept="nothing was begun", next="try again later (cron.max_parallel)"
            )
        now = self.app.clock.now()
        begun: RunNow = asyncio.get_running_loop().create_future()
        row = Occurrence(
            id=occurrence_id(id, now, how="now"), job=id, due=now, how="now", started=now, run=run or new_run_id()
        )
        plan = Plan(settled_until=job.settled_until, again_at=job.again_at)
        if await self._begin(job, plan, row, begun=begun) is None:
            raise JobBusyError(
                f"the job {job.name!r} runs already", kept="nothing was begun", next="wait until it has ended"
            )
        return await begun

    async def begin(self, job: Job, plan: Plan, due: datetime) -> Job | None:
        """Begin what is `due` by a plan; None, with nothing begun, when the job runs elsewhere or is another one by now."""
        now = self.app.clock.now()
        id = occurrence_id(job.id, due, how=plan.how)
        row = Occurrence(id=id, job=job.id, due=due, how=plan.how, started=now, run=new_run_id())
        return await self._begin(job, plan, row)

    def tell(self, rows: Sequence[Occurrence], *, name: str) -> None:
        """Pass rows that were stored on to the log, in one line, and to the listeners."""
        if not rows:
            return
        last, times = rows[-1], sum(row.count for row in rows)
        level = logging.INFO if last.status in ("ran", "cancelled") else logging.WARNING
        many = f" and {times - 1} before" if times > 1 else ""
        log.log(level, "job %r, due %s%s: %s; %s", name, last.due.isoformat(), many, last.status, last.why or "ok")
        for row in rows:
            for listener in self.listeners:
                listener(row)

    def forget(self, there: Sequence[Job]) -> None:
        """Cancel the runs of jobs that are not there any more."""
        known = {job.id for job in there}
        for id, work in self._work.items():
            if id not in known and not work.removed:
                work.removed = True
                if work.going is not None:
                    work.going.cancel()

    async def recover(self, jobs: Sequence[Job]) -> int:
        """Give every occurrence an end whose process is no more; returns how many there were. Raises StoreError."""
        found = 0
        for job in jobs:
            if job.running is None or job.id in self._work:
                continue
            lock = await self.store.claim(job.id)
            if lock is None:
                continue
            try:
                now = next((one for one in await self.store.list() if one.id == job.id), None)
                if now is not None and now.running is not None:
                    await self._close(now, now.running)
                    found += 1
            finally:
                os.close(lock)
        return found

    async def idle(self) -> None:
        """Wait until nothing is carried out here."""
        await self._idle.wait()

    # ---- inside

    async def _close(self, job: Job, running: Occurrence) -> None:
        row = await self.store.known(running.id)
        if row is None or row.status == "started":
            row = structs.replace(
                row or running, status="interrupted", why="the process that ran it ended before its run did"
            )
        await self.store.end(row)
        self.tell([row], name=job.name)

    async def _begin(self, job: Job, plan: Plan, row: Occurrence, *, begun: RunNow | None = None) -> Job | None:
        if job.id in self._work:
            return None
        work = self._work[job.id] = _Work(job, row)  # its place is taken from here on
        self._idle.clear()
        lock: int | None = None
        new: Job | None = None
        try:
            lock = await self.store.claim(job.id)
            new = None if lock is None else await self.store.begin(job, plan, occurrence=row)
        finally:
            if new is None:
                self._leave(work, lock)
        if lock is not None and new is not None:
            self.tell(plan.rows, name=job.name)
            self.app.group.create_task(self._carry_out(work, lock, begun), name=f"job {row.id}")
        return new

    def _leave(self, work: _Work, lock: int | None) -> None:
        if lock is not None:
            os.close(lock)
        del self._work[work.job.id]
        if not self._work:
            self._idle.set()

    async def _carry_out(self, work: _Work, lock: int, begun: RunNow | None) -> None:
        """From the beginning that is stored to an end that is; a failure of whatever kind is an end as well."""
        patient = True
        try:
            work.row = await self._run(work, begun)
        except asyncio.CancelledError:
            work.row, patient = self._over(work, "interrupted", "the server stopped"), False
            raise
        except Exception as error:
            log.exception("job %r failed", work.job.name)
            work.row = self._over(work, "failed", f"{type(error).__name__}: {error}")
        finally:
            try:
                await self._store_end(work, patient=patient)
            finally:
                self._leave(work, lock)
                self.changed.set()
                if begun is not None and not begun.done():
                    begun.cancel()

    async def _store_end(self, work: _Work, *, patient: bool) -> None:
        """Store the end, as often as it takes: until then the job counts as running, and is locked."""
        while True:
            try:
                await self.store.end(work.row)
            except StoreError as error:
                log.error("how the job %r ended cannot be stored: %s", work.job.name, error)  # noqa: TRY400
                if not patient or self._starts.stopping:
                    return
            else:
                self.tell([work.row], name=work.job.name)
                return
            await asyncio.sleep(RETRY)

    async def _run(self, work: _Work, begun: RunNow | None) -> Occurrence:
        try:
            going = work.going = await self._start(work)
        except MeleteError as error:
            if begun is not None and not begun.done():
                begun.set_exception(error)
                begun.exception()  # told to who waits, if anybody still does
            work.row = structs.replace(work.row, run="")
            return self._over(work, "failed", f"it could not begin: {error}")
        work.row = structs.replace(work.row, session=going.ref.id)
        if begun is not None and not begun.done():
            begun.set_result(work.row)
        if work.removed:  # meanwhile
            going.cancel()
        try:
            await self.store.note(work.row)
        except StoreError as error:
            log.warning("the session of the job %r is not in its history: %s", work.job.name, error)
        try:
            ended = await self._follow(work, going)
        except TimeoutError:
            return self._over(work, "failed", f"{self._heard(work)}, and it has not ended {TO_STOP:g} seconds later")
        if isinstance(ended, MeleteError):
            return self._over(work, "failed", str(ended))
        return await self._judged(work, ended)

    async def _start(self, work: _Work) -> Going:
        job, loaded = work.job, self.app.loaded
        if job.cwd and loaded.settings.env.default == "local" and not Path(job.cwd).is_dir():
            raise UsageError(f"there is no folder {job.cwd}", next="change the job's `cwd`")
        options = Options(
            owner=job.owner,
            surface=SURFACE,
            cwd=job.cwd or str(loaded.home.folder(loaded.home.workspace)),
            toolsets=job.toolsets,
            max_steps=job.max_steps,
            budget_usd=job.budget_usd,
            model=job.model,
            shares=True,
            extra=TOLD,
            waits=True,
        )
        by = Origin(kind="schedule", who=job.id, surface=SURFACE)
        about = {"job": job.id, "occurrence": work.row.id}
        wanted = Wanted(run=work.row.run, about=about, watched=job.timeout > 0)
        return await self._starts.start(user(job.prompt, by=by), options, how=wanted)

    async def _follow(self, work: _Work, going: Going) -> RunEnded | MeleteError:
        """The run's end, or what kept it from being stored; TimeoutError where it does not end after it was cancelled."""
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            watcher = group.create_task(self._watch(work, going, limit))
            try:
                return await going.ended()
            except MeleteError as error:
                return error
            finally:
                watcher.cancel()

    async def _watch(self, work: _Work, going: Going, limit: asyncio.Timeout) -> None:
        """Cancel the run once it was silent for too long, and wait for it only a while longer."""
        if not work.job.timeout:
            return
        try:
            async with aclosing(going.events(tick=work.job.timeout)) as events:
                async for event in events:
                    if event is None:
                        work.silent = True
                        going.cancel()
                        limit.reschedule(asyncio.get_running_loop().time() + TO_STOP)
                        return
        except StoreError as error:
            log.warning("the job %r goes on unwatched: %s", work.job.name, error)

    async def _judged(self, work: _Work, ended: RunEnded) -> Occurrence:
        """The row of an occurrence whose run has ended, its answer kept."""
        row = self._over(work, *self._verdict(work, ended))
        silent = row.status == "ran" and is_silent(ended.text)
        row = structs.replace(row, silent=silent, cost_usd=ended.cost_usd)
        try:
            output = await self.store.keep_output(row, work.job, self.app.redact(ended.text))
        except StoreError as error:
            log.warning("the answer of the job %r is in its session only: %s", work.job.name, error)
            return row
        return structs.replace(row, output=output)

    def _verdict(self, work: _Work, ended: RunEnded) -> tuple[JobStatus, str]:
        if ended.stop == Stop.DONE:
            return "ran", ""
        if ended.stop != Stop.CANCELLED:
            return "failed", f"{ended.stop}: {ended.error}" if ended.error else ended.stop
        if work.silent:
            return "failed", self._heard(work)
        if work.removed:
            return "cancelled", "the job was removed"
        return (
            ("interrupted", "the server stopped") if self._starts.stopping else ("cancelled", "somebody cancelled it")
        )

    def _heard(self, work: _Work) -> str:
        return f"nothing was heard of it for {work.job.timeout:g} seconds"

    def _over(self, work: _Work, status: JobStatus, why: str) -> Occurrence:
        return structs.replace(work.row, status=status, why=self.app.redact(why), ended=self.app.clock.now())


def is_silent(text: str) -> bool:
    """Whether an answer says that nobody needs to be told: [SILENT] is all of it, its first line or its last."""
    lines = text.strip().splitlines() or [""]
    return SILENT in (lines[0].strip(), lines[-1].strip())
