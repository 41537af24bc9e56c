"""The web tools against real servers: pages in many forms, errors beside results, and services that speak their own JSON."""

import asyncio
import gzip
import importlib.util
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from melete.core.ports import Fetched, WebSearch
from melete.core.tool import Tool, ToolError
from melete.net.dial import PinnedDialer
from melete.net.fetch import PinnedFetcher
from melete.tools import web_text
from melete.tools.web import WebTools, web_search
from melete.tools.web_search import SERVICES, DuckDuckGo, JsonSearch
from melete.tools.web_text import PlainReader, readable
from tests.unit.tools.context import Context, call, names, output, within

ARTICLE = """<!doctype html><html><head><title>The  Lighthouse</title><style>p{}</style><script>steal()</script></head>
<body><nav><a href="/">Home</a></nav><article><h1>The Lighthouse</h1>
<p>The keeper left at dawn &amp; took <a href="/lamp">the lamp</a> with her. %s</p>
<ul><li>oil</li><li>wick</li></ul><pre>turn  it
off</pre><table><tr><th>day</th><th>ships</th></tr><tr><td>one</td><td>7</td></tr></table></article></body></html>""" % (
    "Nobody has seen the light since, and the ships go by in silence. " * 8
)


class Server:
    """A server on this machine that answers by path; what was asked is kept."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, str, bytes]] = {}
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.port = 0

    async def answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        target = first.split()[1]
        self.asked.append((target, headers, body))
        status, kind, content = self.pages.get(urlsplit(target).path, (404, "text/plain", b"no"))
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        await writer.drain()
        writer.close()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def connect(self, address: str, port: int) -> tuple[StreamReader, StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    def open(self) -> PinnedFetcher:
        async def resolve(host: str, port: int) -> list[str]:
            return ["10.0.0.1" if host == "inner.example" else "93.184.215.14"]

        return PinnedFetcher(PinnedDialer(resolve=resolve, connect=self.connect), own=(self.base,))


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    made = Server()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    async with server:
        made.port = server.sockets[0].getsockname()[1]
        yield made


def on(folder: Path, test: Callable[[Context, Server, Tool], Awaitable[None]], **given: Any) -> None:
    async def main(ctx: Context) -> None:
        async with serving() as server, WebTools(server.open, **given).open() as tools:
            await test(ctx, server, tools[-1])

    within(folder, main, on_files=True)


def read(body: bytes | str, kind: str = "text/html", charset: str = "") -> web_text.Page:
    data = body.encode() if isinstance(body, str) else body
    return readable(Fetched(url="http://host.example/a", status=200, media_type=kind, charset=charset, body=data))


# ---- pages -----------------------------------------------------------------------------------------------------------


def test_several_pages_are_read_at_once_and_errors_stand_beside_them(tmp_path: Path) -> None:
    async def test(ctx: Context, server: Server, extract: Tool) -> None:
        server.pages["/"] = (200, "text/html; charset=utf-8", ARTICLE.encode())
        server.pages["/data"] = (200, "application/json", b'{"ships": 7}')
        server.pages["/gone"] = (410, "text/plain", b"gone")
        server.pages["/cat"] = (200, "image/png", b"\x89PNG")
        urls = [f"http://host.example{path}" for path in ("/", "/data", "/gone", "/cat")]
        urls += ["http://127.0.0.1/", "http://inner.example/", "host.example", urls[0]]
        done = await output(extract, ctx, urls=urls)
        rows = done.fields["results"]
        assert (done.taint, done.failed, done.fields["success"]) == ("web", False, True)
        assert [row["url"] for row in rows] == urls[:-1]
        assert rows[0]["title"] == "The Lighthouse"
        assert "The keeper left at dawn" in rows[0]["content"]
        assert "steal" not in rows[0]["content"]
        assert rows[1]["content"] == '{"ships": 7}'
        told = [row["error"] for row in rows[2:]]
        wanted = ("status 410", "image/png", "this machine", "10.0.0.1", "begin with http")
        assert all(word in error for word, error in zip(wanted, told, strict=True)), told

    on(tmp_path, test)


def test_a_long_page_is_cut_and_the_rest_can_be_read(tmp_path: Path) -> None:
    async def test(ctx: Context, server: Server, extract: Tool) -> None:
        text = "\n".join(f"line {number}" for number in range(20_000))
        server.pages["/"] = (200, "text/plain", text.encode())
        done = await call(extract, ctx, urls=["http://host.example/"], char_limit=1_000)
        (row,) = done["results"]
        assert row["content"] == text[:1_000]
        path = row["more"].rpartition(" ")[2]
        assert Path(path).read_text() == text
        many = await output(extract, ctx, urls=[f"http://host.example/?{n}" for n in range(10)], char_limit=90_000)
        ctx.call_id = "call-2"
        assert len(msgspec.json.encode(many.fields)) < extract.limit

    on(tmp_path, test)


def test_when_no_page_can_be_read_the_call_has_failed(tmp_path: Path) -> None:
    async def test(ctx: Context, server: Server, extract: Tool) -> None:
        done = await output(extract, ctx, urls=["http://host.example/"])
        assert (done.failed, done.taint) == (True, "web")
        for wrong in ([], [" "], [f"http://host.example/{n}" for n in range(11)]):
            with pytest.raises(ToolError, match="1 to 10"):
                await call(extract, ctx, urls=wrong)
        server.pages["/"] = (200, "text/plain", b"x" * 2_000)
        (row,) = (await call(extract, ctx, urls=["http://host.example/"]))["results"]
        assert "larger than 1,000" in row["error"]

    on(tmp_path, test, limit=1_000)


# ---- forms -----------------------------------------------------------------------------------------------------------


@pytest.mark.needs_package("trafilatura")
def test_what_a_page_says_is_taken_out_of_what_stands_round_it() -> None:
    page = read(ARTICLE)
    assert (page.title, page.note) == ("The Lighthouse", "")
    assert "[the lamp](http://host.example/lamp)" in page.text
    assert "Home" not in page.text


def test_a_page_that_would_fill_the_memory_is_read_plainly() -> None:
    attributes = " ".join(f"a{number}" for number in range(2_000))
    for page in ("<b><i>x</i></b>" * 10_000, f"<p {attributes}>x</p>" * 50):
        found = readable(Fetched(url="http://a/", status=200, media_type="text/html", body=f"<html>{page}".encode()))
        assert (found.note, found.text.strip()[:1]) == ("a very large page, read plainly", "x")


def test_without_the_extra_a_page_is_read_plainly_and_a_hint_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_text, "_extract", web_text.Lazy("no_such_package:extract", extra="web"))
    page = read(ARTICLE)
    for part in (
        "# The Lighthouse",
        "dawn & took [the lamp](http://host.example/lamp) with her.",
        "\n- oil",
        "\n- wick",
        "```\nturn  it\noff\n```",
        "| one | 7",
        "[Home](http://host.example/)",
    ):
        assert part in page.text, page.text
    assert "steal" not in page.text
    assert 'pip install "melete[web]"' in page.note
    monkeypatch.setattr(web_text, "_pdf", web_text.Lazy("no_such_package:read", extra="web"))
    with pytest.raises(ToolError, match=r"melete\[web\]"):
        read(b"%PDF-1.4", "application/pdf")


@pytest.mark.parametrize(
    ("body", "kind", "charset", "text"),
    (
        ("é".encode("latin-1"), "text/plain", "latin-1", "é"),
        ("é".encode("latin-1"), "text/plain", "", "é"),
        ("é".encode("latin-1"), "text/plain", "no-such", "é"),
        ("é".encode("latin-1"), "text/plain", "zlib_codec", "é"),
        ("é".encode(), "text/plain", "", "é"),
        ("é".encode("utf-8-sig"), "text/plain", "latin-1", "é"),
        ("é".encode("utf-16"), "text/plain", "", "é"),
        (b'<?xml version="1.0" encoding="iso-8859-2"?><a>\xb1</a>', "application/xml", "", "ą"),
        (b"a: 1", "application/octet-stream", "", "a: 1"),
        (b"plain", "", "", "plain"),
        (b"[1]", "application/ld+json", "", "[1]"),
    ),
)
def test_text_is_read_in_its_own_alphabet(body: bytes, kind: str, charset: str, text: str) -> None:
    assert text in read(body, kind, charset).text


def test_a_page_names_its_alphabet_itself() -> None:
    assert "Привет" in read('<html><meta charset="windows-1251"><p>Привет</p>'.encode("cp1251")).text
    assert "日本語" in read("<html><p>日本語</p>".encode("shift_jis"), charset="Shift_JIS").text
    assert read("<!DOCTYPE html><title>T</title><p>x", "text/plain").title == "T"


@pytest.mark.parametrize(
    ("body", "kind"),
    ((b"\0\1", "text/plain"), (b"\0", "application/octet-stream"), (b"PK", "application/zip")),
)
def test_what_is_no_text_is_said_to_be_none(body: bytes, kind: str) -> None:
    with pytest.raises(ToolError, match="text"):
        read(body, kind)


@pytest.mark.parametrize(
    "text",
    (
        "<" * 50_000,
        "<a" * 20_000,
        "<div>" * 20_000,
        "<![CDATA[",
        "</p></a></title>",
        "<svg><svg></svg>x",
        "<script>" * 9_000,
        "<a " + " " * 90_000,
        '<a href="' * 90_000,
        "<!--" * 90_000,
        "&" * 90_000,
    ),
)
def test_no_page_breaks_the_plain_reading(text: str) -> None:
    reader = PlainReader("http://host.example/")
    reader.read(text)
    assert isinstance(reader.text, str)


def pdf(text: str) -> bytes:
    """A whole PDF of one page, written by hand."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    made, places = b"%PDF-1.4\n", list[int]()
    for number, inner in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, inner)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return (
        made
        + b"xref\n0 6\n0000000000 65535 f \n"
        + table
        + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(made)
    )


