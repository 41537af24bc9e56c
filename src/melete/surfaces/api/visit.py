"""One request from the gate on: what is known of it, and everything that is sent back goes through here."""

import secrets
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from starlette.types import Message, Scope, Send

from melete.app.audit import Act
from melete.app.server_keys import Who
from melete.surfaces.api.audit import Trail, called
from melete.surfaces.api.errors import ApiError, encoded
from melete.surfaces.api.head import Head
from melete.surfaces.api.limits import Body
from melete.surfaces.api.route import Route

LEFT = 499
"""How the log calls the status of a request whose client left before there was one."""
SMALL = 64 << 10
"""Bytes of a body that nobody wanted, which are passed over without closing the connection."""
RECHECK_SECONDS = 1.0
"""How long a stream may go on before its key is looked at again."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
LONGEST_ID = 200
UNIX = "unix"
"""How a client is called that has no address."""
SILENT_REFUSALS = (401, 403, 429)
"""Statuses with which a handler refuses, which the audit log holds as well."""
ALWAYS = ((b"x-content-type-options", b"nosniff"), (b"cross-origin-resource-policy", b"same-origin"))

Pairs = Sequence[tuple[bytes, bytes]]


class Counts(Protocol):
    """Where requests are counted."""

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one."""
        ...


class Visit:
    """A request that is being answered: the gate fills it in, `send` goes to the client, `over` ends it."""

    def __init__(self, scope: Scope, send: Send, *, trail: Trail, now: Callable[[], datetime], counts: Counts) -> None:
        self.id = f"req-{secrets.token_hex(8)}"
        self.method: str = scope["method"]
        client = scope.get("client")
        self.address: str = client[0] if client else UNIX
        self.head: Head | None = None
        self.route: Route | None = None
        self.who: Who | None = None
        self.body: Body | None = None
        self.cors: Pairs = ()
        self.more: Pairs = ()
        self.about: dict[str, str] = {}
        self.why = ""
        self.status = 0
        self.valid: Callable[[], bool] | None = None
        self._send = send
        self._trail = trail
        self._now = now
        self._counts = counts
        self._began = time.perf_counter()
        self._checked = self._began
        self._written = self._cut = False
        self._closes = self._lingers = False

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer, its head with the headers that every answer has."""
        if self._cut:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._closes = self._is_unread()
            # A client that was told before it began to send has nothing under way.
            self._lingers = self._closes and not (
                self.head and self.head.expects and not (self.body and self.body.begun)
            )
            self._write_down()
            await self._send({**message, "headers": self._headers(message.get("headers", ()))})
        elif message.get("more_body", False):
            await self._send(message)
            if self.valid is not None and not self._still_valid():
                await self._cut_off()
        elif self._lingers and self.body is not None:
            await self._send({**message, "more_body": True})
            await self.body.linger()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await self._send(message)

    async def refuse(self, error: ApiError) -> None:
        """Answer with an error."""
        self.why = error.code
        body = encoded(error)
        headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in error.headers.items()]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": error.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    def over(self) -> None:
        """Count it, and write it down if that has not happened: its client may have left before there was an answer."""
        self.status = self.status or LEFT
        self._write_down()
        route = self.route.path if self.route else ""
        self._counts.request(self.method, route, self.status, time.perf_counter() - self._began)

    def _is_unread(self) -> bool:
        """Whether a body is still to come that nobody is going to read, or may come, and not just a little of it."""
        head, body = self.head, self.body
        if head is None or body is None or body.whole:
            return False
        return head.chunked or head.expects or (head.length or 0) > SMALL

    def _headers(self, given: Pairs) -> list[tuple[bytes, bytes]]:
        kept = [(name, value) for name, value in given if name.lower() not in (b"cache-control", b"x-request-id")]
        kept += [*ALWAYS, *self.cors, *self.more, (b"x-request-id", self.id.encode())]
        # A proxy that packs a stream keeps back what is small.
        kept.append((b"cache-control", b"no-store, no-transform" if self.valid is not None else b"no-store"))
        if self._closes and not any(name.lower() == b"connection" for name, _ in kept):
            kept.append((b"connection", b"close"))
        return kept

    def _still_valid(self) -> bool:
        now = time.perf_counter()
        if self.valid is None or now < self._checked + RECHECK_SECONDS:
            return True
        self._checked = now
        return self.valid()

    async def _cut_off(self) -> None:
        """End a stream whose key has ended; what it showed goes on without it."""
        self._cut = True
        error = ApiError(401, "key_ended", "the key of this stream is not valid any more; what it showed goes on")
        last = b"event: error\ndata: " + encoded(error) + b"\n\n"
        self._trail.write(self._act(why=error.code))
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    def _write_down(self) -> None:
        acts = self.route is not None and self.route.acts
        why = self.why or ("refused" if self.status in SILENT_REFUSALS else "")
        if self._written or not (acts or why):
            return
        self._written = True
        self._trail.write(self._act(why=why))

    def _act(self, *, why: str) -> Act:
        return Act(
            at=self._now(),
            who=called(self.who),
            came_from=self.address,
            method=self.method if self.method in METHODS else "other",
            route=self.route.path if self.route else "",
            status=self.status,
            session=self.about.get("session", "")[:LONGEST_ID],
            run=self.about.get("run", "")[:LONGEST_ID],
            job=self.about.get("job", "")[:LONGEST_ID],
            why=why,
            request=self.id,
        )
