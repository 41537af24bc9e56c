"""`/v1/responses` as OpenAI's clients know it: answers that are stored, gone on from, watched, cancelled and deleted.

A response is a run like every other, under the id `resp_` and the run's: it has a session, it outlives its client, and after a
restart it is made of what its session's log holds. Every run of a key can be had as a response, whoever began it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response as Answer

from melete.app import unstored
from melete.app.reaching import inbox_message, send
from melete.app.runs import Going, Wanted
from melete.app.serve import Server
from melete.core.errors import MeleteError, SessionBusyError
from melete.core.event import Event, RunStarted
from melete.surfaces.api import sse
from melete.surfaces.api.answers import JSON, Stream, note, query_of, server_of, traced, who_of
from melete.surfaces.api.chat_failures import failure, headers_of
from melete.surfaces.api.chat_history import SURFACE
from melete.surfaces.api.errors import ApiError, refusal
from melete.surfaces.api.idempotency import REPLAYED, once
from melete.surfaces.api.leaving import cancels, finished
from melete.surfaces.api.response_events import ResponseEvent
from melete.surfaces.api.response_items import input_items, page_of
from melete.surfaces.api.response_request import Asked, stored_schema, understood
from melete.surfaces.api.response_store import Found, Shelf, Target
from melete.surfaces.api.response_stream import ABOUT, NOTHING_NEW, Writer, response_id
from melete.surfaces.api.response_types import (
    DeletedResponse,
    ItemList,
    ItemPage,
    NewResponse,
    Response,
    Retrieve,
)
from melete.surfaces.api.route import Route

log = logging.getLogger("melete.responses")
LOOK = 0.5
"""Seconds between two looks at whether a run is taken up again."""
READ = 60.0
"""Seconds for which what is not stored waits for its reader after it has ended."""
CANCELLED = 10.0
"""Seconds in which a run that was cancelled has stored its end."""
_encode = msgspec.json.Encoder().encode


async def create(request: Request) -> Answer:
    """Answer an input; with `stream` as it is made, with `background` at once and finished without the client.

    Tools run on the server's side, within the one request. With `previous_response_id` it goes on from that response, of which
    several may go on apart from one another. A response that fails is answered as an error; it is stored all the same.
    """
    server = server_of(request)
    asked = await understood(request)
    background = asked.wish.background
    async with once(request, running=background) as this:
        if this.before is not None:
            return await _replayed(request, asked, this.run)
        going = await _start(request, asked, run=this.run)
    note(request, session=going.ref.id, run=going.run)
    read = asyncio.Event()
    if not asked.wish.store:
        server.app.group.create_task(_forgotten(server, going, read, turn=shelf_of(request).forgetting))
    headers = headers_of(going.ref.id, going.run, ignored=asked.ignored)
    if asked.stream:
        writer = Writer(going.run, schema=asked.schema)
        return Stream(_live(request, going, writer, read=read, leaves=not background), headers=headers)
    try:
        if background:
            return _answer(server, await _begun(going, asked), headers=headers)
        await finished(request, going)
        return await _ended(server, going, asked, headers=headers)
    finally:
        read.set()


# ---- beginning -------------------------------------------------------------------------------------------------------


async def _start(request: Request, asked: Asked, *, run: str) -> Going:
    """Begin the run where it belongs; two that go on from one response do so apart from one another."""
    previous = asked.wish.previous
    if not previous:
        return await _start_in(request, asked, await _target(request, asked), run=run)
    async with shelf_of(request).turn(previous):
        try:
            return await _start_in(request, asked, await _behind(request, asked), run=run)
        except SessionBusyError:  # somebody else goes on in the session at this moment
            return await _start_in(request, asked, await _behind(request, asked, apart=True), run=run)


async def _target(request: Request, asked: Asked) -> Target:
    if not asked.wish.conversation:
        return Target()
    return await shelf_of(request).conversation(asked.wish.conversation, owner=who_of(request).owner)


async def _behind(request: Request, asked: Asked, *, apart: bool = False) -> Target:
    apart = apart or not asked.wish.store
    surface, owner = asked.options.surface, who_of(request).owner
    return await shelf_of(request).behind(asked.wish.previous, owner=owner, surface=surface, apart=apart)


async def _start_in(request: Request, asked: Asked, target: Target, *, run: str) -> Going:
    server = server_of(request)
    about = {**traced(request), ABOUT: _encode(asked.wish_for(target)).decode()}
    wanted = Wanted(run=run, about=about, history=asked.input.history, watched=True)
    prompt = asked.input.folded if target.session else asked.input.prompt
    try:
        return await server.runs.start(prompt, asked.options_for(target), how=wanted)
    except MeleteError:
        if target.made is not None:
            await unstored.forget(server.app, target.made)
        raise


async def _begun(going: Going, asked: Asked) -> Response:
    """The response of a run that has only begun."""
    writer = Writer(going.run, after=NOTHING_NEW, schema=asked.schema)
    async with aclosing(going.events()) as events:
        async for event in events:
            if event is not None:
                writer.take(event)
            if isinstance(event, RunStarted):
                break
    return writer.response()


# ---- ending ----------------------------------------------------------------------------------------------------------


async def _ended(server: Server, going: Going, asked: Asked, *, headers: dict[str, str]) -> Answer:
    """The answer of a run that has ended; raises ApiError for one that failed."""
    facts = await server.app.store.facts(going.ref)
    writer = Writer(going.run, after=NOTHING_NEW, schema=asked.schema)
    for fact in facts:
        if fact.run == going.run:
            writer.take(fact)
    return _whole(server, writer, headers=headers)


def _whole(server: Server, writer: Writer, *, headers: dict[str, str]) -> Answer:
    made, ended = writer.response(), writer.ended
    failed = failure(ended, server.app.redact) if made.status == "failed" and ended else None
    if failed is None:
        return _answer(server, made, headers=headers)
    what = f"{failed.what}; GET /v1/responses/{made.id} has what there is of it" if made.store else failed.what
    raise ApiError(failed.status, failed.code, what, headers={**failed.headers, **headers})


async def _replayed(request: Request, asked: Asked, run: str) -> Answer:
    """What an earlier request with the same key has made, or is making, in the form that this one asks for."""
    server, found = server_of(request), await shelf_of(request).find(response_id(run), owner=who_of(request).owner)
    note(request, session=found.ref.id, run=found.last)
    headers = {**headers_of(found.ref.id, found.run, ignored=asked.ignored), **REPLAYED}
    if asked.stream:
        return Stream(_retold(request, found, found.writer(after=-1, schema=asked.schema)), headers=headers)
    writer = found.writer(schema=asked.schema)
    for fact in found.own():
        writer.take(fact)
    return _whole(server, writer, headers=headers)


async def _forgotten(server: Server, going: Going, read: asyncio.Event, *, turn: asyncio.Lock) -> None:
    """Remove what is not to be stored; what goes wrong with it is no end of the server."""
    try:
        await _forget(server, going, read, turn=turn)
    except Exception:
        log.exception("the session %s, which was not to be stored, stays until the next start", going.ref.id)


async def _forget(server: Server, going: Going, read: asyncio.Event, *, turn: asyncio.Lock) -> None:
    """Remove what is not to be stored once it has ended and was read; one after another, beside what others ask for."""
    with suppress(MeleteError):  # told to those who wait for it
        await going.ended()
    with suppress(TimeoutError):
        async with asyncio.timeout(READ):
            await read.wait()
    async with turn:
        try:
            await server.runs.warm.drop(going.ref.id)
        except SessionBusyError:
            log.warning("the session %s is in use and stays until the next start", going.ref.id)
            return
        await unstored.forget(server.app, going.ref)


# ---- streams ---------------------------------------------------------------------------------------------------------


async def _live(
    request: Request, going: Going, writer: Writer, *, read: asyncio.Event, leaves: bool
) -> AsyncGenerator[bytes]:
    """A run as it is made; `leaves` says that the client's leaving may end it."""
    server = server_of(request)
    try:
        events = going.events(tick=server.app.loaded.settings.server.keepalive)
        async with aclosing(_frames(server, events, writer)) as frames:
            async for frame in frames:
                yield frame
        if writer.ended is None:
            await going.ended()  # raises what kept its end from being stored
    except Exception as error:
        log.exception("the stream of %s cannot go on", response_id(writer.run))
        yield _broken(server, writer, error)
    finally:
        read.set()
        if leaves and not going.over and cancels(server):
            going.cancel()