@pytest.mark.needs_package("pypdf")
def test_a_pdf_is_read() -> None:
    assert read(pdf("The keeper left."), "application/pdf").text == "The keeper left."
    assert read(pdf("By its bytes."), "application/octet-stream").text == "By its bytes."
    for wrong in (b"%PDF-1.4 nothing", pdf("x")[:120], b"%PDF-" + gzip.compress(b"x" * 99)):
        with pytest.raises(ToolError, match="PDF"):
            read(wrong, "application/pdf")
    with pytest.raises(ToolError, match="no text"):
        read(pdf(""), "application/pdf")


# ---- searching -------------------------------------------------------------------------------------------------------

ROW = {"title": "A <b>light</b>", "url": "https://one.example/", "content": "of  old", "description": "of <strong>old</strong>",
       "highlights": ["of", "old"]}  # fmt: skip


def searching(name: str, answer: Any, status: int = 200, limit: int = 3) -> tuple[dict[str, Any], Server]:
    async def main() -> tuple[dict[str, Any], Server]:
        async with serving() as server:
            path = "/base" + ("/search" if name == "searxng" else urlsplit(SERVICES[name].url).path)
            content = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
            server.pages[path] = (status, "application/json", content)
            search: WebSearch = JsonSearch(name, server.open, key="the-key", base=f"{server.base}/base/")
            ctx: Any = None
            tool = web_search(search)
            done = await tool.run(ctx, tool.arguments(query=" light ", limit=limit))
            assert not isinstance(done, dict)
            assert getattr(done, "taint", "") == "web"
            return dict(getattr(done, "fields", {})), server

    return asyncio.run(main())


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_asked_in_its_own_way(name: str) -> None:
    rows = [ROW, {"title": "no address"}, "no row", {**ROW, "url": "https://two.example/"}, ROW, ROW]
    fields, server = searching(name, {"web": {"results": rows}, "results": rows})
    assert fields["source"] == name
    assert [row["url"] for row in fields["results"]][:2] == ["https://one.example/", "https://two.example/"]
    assert len(fields["results"]) == 3
    assert fields["results"][0]["title"] == "A light"
    assert fields["results"][0]["snippet"] in ("of old", "of … old")
    target, headers, body = server.asked[0]
    sent = parse_qs(urlsplit(target).query)
    match name:
        case "searxng":
            assert (sent["q"], sent["format"]) == (["light"], ["json"])
        case "brave":
            assert (sent["q"], sent["count"], headers["x-subscription-token"]) == (["light"], ["3"], "the-key")
        case "tavily":
            assert headers["authorization"] == "Bearer the-key"
            assert msgspec.json.decode(body).items() >= {"query": "light", "max_results": 3}.items()
        case _:
            assert headers["x-api-key"] == "the-key"
            assert msgspec.json.decode(body).items() >= {"query": "light", "numResults": 3}.items()


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    (({}, 401, "key is not accepted"), ({}, 429, "too often"), ({}, 500, "later"), (b"<html>", 200, "no JSON")),
)
def test_a_service_that_fails_says_why(answer: Any, status: int, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        searching("brave", answer, status)


@pytest.mark.parametrize("answer", ({}, [], {"results": None}, {"results": {}}, {"results": [{"url": 7}]}, 7))
def test_an_answer_without_hits_is_no_failure(answer: Any) -> None:
    fields, _ = searching("searxng", answer)
    assert (fields["success"], fields["results"]) == (True, [])
    assert fields["hint"]


def test_searxng_without_json_says_what_to_set() -> None:
    for answer, status in ((b"<html>", 200), ({}, 403)):
        with pytest.raises(ToolError, match="format json"):
            searching("searxng", answer, status)


def test_nothing_is_searched_without_words_or_a_service(tmp_path: Path) -> None:
    async def main(ctx: Context) -> None:
        with pytest.raises(ToolError, match="empty"):
            await call(web_search(DuckDuckGo()), ctx, query=" ")
        with pytest.raises(ToolError, match="configured"):
            await call(web_search(None), ctx, query="light")

    within(tmp_path, main)


@pytest.mark.skipif(importlib.util.find_spec("ddgs") is None, reason="the extra is not installed")
def test_duckduckgo_that_cannot_be_reached_is_an_error_of_words() -> None:
    with pytest.raises(ToolError, match="duckduckgo could not be searched"):
        asyncio.run(DuckDuckGo(proxy="http://127.0.0.1:9").search("light", limit=3))


def test_searching_is_offered_where_it_can_be_done() -> None:
    async def main() -> None:
        async with WebTools(lambda: PinnedFetcher(PinnedDialer())).open() as tools:
            assert names(tools) == ["web_extract"]
        async with WebTools(lambda: PinnedFetcher(PinnedDialer()), DuckDuckGo()).open() as tools:
            assert names(tools) == ["web_search", "web_extract"]

    asyncio.run(main())
