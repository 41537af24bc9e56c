"""Requests that are too large, too slow, or can be read in two ways; and what every answer carries."""

import asyncio
import socket
from pathlib import Path

import pytest
from tests.unit.api import gated as given
from tests.unit.api.gated import OWN, gated, read_answer

from melete.app.key_file import KeyFile
from melete.surfaces.api import limits, visit

KEY = f"Authorization: Bearer {OWN}"


def test_every_answer_has_an_id_and_is_kept_nowhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN, cors_origins=["https://chat.example"]) as server:
            answers = [
                await server.ask("/who", KEY),
                await server.ask("/open"),
                await server.ask("/who"),
                await server.ask("/nothing", KEY),
                await server.ask("/act", KEY),
                await server.ask("/who", "Host: evil.example"),
                await server.ask("/who", "Origin: https://evil.example"),
                await server.ask("/who?key=x"),
                await server.ask("//who"),
                await server.ask("/broken", KEY),
                await server.ask(
                    "/who", "Origin: https://chat.example", "Access-Control-Request-Method: GET", method="OPTIONS"
                ),
                await server.ask("/who", KEY, "X-Request-Id: mine", "Cache-Control: max-age=1"),
            ]
        assert [found.status for found in answers] == [200, 200, 401, 404, 405, 403, 403, 400, 400, 500, 204, 200]
        for found in answers:
            assert found.one("x-request-id").startswith("req-")
            assert found.one("cache-control") == "no-store"
            assert found.one("x-content-type-options") == "nosniff"
            assert found.one("cross-origin-resource-policy") == "same-origin"
            assert found.one("server") == ""
        assert len({found.one("x-request-id") for found in answers}) == len(answers)

    asyncio.run(main())


def test_a_failure_says_nothing_of_what_is_inside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            found = await server.ask("/broken", KEY)
            assert (found.status, found.code) == (500, "internal_error")
            assert "secret" not in found.body.decode()
            assert "ZeroDivisionError" in caplog.text

    asyncio.run(main())


AMBIGUOUS = {
    "two keys": ("GET /who HTTP/1.1", "Host: localhost", KEY, "Authorization: Bearer x"),
    "the same key twice": ("GET /who HTTP/1.1", "Host: localhost", KEY, KEY),
    "two origins": ("GET /who HTTP/1.1", "Host: localhost", KEY, "Origin: https://a.example", "Origin: null"),
    "two lengths": ("POST /act HTTP/1.1", "Host: localhost", KEY, "Content-Length: 0", "Content-Length: 5"),
    "a length and chunks": (
        "POST /act HTTP/1.1", "Host: localhost", KEY, "Content-Length: 5", "Transfer-Encoding: chunked", "", "0", "",
    ),
    "chunks in HTTP/1.0": ("POST /act HTTP/1.0", "Host: localhost", KEY, "Transfer-Encoding: chunked", "", "0", ""),
    "two sessions": ("POST /act HTTP/1.1", "Host: localhost", KEY, "X-Melete-Session-Id: a", "X-Melete-Session-Id: b"),
    "a signed length": ("POST /act HTTP/1.1", "Host: localhost", KEY, "Content-Length: +5"),
    "a negative length": ("POST /act HTTP/1.1", "Host: localhost", KEY, "Content-Length: -5"),
    "an endless length": ("POST /act HTTP/1.1", "Host: localhost", KEY, "Content-Length: " + "9" * 40),
    "a space before the colon": ("GET /who HTTP/1.1", "Host: localhost", f"Authorization : Bearer {OWN}"),
    "a NUL byte in the key": ("GET /who HTTP/1.1", "Host: localhost", f"Authorization: Bearer {OWN}\x00"),
    "a NUL byte in the path": ("GET /who\x00 HTTP/1.1", "Host: localhost", KEY),
    "an address of another server": ("GET http://evil.example/who HTTP/1.1", "Host: localhost", KEY),
    "an address of this server": ("GET http://localhost/who HTTP/1.1", "Host: localhost", KEY),
    "no path": ("OPTIONS * HTTP/1.1", "Host: localhost", KEY),
    "an authority": ("CONNECT localhost:80 HTTP/1.1", "Host: localhost", KEY),
}  # fmt: skip