async def _retold(request: Request, found: Found, writer: Writer) -> AsyncGenerator[bytes]:
    """A stored response as the events that it was made of, and those that it is still made of."""
    server = server_of(request)
    tick = server.app.loaded.settings.server.keepalive
    try:
        while True:
            writer.last = found.last
            for fact in found.own(writer.seq):
                if found.alive and fact.run == found.last:  # comes with its deltas
                    break
                if frames := _framed(server, writer.take(fact)):
                    yield frames
            if found.alive:
                events = server.runs.events(found.last, found.ref, tick=tick)
                async with aclosing(_frames(server, events, writer)) as live:
                    async for frame in live:
                        yield frame
            if writer.ended is not None or not (found.pending or found.alive) or server.runs.over:
                return
            yield sse.COMMENT
            await asyncio.sleep(LOOK)
            found = await shelf_of(request).find(response_id(found.run), owner=who_of(request).owner)
    except Exception as error:
        log.exception("the stream of %s cannot go on", response_id(writer.run))
        yield _broken(server, writer, error)


async def _frames(server: Server, events: AsyncGenerator[Event | None], writer: Writer) -> AsyncGenerator[bytes]:
    async with aclosing(events):
        async for event in events:
            if event is None:
                yield sse.COMMENT
            elif frames := _framed(server, writer.take(event)):
                yield frames


