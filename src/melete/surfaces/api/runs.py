"""`/v1/runs`: begin a run, look at it, follow its events, say something to it. The run outlives every client."""

from collections.abc import Callable, Sequence
from typing import cast

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from melete.app.learn_outcomes import judge
from melete.app.opening import Options
from melete.app.runs import Runs, RunState, Wanted, status_of
from melete.core.errors import SessionNotFoundError
from melete.core.event import Event, RunEnded, Stop
from melete.core.message import Message
from melete.core.session import RunInfo, WhichRuns
from melete.surfaces.api import sse
from melete.surfaces.api.answers import Stream, answer, body_of, note, query_of, server_of, traced, who_of
from melete.surfaces.api.chat_history import part
from melete.surfaces.api.chat_request import model_named
from melete.surfaces.api.chat_types import UserMessage
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.idempotency import REPLAYED, once
from melete.surfaces.api.inbox import SURFACE, deliver
from melete.surfaces.api.route import Route
from melete.surfaces.api.run_types import (
    After,
    Answer,
    Delivered,
    Feedback,
    NewRun,
    RunAccepted,
    RunLine,
    RunList,
    RunStatus,
    RunsWanted,
    Status,
    Steer,
)

OPEN = ("running", "waiting", "interrupted")
"""The states of runs that have no end."""
MOST_OPEN = 10_000
STOPS: dict[str, tuple[str, ...]] = {
    "done": (Stop.DONE,),
    "failed": (Stop.FAILED,),
    "cancelled": (Stop.CANCELLED,),
    "limit": tuple(sorted(Stop.LIMITS)),
}


async def create(request: Request) -> Response:
    """Begin a run; its prompt is stored when this answers.

    It goes on whatever becomes of the client. With an Idempotency-Key, the same request sent again gets the same run.
    """
    server, who = server_of(request), who_of(request)
    wanted = await body_of(request, NewRun)
    prompt = _prompt(wanted, most=server.app.loaded.settings.server.max_parts)
    options = Options(
        session=wanted.session,
        owner=who.owner,
        surface=SURFACE,
        attended=True,
        shares=True,
        model=await model_named(server, wanted.model),
        toolsets=wanted.toolsets,
        max_steps=wanted.max_steps,
        budget_usd=wanted.budget_usd,
    )
    async with once(request, running=True) as this:
        if this.before is not None:
            note(request, session=this.before.ref.id, run=this.before.run)
            return answer(RunAccepted(id=this.before.run, session=this.before.ref.id), status=202, headers=REPLAYED)
        going = await server.runs.start(prompt, options, how=Wanted(run=this.run, about=traced(request), woken=True))
    note(request, session=going.ref.id, run=going.run)
    return answer(RunAccepted(id=going.run, session=going.ref.id), status=202)


def _prompt(wanted: NewRun, *, most: int) -> Message:
    """The input as a message; raises ApiError for a part that cannot be taken, and for one that says nothing."""
    try:
        prompt = part((UserMessage(content=wanted.input),), most=most).prompt
    except ApiError as error:
        error.param = error.param.replace("messages[0].content", "input").replace("messages", "input")
        raise
    if prompt is None:
        raise ApiError(400, "empty_input", "there is no input", param="input")
    return prompt


async def listing(request: Request) -> Response:
    """The runs of this key's sessions, the last begun first, whichever process began them."""
    server, wanted, owner = server_of(request), query_of(request, RunsWanted), who_of(request).owner
    store, end = server.app.store, wanted.offset + wanted.limit
    if wanted.status in OPEN:
        which = WhichRuns(owner=owner, session=wanted.session, stops=("",))
        lines = [await _line(server.runs, row, owner) for row in await store.runs(which, limit=MOST_OPEN)]
        found = [line for line in lines if line.status == wanted.status]
        data, more = found[wanted.offset : end], len(found) > end
    else:
        which = WhichRuns(owner=owner, session=wanted.session, stops=STOPS.get(wanted.status or "", ()))
        rows = await store.runs(which, limit=wanted.limit + 1, offset=wanted.offset)
        data = [await _line(server.runs, row, owner) for row in rows[: wanted.limit]]
        more = len(rows) > wanted.limit
    return answer(RunList(data=tuple(data), has_more=more))


async def _line(runs: Runs, row: RunInfo, owner: str) -> RunLine:
    return RunLine(
        id=row.id,
        session=row.session,
        status=await _status(runs, row, owner),
        model=row.model,
        surface=row.surface,
        started=row.started,
        ended=row.ended,
        stop=row.stop or None,
        steps=row.steps,
        seconds=row.seconds,
    )


async def _status(runs: Runs, row: RunInfo, owner: str) -> Status:
    if row.stop:
        return cast("Status", status_of(RunEnded(stop=row.stop)))
    if not row.running:
        return "interrupted"
    try:
        found = await runs.state(row.id, owner=owner)
    except SessionNotFoundError:  # deleted since it was listed
        return "interrupted"
    return cast("Status", found.status) if found.ended is None else "running"


async def show(request: Request) -> Response:
    """A run's status, and its result once there is one."""
    return answer(_shown(await _state(request), server_of(request).app.redact))


