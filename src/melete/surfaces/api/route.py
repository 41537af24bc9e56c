"""A route of the API as a value: the application, the gate and the OpenAPI document are made of these."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

Handler = Callable[[Request], Awaitable[Response]]


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path: who may call it, what it takes and what it answers.

    `scope` is what a key needs, empty for every key; a `public` route needs none. `takes` and `gives` are the types of the bodies,
    None for none; `stream` says that the answer is, or may be, a stream of events; `acts` that it changes something, which the
    audit has to hold; `query` are the names of its parameters with what they mean; `errors` are the statuses beside those that
    every route has. The handler's docstring is the route's documentation.
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
    query: tuple[tuple[str, str], ...] = ()
    errors: tuple[int, ...] = ()