def _framed(server: Server, events: Sequence[ResponseEvent]) -> bytes:
    """Events as they are sent; known secrets are taken out."""
    if not events:
        return b""
    frames = (f"event: {event.__struct_config__.tag}\ndata: {_encode(event).decode()}\n\n" for event in events)
    return server.app.redact("".join(frames)).encode()


def _broken(server: Server, writer: Writer, error: Exception) -> bytes:
    known = isinstance(error, MeleteError)
    code, what = (refusal(error).code, str(error)) if known else ("internal_error", "an unexpected error")
    return _framed(server, [writer.broken(code=code, message=what)])


def _answer(server: Server, value: object, *, headers: dict[str, str] | None = None) -> Answer:
    """The value as JSON; known secrets are taken out."""
    return Answer(server.app.redact(_encode(value).decode()), media_type=JSON, headers=headers)


# ---- responses that are there ----------------------------------------------------------------------------------------


def shelf_of(request: Request) -> Shelf:
    """What the server knows of its responses."""
    state = request.app.state
    if not hasattr(state, "shelf"):
        state.shelf = Shelf(server_of(request))
    return state.shelf


async def _found(request: Request) -> Found:
    found = await shelf_of(request).find(request.path_params["id"], owner=who_of(request).owner)
    note(request, session=found.ref.id, run=found.last)
    return found


async def retrieve(request: Request) -> Answer:
    """A response as it stands; with `stream`, the events that it was and is made of, from the first or behind `starting_after`.

    A response that a server had to leave goes on after its restart, under the same id.
    """
    wanted = query_of(_without_include(request), Retrieve)
    found = await _found(request)
    schema = await stored_schema(found.wish)
    headers = headers_of(found.ref.id, found.last)
    if not wanted.stream:
        return _answer(server_of(request), found.told(schema), headers=headers)
    after = -1 if wanted.starting_after is None else wanted.starting_after
    return Stream(_retold(request, found, found.writer(after=after, schema=schema)), headers=headers)


def _without_include(request: Request) -> Request:
    """The request without the parameter `include`, which clients write in two ways: everything is always told."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in ("include", "include[]")]
    return Request({**request.scope, "query_string": urlencode(kept).encode()})


async def cancel(request: Request) -> Answer:
    """Stop a response that is being made; what it has stored is kept. One that was cancelled already is answered as it is."""
    server, found = server_of(request), await _found(request)
    schema = await stored_schema(found.wish)
    made = found.told(schema)
    if made.status == "cancelled":
        return _answer(server, made)
    if not found.alive:
        what = f"the response {made.id} is {made.status}: there is nothing to cancel"
        raise ApiError(409, "response_over", what, headers={"x-should-retry": "false"})
    await send(server.app, found.ref, inbox_message(server.app, "cancel", surface=SURFACE))
    if (going := server.runs.find(found.last)) is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CANCELLED):
                await going.ended()
    return _answer(server, (await _found(request)).told(schema))


async def delete(request: Request) -> Answer:
    """Delete a response: it cannot be had or gone on from any more. Its session goes once all of its responses are deleted.

    What later responses went on from stays in their own conversation.
    """
    found = await _found(request)
    await shelf_of(request).delete(found)
    return _answer(server_of(request), DeletedResponse(id=response_id(found.run)))


async def items(request: Request) -> Answer:
    """What a response was asked with, the last first unless `order` says otherwise."""
    wanted = query_of(_without_include(request), ItemPage)
    found = await _found(request)
    page = page_of(input_items(found.facts, found.run, said=found.wish.said), wanted)
    return _answer(server_of(request), page)


ALL, ONE, TAG = "/v1/responses", "/v1/responses/{id}", "responses"
NAMES = ("X-Melete-Session-Id", "X-Melete-Run-Id")
ROUTES = (
    Route(
        method="POST",
        path=ALL,
        handler=create,
        tag=TAG,
        acts=True,
        takes=NewResponse,
        gives=Response,
        stream=True,
        events=ResponseEvent,
        example={"input": "What is in this folder?"},
        headers=("Idempotency-Key",),
        sends=(*NAMES, "X-Melete-Ignored", "Idempotent-Replayed"),
        errors=(404, 409, 422, 429, 502, 503),
    ),
    Route(
        method="GET",
        path=ONE,
        handler=retrieve,
        tag=TAG,
        gives=Response,
        stream=True,
        events=ResponseEvent,
        query=Retrieve,
        sends=NAMES,
        errors=(404,),
    ),
    Route(method="DELETE", path=ONE, handler=delete, tag=TAG, acts=True, gives=DeletedResponse, errors=(404, 409)),
    Route(method="POST", path=f"{ONE}/cancel", handler=cancel, tag=TAG, acts=True, gives=Response, errors=(404, 409)),
    Route(
        method="GET", path=f"{ONE}/input_items", handler=items, tag=TAG, gives=ItemList, query=ItemPage, errors=(404,)
    ),
)
