"""`/v1/chat/completions` as OpenAI's clients know it: a conversation comes in, its answer goes out, whole or as it is written.

Tools run on the server's side, within the one request. What is answered is a run like every other: it has a session, it can be
watched, steered and cancelled by its id, and it outlives its client.
"""

import logging
from collections.abc import Callable

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from melete.app.recovery import CUT
from melete.app.runs import Going, RunState, Wanted
from melete.app.serve import Server
from melete.core.errors import MeleteError, SessionBusyError, SessionNotFoundError
from melete.core.event import Reply, RunEnded, RunStarted, Stop
from melete.core.message import Thinking
from melete.core.session import SessionRef
from melete.surfaces.api.answers import Stream, answer, note, server_of, traced
from melete.surfaces.api.chat_chunks import Chunks, completion_id, finish_of, ran, seconds, usage_of
from melete.surfaces.api.chat_failures import FAILED, NO_RETRY, failure, headers_of
from melete.surfaces.api.chat_history import Place, Recent, answered, unmoved
from melete.surfaces.api.chat_request import OWN, Asked, understood
from melete.surfaces.api.chat_stream import ChatStream, tick_of
from melete.surfaces.api.chat_types import AnswerMessage, ChatChunk, ChatCompletion, ChatRequest, Choice
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.idempotency import REPLAYED, once
from melete.surfaces.api.leaving import finished
from melete.surfaces.api.route import Route

log = logging.getLogger("melete.chat")


async def complete(request: Request) -> Response:
    """Answer a conversation; with `stream`, piece by piece.

    The conversation is the body's. With the header X-Melete-Session-Id it is that session's, and only the last message counts.
    Tools run on the server's side; those that a request brings along are left out of account. Every answer names its session and
    its run in headers.
    """
    server = server_of(request)
    asked = await understood(request)
    async with once(request) as this:
        if this.before is not None:
            note(request, session=this.before.ref.id, run=this.before.run)
            return await _replayed(server, asked, this.before)
        going = await _start(request, asked, Wanted(run=this.run, about=traced(request), watched=asked.stream))
    note(request, session=going.ref.id, run=going.run)
    if asked.stream:
        return await _streamed(request, asked, going)
    await finished(request, going)
    made = await completion_of(server, going.run, going.ref, read=asked.read)
    _remember(request, asked, made.choices[0].message.content, going=going, seq=(await going.ended()).seq)
    return answer(made, headers=headers_of(going.ref.id, going.run, ignored=asked.ignored))


# ---- beginning -------------------------------------------------------------------------------------------------------------


async def _start(request: Request, asked: Asked, wanted: Wanted) -> Going:
    """Begin the run: in the session that was named, in the one that said what the body repeats, or in a new one."""
    server, parted, options = server_of(request), asked.parted, asked.options
    if options.session:
        return await server.runs.start(parted.prompt, options, how=wanted)
    recent = recent_of(request)
    place = recent.take(parted.before)
    if place is not None and await _stands(server, place, owner=options.owner):
        try:
            return await server.runs.start(parted.prompt, structs.replace(options, session=place.session), how=wanted)
        except SessionBusyError:
            log.info("the session %s is in use: its conversation goes on in a new one", place.session)
        except MeleteError:
            recent.add(parted.before, place)
            raise
    return await server.runs.start(parted.prompt, options, how=structs.replace(wanted, history=asked.history))


async def _stands(server: Server, place: Place, *, owner: str) -> bool:
    """Whether a session is where its last answer left it."""
    try:
        return unmoved(await server.app.store.facts(SessionRef(id=place.session, owner=owner), after=place.seq))
    except SessionNotFoundError:
        return False


def recent_of(request: Request) -> Recent:
    """The conversations that this server knows by what was said in them."""
    return request.app.state.recent


def _remember(request: Request, asked: Asked, text: str, *, going: Going, seq: int) -> None:
    """Know the conversation again when its client goes on with it."""
    fingerprint = answered(asked.parted.so_far, text)
    if fingerprint and not asked.options.session:
        recent_of(request).add(fingerprint, Place(session=going.ref.id, seq=seq))


