"""The ticker: looks what is due, lets it run or says why not. One process of a home ticks. Part of the composition root.

It looks when something is due, when the jobs have changed, when a run has ended, and every `cron.tick_seconds` in any case: a
clock that jumped, in either direction, is noticed then.
"""

import asyncio
import contextlib
import logging
import os
import time
from datetime import datetime
from typing import Protocol

from melete.app.job_runner import JobRunner, Starts
from melete.app.jobs import JobStore
from melete.app.key_file import KeyFile
from melete.app.occurrences import Held, Plan, plan
from melete.app.plugins import add_installed
from melete.app.schedule import system_zone, zone_named
from melete.app.wire import Melete
from melete.core.errors import MeleteError
from melete.core.job import Job, JobDraft

log = logging.getLogger("melete.cron")
POLL = 1.0
"""Seconds after which a change of the jobs by another process is noticed."""
KEY = "key:"


class Ticker:
    """Looks after the jobs of a home until told to stop; does nothing while another process does."""

    def __init__(self, jobs: JobRunner, *, tick: float, poll: float = POLL) -> None:
        self.jobs = jobs
        self.store = jobs.store
        self.active = False
        self._clock = jobs.app.clock
        self._keys = KeyFile(jobs.app.loaded.home)
        self._tick = tick
        self._poll = poll
        self._held: dict[str, Held] = {}
        self._problem = ""
        self._state: tuple[int, ...] | None = None
        self._next: datetime | None = None
        self._soon = False
        self._stopping = False

    def stop(self) -> None:
        """Begin nothing more, and let `run` return."""
        self._stopping = True
        self.jobs.changed.set()

    async def run(self) -> None:
        """Tick until told to stop."""
        lock = await self._claim()
        try:
            self.active = lock is not None
            while not self._stopping:
                await self._look_safely()
                await self._wait()
        finally:
            self.active = False
            if lock is not None:
                os.close(lock)

    async def look(self) -> None:
        """Do what is to be done now; raises StoreError where jobs or history cannot be read or written."""
        self.jobs.changed.clear()
        self._next, self._soon = None, False
        self._state = self.store.file.state()
        jobs = await self.store.refresh()
        if await self.jobs.recover(jobs):
            jobs = await self.store.refresh()
        self.jobs.forget(jobs)
        known = {job.id: job for job in jobs}
        self._held = {id: held for id, held in self._held.items() if id in known}
        now = self._clock.now()
        due = [job for job in jobs if job.next_run_at is not None and job.next_run_at <= now]
        for job in sorted(due, key=lambda job: (job.next_run_at, job.created_at)):
            known[job.id] = await self._turn(job)
        coming = [job.next_run_at for job in known.values() if job.next_run_at is not None and job.next_run_at > now]
        self._next = min(coming, default=None)

    async def _turn(self, job: Job) -> Job:
        """Let a job that is due run, wait or be given up; returns it as it stands."""
        while job.next_run_at is not None and job.next_run_at <= (now := self._clock.now()):
            if not await self._may(job):
                log.warning("job %r is paused: %s may not run jobs any more", job.name, job.owner)
                return await self.store.pause(job.id, reason=f"{job.owner} may not run jobs any more")
            todo = plan(job, now, zone=self.store.zone, busy=job.running is not None, held=self._held.get(job.id))
            if todo is None:
                self._hold(job, now, "the run before was still going on")
                break
            if todo.due is not None and not self.jobs.free:
                self._hold(job, now, f"all {self.jobs.most} places were taken")
                break
            if todo.due is not None:
                return await self._begin(job, todo, todo.due)
            new = await self.store.begin(job, todo)
            if new is None:
                return self._once_more(job)
            self.jobs.tell(todo.rows, name=job.name)
            self._held.pop(job.id, None)
            job = new
        return job

    async def _begin(self, job: Job, todo: Plan, due: datetime) -> Job:
        new = await self.jobs.begin(job, todo, due)
        if new is None:
            return self._once_more(job)
        if job.misfire != "all":  # there, what was seen in time waits on
            self._held.pop(job.id, None)
        return new

    def _hold(self, job: Job, now: datetime, why: str) -> None:
        self._held.setdefault(job.id, Held(since=now, why=why))

    def _once_more(self, job: Job) -> Job:
        """The job is another one by now, or somebody else has just begun it: look again soon."""
        self._soon = True
        return job

    async def _may(self, job: Job) -> bool:
        """Whether the key that the job belongs to still opens jobs; raises StoreError when that cannot be known."""
        if not job.owner.startswith(KEY):
            return True
        name, now = job.owner.removeprefix(KEY), self._clock.now()
        keys = await asyncio.to_thread(self._keys.read)
        return any(
            key.name == name and (key.expires is None or key.expires > now) and {"jobs", "admin"} & set(key.scopes)
            for key in keys
        )

    async def _claim(self) -> int | None:
        """The right to tick, once nobody else of this home does; None when told to stop before."""
        waited = False
        while not self._stopping:
            try:
                lock = await self.store.claim("ticker")
            except MeleteError as error:
                self._tell(str(error))
            else:
                if lock is not None:
                    return lock
                if not waited:
                    log.info("jobs do not run here while another process of this home runs them")
                waited = True
            self.jobs.changed.clear()
            await self._sleep(self._poll)
        return None

    async def _look_safely(self) -> None:
        """Look; what keeps the jobs from running is told once, and tried again at the next tick."""
        try:
            await self.look()
        except MeleteError as error:
            self._tell(str(error))
        except Exception:
            log.exception("looking after the jobs failed; it is tried again")
        else:
            self._tell("")

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.error("jobs do not run here: %s", problem)
        self._problem = problem

    async def _wait(self) -> None:
        """Until something is due, a job has changed or ended, or a tick has passed."""
        until = time.monotonic() + (self._poll if self._soon else self._tick)
        while not self._stopping and time.monotonic() < until:
            if self.jobs.changed.is_set() or self._changed():
                return
            ahead = (self._next - self._clock.now()).total_seconds() if self._next else self._poll
            if ahead <= 0:
                return
            await self._sleep(min(self._poll, ahead, max(0.0, until - time.monotonic())))

    def _changed(self) -> bool:
        try:
            return self.store.file.state() != self._state
        except MeleteError as error:
            self._tell(str(error))
            return False

    async def _sleep(self, seconds: float) -> None:
        """So long, or until told to stop or something of our own has changed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.jobs.changed.wait()


class Serving(Protocol):
    """What the service needs of a server, as app/serve.py has it."""

    app: Melete
    jobs: JobRunner
    stop: asyncio.Event
    drained: asyncio.Event


class Cron:
    """The service `cron`: lets the jobs of the home run while the server does."""

    name = "cron"

    async def run(self, app: Serving) -> None:
        """Tick until the server stops, then wait until what runs has ended and is stored."""
        ticker = Ticker(app.jobs, tick=app.app.loaded.settings.cron.tick_seconds)
        async with asyncio.TaskGroup() as group:
            group.create_task(ticker.run())
            await app.stop.wait()
            ticker.stop()
        await app.drained.wait()
        await app.jobs.idle()


def make_jobs(app: Melete, starts: Starts) -> JobRunner:
    """The jobs of the application's home, ready to run; raises ConfigError for a time zone that is not known."""
    settings, variables = app.loaded.settings.cron, app.loaded.variables
    zone = zone_named(settings.timezone) if settings.timezone else system_zone(variables)

    async def check(draft: JobDraft) -> None:
        await _check(app, draft)

    store = JobStore(app.loaded.home.cron, clock=app.clock, zone=zone, check=check)
    return JobRunner(app, starts, store, most=settings.max_parallel)


async def _check(app: Melete, draft: JobDraft) -> None:
    """Raise ConfigError for a model or toolset that is not known here, before it fails in the night."""
    add_installed(app.registry, "tools", draft.toolsets)
    for name in draft.toolsets:
        app.registry.get("tools", name)
    if draft.model:
        await app.models.close(app.open_model(draft.model))