def test_what_could_be_read_in_two_ways_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            for case, lines in AMBIGUOUS.items():
                found = await server.raw("\r\n".join([*lines, "", ""]).encode("latin-1"))
                assert (found.status, bool(found.code)) == (400, True), case
                assert (await server.ask("/who", KEY)).status == 200

    asyncio.run(main())


ODD = (
    "//who", "/./who", "/x/../who", "/who/..", "/%2e%2e/who", "/x/%2e%2e/who", "/%2E/who", "/things/a%2fb", "/things/a%5Cb",
    "/things/a\\b", "/things/%00", "/things/%0a", "/things/%ff", "/things/%C3%A4", "/%2f%2fevil.example", "/things/a%20b",
    "/things//x",
)  # fmt: skip


def test_odd_paths_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            for path in ODD:
                found = await server.ask(path, KEY)
                assert (found.status, found.code) == (400, "invalid_address"), path

    asyncio.run(main())


def test_plain_paths_reach_their_route_and_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            key = server.add("webui")
            for path, status in (
                ("/things/resp_1-x.y:z", 200),
                ("/%77ho", 200),
                ("/things/%61", 200),
                ("/who/", 404),
                ("/WHO", 404),
                ("/who;x", 404),
                ("/things/a/b", 404),
                ("/%61dmin", 403),
                ("/admin?x=1", 403),
                ("/jobs#x", 404),
            ):
                assert (await server.ask(path, f"Authorization: Bearer {key}")).status == status, path

    asyncio.run(main())


def test_heads_have_an_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            assert (await server.ask("/who?" + "x" * 9_000, KEY)).code == "address_too_long"
            assert (await server.ask("/who", KEY, *(f"X-{n}: y" for n in range(120)))).code == "headers_too_large"
            assert (await server.ask("/who", KEY, "X-Long: " + "y" * 40_000)).code == "headers_too_large"
            assert (await server.ask("/who?" + "&".join("abcdefghij" * 11), KEY)).code == "invalid_address"
            assert (await server.ask("/who", KEY, "X-Long: " + "y" * 20_000)).status == 200

    asyncio.run(main())


def test_a_body_has_an_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN, max_body="1kB") as server:
            assert (await server.ask("/act", KEY, method="POST", body=b"x" * 1_000)).json == {"bytes": 1_000}
            over = await server.ask("/act", KEY, method="POST", body=b"x" * 1_001)
            assert (over.status, over.code) == (413, "body_too_large")
            large = await server.ask("/act", KEY, method="POST", body=b"x" * 3_000_000)
            assert (large.status, large.closed) == (413, True)
            chunked = ("/act", KEY, "Transfer-Encoding: chunked")
            fits = b"3e8\r\n" + b"x" * 1_000 + b"\r\n0\r\n\r\n"
            assert (await server.ask(*chunked, method="POST", body=fits)).json == {"bytes": 1_000}
            more = b"3e9\r\n" + b"x" * 1_001 + b"\r\n0\r\n\r\n"
            assert (await server.ask(*chunked, method="POST", body=more)).status == 413
            much = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
            found = await server.ask(*chunked, method="POST", body=much * 3 + b"0\r\n\r\n")
            assert (found.status, found.closed) == (413, True)
            rows = [row for row in server.audited() if row["status"] == 413]
            assert {row["route"] for row in rows} == {"/act"}

    asyncio.run(main())


def test_a_body_that_nobody_reads_ends_the_connection(tmp_path: Path) -> None:
    """Whoever is refused cannot keep the server busy by sending on, and still gets to read why."""

    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            for headers, path, status in (((), "/act", 401), ((KEY,), "/ignore", 200), ((KEY,), "/nothing", 404)):
                found = await server.ask(path, *headers, method="POST", body=b"x" * 1_000_000)
                assert (found.status, found.closed) == (status, True)
                small = await server.ask(path, *headers, method="POST", body=b"x" * 100)
                assert (small.status, small.closed) == (status, False)
                endless = await server.ask(
                    path, *headers, "Transfer-Encoding: chunked", method="POST", body=b"5\r\nhello\r\n0\r\n\r\n"
                )
                assert endless.status == status

    asyncio.run(main())


