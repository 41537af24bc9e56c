"""A route of the API as a value: the application, the gate and the OpenAPI document are made of these."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

Handler = Callable[[Request], Awaitable[Response]]
HEADERS = {
    "Idempotency-Key": (
        r"^[!-~]{1,255}$",
        "A name for this request, chosen by the client: sent again with the same body, it gets the answer of the first.",
    ),
    "Idempotent-Replayed": (
        "^true$",
        "Sent when the answer is that of an earlier request with the same Idempotency-Key.",
    ),
    "Last-Event-ID": (
        r"^([0-9]{1,15}(\.[0-9]{1,15})?)?$",
        "The id of the last event that was read: only later ones are sent.",
    ),
    "X-Melete-Ignored": ("", "The fields of the request that were given and have no effect, with commas between them."),
    "X-Request-Id": ("", "The id under which the audit log has the request."),
    "X-Melete-Run-Id": ("", "The run that answers."),
    "X-Melete-Session-Id": ("", "The session to continue; in an answer, the session of the run."),
}
"""The headers that routes speak of: what fits, as a pattern, and what each means."""


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path: who may call it, what it takes and what it answers.

    `scope` is what a key needs, empty for every key; a `public` route needs none. `takes` and `gives` are the types of the bodies,
    None for none; `example` is a body that it takes, and an `optional` body may be left out. `stream` says that the answer is, or
    may be, a stream of events, whose data are of the type `events` but for the `last`, which may be a plain word; `media` are the
    content types of an answer that is neither. `nothing` says what a 204 means that it may answer instead. `acts` says that it
    changes something, which the audit has to hold. `query` is the type of its query parameters, which `answers.query_of` reads;
    `headers` and `sends` are the HEADERS that it reads and answers with; `errors` are the statuses beside
    those that every route has. The handler's docstring is the route's documentation.
    """

    method: str
    path: str
    handler: Handler
    tag: str
    scope: str = "chat"
    public: bool = False
    acts: bool = False
    takes: Any = None
    gives: Any = None
    status: int = 200
    stream: bool = False
    events: Any = None
    last: str = ""
    example: Any = None
    optional: bool = False
    query: Any = None
    headers: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    nothing: str = ""
    errors: tuple[int, ...] = ()
