"""The client of the web against a real server: what is refused, what is followed, and what is bounded.

The addresses of the world are led to a server on this machine; what would have been dialled is kept.
"""

import asyncio
import gzip
import ssl
import subprocess
import zlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from melete.core.ports import Fetched, Fetcher
from melete.core.tool import ToolError
from melete.net.dial import PinnedDialer, dialer_for
from melete.net.fetch import PinnedFetcher
from melete.security.urls import networks

PUBLIC = "93.184.215.14"
OTHER = "1.0.0.1"
NAMES = {"host.example": [PUBLIC], "other.example": [OTHER], "inner.example": ["10.1.2.3"], "wiki.corp": ["10.1.2.3"],
         "mixed.example": [PUBLIC, "127.0.0.1"], "localhost": ["127.0.0.1"]}  # fmt: skip


class World:
    """A server that answers by path, the names that lead to it, and what was asked of whom."""

    def __init__(self, pages: Mapping[str, bytes]) -> None:
        self.pages = dict(pages)
        self.asked: list[bytes] = []
        self.dialled: list[str] = []
        self.port = 0
        self.turn = 0
        self.sequence: list[list[str]] = []

    async def answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        writer.write(self.pages.get(head.split()[1].decode(), page(b"not here", status="404 No")))
        await writer.drain()

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.turn += 1
        return self.sequence[min(self.turn, len(self.sequence)) - 1] if self.sequence else NAMES.get(host, [host])

    async def connect(self, address: str, port: int) -> tuple[StreamReader, StreamWriter]:
        self.dialled.append(f"{address}:{port}")
        return await asyncio.open_connection("127.0.0.1", self.port)

    def fetcher(self, trusted: Sequence[str] = (), **given: Any) -> PinnedFetcher:
        nets = networks(trusted)[0]
        return PinnedFetcher(
            PinnedDialer(trusted=nets, resolve=self.resolve, connect=self.connect), trusted=nets, **given
        )


def page(body: bytes, *, status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


def leading(to: str, status: int = 302) -> bytes:
    return page(b"", status=f"{status} Elsewhere", location=to)


@asynccontextmanager
async def serving(world: World, secure: ssl.SSLContext | None = None) -> AsyncIterator[World]:
    async def handle(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):  # the client left
                await world.answer(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=secure)
    async with server:
        world.port = server.sockets[0].getsockname()[1]
        yield world


def run(world: World, work: Callable[[World], Awaitable[Any]], secure: ssl.SSLContext | None = None) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(30), serving(world, secure):
            return await work(world)

    return asyncio.run(main())


def get(world: World, url: str, **given: Any) -> Fetched:
    return run(world, lambda w: w.fetcher().get(url, **given))


def test_a_page_comes_with_its_type_and_is_asked_for_by_name() -> None:
    world = World({"/a%20b?c=d%C3%A9": page(b"hi", content_type='Text/HTML; charset="Latin-1"')})
    fetched = get(world, "http://Host.Example./a%20b?c=dé#part")
    assert (fetched.status, fetched.media_type, fetched.charset, fetched.body) == (200, "text/html", "Latin-1", b"hi")
    assert world.dialled == [f"{PUBLIC}:80"]
    assert b"\r\nhost: host.example\r\n" in world.asked[0].lower()
    checked: Fetcher = world.fetcher()
    assert checked


@pytest.mark.parametrize(
    "url",
    ("http://127.0.0.1/", "http://0x7f.1/", "http://localhost/", "http://[::ffff:127.0.0.1]/", "file:///etc/passwd",
     "http://host.example:22/", "http://a:b@host.example/", "http://inner.example/", "http://mixed.example/",
     "http://169.254.169.254/latest/", "http://wiki.corp/", "http://10.1.2.3/"),
)  # fmt: skip
def test_what_may_not_be_reached_is_never_dialled(url: str) -> None:
    world = World({"/": page(b"secret")})
    with pytest.raises(ToolError, match="may not be"):
        get(world, url)
    assert world.dialled == []


@pytest.mark.parametrize(
    "location",
    ("http://127.0.0.1/", "//169.254.169.254/latest/", "http://inner.example/", "\\\\127.0.0.1\\", "ftp://host.example/",
     "http://[::1/", "http://other.example@127.0.0.1/", "gopher://host.example/", "http://2130706433/"),
)  # fmt: skip
@pytest.mark.parametrize("status", (301, 302, 303, 307, 308))
def test_every_redirect_is_judged_anew(location: str, status: int) -> None:
    world = World({"/": leading(location, status)})
    with pytest.raises(ToolError):
        get(world, "http://host.example/")
    assert world.dialled == [f"{PUBLIC}:80"]


def test_redirects_are_followed_and_keys_stay_with_their_server() -> None:
    world = World({"/": leading("/two"), "/two": leading("http://other.example/three"), "/three": page(b"end")})
    fetched = get(world, "http://host.example/", headers={"X-Key": "k"})
    assert (fetched.url, fetched.body) == ("http://other.example/three", b"end")
    assert [b"x-key" in head.lower() for head in world.asked] == [True, True, False]
    assert world.dialled == [f"{PUBLIC}:80", f"{PUBLIC}:80", f"{OTHER}:80"]


def test_a_circle_of_redirects_ends() -> None:
    world = World({"/": leading("/")})
    with pytest.raises(ToolError, match="more than 5"):
        get(world, "http://host.example/")
    assert len(world.asked) == 6


def test_a_name_server_that_changes_its_mind_changes_nothing() -> None:
    world = World({"/": page(b"public")})
    world.sequence = [[PUBLIC], ["127.0.0.1"]]

    async def twice(world: World) -> None:
        fetcher = world.fetcher()
        assert (await fetcher.get("http://rebind.example/")).body == b"public"
        with pytest.raises(ToolError, match=r"127\.0\.0\.1"):
            await fetcher.get("http://rebind.example/")

    run(world, twice)
    assert (world.turn, world.dialled) == (2, [f"{PUBLIC}:80"])


def test_networks_that_are_trusted_open_and_this_machine_never_does() -> None:
    world = World({"/": page(b"inner")})

    async def within(world: World) -> None:
        fetcher = world.fetcher(["10.1.0.0/16", "127.0.0.0/8"])
        for url in ("http://10.1.2.3/", "http://inner.example/", "http://wiki.corp/"):
            assert (await fetcher.get(url)).body == b"inner"
        for url in ("http://127.0.0.1/", "http://localhost/", "http://10.2.0.1/", "http://0x0a.1.2.3/"):
            with pytest.raises(ToolError):
                await fetcher.get(url)

    run(world, within)
    assert world.dialled == ["10.1.2.3:80"] * 3


def test_a_server_that_a_person_named_may_be_on_this_machine_and_leads_nowhere_else() -> None:
    world = World({"/a": page(b"own"), "/b": leading("http://127.0.0.1:1/"), "/c": leading("http://127.0.0.2/")})

    async def own(world: World) -> None:
        base = f"http://127.0.0.1:{world.port}"
        fetcher = world.fetcher(own=(base,))
        assert (await fetcher.get(f"{base}/a")).body == b"own"
        for wrong in (f"{base}/b", f"{base}/c", f"http://127.0.0.2:{world.port}/a", f"https://127.0.0.1:{world.port}/"):
            with pytest.raises(ToolError):
                await fetcher.get(wrong)

    run(world, own)
    assert len(world.asked) == 3


def test_a_body_is_posted_and_a_redirect_of_it_is_the_answer() -> None:
    world = World({"/": leading("/two")})
    assert get(world, "http://host.example/", body=b"{}").status == 302
    assert world.asked[0].startswith(b"POST / ")


# ---- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ("gzip", "deflate", ""))
def test_a_page_is_unpacked_and_bounded(encoding: str) -> None:
    bomb = b"x" * 3_000_000
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "": bytes}[encoding]
    answer = page(pack(bomb), content_encoding=encoding) if encoding else page(bomb)
    assert get(World({"/": answer}), "http://host.example/").body == bomb
    with pytest.raises(ToolError, match="larger than 1,000,000"):
        get(World({"/": answer}), "http://host.example/", limit=1_000_000)