def test_a_client_that_writes_all_before_it_reads_learns_why_it_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", given.PATIENCE)

    def upload(port: int, headers: str) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=given.PATIENCE) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
            head = f"POST /act HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: 20000000\r\n\r\n"
            client.sendall(head.encode() + b"x" * 20_000_000)
            return client.recv(100)

    async def main() -> None:
        async with gated(tmp_path, api_key=OWN, max_body=1_000) as server:
            for headers, status in ((f"{KEY}\r\n", b"413"), ("", b"401")):
                answered = await asyncio.to_thread(upload, server.port, headers)
                assert answered.split()[1] == status

    asyncio.run(main())


def test_a_client_that_asks_before_it_sends_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", 1_000.0)

    async def main() -> None:
        async with gated(tmp_path, api_key=OWN, max_body=1_000_000) as server:
            for lines, status in ((("Content-Length: 2000000", KEY), 413), (("Content-Length: 100",), 401)):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                head = ("POST /act HTTP/1.1", "Host: localhost", *lines, "Expect: 100-continue", "", "")
                writer.write("\r\n".join(head).encode())
                assert (await read_answer(reader)).status == status
                async with asyncio.timeout(given.PATIENCE):
                    assert await reader.read() == b""  # nothing is waited for that will not come
                writer.close()
                await writer.wait_closed()

    asyncio.run(main())


def test_a_connection_goes_on_after_an_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            for head, body, status in (
                (f"POST /act HTTP/1.1\r\nHost: localhost\r\n{KEY}\r\nContent-Length: 5\r\n\r\n", "hello", 200),
                ("POST /act HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n", "hello", 401),
                (f"POST /ignore HTTP/1.1\r\nHost: localhost\r\n{KEY}\r\nContent-Length: 5\r\n\r\n", "hello", 200),
                (f"GET /who HTTP/1.1\r\nHost: localhost\r\n{KEY}\r\n\r\n", "", 200),
            ):
                writer.write((head + body).encode())
                found = await read_answer(reader)
                assert (found.status, found.closed) == (status, False)
            writer.close()
            await writer.wait_closed()

    asyncio.run(main())


def test_a_body_that_comes_too_slowly_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0.1)

    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            found = await server.ask("/act", KEY, "Content-Length: 100", method="POST", body=b"x" * 99)
            assert (found.status, found.code, found.closed) == (408, "request_timeout", True)

    asyncio.run(main())


def test_a_client_that_leaves_in_its_body_is_written_down(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"POST /act HTTP/1.1\r\nHost: localhost\r\n{KEY}\r\nContent-Length: 50\r\n\r\n"
            writer.write(head.encode() + b"x")
            await asyncio.sleep(0.1)
            writer.close()
            await writer.wait_closed()
            async with asyncio.timeout(given.PATIENCE):
                while not server.audited():  # noqa: ASYNC110 - nobody tells when a line is written
                    await asyncio.sleep(0.01)
            (row,) = server.audited()
            assert row["route"] == "/act"
            assert (await server.ask("/who", KEY)).status == 200

    asyncio.run(main())


def test_a_stream_ends_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit, "RECHECK_SECONDS", 0.0)

    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            key = server.add("webui")
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"GET /ticks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
            writer.write(head.encode())
            async with asyncio.timeout(given.PATIENCE):
                await reader.readuntil(b"data: 2\n\n")
                KeyFile(server.home).remove("webui")
                rest = await reader.readuntil(b"\r\n0\r\n\r\n")
            assert b"event: error\ndata: {" in rest
            assert b"key_ended" in rest
            assert rest.index(b"event: error") > rest.rindex(b"data: ") - 20
            (row,) = server.audited()
            assert (row["who"], row["route"], row["why"]) == ("key:webui", "/ticks", "key_ended")
            # The connection is sound: the next request is answered.
            writer.write(f"GET /who HTTP/1.1\r\nHost: localhost\r\n{KEY}\r\n\r\n".encode())
            assert (await read_answer(reader)).status == 200
            writer.close()
            await writer.wait_closed()

    asyncio.run(main())


def test_a_stream_is_neither_kept_nor_packed_by_proxies(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path, api_key=OWN) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(f"GET /ticks HTTP/1.1\r\nHost: localhost\r\n{KEY}\r\n\r\n".encode())
            async with asyncio.timeout(given.PATIENCE):
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            assert "cache-control: no-store, no-transform\r\n" in head
            assert head.count("cache-control") == 1
            writer.close()
            await writer.wait_closed()

    asyncio.run(main())