async def events(request: Request) -> Response:
    """A run's events as they happen, from its beginning or behind `Last-Event-ID`, to its end.

    Facts have the id `SEQ.0` and are never lost; pieces of an answer have `SEQ.SUB`, and are sent again as long as the server that
    made them has them. When nothing is left to tell, 204 says so, and browsers stop asking.
    """
    server, wanted = server_of(request), query_of(request, After)
    after = sse.after(request.headers.get("last-event-id", "") or wanted.after)
    found = await _state(request)
    live = server.runs.place(found.run)
    if after > max((found.upto, 0), live or (0, 0)) and (live is not None or after[0] > found.upto):
        raise sse.ahead()
    if live is None and _told(found, after, settled=server.runs.settled):
        return Response(status_code=204)
    tick = server.app.loaded.settings.server.keepalive
    stream = server.runs.batches(found.run, found.ref, after=after, tick=tick)
    return Stream(sse.frames(stream, server.app.redact))


def _told(found: RunState, after: tuple[int, int], *, settled: bool) -> bool:
    """Whether a reader that is behind `after` has had everything of a run."""
    over = found.ended is not None or (found.status == "interrupted" and settled)
    return over and after[0] >= found.seq


async def steer(request: Request) -> Response:
    """Say something to a run without stopping it."""
    wanted = await body_of(request, Steer)
    if not wanted.text.strip():
        raise ApiError(400, "empty_text", "there is no text", param="text")
    return await deliver(request, (await _alive(request)).ref, "steer", text=wanted.text)


async def reply(request: Request) -> Response:
    """Answer a question of a run; the first answer counts."""
    wanted = await body_of(request, Answer)
    found = await _state(request)
    if wanted.question not in found.answered:
        found = await _alive(request)
    return await deliver(request, found.ref, "answer", text=wanted.value, question=wanted.question)


async def cancel(request: Request) -> Response:
    """Stop a run; what it has stored is kept."""
    return await deliver(request, (await _alive(request)).ref, "cancel")


async def feedback(request: Request) -> Response:
    """Say whether the answer of a session's last run was good or bad."""
    wanted, found = await body_of(request, Feedback), await _state(request)
    app, owner = server_of(request).app, who_of(request).owner
    (last,) = await app.store.runs(WhichRuns(owner=owner, session=found.ref.id), limit=1)
    if last.id != found.run or found.ended is None:
        what = f"the run {found.run} {'is not over' if found.ended is None else 'is not the last of its session'}"
        raise ApiError(409, "not_the_last_run", what, next="nothing was noted; judge the last run once it is over")
    return answer(Delivered(status="accepted", seq=await judge(app, found.ref, wanted.verdict, why=wanted.why)))


async def _alive(request: Request) -> RunState:
    """The run, which goes on; raises ApiError for one that is over."""
    found = await _state(request)
    if found.ended is not None or found.status == "interrupted":
        raise ApiError(409, "run_over", f"the run {found.run} is over ({found.status})", next="nothing was sent")
    return found


async def _state(request: Request) -> RunState:
    run = request.path_params["id"]
    found = await server_of(request).runs.state(run, owner=who_of(request).owner)
    note(request, session=found.ref.id, run=run)
    return found


def _shown(found: RunState, redact: Callable[[str], str]) -> RunStatus:
    started, ended = found.started, found.ended
    shown = RunStatus(
        id=found.run,
        session=found.ref.id,
        status=cast("Status", found.status),
        model=started.model,
        surface=started.surface,
        started=started.at,
        questions=found.questions,
        seq=found.seq,
        resumes=started.about.get("resumes"),
        resumed_as=found.resumed_as or None,
    )
    if ended is None:
        return shown
    return structs.replace(
        shown,
        ended=ended.at,
        stop=ended.stop,
        text=redact(ended.text),
        error=redact(ended.error) if ended.error else None,
        steps=ended.steps,
        usage=ended.usage,
        cost_usd=ended.cost_usd,
        seconds=ended.seconds,
    )


ONE, TAG = "/v1/runs/{id}", "runs"
ROUTES: Sequence[Route] = (
    Route(
        method="POST",
        path="/v1/runs",
        handler=create,
        tag=TAG,
        acts=True,
        takes=NewRun,
        example={"input": "Which files here are the largest?"},
        gives=RunAccepted,
        status=202,
        headers=("Idempotency-Key",),
        sends=("Idempotent-Replayed",),
        errors=(404, 409, 422, 503),
    ),
    Route(method="GET", path="/v1/runs", handler=listing, tag=TAG, gives=RunList, query=RunsWanted),
    Route(method="GET", path=ONE, handler=show, tag=TAG, gives=RunStatus, errors=(404,)),
    Route(
        method="GET",
        path=f"{ONE}/events",
        handler=events,
        tag=TAG,
        stream=True,
        events=Event,
        nothing="The reader has had everything, and there will be no more.",
        query=After,
        headers=("Last-Event-ID",),
        errors=(404,),
    ),
    Route(
        method="POST",
        path=f"{ONE}/steer",
        handler=steer,
        tag=TAG,
        acts=True,
        takes=Steer,
        example={"text": "Leave the tests as they are."},
        gives=Delivered,
        errors=(404, 409, 422),
    ),
    Route(
        method="POST",
        path=f"{ONE}/answer",
        handler=reply,
        tag=TAG,
        acts=True,
        takes=Answer,
        example={"question": "q_1", "value": "once"},
        gives=Delivered,
        errors=(404, 409, 422),
    ),
    Route(
        method="POST",
        path=f"{ONE}/feedback",
        handler=feedback,
        tag=TAG,
        acts=True,
        takes=Feedback,
        example={"verdict": "bad", "why": "It asked for the other branch."},
        gives=Delivered,
        errors=(404, 409, 422),
    ),
    Route(
        method="POST",
        path=f"{ONE}/cancel",
        handler=cancel,
        tag=TAG,
        acts=True,
        gives=Delivered,
        errors=(404, 409, 422),
    ),
)
