"""uvicorn, within our own event loop, signals and deadlines: what is slow on purpose is cut off."""

import asyncio
import logging
import resource
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from operator import attrgetter
from typing import Any, cast

import h11
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import Server as Uvicorn

from melete.core.errors import UsageError
from melete.surfaces.api.errors import ApiError, encoded

HEAD_SECONDS = 15.0
"""Within which the head of a request has to be there, from the connection's first moment or the request's first byte on."""
BODY_SECONDS = 120.0
"""Within which the body of a request has to follow its head."""
UNREAD_SECONDS = 60.0
"""For which a client may read nothing of what is sent to it."""
KEEP_SECONDS = 60
"""For which a connection without a request is kept."""
LARGEST_HEAD = 64 * 1024
BACKLOG = 2048
ACCEPTED = 128
"""Connections that are accepted at once, before those that are too many are closed."""
FILES = 16_384
"""Open files that the process asks for, as far as it may have them."""
SHARE = 3
"""Of the open files, the part that connections may be: runs, logs and readers need the others."""
CLOSED = 64
"""Connections that are closed at once to make room."""


@cache
def room() -> int:
    """How many connections there may be; it first asks for as many open files as the process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # more than this system gives
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (FILES if soft == resource.RLIM_INFINITY else soft) // SHARE


class Protocol(H11Protocol):
    """HTTP/1.1 with deadlines for the head of a request and for a client that does not read, and a bound of connections."""

    _began = 0.0
    _deadline: asyncio.TimerHandle | None = None
    _awaited = ""
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client is there: its first request is expected soon."""
        super().connection_made(transport)
        self._began = self.loop.time()
        self._await("head")
        if len(self.connections) > room():
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._await("")
        if self._unread:
            self._unread.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes have come: the rest of a head, or of a body, is to follow soon."""
        super().data_received(data)
        theirs = self.conn.their_state
        if theirs is h11.SEND_BODY:
            self._await("body")
        elif theirs is h11.IDLE and self.conn.trailing_data[0]:
            self._await("head")
        else:
            self._await("")

    def pause_writing(self) -> None:
        """The client does not read: for a while that is borne."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        if self._unread:
            self._unread.cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the shape of every other error."""
        body = encoded(ApiError(400, "invalid_http", msg))
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()

    def _make_room(self) -> None:
        """Close connections on which nothing is asked for, the oldest first; where there are none, this one."""
        known = cast("set[Protocol]", self.connections)
        others = sorted((one for one in known if one is not self and one.is_idle), key=attrgetter("_began"))
        for one in others[:CLOSED] or [self]:
            self.connections.discard(one)  # the next one that is too many is not to find it again
            one.transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered, and no answer is on its way."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return (cycle is None or cycle.response_complete) and not self.transport.get_write_buffer_size()

    def _await(self, what: str) -> None:
        """Wait for the rest of a `head` or `body` from now on, unless it is waited for already; empty waits for nothing."""
        if what == self._awaited:
            return
        if self._deadline:
            self._deadline.cancel()
        self._awaited = what
        seconds = {"head": HEAD_SECONDS, "body": BODY_SECONDS}.get(what)
        self._deadline = self.loop.call_later(seconds, self.transport.abort) if seconds else None


class Http(Uvicorn):
    """Serves an application on sockets until it is told to stop; signals are somebody else's."""

    def __init__(self, app: ASGIApp, *, grace: float) -> None:
        super().__init__(
            Config(
                app,
                http=Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_SECONDS,
                timeout_graceful_shutdown=max(1, round(grace)),
                h11_max_incomplete_event_size=LARGEST_HEAD,
                backlog=ACCEPTED,
            )
        )
        room()
        logging.getLogger("uvicorn.error").setLevel(
            logging.ERROR
        )  # strangers must not fill the log with what they send

        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)  # how many may wait is not how many are taken at once
        self.listening.set()

    async def listen(self, sockets: Sequence[socket.socket]) -> None:
        """Serve until `should_exit` is set."""
        await self._serve(list(sockets))


def bound(host: str, port: int) -> Sequence[socket.socket]:
    """Sockets that listen on every address of a host; raises UsageError for one that cannot be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise UsageError(f"{host} is no address of this machine: {error.strerror}", next="see server.host") from error
    made: list[socket.socket] = []
    for family, kind, protocol, _, address in dict.fromkeys(found):
        one = socket.socket(family, kind, protocol)
        try:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address if not made or port else (address[0], made[0].getsockname()[1], *address[2:]))
            one.listen(BACKLOG)
        except OSError as error:
            for open_ in (one, *made):
                open_.close()
            raise UsageError(
                f"cannot listen on {host}, port {port}: {error.strerror}",
                next="end what listens there, or choose another with --port",
            ) from error
        made.append(one)
    return made


def address_of(one: socket.socket) -> str:
    """How a listening socket is called in a browser."""
    if one.family == socket.AF_UNIX:
        return f"unix:{one.getsockname()}"
    host, port = one.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
