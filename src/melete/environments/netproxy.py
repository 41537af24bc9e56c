"""The proxy through which the commands of a sandbox reach the network: HTTP with CONNECT, and SOCKS5, told apart by the first byte.

It runs out here, on a socket that listens in there. The gate decides by name before anything is resolved. What passes through a
tunnel is not looked at. A plain request is read whole, its framing made anew and its `Host` set to where it goes, so that no
second request hides in the first; each connection carries one.
"""

import asyncio
import re
import struct
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from typing import Final, cast

import h11

from melete.environments.gate import Gate, Refused, shown
from melete.environments.relay import PIECE, Connection, Patience, close, relay

LONGEST_HEAD: Final = 1 << 16
HEAD: Final = 30.0
REACHING: Final = 45.0
AUTHORITY: Final = re.compile(rb"(?P<host>\[[^\[\]@]*\]|[^:\[\]@/]*)(?::(?P<port>[0-9]{1,5}))?")
ABSOLUTE: Final = re.compile(rb"http://(?P<authority>[^/?#]*)(?P<rest>.*)", re.IGNORECASE)
HOP_BY_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer", b"upgrade",
    b"http2-settings",
})  # fmt: skip
HTTP_PORT: Final = 80
SOCKS: Final = 5
NO_PASSWORD, NO_METHOD = 0, 255
GRANTED, NOT_ALLOWED, UNREACHABLE, NO_COMMAND, NO_ADDRESS = 0, 2, 4, 7, 8
IPV4, NAME, IPV6 = 1, 3, 4

Headers = list[tuple[bytes, bytes]]


class Bad(Exception):
    """A request that cannot be carried out as it stands."""


