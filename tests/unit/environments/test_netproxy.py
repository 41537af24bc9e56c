"""The sandbox's proxy on real sockets: what it lets through, what it refuses, and what it says then."""

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter

import pytest

from melete.environments.allowlist import Entry
from tests.unit.environments.proxying import CONNECT, GET, HOST, World, echo, run, web

# ---- tunnels ---------------------------------------------------------------------------------------------------------


def test_a_tunnel_carries_both_ways_and_passes_on_the_end_of_one() -> None:
    async def test() -> None:
        async with World(echo) as world:
            reader, writer = await world.open()
            writer.write(CONNECT + b"early ")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            writer.write(b"late")
            writer.write_eof()
            assert await reader.read() == b"early lateEND"
            writer.close()
            assert world.dialled == [(HOST, 443)]

    run(test)


def test_a_host_that_is_not_listed_is_refused_before_anything_is_resolved() -> None:
    async def test() -> None:
        async with World(echo) as world:
            for name in ("evil.example", "evilhost.example", f"{HOST}.evil.example", f"data.{HOST}"):
                answer = await world.say(f"CONNECT {name}:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                assert answer.startswith(b"HTTP/1.1 403 Refused by the sandbox: it is not on the allow-list\r\n")
                assert f"melete config set sandbox.allow {HOST},{name}\n".encode() in answer
            assert world.dialled == []
            (note,) = world.gate.remarks()
            assert "evil.example:443, evilhost.example:443" in note
            assert "it is not on the allow-list" in note
            assert world.gate.remarks() == ()

    run(test)


def test_each_refusal_is_told_once_and_many_are_counted() -> None:
    async def test() -> None:
        async with World(echo) as world:
            for number in [*range(60), *range(10)]:
                await world.say(f"CONNECT n{number}.example:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            notes = world.gate.remarks()
            assert len(notes) == 2
            assert "and 14 more" in notes[0]
            assert notes[1] == "the sandbox refused 40 more connections"
            assert sum(map(len, notes)) < 1_000

    run(test)


def test_a_listed_host_at_another_port_says_so() -> None:
    async def test() -> None:
        async with World(echo) as world:
            answer = await world.say(f"CONNECT {HOST}:22 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert b"other ports only" in answer
            assert f"sandbox.allow {HOST},{HOST}:22\n".encode() in answer

    run(test)


def test_a_git_remote_that_came_later_says_so() -> None:
    async def test() -> None:
        later = [Entry(name="late.example")]
        async with World(echo, later=lambda: later) as world:
            answer = await world.say(b"CONNECT late.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"added after this folder was first worked in" in answer

    run(test)


def test_what_is_derived_is_derived_once_and_when_it_is_needed() -> None:
    asked: list[int] = []

    def derive() -> list[Entry]:
        asked.append(1)
        return [Entry(name="found.example")]

    async def test() -> None:
        async with World(echo, derive=derive) as world:
            await world.say(f"CONNECT {HOST}:81 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            reader, writer = await world.open()
            writer.write(CONNECT)
            await reader.readuntil(b"\r\n\r\n")
            writer.close()
            for _ in range(3):
                answer = await world.say(b"CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b" 403 " in answer
            assert len(asked) == 1
            assert [str(entry) for entry in world.gate.entries()] == [HOST, "found.example"]

    run(test)


def test_a_listed_name_that_stands_for_a_private_address_is_refused_with_the_reason() -> None:
    async def test() -> None:
        async with World(echo, allow=(HOST, "inner.example"), private=("inner.example",)) as world:
            answer = await world.say(b"CONNECT inner.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"403" in answer
            assert b"10.0.0.1" in answer
            assert b"sandbox.allow" not in answer  # no list opens that
            (note,) = world.gate.remarks()
            assert note == "the sandbox refused inner.example:443: it stands for 10.0.0.1"

    run(test)


@pytest.mark.parametrize(
    "host",
    (
        "127.0.0.1", "localhost", "a.localhost", "[::1]", "169.254.169.254", "10.0.0.1", "[fd00:ec2::254]", "[::ffff:127.0.0.1]",
        "0.0.0.0", "2130706433", "0x7f.1", "127.1", "017700000001", "[fe80::1%25lo]", "1.2.3.4.",
    ),
)  # fmt: skip
def test_private_addresses_are_refused_in_every_spelling_even_when_all_is_allowed(host: str) -> None:
    async def test() -> None:
        async with World(echo, allow=("*", "*:22", "127.0.0.1", "10.0.0.1:*", "169.254.169.254")) as world:
            answer = await world.say(f"CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 ")), answer
            assert world.dialled == []

    run(test)


def test_a_host_that_does_not_answer_is_an_error_of_the_gateway() -> None:
    async def test() -> None:
        async with World(echo, allow=(f"{HOST}:*",)) as world:
            answer = await world.say(f"CONNECT {HOST}:81 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 502 ")
            assert b"Connection refused" in answer

    run(test)


# ---- plain requests --------------------------------------------------------------------------------------------------


def test_a_plain_request_goes_on_without_what_was_meant_for_the_proxy() -> None:
    seen: list[bytes] = []

    async def test() -> None:
        async with World(web(seen=seen)) as world:
            answer = await world.say(
                f"GET http://{HOST}/path?q#part HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: Basic x\r\n"
                "Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nX-Kept: 2\r\n\r\n".encode()
            )
            assert answer.endswith(b"\r\n\r\nhi")
            assert b"onnection: close" in answer

    run(test)
    lines = seen[0].decode().split("\r\n")
    assert lines[0] == "GET /path?q HTTP/1.1"
    assert sorted(line.lower() for line in lines[1:] if line) == ["connection: close", f"host: {HOST}", "x-kept: 2"]


def test_bodies_pass_in_both_framings_and_of_any_size() -> None:
    async def count(reader: StreamReader, writer: StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        size = 0
        if b"chunked" in head.lower():
            while length := int((await reader.readline()).strip(), 16):
                size += len(await reader.readexactly(length))
                await reader.readline()
        else:
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            size = len(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        said = str(size).encode()
        writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(said), said))
        writer.close()

    async def test() -> None:
        async with World(count) as world:
            whole = b"x" * 3_000_000
            head = f"POST http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n".encode()
            answer = await world.say(head + b"Content-Length: 3000000\r\n\r\n" + whole)
            assert b"100 Continue" in answer
            assert b"3000000" in answer
            answer = await world.say(head + b"Transfer-Encoding: chunked\r\n\r\n2dc6c0\r\n" + whole + b"\r\n0\r\n\r\n")
            assert b"3000000" in answer

    run(test)


@pytest.mark.parametrize(
    "request_",
    (
        f"POST http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"POST http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        f"POST http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        f"GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n X-Folded: 1\r\nHost : x\r\n\r\n",
        f"GET http://{HOST}/\x0b HTTP/1.1\r\nHost: {HOST}\r\n\r\n",
        "GET /path HTTP/1.1\r\nHost: host.example\r\n\r\n",
        "GET https://host.example/ HTTP/1.1\r\nHost: host.example\r\n\r\n",
        "GET http://me@host.example/ HTTP/1.1\r\nHost: host.example\r\n\r\n",
        "GET http://host.example:0/ HTTP/1.1\r\nHost: host.example\r\n\r\n",
        "GET http:/// HTTP/1.1\r\nHost: host.example\r\n\r\n",
        "CONNECT host.example HTTP/1.1\r\nHost: host.example\r\n\r\n",
        "CONNECT http://host.example:443 HTTP/1.1\r\nHost: host.example\r\n\r\n",
        "CONNECT host.example:443 HTTP/1.1\r\nHost: host.example\r\nContent-Length: 3\r\n\r\nabc",
        "HELLO\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ),
)
def test_a_request_with_two_meanings_is_refused(request_: str) -> None:
    async def test() -> None:
        async with World(web()) as world:
            answer = await world.say(request_.encode("latin-1"))
            assert answer.startswith(b"HTTP/1.1 400 "), answer
            assert world.dialled == []

    run(test)


def test_a_second_request_behind_the_first_is_not_carried_out() -> None:
    seen: list[bytes] = []

    async def test() -> None:
        async with World(web(seen=seen)) as world:
            answer = await world.say(GET + b"GET http://host.example/second HTTP/1.1\r\nHost: host.example\r\n\r\n")
            assert answer.count(b"HTTP/1.1") == 1
            assert (len(seen), len(world.dialled)) == (1, 1)

    run(test)


@pytest.mark.parametrize(
    "answer",
    (
        b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 101 Switching\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 500_000,
    ),
)  # fmt: skip
def test_a_server_that_talks_nonsense_is_an_error_of_the_gateway(answer: bytes) -> None:
    async def test() -> None:
        async with World(web(answer)) as world:
            said = await world.say(GET)
            assert said.startswith(b"HTTP/1.1 502 "), said

    run(test)


def test_an_answer_that_is_cut_is_not_taken_for_a_whole_one() -> None:
    async def test() -> None:
        async with World(web(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")) as world:
            said = await world.say(GET)
            assert not said.endswith(b"0\r\n\r\n")

    run(test)


def test_an_answer_without_a_length_and_one_without_a_body_pass() -> None:
    async def test() -> None:
        async with World(web(b"HTTP/1.1 200 OK\r\n\r\nall of it")) as world:
            assert b"9\r\nall of it\r\n0\r\n\r\n" in await world.say(GET)
            old = GET.replace(b"HTTP/1.1", b"HTTP/1.0")
            assert (await world.say(old)).endswith(b"\r\n\r\nall of it")
        async with World(web(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n")) as world:
            assert b"304 Not Modified" in await world.say(GET)
        async with World(web(b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n")) as world:
            assert b"ontent-length: 77" in (await world.say(GET.replace(b"GET", b"HEAD"))).lower()

    run(test)


def test_a_server_that_answers_before_it_has_read_all_is_heard() -> None:
    async def impatient(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.close()

    async def test() -> None:
        async with World(impatient) as world:
            reader, writer = await world.open()
            writer.write(f"POST http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 900000000\r\n\r\n".encode())
            assert b" 413 " in await reader.readuntil(b"big")
            writer.close()

    run(test)


# ---- SOCKS5 ----------------------------------------------------------------------------------------------------------


def socks(host: str, port: int, *, kind: int = 3, command: int = 1) -> bytes:
    forms = {1: lambda: socket.inet_aton(host), 3: lambda: bytes([len(host)]) + host.encode()}
    address = forms.get(kind, lambda: socket.inet_pton(socket.AF_INET6, host))()
    return b"\5\1\0" + bytes([5, command, 0, kind]) + address + struct.pack("!H", port)


def test_socks_names_are_judged_and_resolved_out_here() -> None:
    async def test() -> None:
        async with World(echo) as world:
            reader, writer = await world.open()
            for byte in socks(HOST, 443):  # in pieces as small as they come
                writer.write(bytes([byte]))
                await writer.drain()
            assert await reader.readexactly(12) == b"\5\0\5\0\0\1\0\0\0\0\0\0"
            writer.write(b"hello")
            writer.write_eof()
            assert await reader.read() == b"helloEND"
            writer.close()
            assert world.dialled == [(HOST, 443)]

    run(test)


@pytest.mark.parametrize(
    ("data", "code"),
    (
        (socks("evil.example", 443), 2), (socks(HOST, 22), 2), (socks("127.0.0.1", 443, kind=1), 2), (socks("::1", 443, kind=4), 2),
        (socks("127.0.0.1", 443), 2), (socks("a b", 443), 2), (socks("", 443), 8), (socks(HOST, 443, command=2), 7),
        (socks(HOST, 443, command=3), 7), (socks(HOST, 0), 2),
    ),
)  # fmt: skip
def test_what_socks_may_not_reach_gets_a_refusal(data: bytes, code: int) -> None:
    async def test() -> None:
        async with World(echo) as world:
            assert (await world.say(data))[2:4] == bytes([5, code])
            assert world.dialled == []

    run(test)


def test_socks_with_a_password_alone_or_cut_short_is_not_served() -> None:
    async def test() -> None:
        async with World(echo, allow=(f"{HOST}:*",)) as world:
            assert await world.say(b"\5\1\2") == b"\5\xff"
            assert (await world.say(socks(HOST, 81)))[2:4] == b"\5\4"
            reader, writer = await world.open()
            writer.write(socks(HOST, 443)[:9])
            writer.write_eof()
            assert await reader.read() == b"\5\0"
            writer.close()

    run(test)
