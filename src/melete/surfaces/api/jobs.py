"""`/api/jobs`: scheduled work is made, looked at, changed, paused, run and removed; a key sees its own jobs only."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from melete.app.job_runner import JobRunner
from melete.app.jobs import JobBusyError, JobNotFoundError
from melete.app.schedule import ScheduleError
from melete.core.errors import ConfigError, UsageError
from melete.core.job import Job, JobDraft, Occurrence
from melete.surfaces.api.answers import answer, body_of, note, query_of, server_of, who_of
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.idempotency import REPLAYED, once, once_made
from melete.surfaces.api.route import Route

FINAL = 1_000
"""Occurrences among which an earlier request's is looked for."""

JobChanges: Any = msgspec.defstruct(
    "JobChanges",
    [(field.name, field.type | msgspec.UnsetType, msgspec.UNSET) for field in structs.fields(JobDraft)],
    namespace={"__doc__": "What to change of a job; what is left out stays as it is."},
    module=__name__,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)


class JobList(Struct, frozen=True, kw_only=True):
    """The jobs that the key may see, the oldest first."""

    jobs: tuple[Job, ...]


class JobPause(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a job is to rest."""

    reason: Annotated[str, Meta(max_length=1_000)] = ""


class JobRemoved(Struct, frozen=True, kw_only=True):
    """A job that is not there any more; what it did is."""

    id: str
    deleted: bool = True


class HistoryQuery(Struct, frozen=True, kw_only=True):
    """Which part of a job's history."""

    limit: Annotated[int, Meta(ge=1, le=1_000, description="How many occurrences at most.")] = 50
    before: Annotated[str, Meta(max_length=100, description="The id of an occurrence: only older ones are given.")] = ""


class History(Struct, frozen=True, kw_only=True):
    """What became of a job's occurrences, the last changed first."""

    occurrences: tuple[Occurrence, ...]


async def index(request: Request) -> Response:
    """All jobs of the key."""
    return answer(JobList(jobs=tuple(await _jobs(request).store.list(owner=who_of(request).owner))))


async def create(request: Request) -> Response:
    """Make a job; it runs for whoever made it, in a session of its own each time."""
    store, owner = _jobs(request).store, who_of(request).owner
    draft = await body_of(request, JobDraft)

    async def made(id: str) -> bool:
        return any(job.id == id for job in await store.list(owner=owner))

    with refusals():
        async with once_made(request, made) as this:
            job = await (
                store.get(this.id, owner=owner) if this.again else store.create(draft, owner=owner, id=this.id)
            )
    note(request, job=job.id)
    return answer(job, status=201, headers=REPLAYED if this.again else {})


async def show(request: Request) -> Response:
    """A job as it stands: its state, when it runs next, and how it ended last."""
    with refusals():
        return answer(await _jobs(request).store.get(_id(request), owner=who_of(request).owner))


async def change(request: Request) -> Response:
    """Change a job; a new schedule begins now, and `enabled: false` pauses it."""
    changes: Any = await body_of(request, JobChanges)
    with refusals():
        changed = await _jobs(request).store.change(
            _id(request), msgspec.to_builtins(changes), owner=who_of(request).owner
        )
    return answer(changed)


async def remove(request: Request) -> Response:
    """Remove a job, and cancel its run if one goes on; its history and outputs stay in the home."""
    jobs, id = _jobs(request), _id(request)
    with refusals():
        await jobs.store.remove(id, owner=who_of(request).owner)
    jobs.changed.set()
    return answer(JobRemoved(id=id))


async def pause(request: Request) -> Response:
    """Let a job rest; what is due meanwhile does not count."""
    wanted = await body_of(request, JobPause) if await request.body() else JobPause()
    with refusals():
        paused = await _jobs(request).store.pause(_id(request), reason=wanted.reason, owner=who_of(request).owner)
    return answer(paused)


async def resume(request: Request) -> Response:
    """Let a job go on with what is due from now on."""
    with refusals():
        return answer(await _jobs(request).store.resume(_id(request), owner=who_of(request).owner))


async def run(request: Request) -> Response:
    """Run a job now, also one that rests; answers once its run has begun. Its schedule stays as it is."""
    jobs, id, owner = _jobs(request), _id(request), who_of(request).owner
    with refusals():
        await jobs.store.get(id, owner=owner)
        async with once(request, running=True) as this:
            if this.before is not None:
                past = await jobs.store.history(id, owner=owner, limit=FINAL)
                began = next((row for row in past if row.run == this.before.run), None)
                if began is not None:
                    return answer(began, status=202, headers=REPLAYED)
            begun = await jobs.run_now(id, owner=owner, run=this.run)
    note(request, session=begun.session, run=begun.run)
    return answer(begun, status=202)


async def history(request: Request) -> Response:
    """What became of each time that the job was due: it ran, failed, was skipped or missed, and why."""
    wanted = query_of(request, HistoryQuery)
    with refusals():
        found = await _jobs(request).store.history(
            _id(request), owner=who_of(request).owner, limit=wanted.limit, before=wanted.before
        )
    return answer(History(occurrences=tuple(found)))


@contextmanager
def refusals() -> Generator[None]:
    """Say of jobs what went wrong with them."""
    try:
        yield
    except JobNotFoundError as error:
        raise ApiError(404, "job_not_found", error.what) from error
    except JobBusyError as error:
        raise ApiError(409, "job_busy", error.what, next=error.next) from error
    except ScheduleError as error:
        raise ApiError(422, "invalid_schedule", error.what, param="schedule", next=error.next) from error
    except ConfigError:
        raise
    except UsageError as error:
        raise ApiError(422, "invalid_job", error.what, next=error.next) from error


def _jobs(request: Request) -> JobRunner:
    return server_of(request).jobs


def _id(request: Request) -> str:
    id = request.path_params["id"]
    note(request, job=id)
    return id


ALL, ONE, TAG, SCOPE = "/api/jobs", "/api/jobs/{id}", "jobs", "jobs"
EXAMPLE = {
    "name": "Morning report",
    "prompt": "Sum up what has changed here since yesterday.",
    "schedule": "0 9 * * 1-5",
}
ROUTES = (
    Route(method="GET", path=ALL, handler=index, tag=TAG, scope=SCOPE, gives=JobList),
    Route(
        method="POST",
        path=ALL,
        handler=create,
        tag=TAG,
        scope=SCOPE,
        acts=True,
        takes=JobDraft,
        example=EXAMPLE,
        gives=Job,
        status=201,
        headers=("Idempotency-Key",),
        sends=("Idempotent-Replayed",),
        errors=(404, 409, 422),
    ),
    Route(method="GET", path=ONE, handler=show, tag=TAG, scope=SCOPE, gives=Job, errors=(404,)),
    Route(
        method="PATCH",
        path=ONE,
        handler=change,
        tag=TAG,
        scope=SCOPE,
        acts=True,
        takes=JobChanges,
        example={"schedule": "every 2h"},
        gives=Job,
        errors=(404, 422),
    ),
    Route(method="DELETE", path=ONE, handler=remove, tag=TAG, scope=SCOPE, acts=True, gives=JobRemoved, errors=(404,)),
    Route(
        method="POST",
        path=f"{ONE}/pause",
        handler=pause,
        tag=TAG,
        scope=SCOPE,
        acts=True,
        takes=JobPause,
        optional=True,
        example={"reason": "until the move is over"},
        gives=Job,
        errors=(404, 422),
    ),
    Route(
        method="POST",
        path=f"{ONE}/resume",
        handler=resume,
        tag=TAG,
        scope=SCOPE,
        acts=True,
        gives=Job,
        errors=(404, 422),
    ),
    Route(
        method="POST",
        path=f"{ONE}/run",
        handler=run,
        tag=TAG,
        scope=SCOPE,
        acts=True,
        gives=Occurrence,
        status=202,
        headers=("Idempotency-Key",),
        sends=("Idempotent-Replayed",),
        errors=(404, 409, 422),
    ),
    Route(
        method="GET",
        path=f"{ONE}/history",
        handler=history,
        tag=TAG,
        scope=SCOPE,
        query=HistoryQuery,
        gives=History,
        errors=(404,),
    ),
)