class Proxy:
    """Serves connections, one call each."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def serve(self, client: Connection) -> None:
        """Serve one connection to its end; the caller closes it."""
        reader, writer = client
        async with asyncio.timeout(HEAD):
            first = await reader.read(PIECE)
        if not first:
            return
        if first[0] == SOCKS:
            await self._socks(first, client)
            return
        conversation = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        conversation.receive_data(first)
        try:
            async with asyncio.timeout(HEAD):
                request = await _event(conversation, reader)
            if not isinstance(request, h11.Request):
                return
            if request.method == b"CONNECT":
                await self._tunnel(conversation, request, client)
            else:
                await self._request(conversation, request, client)
        except (Bad, h11.RemoteProtocolError) as error:
            await _say(conversation, writer, 400, f"the sandbox's proxy cannot read this request: {error}")
        except Refused as refused:
            advice = "" if refused.listed else f"; a person can allow it: {self._gate.how_to_allow([refused])}"
            await _say(conversation, writer, 403, f"{refused}{advice}", reason=f"Refused by the sandbox: {refused.why}")
        except TimeoutError:
            await _say(conversation, writer, 504, "the sandbox's proxy got no answer in time")
        except OSError as error:
            await _say(conversation, writer, 502, f"the host could not be reached: {error.strerror or error}")

    # ---- tunnels ----

    async def _tunnel(self, conversation: h11.Connection, request: h11.Request, client: Connection) -> None:
        host, port = _authority(request.target, 0)
        if not isinstance(await _event(conversation, client[0]), h11.EndOfMessage):
            raise Bad("CONNECT has no body")
        server = await self._reach(host, port)
        try:
            client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server[1].write(conversation.trailing_data[0])
            await relay(client, server)
        finally:
            await close(server[1])

    async def _reach(self, host: str, port: int) -> Connection:
        async with asyncio.timeout(REACHING):
            return await self._gate.reach(host, port)

    # ---- plain requests ----

    async def _request(self, conversation: h11.Connection, request: h11.Request, client: Connection) -> None:
        found = ABSOLUTE.fullmatch(request.target)
        if found is None:
            raise Bad("it is a proxy for http:// addresses and CONNECT, not a web server")
        host, port = _authority(found["authority"], HTTP_PORT)
        rest = found["rest"].partition(b"#")[0]
        named = shown(f"[{host}]" if ":" in host else host, 0) + (f":{port}" if port != HTTP_PORT else "")
        headers = _forwarded(list(request.headers), without={b"host"})
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}:
            raise Bad("it has two lengths")
        onward = h11.Request(
            method=request.method,
            target=rest if rest.startswith(b"/") else b"/" + rest,
            headers=[(b"Host", named.encode()), *headers, (b"Connection", b"close")],
        )
        server = await self._reach(host, port)
        try:
            await _Exchange(conversation, client, server).run(onward)
        finally:
            await close(server[1])

    # ---- SOCKS5 (RFC 1928), without a password and for connections alone ----

    async def _socks(self, first: bytes, client: Connection) -> None:
        taken = _Taken(first, client[0])
        writer = client[1]
        try:
            async with asyncio.timeout(HEAD):
                methods = await taken.bytes((await taken.bytes(2))[1])
                writer.write(bytes([SOCKS, NO_PASSWORD if NO_PASSWORD in methods else NO_METHOD]))
                if NO_PASSWORD not in methods:
                    return
                _, command, _, kind = await taken.bytes(4)
                host = await _socks_host(taken, kind)
                (port,) = struct.unpack("!H", await taken.bytes(2))
        except asyncio.IncompleteReadError:
            return
        server = await self._socks_server(writer, command, host, port)
        if server is None:
            return
        try:
            writer.write(_socks_reply(GRANTED))
            server[1].write(taken.left)
            await relay(client, server)
        finally:
            await close(server[1])

    async def _socks_server(
        self, writer: asyncio.StreamWriter, command: int, host: str, port: int
    ) -> Connection | None:
        if command != 1 or not host:
            writer.write(_socks_reply(NO_COMMAND if command != 1 else NO_ADDRESS))
            return None
        try:
            return await self._reach(host, port)
        except Refused:
            writer.write(_socks_reply(NOT_ALLOWED))
        except OSError:
            writer.write(_socks_reply(UNREACHABLE))
        return None


class _Taken:
    """Bytes of a connection in counted pieces; `left` is what came beyond them."""

    def __init__(self, first: bytes, reader: asyncio.StreamReader) -> None:
        self.left = first
        self._reader = reader

    async def bytes(self, count: int) -> bytes:
        """The next `count`; raises IncompleteReadError."""
        if len(self.left) < count:
            self.left += await self._reader.readexactly(count - len(self.left))
        found, self.left = self.left[:count], self.left[count:]
        return found


async def _socks_host(taken: _Taken, kind: int) -> str:
    """The host that is asked for; empty for a kind that nobody knows."""
    if kind == NAME:
        return (await taken.bytes((await taken.bytes(1))[0])).decode("utf-8", "replace")
    if kind in (IPV4, IPV6):
        return str(ip_address(await taken.bytes(4 if kind == IPV4 else 16)))
    return ""


def _socks_reply(code: int) -> bytes:
    return bytes([SOCKS, code, 0, IPV4, 0, 0, 0, 0, 0, 0])


class _Exchange:
    """One plain request on its way to a server, and the answer on its way back, both at the same time."""

    def __init__(self, conversation: h11.Connection, client: Connection, server: Connection) -> None:
        self._conversation = conversation
        self._upstream = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)
        self._client = client
        self._server = server
        self._patience = Patience()

    async def run(self, request: h11.Request) -> None:
        """Carry it out; raises OSError while nothing has been answered, and cuts the connection after that."""
        try:
            async with self._patience, asyncio.TaskGroup() as group:
                await self._send(self._server, self._upstream.send(request))
                body = group.create_task(self._body())
                await self._answer()
                body.cancel()
        except* (OSError, TimeoutError, h11.ProtocolError) as failed:
            if self._conversation.our_state is h11.SEND_RESPONSE:
                raise _first(failed) from failed
            self._client[1].transport.abort()  # so that a cut answer is not taken for a whole one

    async def _body(self) -> None:
        while True:
            event = await _event(self._conversation, self._client[0])
            if isinstance(event, h11.Data):
                event = h11.Data(data=bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                event = h11.EndOfMessage()
            else:
                return
            with suppress(ConnectionError):  # a server may answer before it has read all; its answer decides
                await self._send(self._server, self._upstream.send(event))
            if isinstance(event, h11.EndOfMessage):
                return

    async def _answer(self) -> None:
        while True:
            event = await _event(self._upstream, self._server[0])
            if isinstance(event, h11.InformationalResponse):
                headers = _forwarded(list(event.headers))
                event = h11.InformationalResponse(status_code=event.status_code, reason=event.reason, headers=headers)
            elif isinstance(event, h11.Response):
                headers = _forwarded(list(event.headers), without={b"transfer-encoding"})
                event = h11.Response(
                    status_code=event.status_code, reason=event.reason, headers=[*headers, (b"Connection", b"close")]
                )
            elif isinstance(event, h11.Data):
                event = h11.Data(data=bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                await self._send(self._client, self._conversation.send(h11.EndOfMessage()))
                return
            else:
                raise OSError(0, "it closed the connection without an answer")
            await self._send(self._client, self._conversation.send(event))

    async def _send(self, to: Connection, data: bytes | None) -> None:
        if data:
            to[1].write(data)
            await to[1].drain()
            self._patience.moved()


def _first(failed: BaseExceptionGroup[BaseException]) -> OSError:
    """The failure that stands for a group of them."""
    first = cast("BaseException", failed.exceptions[0])
    return first if isinstance(first, TimeoutError) else OSError(0, f"its answer cannot be read ({first})")


async def _event(conversation: h11.Connection, reader: asyncio.StreamReader) -> object:
    """The next event of a conversation, reading as much as it takes."""
    while (event := conversation.next_event()) is h11.NEED_DATA:
        conversation.receive_data(await reader.read(PIECE))
    return event


async def _say(
    conversation: h11.Connection, writer: asyncio.StreamWriter, status: int, text: str, *, reason: str = ""
) -> None:
    """Answer with a sentence; nothing where an answer has begun already."""
    if conversation.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    body = text.encode() + b"\n"
    phrase = (reason or text).encode("ascii", "replace")[:200]
    head = f"HTTP/1.1 {status} ".encode() + re.sub(rb"[^\x20-\x7e]", b" ", phrase) + b"\r\n"
    head += b"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    with suppress(ConnectionError):  # whoever asked may have gone
        writer.write(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


def _authority(text: bytes, default: int) -> tuple[str, int]:
    found = AUTHORITY.fullmatch(text)
    port = int(found["port"] or default) if found else 0
    if found is None or not port or not found["host"]:
        raise Bad("its host cannot be read")
    host = found["host"].decode("latin-1")
    return host.removeprefix("[").removesuffix("]"), port


def _forwarded(headers: Headers, *, without: Iterable[bytes] = ()) -> Headers:
    """The headers that go on: not those of this connection, nor those that its `Connection` header names."""
    left_out = {*HOP_BY_HOP, *without}
    for name, value in headers:
        if name == b"connection":
            left_out |= {word.strip().lower() for word in value.split(b",")} - {b"content-length", b"transfer-encoding"}
    return [(name, value) for name, value in headers if name not in left_out]
