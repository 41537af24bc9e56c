"""`Idempotency-Key`: a request that is sent again is answered by what the first one began, never done twice.

In a handler whose work is a run:

    async with once(request) as this:
        if this.before is not None:
            return completion_of(this.before, headers=REPLAYED)
        going = await server.runs.start(prompt, options, how=Wanted(run=this.run, …))

Without the header `this` is empty, and the run gets an id of its own.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from msgspec import Struct
from starlette.requests import Request

from melete.app.keyed import Began, Keyed, KeyInUseError, KeyReusedError, Work
from melete.app.recovery import CUT
from melete.app.runs import RunState
from melete.core.errors import SessionNotFoundError
from melete.surfaces.api.answers import server_of, who_of
from melete.surfaces.api.errors import ApiError

HEADER = "Idempotency-Key"
REPLAYED = {"idempotent-replayed": "true"}
"""The header of an answer that was made of what an earlier request began."""
SAME_BODY = ("x-melete-session-id", "x-hermes-session-id")
"""Headers that belong to what is asked for as the body does."""
RETRY = {"retry-after": "1"}
_is_key = re.compile("[!-~]{1,255}").fullmatch


class Once(Struct, frozen=True, kw_only=True):
    """One request, however often it is sent: the id `run` for its run, empty without a key.

    `before` is the run that it has begun earlier, None where none has begun; where that was cut off and taken up again it is the
    last that goes on with it.
    """

    run: str = ""
    before: RunState | None = None


class OnceMade(Struct, frozen=True, kw_only=True):
    """One request, however often it is sent: the `id` for what it makes, empty without a key; `again` where that is there."""

    id: str = ""
    again: bool = False


@asynccontextmanager
async def once(request: Request, *, running: bool = False) -> AsyncGenerator[Once]:
    """What the request's key leads to; the block is to start the run where there is none before.

    A run of an earlier request that has not ended is refused as `idempotency_key_in_use`, 409, or given as it is with `running`.
    One that was cut off, and that nobody goes on with, has no end either: it is given as it is.
    Another body is `idempotency_key_reused`, 422.
    """
    runs, owner = server_of(request).runs, who_of(request).owner

    async def began(run: str) -> bool:
        return await _state(request, run) is not None

    async with _keyed(request, began, wait=running) as work:
        settled = runs.settled
        before = None if work.first else await _state(request, work.id)
        while before is not None and before.resumed_as and not running:
            before = await runs.state(before.resumed_as, owner=owner)
        if before is None and work.done:
            raise _gone()
        if before is not None and not running and _goes_on(before, settled=settled):
            raise _in_use()
        yield Once(run=work.id, before=before)


@asynccontextmanager
async def once_made(request: Request, there: Began) -> AsyncGenerator[OnceMade]:
    """What the request's key leads to, for what is no run; `there` says whether what has an id was made already."""
    async with _keyed(request, there, wait=True) as work:
        again = not work.first and await there(work.id)
        if work.done and not again:
            raise _gone()
        yield OnceMade(id=work.id, again=again)


@asynccontextmanager
async def _keyed(request: Request, began: Began, *, wait: bool) -> AsyncGenerator[Work]:
    """What the key of the request leads to; without a key something new that has no id."""
    given = request.headers.getlist(HEADER)
    if not given:
        yield Work(id="", first=True)
        return
    if len(given) > 1 or not _is_key(given[0]):
        raise ApiError(400, "invalid_idempotency_key", f"{HEADER} is not 1 to 255 visible characters, once")
    others = [request.headers.get(name, "") for name in SAME_BODY]
    head = "\0".join([request.method, request.url.path, *others, ""]).encode()
    keyed = Keyed(owner=who_of(request).owner, key=given[0], body=head + await request.body())
    try:
        async with server_of(request).requests.once(keyed, began=began, wait=wait) as work:
            yield work
    except KeyInUseError as error:
        raise _in_use() from error
    except KeyReusedError as error:
        raise ApiError(422, "idempotency_key_reused", str(error), param=HEADER) from error


async def _state(request: Request, run: str) -> RunState | None:
    """What is known of a run of whoever asks; None when it never began."""
    try:
        return await server_of(request).runs.state(run, owner=who_of(request).owner)
    except SessionNotFoundError:
        return None


def _goes_on(run: RunState, *, settled: bool) -> bool:
    """Whether a run may still get its end, or go on as another one; until all is `settled` behind the end of a server it may."""
    if run.ended is None:
        return run.status != "interrupted" or not settled
    return run.ended.error == CUT and not settled


def _in_use() -> ApiError:
    what = f"the run that a request with this {HEADER} began has not ended"
    return ApiError(409, "idempotency_key_in_use", what, next="try again later", headers=RETRY)


def _gone() -> ApiError:
    return ApiError(404, "not_found", f"what a request with this {HEADER} made is not there any more", param=HEADER)
