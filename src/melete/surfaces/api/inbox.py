"""What is said to a run or a session from outside, whichever process runs it: steering, answers and cancels."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from melete.app.reaching import Kind, choice, inbox_message, send
from melete.core.event import Question
from melete.core.session import SessionRef
from melete.core.transcript import Transcript
from melete.surfaces.api.answers import answer, server_of, who_of
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.run_types import Delivered

SURFACE = "api"
PATIENCE: Mapping[Kind, float] = {"steer": 1.5, "queue": 0.5, "answer": 5.0, "cancel": 5.0}
"""Seconds to wait for what becomes of a message: a step may last long, answers and cancels act at once."""
LONGEST = 1_000_000
"""Characters of one message."""
LONGEST_SHOWN = 80


async def deliver(request: Request, ref: SessionRef, kind: Kind, *, text: str = "", question: str = "") -> Response:
    """Send a message and answer what became of it; raises ApiError for a cancel that finds nothing to stop."""
    app = server_of(request).app
    if len(text) > LONGEST:
        raise ApiError(422, "too_long", f"the message is longer than {LONGEST:,} characters", next="send less")
    if kind == "answer" and (known := (await _state(request, ref)).questions.get(question)) is not None:
        text = _meant(known, text)
    message = inbox_message(app, kind, text=text, question=question, surface=SURFACE, who=who_of(request).owner)
    receipt = await send(app, ref, message, wait=PATIENCE[kind])
    if kind == "answer" and receipt.status == "expired" and question in (await _state(request, ref)).answered:
        return answer(Delivered(status="lost"))
    if kind == "cancel" and receipt.status == "expired":
        raise ApiError(409, "run_over", f"nothing runs in the session {ref.id}", next="nothing was cancelled")
    return answer(Delivered(status=receipt.status, seq=receipt.seq))


def _meant(question: Question, value: str) -> str:
    """The answer that a value means; raises ApiError for one that is none of the choices."""
    meant = choice(question, value)
    if meant is None:
        what = f"{value[:LONGEST_SHOWN]!r} is none of the choices"
        raise ApiError(422, "not_a_choice", what, param="value", next=f"say one of {', '.join(question.choices)}")
    return meant


async def _state(request: Request, ref: SessionRef) -> Transcript:
    return Transcript(await server_of(request).app.store.facts(ref))
