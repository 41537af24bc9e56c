"""Hosts and origins: other people's pages in the person's browser do not reach the server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send
from tests.unit.api.gated import OWN, ROUTES, Gated, gated

from melete.app.sections import ServerSettings
from melete.core.errors import ConfigError
from melete.surfaces.api.gate import Gate
from melete.surfaces.api.hosts import Names, is_here, is_near

KEY = f"Authorization: Bearer {OWN}"


def names(**settings: Any) -> Names:
    return Names(ServerSettings(**settings))


OURS = (
    "localhost", "LOCALHOST", "localhost.", "localhost:8642", "localhost:", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.",
    "127.9.9.9:80", "[::1]", "[::1]:8642", "[0:0:0:0:0:0:0:1]", "192.168.1.7:8642", "[fe80::1]:8642", "10.0.0.1", "my.localhost",
    "melete.example", "MELETE.Example.:443", "chat.example:8080", "a.below.example", "a.b.below.example:99",
)  # fmt: skip
FOREIGN = (
    "", " ", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evillocalhost", "localhost.evil",
    "melete.example.evil", "evil-melete.example", "chat.example", "chat.example:80", "below.example", "xbelow.example",
    "user@localhost", "localhost@evil.example", "localhost:8642@evil.example", "evil.example#localhost", "localhost/x",
    "localhost?x", "localhost:http", "localhost:-1", "localhost:999999", "localhost:80:80", "localhost,evil.example",
    "localhost evil.example", "localhost\\evil", "[::1", "::1", "[::1%lo]", "[fe80::1%25eth0]", "[::1]evil.example",
    "[evil.example]", "[127.0.0.1]", "127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.1", "localhost..",
    ".localhost", "%6cocalhost", "l\u00f6calhost", "xn--lcalhost-n4a", "\x00localhost", "localhost\x00", "*", "*.localhost",
    "a" * 300, "a." * 130 + "a", "a." * 200 + "localhost", "-localhost", "_", "localhost:8642:", "http://localhost",
)  # fmt: skip


@pytest.mark.parametrize("host", OURS)
def test_names_of_this_server_are_known(host: str) -> None:
    known = names(host="melete.example", allowed_hosts=("chat.example:8080", "*.below.example"))
    assert known.knows(host)


@pytest.mark.parametrize("host", FOREIGN)
def test_other_names_are_not(host: str) -> None:
    known = names(host="melete.example", allowed_hosts=("chat.example:8080", "*.below.example"))
    assert not known.knows(host)


@given(st.text())
def test_any_text_can_be_asked_for(host: str) -> None:
    assert not names().knows(f"{host}.evil.example")


def test_every_name_is_known_where_the_settings_say_so() -> None:
    assert names(allowed_hosts=("*",)).knows("whatever.example:1")
    assert not names(allowed_hosts=("*",)).knows("user@whatever.example")


@pytest.mark.parametrize(
    "text", ["https://chat.example", "chat.example/", "a b", "", "*.*", "user@host", "chat.example:x"]
)
def test_a_host_that_can_never_be_sent_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="allowed_hosts"):
        names(allowed_hosts=(text,))


@pytest.mark.parametrize(
    "text", ["chat.example", "localhost:3000", "https://chat.example/", "https://a.example,https://b.example", "null", "",
             "https://user@chat.example", "https://*.example", "https://chat.example:port", "https://chat.example?x"],
)  # fmt: skip
def test_an_origin_that_can_never_be_sent_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="cors_origins"):
        names(cors_origins=(text,))


def test_origins_are_known_as_browsers_send_them() -> None:
    known = names(cors_origins=("HTTPS://Chat.example:443", "http://localhost:3000", "app://obsidian.md"))
    for origin in ("https://chat.example", "http://localhost:3000", "app://obsidian.md"):
        assert known.lists(origin)
        assert known.admits(origin)
    for origin in (
        "null", "", "http://chat.example", "https://chat.example.", "https://chat.example:444", "https://evil.example",
        "https://chat.example.evil", "https://chat.example/", "http://localhost:3001", "http://localhost", "HTTPS://CHAT.EXAMPLE",
        "https://chat.example https://evil.example", "https://chat.example,https://evil.example", "https://xchat.example",
    ):  # fmt: skip
        assert not known.admits(origin), origin
    assert names(cors_origins=("*",)).admits("https://evil.example")
    assert not names(cors_origins=("*",)).lists("https://evil.example")


def test_this_machine_is_told_from_others() -> None:
    for host in ("localhost", "127.0.0.1:1", "[::1]:2", "Localhost.:3"):
        assert is_here(host)
    for host in ("192.168.1.7", "evil.example", "", "localhost.evil.example", "[fe80::1]"):
        assert not is_here(host)
    for address in ("127.0.0.1", "127.3.4.5", "::1", "::ffff:127.0.0.1"):
        assert is_near(address)
    for address in ("", "192.168.1.7", "::ffff:192.168.1.7", "fe80::1", "localhost"):
        assert not is_near(address)


def test_a_foreign_host_is_refused_before_anything_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN, allowed_hosts=["melete.example"]) as server:
            for host in ("evil.example", "localhost.evil.example", "user@localhost", "l\u00f6calhost", "127.1"):
                for path in ("/who", "/open", "/nothing"):
                    found = await server.ask(path, KEY, f"Host: {host}")
                    assert (found.status, found.code) == (403, "host_not_allowed"), host
            for host in ("localhost", "melete.example:80", "192.168.1.7", "[::1]:1"):
                assert (await server.ask("/who", KEY, f"Host: {host}")).status == 200, host

    asyncio.run(main())


def test_a_host_that_is_missing_or_there_twice_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path) as server:
            assert (await server.raw(b"GET /who HTTP/1.0\r\n\r\n")).code == "host_not_allowed"
            assert (await server.raw(b"GET /who HTTP/1.1\r\n\r\n")).status == 400
            twice = await server.raw(b"GET /who HTTP/1.0\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
            assert twice.status == 400
            assert (await server.raw(b"GET /who HTTP/1.0\r\nHost: localhost\r\n\r\n")).status == 200

    asyncio.run(main())


@pytest.mark.parametrize("key", [True, False])
def test_a_page_of_another_origin_is_refused(tmp_path: Path, key: bool) -> None:
    async def main() -> None:
        async with gated(tmp_path, **({"api_key": OWN} if key else {})) as server:
            given = (KEY,) if key else ()
            for origin in ("https://evil.example", "null", "http://127.0.0.1:9", "http://localhost", "file://"):
                for method, path in (("GET", "/who"), ("POST", "/act"), ("OPTIONS", "/act"), ("GET", "/open")):
                    asking = "Access-Control-Request-Method: POST"
                    found = await server.ask(path, *given, f"Origin: {origin}", asking, method=method)
                    assert (found.status, found.code) == (403, "origin_not_allowed"), origin
                    assert not any(name.startswith("access-control") for name, _ in found.headers)
            assert (await server.ask("/who", *given)).status == 200

    asyncio.run(main())


def test_a_page_that_is_allowed_may_ask_and_read(tmp_path: Path) -> None:
    async def main() -> None:
        page = "https://chat.example"
        async with gated(tmp_path, api_key=OWN, cors_origins=[page]) as server:
            asked = await server.ask(
                "/act",
                f"Origin: {page}",
                "Access-Control-Request-Method: POST",
                "Access-Control-Request-Headers: authorization, x-stainless-lang,content-type",
                method="OPTIONS",
            )
            assert (asked.status, asked.body) == (204, b"")
            assert asked.one("access-control-allow-origin") == page
            assert "POST" in asked.one("access-control-allow-methods")
            assert asked.one("access-control-allow-headers") == "authorization, x-stainless-lang,content-type"
            assert asked.all("access-control-allow-credentials") == []
            for headers, status in (((KEY,), 200), ((), 401)):  # the page has to be able to read why it was refused
                found = await server.ask("/act", *headers, f"Origin: {page}", method="POST", body=b"{}")
                assert found.status == status
                assert found.one("access-control-allow-origin") == page
                assert found.one("vary") == "Origin"
                assert "X-Request-Id" in found.one("access-control-expose-headers")
                assert found.all("access-control-allow-credentials") == []
            assert (await server.ask("/who", KEY)).one("vary") == "Origin"
            assert server.audited()[1]["why"] == "missing_api_key"

    asyncio.run(main())


def test_any_page_is_told_so_and_never_by_its_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN, cors_origins=["*"]) as server:
            for origin in ("https://evil.example", "null"):
                found = await server.ask("/who", KEY, f"Origin: {origin}")
                assert (found.status, found.one("access-control-allow-origin")) == (200, "*")
                assert found.all("access-control-allow-credentials") == []

    asyncio.run(main())


def test_odd_names_of_headers_are_not_echoed_to_a_page(tmp_path: Path) -> None:
    async def main() -> None:
        page = "https://chat.example"
        async with gated(tmp_path, cors_origins=[page]) as server:
            for wanted in ("*", "a b", "x\u00e4", "a," * 100 + "a", "<script>", "a" * 65):
                asked = await server.ask(
                    "/act",
                    f"Origin: {page}",
                    "Access-Control-Request-Method: POST",
                    f"Access-Control-Request-Headers: {wanted}",
                    method="OPTIONS",
                )
                assert asked.status == 204
                assert asked.one("access-control-allow-headers").startswith("Authorization, Content-Type")

    asyncio.run(main())


def test_a_page_that_hides_its_origin_is_refused_but_a_link_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path) as server:
            for site in ("cross-site", "same-site"):
                for mode in ("no-cors", "cors", "websocket", ""):
                    found = await server.ask("/who", f"Sec-Fetch-Site: {site}", f"Sec-Fetch-Mode: {mode}")
                    assert (found.status, found.code) == (403, "origin_not_allowed")
                link = ("/who", f"Sec-Fetch-Site: {site}", "Sec-Fetch-Mode: navigate")
                assert (await server.ask(*link)).status == 200
                assert (await server.ask("/act", *link[1:], method="POST")).status == 403
            for site in ("same-origin", "none"):
                assert (await server.ask("/who", f"Sec-Fetch-Site: {site}", "Sec-Fetch-Mode: cors")).status == 200

    asyncio.run(main())


def test_without_a_key_nobody_from_elsewhere_is_served(tmp_path: Path) -> None:
    """Whatever name they call it by: a socket that was handed over may listen where the settings do not say."""

    async def main() -> None:
        async with gated(tmp_path) as server:
            for address, status in (
                ("127.0.0.1", 200), ("::1", 200), ("::ffff:127.0.0.1", 200), (None, 200),
                ("192.168.1.7", 401), ("::ffff:192.168.1.7", 401), ("fe80::1%eth0", 401), ("testclient", 401),
            ):  # fmt: skip
                assert await asked_from(server, address) == status, address

    asyncio.run(main())


async def asked_from(server: Gated, address: str | None) -> int:
    """The status that a client of this address gets, which has none on a Unix socket."""
    statuses: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http", "method": "GET", "path": "/who", "query_string": b"", "headers": [(b"host", b"localhost")],
        "http_version": "1.1", "client": (address, 1) if address else None,
    }  # fmt: skip
    await Gate(app, server=server.server, routes=ROUTES)(scope, receive, send)
    return statuses[0]


def test_without_a_key_only_this_machine_is_served(tmp_path: Path) -> None:
    """A proxy or a page that anybody could make is not the person at the machine."""

    async def main() -> None:
        page = "http://localhost:3000"
        async with gated(tmp_path, allowed_hosts=["melete.example"], cors_origins=[page, "*"]) as server:
            fine = (await server.ask("/who")).json
            assert fine == {"name": "", "owner": "", "scopes": ["admin"]}
            assert (await server.ask("/who", "Authorization: Bearer whatever")).json == fine
            assert (await server.ask("/who", f"Origin: {page}")).json == fine
            for header in (
                "X-Forwarded-For: 127.0.0.1",
                "Forwarded: for=127.0.0.1",
                "Via: 1.1 proxy",
                "X-Real-IP: ::1",
                "Host: melete.example",
                "Host: 192.168.1.7",
                "Origin: https://evil.example",
                "Origin: null",
            ):
                for more in ((), ("Authorization: Bearer whatever",)):
                    found = await server.ask("/who", header, *more)
                    assert (found.status, found.code) == (401, "missing_api_key"), header
                nobody = await server.ask("/open", header)
                assert (nobody.status, nobody.json["scopes"]) == (200, []), header

    asyncio.run(main())