# ---- whole answers ---------------------------------------------------------------------------------------------------------


async def completion_of(
    server: Server, run: str, ref: SessionRef, *, read: Callable[[str], str] = str
) -> ChatCompletion:
    """The answer of a run that has ended, from what is stored of it; raises ApiError where it gave none."""
    redact = server.app.redact
    facts = [fact for fact in await server.app.store.facts(ref) if fact.run == run]
    started = next(fact for fact in facts if isinstance(fact, RunStarted))
    ended = next((fact for fact in reversed(facts) if isinstance(fact, RunEnded)), None)
    reply = next((fact for fact in reversed(facts) if isinstance(fact, Reply)), None)
    if ended is None:
        raise ApiError(409, "not_ended", f"the run {run} has not ended", headers=headers_of(ref.id, run))
    if (failed := failure(ended, redact)) is not None:
        raise failed
    parts = reply.message.parts if reply else ()
    thoughts = "\n\n".join(part.text for part in parts if isinstance(part, Thinking) and part.text)
    message = AnswerMessage(
        content=redact(read(ended.text)), reasoning_content=redact(thoughts) if thoughts else msgspec.UNSET
    )
    finish = "length" if ended.stop != Stop.DONE else finish_of(reply) if reply else "stop"
    return ChatCompletion(
        id=completion_id(run),
        created=seconds(started.at),
        model=started.model,
        choices=(Choice(message=message, finish_reason=finish),),
        usage=usage_of(ended.usage),
        melete=ran(ended, redact),
    )


async def _replayed(server: Server, asked: Asked, before: RunState) -> Response:
    """The answer of an earlier request's run, in the form that this one asks for; raises ApiError where it gave none."""
    run, ref = before.run, before.ref
    if before.ended is None:
        headers = {**NO_RETRY, **headers_of(ref.id, run), **REPLAYED}
        what = f"{CUT}: the run {run} is in the session {ref.id}"
        raise ApiError(*FAILED, what, next="ask again under another key", headers=headers)
    headers = {**headers_of(ref.id, run, ignored=asked.ignored), **REPLAYED}
    if not asked.stream:
        return answer(await completion_of(server, run, ref, read=asked.read), headers=headers)
    told = ChatStream(server, server.runs.events(run, ref), _chunks(server, asked))
    await told.begin()
    return Stream(told.frames(), headers=headers)


# ---- streams ---------------------------------------------------------------------------------------------------------------


async def _streamed(request: Request, asked: Asked, going: Going) -> Response:
    """The answer piece by piece."""
    server = server_of(request)
    tick = tick_of(server.app.loaded.settings.server.keepalive)
    told = ChatStream(server, going.events(tick=tick), _chunks(server, asked), going=going)
    told.on_answer = lambda ended, text: _remember(request, asked, text, going=going, seq=ended.seq)
    await told.begin()
    return Stream(told.frames(), headers=headers_of(going.ref.id, going.run, ignored=asked.ignored))


def _chunks(server: Server, asked: Asked) -> Chunks:
    whole = asked.options.answer is not None
    return Chunks(redact=server.app.redact, read=asked.read, whole=whole, counted=asked.counted)


ROUTES = (
    Route(
        method="POST",
        path="/v1/chat/completions",
        handler=complete,
        tag="chat",
        acts=True,
        takes=ChatRequest,
        gives=ChatCompletion,
        stream=True,
        events=ChatChunk,
        last="[DONE]",
        example={"model": OWN, "messages": [{"role": "user", "content": "What is in this folder?"}]},
        headers=("X-Melete-Session-Id", "Idempotency-Key"),
        sends=("X-Melete-Session-Id", "X-Melete-Run-Id", "X-Melete-Ignored", "Idempotent-Replayed"),
        errors=(404, 409, 422, 429, 502, 503),
    ),
)
