"""What stands before every route: who asks, from where, and whether they may."""

from starlette.types import ASGIApp, Receive, Scope, Send

from melete.app.serve import Server


class Gate:
    """Lets a request through to `app` when its key may do what it asks for."""

    def __init__(self, app: ASGIApp, *, server: Server) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            bearer = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
            scope["melete.who"] = self._server.keys.who(bearer)
        await self._app(scope, receive, send)
