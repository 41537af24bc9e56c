"""One HTTP exchange with a model: connect, send, watch for silence, and hand over events. Part: models, used by every wire.

The client lives as long as the adapter, so that steps of a run share one connection. Trust stores are loaded for https only.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import httpx2
import msgspec

from melete.core.errors import ConfigError
from melete.core.model import MalformedReplyError, ModelError, StalledError
from melete.models.errors import Failure, looks_like_html, malformed, unreachable
from melete.models.spec import ModelSpec, shown
from melete.models.sse import EventParser, ServerEvent

ERROR_BODY = 256 * 1024
LARGEST_EVENT = 64 * 1024 * 1024
ERROR_BODY_SECONDS = 10.0
HEAD = 2000


class Exchange:
    """A running answer. `limit` is the silence that is borne now, in seconds; whoever reads shortens it as tokens come.

    After the end, `strange` says that what came was no event stream, and `head` holds its first bytes.
    """

    def __init__(self, spec: ModelSpec, url: str, response: httpx2.Response, *, started: float) -> None:
        self.headers = response.headers
        self.limit = spec.timeouts.first_token
        self.head = b""
        self.strange = False
        self._spec = spec
        self._url = url
        self._pieces = response.aiter_bytes()
        self._quiet_since = started

    def token(self, *, limit: float) -> None:
        """Note that something of the answer itself arrived; from now on silence may last `limit` seconds."""
        self.limit = limit
        self._quiet_since = time.monotonic()

    async def events(self) -> AsyncGenerator[ServerEvent]:
        """Yield each event; a body that is one JSON document comes as one event named `document`."""
        parser = EventParser()
        async for piece in self._read():
            if len(self.head) < HEAD:
                start = self.head.lstrip()
                self.head += piece[:HEAD]
                if not start and self.head.lstrip()[:1] in (b"{", b"[", b"<"):
                    yield await self._document(piece)
                    return
            for event in parser.feed(piece):
                yield event
            if parser.buffered > LARGEST_EVENT:
                raise MalformedReplyError(f"{shown(self._url)} sent an event of more than {LARGEST_EVENT} bytes")
        for event in parser.close():
            if _whole(event.data):
                yield event
        self.strange = bool(self.head.strip()) and not parser.met

    async def _document(self, first: bytes) -> ServerEvent:
        pieces, size = [first], len(first)
        async for piece in self._read():
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_EVENT:
                raise MalformedReplyError(f"{shown(self._url)} sent more than {LARGEST_EVENT} bytes")
        body = b"".join(pieces)
        if looks_like_html(body):
            raise malformed(self._spec, self._url, body)
        return ServerEvent(name="document", data=body)

    async def _read(self) -> AsyncGenerator[bytes]:
        while True:
            patience = self._quiet_since + self._spec.timeouts.patience - time.monotonic()
            try:
                async with asyncio.timeout(max(0.0, min(self.limit, patience))):
                    piece = await anext(self._pieces, None)
            except TimeoutError as error:
                raise stalled(self._spec, self._url, min(self.limit, self._spec.timeouts.patience)) from error
            except httpx2.HTTPError as error:
                raise unreachable(self._spec, self._url, error) from error
            if piece is None:
                return
            yield piece


class Http:
    """Posts to one URL over connections that are kept; safe for several requests at a time."""

    def __init__(self, spec: ModelSpec, url: str) -> None:
        self._spec = spec
        self._url = url
        self._headers = _headers(spec)
        self._client: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def post(self, body: bytes) -> AsyncGenerator[Exchange]:
        """Send the body and hand over the running answer; raises a ModelError for every status but 200 to 299."""
        started = time.monotonic()
        client = self._client = self._client or _client(self._spec, self._url)
        response = await self._send(client, body)
        try:
            if not response.is_success:
                raise await self._refusal(response)
            yield Exchange(self._spec, self._url, response, started=started)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close the connections; a later request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _send(self, client: httpx2.AsyncClient, body: bytes) -> httpx2.Response:
        limit = self._spec.timeouts.first_token
        try:
            request = client.build_request("POST", self._url, content=body, headers=self._headers)
            async with asyncio.timeout(limit):
                return await client.send(request, stream=True)
        except TimeoutError as error:
            raise stalled(self._spec, self._url, limit) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise unreachable(self._spec, self._url, error) from error

    async def _refusal(self, response: httpx2.Response) -> ModelError:
        """The error that a refusing response stands for, from as much of its body as arrives soon."""
        body = bytearray()
        try:
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > ERROR_BODY:
                        break
        except (TimeoutError, httpx2.HTTPError) as error:
            body += f" (the answer broke off: {type(error).__name__})".encode()
        failure = Failure(
            self._spec, self._url, status=response.status_code, headers=response.headers, body=bytes(body)
        )
        return failure.error()


def _whole(data: bytes) -> bool:
    """Whether the data of a stream's last event was not cut."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data.strip() == b"[DONE]"
    return True


def stalled(spec: ModelSpec, url: str, seconds: float) -> StalledError:
    """The error for a server from which nothing came for so many seconds."""
    return StalledError(
        f"{shown(url)} sent nothing of {spec.model}'s answer for {seconds:g} s",
        next="try again; a slow server needs longer timeouts",
    )


def _headers(spec: ModelSpec) -> dict[str, str]:
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
    }
    if spec.api_key:
        headers["authorization"] = f"Bearer {spec.api_key}"
    headers |= {name.lower(): value for name, value in spec.headers.items()}
    for name, value in headers.items():
        if bad := next(_unsendable(name + value), ""):
            where = spec.key_variable if name == "authorization" else f"the header {name!r}"
            raise ConfigError(
                f"{where} holds the character U+{ord(bad):04X}, which no HTTP header can carry",
                next="copy the value again, without quotes and line ends",
            )
    return headers


def _unsendable(text: str) -> Iterator[str]:
    return (c for c in text if not " " <= c <= "~")


def _client(spec: ModelSpec, url: str) -> httpx2.AsyncClient:
    secure = url.lower().startswith("https:") or spec.proxy.lower().startswith("https:")
    try:
        return httpx2.AsyncClient(
            verify=_trust(spec) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            proxy=spec.proxy or None,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(None, connect=spec.timeouts.connect),
        )
    except (ValueError, httpx2.InvalidURL) as error:
        raise ConfigError(
            f"the proxy {shown(spec.proxy)} cannot be used: {error}", next="check the proxy's URL"
        ) from error


def _trust(spec: ModelSpec) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if spec.ca_file:
        try:
            context.load_verify_locations(cafile=spec.ca_file)
        except OSError as error:
            raise ConfigError(f"the certificates in {spec.ca_file} cannot be read: {error}") from error
    return context
