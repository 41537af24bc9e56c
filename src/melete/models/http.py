"""One HTTP exchange with a model: connect, send, watch for silence, and hand over events. Part: models, used by every wire.

Connections are kept, so that the steps of a run share one. Trust stores are loaded for https only.
"""

import asyncio
import ssl
import time
import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager

import h11
import msgspec

from melete.core.errors import ConfigError
from melete.core.model import MalformedReplyError, ModelError, StalledError
from melete.models.address import address
from melete.models.connection import Connection, Head, StaleError, connect
from melete.models.errors import Failure, looks_like_html, malformed, unreachable
from melete.models.spec import ModelSpec, shown
from melete.models.sse import EventParser, ServerEvent

ERROR_BODY = 256 * 1024
LARGEST_BODY = 64 * 1024 * 1024
ERROR_BODY_SECONDS = 10.0
IDLE_SECONDS = 30.0
HEAD = 2000
NONE: Mapping[str, str] = {}
BROKEN = (OSError, h11.RemoteProtocolError, zlib.error)


class Exchange:
    """A running answer. `limit` is the silence that is borne now, in seconds; whoever reads shortens it as tokens come.

    After the end, `strange` says that what came was no event stream, and `head` holds its first bytes.
    """

    def __init__(self, spec: ModelSpec, url: str, head: Head, *, pieces: AsyncGenerator[bytes], started: float) -> None:
        self.headers = head.headers
        self.limit = spec.timeouts.first_token
        self.head = b""
        self.strange = False
        self._spec = spec
        self._url = url
        self._pieces = pieces
        self._quiet_since = started

    def token(self, *, limit: float) -> None:
        """Note that something of the answer itself arrived; from now on silence may last `limit` seconds."""
        self.limit = limit
        self._quiet_since = time.monotonic()

    async def events(self) -> AsyncGenerator[ServerEvent]:
        """Yield each event; a body that is one JSON document comes as one event named `document`."""
        parser = EventParser()
        while (piece := await self._next()) is not None:
            if len(self.head) < HEAD:
                start = self.head.lstrip()
                self.head += piece[:HEAD]
                if not start and self.head.lstrip()[:1] in (b"{", b"[", b"<"):
                    yield await self._document(piece)
                    return
            for event in parser.feed(piece):
                yield event
            if parser.buffered > LARGEST_BODY:
                raise MalformedReplyError(f"{shown(self._url)} sent an event of more than {LARGEST_BODY} bytes")
        for event in parser.close():
            if _whole(event.data):
                yield event
        stream = "event-stream" in self.headers.get("content-type", "")
        self.strange = bool(self.head.strip()) and not parser.met and not stream

    async def _document(self, first: bytes) -> ServerEvent:
        pieces, size = [first], len(first)
        while (piece := await self._next()) is not None:
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_BODY:
                raise MalformedReplyError(f"{shown(self._url)} sent more than {LARGEST_BODY} bytes")
        body = b"".join(pieces)
        if looks_like_html(body):
            raise malformed(self._spec, self._url, body)
        return ServerEvent(name="document", data=body)

    async def _next(self) -> bytes | None:
        """The next bytes, None at the end; raises StalledError when they take too long."""
        patience = self._quiet_since + self._spec.timeouts.patience - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, min(self.limit, patience))):
                return await anext(self._pieces, None)
        except TimeoutError as error:
            raise stalled(self._spec, self._url, min(self.limit, self._spec.timeouts.patience)) from error
        except BROKEN as error:
            raise unreachable(self._spec, self._url, error) from error


