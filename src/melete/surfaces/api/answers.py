"""What handlers get and give: the server behind a request, its body as a typed value, and answers as JSON or as a stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar, cast

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from melete.app.serve import Server
from melete.app.server_keys import Who
from melete.surfaces.api.errors import ApiError

T = TypeVar("T")
JSON = "application/json"
STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no"}
NONE: Mapping[str, str] = {}
TRACE = ("traceparent", "tracestate")
LONGEST_TRACE = 512


def server_of(request: Request) -> Server:
    """The server that the request came to."""
    return request.app.state.server


def who_of(request: Request) -> Who:
    """Whom the request comes from."""
    return request.scope["melete.who"]


def traced(request: Request) -> dict[str, str]:
    """The trace that the request belongs to, as W3C's headers name it, for `RunStarted.about`."""
    return {name: value for name in TRACE if (value := request.headers.get(name, "")) and len(value) <= LONGEST_TRACE}


def note(request: Request, **what: str) -> None:
    """Tell the audit which `session`, `run` or `job` the request is about."""
    request.scope.setdefault("melete.about", {}).update(what)


async def body_of(request: Request, kind: type[T]) -> T:
    """The body as a value of `kind`; raises ApiError that names the field for one that does not fit."""
    body = await request.body()
    try:
        return _decoded(body, kind)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        raise ApiError(400, "invalid_request", what, param=path.rstrip("`").lstrip(".")) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, "invalid_json", f"the body is no JSON: {error}") from error


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
            raise
    return msgspec.json.decode(msgspec.json.encode(_whole(msgspec.json.decode(body))), type=kind)


def _whole(value: Any) -> Any:
    """The value with `5.0` as 5: JSON Schema calls both an integer, and some clients write all numbers so."""
    if isinstance(value, dict):
        return {name: _whole(inner) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def query_of(request: Request, kind: type[T]) -> T:
    """The query parameters as a value of `kind`; raises ApiError that names one that does not fit, is unknown or given twice."""
    given = request.query_params.multi_items()
    known = [field.encode_name for field in structs.fields(kind)]  # pyright: ignore[reportArgumentType]
    names = [name for name, _ in given]
    for name in names:
        if name not in known:
            next_ = f"known ones: {', '.join(known)}"
            raise ApiError(400, "unknown_parameter", f"there is no query parameter {name!r}", param=name, next=next_)
        if names.count(name) > 1:
            raise ApiError(400, "invalid_parameter", f"{name} is given more than once", param=name)
    try:
        found = msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        raise ApiError(400, "invalid_parameter", what, param=path.rstrip("`").lstrip(".")) from error
    for field in structs.fields(kind):  # pyright: ignore[reportArgumentType]
        if field.encode_name in names and getattr(found, field.name) is None:  # the word null is no value
            name = field.encode_name
            raise ApiError(400, "invalid_parameter", f"{name} has no value", param=name, next="leave it out")
    return found


def answer(value: Any, *, status: int = 200, headers: Mapping[str, str] = NONE) -> Response:
    """The value as JSON."""
    return Response(msgspec.json.encode(value), status_code=status, media_type=JSON, headers=dict(headers))


class Stream(Response):
    """An answer that is sent piece by piece as `pieces` come; they are closed when the client leaves."""

    def __init__(self, pieces: AsyncGenerator[bytes], *, headers: Mapping[str, str] = NONE) -> None:
        self.status_code = 200
        self.background = None
        self._pieces = pieces
        self.init_headers({**STREAM, **headers})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all, or as much as the client stays for."""
        metrics = scope["app"].state.server.metrics
        with metrics.stream():
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send(send))
                leaving = group.create_task(_left(receive, sending))
                sending.add_done_callback(lambda _: leaving.cancel())

    async def _send(self, send: Send) -> None:
        async with aclosing(self._pieces) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive, sending: "asyncio.Task[None]") -> None:
    """End the sending when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    sending.cancel()


async def first_of(pieces: AsyncIterator[T]) -> T | None:
    """The first of several, None when there is none."""
    return await anext(pieces, None)
