"""`/v1/runs`: begin a run, look at it, follow its events, say something to it. The run outlives every client."""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from melete.app.opening import Options
from melete.app.runs import RunState
from melete.app.service import Kind, inbox_message, prompt_message, send
from melete.core.event import Question
from melete.core.message import Usage
from melete.surfaces.api import sse
from melete.surfaces.api.answers import Stream, answer, body_of, note, server_of, who_of
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.route import Route

SURFACE = "api"
PATIENCE: dict[Kind, float] = {"steer": 1.5, "answer": 5.0, "cancel": 5.0}
"""Seconds to wait for what becomes of a message: a step may last long, answers and cancels act at once."""


class NewRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do, and within which limits; without `session` in a new one."""

    input: str
    session: str = ""
    model: str = ""
    toolsets: tuple[str, ...] = ()
    max_steps: int | None = None
    budget_usd: float | None = None


class RunAccepted(Struct, frozen=True, kw_only=True):
    """A run that has begun."""

    id: str
    session: str


class RunStatus(Struct, frozen=True, kw_only=True):
    """A run: `status` is running, waiting (for an answer to `questions`), done, failed, cancelled, limit or interrupted.

    `text` is the answer, `error` why there is none, `resumed_as` the run that goes on with what was cut off.
    """

    id: str
    session: str
    status: str
    model: str
    started: datetime
    ended: datetime | None = None
    stop: str | None = None
    text: str | None = None
    error: str | None = None
    steps: int | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    questions: tuple[Question, ...] = ()
    seq: int = 0
    resumed_as: str | None = None


class Steer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to say to a run at its next step."""

    text: str


class Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to an open question, by the question's id."""

    question: str
    value: str


class Delivered(Struct, frozen=True, kw_only=True):
    """What became of a message: accepted (as the fact `seq`), queued, lost (somebody was first) or expired."""

    status: str
    seq: int = 0


async def create(request: Request) -> Response:
    """Begin a run; its prompt is stored when this answers."""
    server, who = server_of(request), who_of(request)
    wanted = await body_of(request, NewRun)
    if not wanted.input.strip():
        raise ApiError(400, "empty_input", "there is no input", param="input")
    options = Options(
        session=wanted.session,
        owner=who.owner,
        surface=SURFACE,
        attended=True,
        shares=True,
        model=wanted.model,
        toolsets=wanted.toolsets,
        max_steps=wanted.max_steps,
        budget_usd=wanted.budget_usd,
    )
    going = await server.runs.start(prompt_message(wanted.input, surface=SURFACE), options)
    note(request, session=going.ref.id, run=going.run)
    return answer(RunAccepted(id=going.run, session=going.ref.id), status=202)


async def show(request: Request) -> Response:
    """A run's status, and its result once there is one."""
    return answer(_shown(await _state(request), server_of(request).app.redact))


async def events(request: Request) -> Response:
    """A run's events as they happen, from its beginning or behind `Last-Event-ID`, to its end."""
    server = server_of(request)
    found = await _state(request)
    after = sse.after(request.headers.get("last-event-id", "") or request.query_params.get("after", ""))
    tick = server.app.loaded.settings.server.keepalive
    stream = server.runs.events(found.run, found.ref, after=after, tick=tick)
    return Stream(sse.frames(stream, server.app.redact))


async def steer(request: Request) -> Response:
    """Say something to a run without stopping it."""
    wanted = await body_of(request, Steer)
    if not wanted.text.strip():
        raise ApiError(400, "empty_text", "there is no text", param="text")
    return await _deliver(request, "steer", text=wanted.text)


async def reply(request: Request) -> Response:
    """Answer a question of a run; the first answer counts."""
    wanted = await body_of(request, Answer)
    return await _deliver(request, "answer", text=wanted.value, question=wanted.question)


async def cancel(request: Request) -> Response:
    """Stop a run; what it has stored is kept."""
    return await _deliver(request, "cancel")


async def _deliver(request: Request, kind: Kind, *, text: str = "", question: str = "") -> Response:
    server, found = server_of(request), await _state(request)
    if found.ended is not None or found.status == "interrupted":
        raise ApiError(409, "run_over", f"the run {found.run} is over ({found.status})", next="nothing was sent")
    message = inbox_message(server.app, kind, text=text, question=question, surface=SURFACE)
    receipt = await send(server.app, found.ref, message, wait=PATIENCE[kind])
    return answer(Delivered(status=receipt.status, seq=receipt.seq))


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
        status=found.status,
        model=started.model,
        started=started.at,
        questions=found.questions,
        seq=found.seq,
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
ROUTES = (
    Route(
        method="POST",
        path="/v1/runs",
        handler=create,
        tag=TAG,
        acts=True,
        takes=NewRun,
        gives=RunAccepted,
        status=202,
        errors=(404, 409, 503),
    ),
    Route(method="GET", path=ONE, handler=show, tag=TAG, gives=RunStatus, errors=(404,)),
    Route(method="GET", path=f"{ONE}/events", handler=events, tag=TAG, stream=True, errors=(404,)),
    Route(
        method="POST",
        path=f"{ONE}/steer",
        handler=steer,
        tag=TAG,
        acts=True,
        takes=Steer,
        gives=Delivered,
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path=f"{ONE}/answer",
        handler=reply,
        tag=TAG,
        acts=True,
        takes=Answer,
        gives=Delivered,
        errors=(404, 409),
    ),
    Route(method="POST", path=f"{ONE}/cancel", handler=cancel, tag=TAG, acts=True, gives=Delivered, errors=(404, 409)),
)