class Http:
    """Posts to one URL over connections that are kept; several requests may run at a time."""

    def __init__(
        self, spec: ModelSpec, url: str, *, key_header: str = "authorization", headers: Mapping[str, str] = NONE
    ) -> None:
        self._spec = spec
        self._url = url
        self._to = address(url, what="the base URL")
        self._proxy = address(spec.via, what="the proxy") if spec.via else None
        self._target = self._to.target
        sent = {**headers, **_key(spec, key_header, self._to.authorization)}
        self._headers = {"host": self._to.host_header, **_headers(spec, sent, key_header=key_header)}
        if self._proxy is not None and not self._to.secure:
            self._target = f"http://{self._to.authority}{self._to.target}"
            if self._proxy.authorization:
                self._headers["proxy-authorization"] = self._proxy.authorization
        self._trust: ssl.SSLContext | None = None
        self._idle: list[Connection] = []

    @asynccontextmanager
    async def post(self, body: bytes) -> AsyncGenerator[Exchange]:
        """Send the body and hand over the running answer; raises a ModelError for every status but 200 to 299."""
        started = time.monotonic()
        connection, head = await self._send(body)
        pieces = connection.body(head)
        try:
            if head.status // 100 != 2:  # noqa: PLR2004 - any success
                raise await self._refusal(head, pieces)
            yield Exchange(self._spec, self._url, head, pieces=pieces, started=started)
        finally:
            await pieces.aclose()
            if connection.fresh(within=IDLE_SECONDS):
                self._idle.append(connection)
            else:
                connection.abort()

    async def aclose(self) -> None:
        """Close the connections that are kept; a later request opens new ones."""
        while self._idle:
            await self._idle.pop().aclose()

    async def _send(self, body: bytes) -> tuple[Connection, Head]:
        headers = {**self._headers, "content-length": str(len(body))}
        limit = self._spec.timeouts.first_token
        while True:
            connection = self._kept() or await self._connect()
            try:
                async with asyncio.timeout(limit):
                    return connection, await connection.send(self._target, headers=headers, body=body)
            except StaleError:
                connection.abort()
            except TimeoutError as error:
                connection.abort()
                raise stalled(self._spec, self._url, limit) from error
            except BROKEN as error:
                connection.abort()
                raise unreachable(self._spec, self._url, error) from error
            except BaseException:
                connection.abort()
                raise

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh(within=IDLE_SECONDS):
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        secure = self._to.secure or (self._proxy is not None and self._proxy.secure)
        if secure and self._trust is None:
            self._trust = _trust(self._spec)
        try:
            async with asyncio.timeout(self._spec.timeouts.connect):
                return await connect(self._to, proxy=self._proxy, trust=self._trust)
        except (*BROKEN, TimeoutError) as error:
            raise unreachable(self._spec, self._url, error) from error

    async def _refusal(self, head: Head, pieces: AsyncGenerator[bytes]) -> ModelError:
        """The error that a refusing answer stands for, from as much of its body as arrives soon."""
        body = bytearray()
        try:
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                async for piece in pieces:
                    body += piece
                    if len(body) > ERROR_BODY:
                        break
        except (*BROKEN, TimeoutError) as error:
            body += f" (the answer broke off: {type(error).__name__})".encode()
        return Failure(self._spec, self._url, status=head.status, headers=head.headers, body=bytes(body)).error()


def stalled(spec: ModelSpec, url: str, seconds: float) -> StalledError:
    """The error for a server from which nothing came for so many seconds."""
    return StalledError(
        f"{shown(url)} sent nothing of {spec.model}'s answer for {seconds:g} s",
        next="try again; a slow server needs longer timeouts",
    )


def _whole(data: bytes) -> bool:
    """Whether the data of a stream's last event was not cut."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.strip() == b"[DONE]"
    return True


def _key(spec: ModelSpec, header: str, authorization: str) -> Mapping[str, str]:
    """The header that carries the key; without one, what user and password in the URL stand for."""
    if not spec.api_key:
        return {"authorization": authorization} if authorization else {}
    return {header: f"Bearer {spec.api_key}" if header == "authorization" else spec.api_key}


def _headers(spec: ModelSpec, sent: Mapping[str, str], *, key_header: str) -> Mapping[str, str]:
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "user-agent": "melete",
        **sent,
    }
    headers |= {name.lower(): value for name, value in spec.headers.items()}
    for name, value in headers.items():
        if bad := next(_unsendable(name + value), ""):
            where = spec.key_variable if name == key_header else f"the header {name!r}"
            raise ConfigError(
                f"{where} holds the character U+{ord(bad):04X}, which no HTTP header can carry",
                next="copy the value again, without quotes and line ends",
            )
    return headers


def _unsendable(text: str) -> Iterator[str]:
    return (c for c in text if not " " <= c <= "~")


def _trust(spec: ModelSpec) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if spec.ca_file:
        try:
            context.load_verify_locations(cafile=spec.ca_file)
        except OSError as error:
            raise ConfigError(f"the certificates in {spec.ca_file} cannot be read: {error}") from error
    return context
