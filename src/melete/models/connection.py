"""One HTTP/1.1 connection over asyncio streams, the protocol itself by h11. Part: models.

A general client costs a good part of a second's quarter to import, more than everything else that a first request needs; what
is wanted here is one POST at a time with a streamed answer.
"""

import asyncio
import ssl
import time
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress

import h11
from msgspec import Struct

from melete.models.address import Address

LARGEST_HEAD = 256 * 1024
PIECE = 64 * 1024
CLOSE_SECONDS = 1.0
RACE_SECONDS = (
    0.25  # between the addresses of a name; asyncio loses the winner's socket when the race is cancelled late
)


class Head(Struct, frozen=True, kw_only=True):
    """Status and headers of an answer, names in lower case; of repeated headers the last."""

    status: int
    headers: Mapping[str, str]


class ProxyRefusedError(OSError):
    """A proxy did not open a tunnel; `status` is its answer."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the proxy answered HTTP {status} to CONNECT")
        self.status = status


class StaleError(ConnectionError):
    """A kept connection turned out to be closed before any byte of the answer came: another may be tried at once."""


class Connection:
    """A connected socket that takes one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = _protocol()
        self._used = False
        self._heard = False
        self._idle_since = time.monotonic()

    def fresh(self, *, within: float) -> bool:
        """Whether it can be used again: whole, still open, and idle for no longer than `within` seconds."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return self._http.our_state is h11.IDLE and not self._used
        closed = self._reader.at_eof() or self._writer.is_closing() or self._http.trailing_data[0]
        return not closed and time.monotonic() - self._idle_since < within

    async def send(self, target: str, *, headers: Mapping[str, str], body: bytes) -> Head:
        """Send a POST and return the head of its answer. Raises OSError, h11.RemoteProtocolError and StaleError."""
        reused, self._used = self._used, True
        self._heard = False
        if self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        request = h11.Request(method="POST", target=target, headers=list(headers.items()))
        start = self._http.send(request) or b""
        self._http.send(h11.Data(data=body))
        self._http.send(h11.EndOfMessage())
        try:
            await self._write(start, body)
            head = await self._head()
        except (ConnectionError, h11.RemoteProtocolError) as error:
            if reused and not self._heard:
                raise StaleError(str(error)) from error
            raise
        return head

    async def body(self, head: Head) -> AsyncGenerator[bytes]:
        """Yield the answer's bytes, unpacked, in the pieces in which they come; raises as `send` does."""
        packed = head.headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate")
        unpack = zlib.decompressobj(wbits=47 if "gzip" in head.headers.get("content-encoding", "") else 15)
        while True:
            event = await self._event()
            if isinstance(event, h11.EndOfMessage | type):
                self._idle_since = time.monotonic()
                return
            if isinstance(event, h11.Data) and (data := bytes(event.data)):
                yield unpack.decompress(data) if packed else data

    def abort(self) -> None:
        """Drop the connection at once; nothing is awaited."""
        self._writer.transport.abort()

    async def aclose(self) -> None:
        """Close the connection in good order, or drop it after a moment."""
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()

    async def tunnel(self, to: Address, *, trust: ssl.SSLContext, authorization: str) -> None:
        """Ask the proxy at the other end for a connection to `to` and speak TLS through it."""
        headers = [("host", to.authority)]
        if authorization:
            headers.append(("proxy-authorization", authorization))
        request = h11.Request(method="CONNECT", target=to.authority, headers=headers)
        await self._write(self._http.send(request) or b"")
        head = await self._head()
        if head.status // 100 != 2:  # noqa: PLR2004 - any success
            raise ProxyRefusedError(head.status)
        await self._writer.start_tls(trust, server_hostname=to.host)
        self._http = _protocol()

    async def _write(self, *pieces: bytes) -> None:
        """Send everything; when the server closes its ear early, what it said may still be there to read."""
        for piece in pieces:
            self._writer.write(piece)
        try:
            await self._writer.drain()
        except ConnectionError:
            if self._reader.at_eof():
                raise

    async def _head(self) -> Head:
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
                return Head(status=event.status_code, headers=headers)

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._http.next_event()
            if event is h11.PAUSED or not isinstance(event, type):
                return event
            data = await self._reader.read(PIECE)
            self._heard = self._heard or bool(data)
            self._http.receive_data(data)


async def connect(to: Address, *, proxy: Address | None, trust: ssl.SSLContext | None) -> Connection:
    """Open a connection, through the proxy where there is one. Raises OSError, ssl.SSLError among them."""
    first = proxy or to
    secure = first.secure
    reader, writer = await asyncio.open_connection(
        first.host,
        first.port,
        limit=2 * PIECE,
        ssl=trust if secure else None,
        server_hostname=first.host if secure else None,
        happy_eyeballs_delay=None if first.numeric else RACE_SECONDS,
    )
    connection = Connection(reader, writer)
    if proxy is not None and to.secure and trust is not None:
        try:
            await connection.tunnel(to, trust=trust, authorization=proxy.authorization)
        except BaseException:
            connection.abort()
            raise
    return connection


def _protocol() -> h11.Connection:
    return h11.Connection(our_role=h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