def test_a_page_without_a_length_is_bounded_as_well() -> None:
    world = World({"/": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 500_000})
    with pytest.raises(ToolError, match="larger than 1,000 "):
        get(world, "http://host.example/", limit=1_000)


@pytest.mark.parametrize(
    ("answer", "told"),
    (
        (b"", "broke off"),
        (b"SSH-2.0-here\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfew", "broke off"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000, "broke off"),
        (page(b"no gzip", content_encoding="gzip"), "cannot be reached"),
        (page(b"?", content_encoding="br"), "not understood"),
    ),
)
def test_an_answer_that_cannot_be_read_is_an_error_of_words(answer: bytes, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        get(World({"/": answer}), "http://host.example/")


def test_a_server_that_never_answers_is_left() -> None:
    world = World({})

    async def silent(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read()

    world.answer = silent
    with pytest.raises(ToolError, match=r"host\.example was not there within 0\.1 s"):
        get(world, "http://host.example/", timeout=0.1)


def test_header_lines_cannot_be_smuggled_in() -> None:
    world = World({})
    with pytest.raises(ToolError, match="cannot be asked"):
        get(world, "http://host.example/", headers={"x": "a\r\nHost: other"})
    assert world.dialled == []


# ---- https and proxies -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=host.example", "-addext", "subjectAltName=DNS:host.example"]
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", "req", *kind, *name, *files], check=True, capture_output=True)
    return cert, key


@pytest.mark.needs("openssl")
def test_https_is_checked_by_the_name_that_was_asked_for(certificate: tuple[Path, Path]) -> None:
    secure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    secure.load_cert_chain(*certificate)
    world = World({"/": page(b"sealed"), "/down": leading("http://host.example/")})

    async def main(world: World) -> None:
        fetcher = world.fetcher(ca_file=str(certificate[0]))
        assert (await fetcher.get("https://host.example/")).body == b"sealed"
        with pytest.raises(ToolError, match="from https to plain http"):
            await fetcher.get("https://host.example/down")
        with pytest.raises(ToolError, match="certificate is not trusted"):
            await fetcher.get("https://other.example/")
        with pytest.raises(ToolError, match="certificate is not trusted"):
            await world.fetcher().get("https://host.example/")

    run(world, main, secure)
    assert world.dialled[0] == f"{PUBLIC}:443"


def test_through_a_proxy_names_and_numbers_are_judged() -> None:
    asked: list[bytes] = []

    async def proxy(reader: StreamReader, writer: StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 Yes\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(leading("http://10.1.2.3/"))
        await writer.drain()

    world = World({})
    world.answer = proxy

    async def main(world: World) -> None:
        fetcher = PinnedFetcher(dialer_for({"HTTP_PROXY": f"http://127.0.0.1:{world.port}"}))
        for url in ("http://host.example/", "http://127.0.0.1/", "http://db.internal/"):
            with pytest.raises(ToolError, match="may not be"):
                await fetcher.get(url)

    run(world, main)
    assert [head.split()[1] for head in asked] == [b"host.example:80"]
