"""The one client through which tools reach the web: judged, pinned, bounded. Part: net.

An address is read once, and what was read is judged, resolved and dialled; every redirect begins anew. The protocol is h11's, as
for the models, whose client keeps connections and streams what this one must bound.
"""

import asyncio
import re
import ssl
import zlib
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping, Sequence
from urllib.parse import urljoin

import h11
from msgspec import Struct

from melete.core.environment import Dialer
from melete.core.errors import EnvironmentFailure
from melete.core.policy import Verdict
from melete.core.ports import Fetched
from melete.core.tool import ToolError
from melete.net.dial import Connection
from melete.security.urls import Network, Where, judge, read

MOST_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
LARGEST_HEAD = 64 * 1024
PIECE = 64 * 1024
WBITS = {"gzip": 31, "x-gzip": 31, "deflate": 15, "identity": 0, "": 0}
SENT = {
    "user-agent": "Mozilla/5.0 (compatible; melete)",
    "accept": "text/html, application/xhtml+xml, application/json, application/pdf, text/*, */*;q=0.5",
    "accept-encoding": "gzip, deflate",
    "connection": "close",
}
NONE: Mapping[str, str] = {}
CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
BROKEN = (OSError, h11.RemoteProtocolError, zlib.error)


class Answer(Struct, frozen=True, kw_only=True):
    """Status, headers with names in lower case, and the unpacked body of one exchange."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PinnedFetcher:
    """A `Fetcher` that reaches what is plainly public, networks that are `trusted`, and `own`: servers that a person named.

    `own` are beginnings of addresses, such as `http://127.0.0.1:8888`; what they lead to is judged as everything else.
    `dial` connects to judged addresses only; `ca_file` holds further certificates to trust.
    """

    def __init__(
        self, dial: Dialer, *, trusted: Sequence[Network] = (), own: Sequence[str] = (), ca_file: str = ""
    ) -> None:
        self._dial = dial
        self._trusted = trusted
        self._own = [found for one in own if (found := _origin(one))]
        self._ca_file = ca_file
        self._context: ssl.SSLContext | None = None

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] = {},
        body: bytes | None = None,
        limit: int = 5_000_000,
        timeout: float = 30.0,
    ) -> Fetched:
        """Fetch, with a `body` by POST, which follows no redirect; raises ToolError, also after more than five redirects."""
        try:
            async with asyncio.timeout(timeout):
                return await self._follow(url, headers=headers, body=body, limit=limit)
        except TimeoutError as error:
            raise ToolError(f"{_named(url)} was not there within {timeout:g} s") from error

    async def _follow(self, url: str, *, headers: Mapping[str, str], body: bytes | None, limit: int) -> Fetched:
        first = where = self._judged(url)
        for _ in range(MOST_REDIRECTS + 1):
            sent = headers if _same(first, where) else NONE
            try:
                answer = await self._exchange(where, headers=sent, body=body, limit=limit)
            except EnvironmentFailure as error:  # the dialer's no
                raise ToolError(str(error)) from error
            except h11.LocalProtocolError as error:
                raise ToolError(f"{where.host} cannot be asked this: {error}") from error
            except BROKEN as error:
                raise ToolError(f"{where.host} cannot be reached: {_why(error)}") from error
            if answer.status not in REDIRECTS or body is not None or "location" not in answer.headers:
                return _fetched(url, answer)
            url, where = self._next(url, where, answer.headers["location"])
        raise ToolError(f"{first.host} led on more than {MOST_REDIRECTS} times")

    def _judged(self, url: str) -> Where:
        """The address, read; raises ToolError for one that may not be fetched."""
        where = read(url)
        if isinstance(where, Where) and self._is_own(where):
            return where
        verdict = where if isinstance(where, Verdict) else judge(url, trusted=self._trusted)
        if isinstance(where, Verdict) or verdict.verdict == "forbid":
            fix = " (web.private_networks names networks that may be reached)" if verdict.rule == "private" else ""
            raise ToolError(f"{url[:200]!r} may not be fetched: {verdict.reason}{fix}")
        return where

    def _next(self, url: str, where: Where, location: str) -> tuple[str, Where]:
        """Where a redirect leads, judged; out of https it leads nowhere."""
        try:
            target = urljoin(url, location)
        except ValueError as error:
            raise ToolError(f"{where.host} leads to an address that cannot be read") from error
        try:
            found = self._judged(target)
        except ToolError as error:
            raise ToolError(f"{where.host} leads on, but {error}") from error
        if where.secure and not found.secure:
            raise ToolError(
                f"{where.host} leads from https to plain http; fetch {target[:200]} itself if that is meant"
            )
        return target, found

    async def _exchange(self, where: Where, *, headers: Mapping[str, str], body: bytes | None, limit: int) -> Answer:
        request = _request(where, headers, body)
        reader, writer = await self._connect(where)
        try:
            if where.secure:
                await writer.start_tls(self._trust(), server_hostname=where.host)
            return await _ask(reader, writer, request, limit=limit)
        finally:
            writer.transport.abort()

    async def _connect(self, where: Where) -> Connection:
        """A connection to a judged address; to a server that a person named and no judgement allows, without one."""
        if self._is_own(where) and judge(f"http://{where.spelled}/", trusted=self._trusted).verdict == "forbid":
            return await asyncio.open_connection(where.host, where.port)
        return await self._dial(where.host, where.port)

    def _is_own(self, where: Where) -> bool:
        return any(_same(own, where) for own in self._own)

    def _trust(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context()
            if self._ca_file:
                self._context.load_verify_locations(cafile=self._ca_file)
        return self._context


async def _ask(reader: StreamReader, writer: StreamWriter, request: tuple[h11.Request, bytes], *, limit: int) -> Answer:
    """Send a request and read the whole answer; raises ToolError when it is larger than `limit`, packed or unpacked."""
    http = h11.Connection(our_role=h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
    head, body = request
    writer.write(http.send(head) or b"")
    if body:
        writer.write(http.send(h11.Data(data=body)) or b"")
    writer.write(http.send(h11.EndOfMessage()) or b"")
    await writer.drain()
    status, headers, unpacker = 0, dict[str, str](), Unpacker("", limit)
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(PIECE))
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
            unpacker = Unpacker(headers.get("content-encoding", "").strip().lower(), limit)
            unpacker.expect(headers.get("content-length", ""))
        elif isinstance(event, h11.Data):
            unpacker.feed(bytes(event.data))
        elif not isinstance(event, h11.InformationalResponse):
            return Answer(status=status, headers=headers, body=bytes(unpacker.body))


class Unpacker:
    """A body as it comes, unpacked and never larger than its limit, however much is packed into little."""

    def __init__(self, encoding: str, limit: int) -> None:
        if encoding not in WBITS:
            raise ToolError(f"the page is packed as {encoding[:40]!r}, which is not understood")
        self._unpack = zlib.decompressobj(wbits=WBITS[encoding]) if WBITS[encoding] else None
        self._limit = limit
        self.body = bytearray()

    def expect(self, length: str) -> None:
        """Refuse a body whose length is too large before any of it is read."""
        if length.isdecimal() and int(length) > self._limit:
            raise self._too_large()

    def feed(self, data: bytes) -> None:
        """Take the next bytes; raises ToolError when the limit is passed."""
        room = self._limit - len(self.body)
        self.body += self._unpack.decompress(data, room + 1) if self._unpack else data
        if len(self.body) > self._limit:
            raise self._too_large()

    def _too_large(self) -> ToolError:
        return ToolError(f"the page is larger than {self._limit:,} bytes")


def _request(where: Where, headers: Mapping[str, str], body: bytes | None) -> tuple[h11.Request, bytes]:
    sent = {"host": where.header, **SENT, **{name.lower(): value for name, value in headers.items()}}
    if body is not None:
        sent["content-length"] = str(len(body))
    method = "GET" if body is None else "POST"
    return h11.Request(method=method, target=where.target, headers=list(sent.items())), body or b""


def _fetched(url: str, answer: Answer) -> Fetched:
    kind = answer.headers.get("content-type", "")
    charset = CHARSET.search(kind)
    return Fetched(
        url=url,
        status=answer.status,
        media_type=kind.partition(";")[0].strip().lower(),
        charset=charset[1] if charset else "",
        body=answer.body,
    )


def _origin(url: str) -> Where | None:
    found = read(url) if url else None
    return found if isinstance(found, Where) else None


def _same(one: Where, other: Where) -> bool:
    """Whether two addresses are on the same server."""
    return (one.secure, one.host, one.port) == (other.secure, other.host, other.port)


def _named(url: str) -> str:
    where = read(url)
    return where.host if isinstance(where, Where) else "the address"


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, h11.RemoteProtocolError):
        return f"its answer broke off or is no HTTP ({error})"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
