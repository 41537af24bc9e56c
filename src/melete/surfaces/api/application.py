"""The ASGI application: the routes of `routes.py` behind the gate, with every error in one shape."""

import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Path

from melete.app.serve import Server
from melete.core.errors import MeleteError
from melete.surfaces.api.answers import JSON
from melete.surfaces.api.chat_history import Recent
from melete.surfaces.api.errors import FAILED, ApiError, encoded, refusal
from melete.surfaces.api.gate import Gate
from melete.surfaces.api.openapi import encoder
from melete.surfaces.api.route import Handler
from melete.surfaces.api.routes import ROUTES

log = logging.getLogger("melete.api")
GONE = 499
"""What is noted for a client that left in the middle of its request; nobody reads it."""
CODES = {404: ("not_found", "there is no such route"), 405: ("method_not_allowed", "the route has no such method")}


def application(server: Server) -> Starlette:
    """The application that answers for the server."""
    made = Starlette(
        routes=[Path(r.path, _told(r.handler), methods=[r.method]) for r in ROUTES],
        exception_handlers={HTTPException: _http},
    )
    made.router.redirect_slashes = False
    made.state.server = server
    made.state.recent = Recent()
    made.state.document = encoder(ROUTES)
    made.add_middleware(Gate, server=server)
    made.middleware_stack = made.build_middleware_stack()  # now: what is wrong with the settings shows at the start
    return made


def _told(handler: Handler) -> Handler:
    """The handler, whose failures become answers."""

    async def told(request: Request) -> Response:
        try:
            return await handler(request)
        except MeleteError as error:
            found = refusal(error)
            if found.status >= FAILED:
                log.warning("%s %s: %s", request.method, request.url.path, error)
            return _answered(found, request)
        except ClientDisconnect:
            return Response(status_code=GONE)
        except Exception as error:
            log.exception("%s %s failed", request.method, request.url.path)
            kind = type(error).__name__
            return _answered(
                ApiError(500, "internal_error", f"an unexpected {kind}", next="see `melete logs`"), request
            )

    return told


def _answered(error: ApiError, request: Request) -> Response:
    server: Server = request.app.state.server
    body = server.app.redact(encoded(error).decode())
    return Response(body, status_code=error.status, media_type=JSON, headers=dict(error.headers))


async def _http(request: Request, error: Exception) -> Response:
    """What the router refuses: a path or method that is not there."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code, what = CODES.get(status, ("invalid_request", "the request cannot be answered"))
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return _answered(ApiError(status, code, what, headers=headers), request)
