"""The sandbox's proxy under clients and servers that are slow, many, large or hostile: none holds it up, and all ends with it."""

import asyncio
import logging
import resource
import threading
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from melete.environments import netproxy, network, relay
from tests.unit.environments.proxying import CONNECT, GET, HOST, World, echo, run, web

# ---- slow, many, large -----------------------------------------------------------------------------------------------


def test_clients_that_say_nothing_or_drip_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netproxy, "HEAD", 0.2)

    async def test() -> None:
        async with World(echo) as world:
            silent, _ = connections = await world.open()
            dripping = await world.open()
            dripping[1].write(b"GET http")
            assert await silent.read() == b""
            assert b" 504 " in await dripping[0].read()
            connections[1].close()
            dripping[1].close()

    run(test)


def test_a_server_that_never_answers_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay.Patience.__init__, "__defaults__", (0.3,))

    async def mute(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def test() -> None:
        async with World(mute) as world:
            assert b" 504 " in await world.say(GET)

    run(test)


def test_an_idle_tunnel_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(relay.relay.__kwdefaults__, "idle", 0.3)  # type: ignore[arg-type]

    async def test() -> None:
        async with World(echo) as world:
            assert (await world.say(CONNECT)).startswith(b"HTTP/1.1 200 ")

    run(test)


def test_a_head_without_end_is_refused() -> None:
    async def test() -> None:
        async with World(echo) as world:
            answer = await world.say(b"GET http://host.example/ HTTP/1.1\r\nX: " + b"y" * 200_000)
            assert not answer or b" 4" in answer[:20]
            assert world.dialled == []

    run(test)


def test_many_connections_at_once_are_all_served() -> None:
    async def one(world: World, number: int) -> None:
        reader, writer = await world.open()
        writer.write(CONNECT + b"%d" % number)
        await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()
        assert await reader.read() == b"%dEND" % number
        writer.close()

    async def test() -> None:
        async with World(echo) as world, asyncio.TaskGroup() as group:
            for number in range(300):
                group.create_task(one(world, number))
            while len(world.dialled) < 300:  # noqa: ASYNC110 - the end is waited for by the group
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)

    run(test)


def test_more_connections_than_are_served_at_a_time_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MOST", 2)

    async def test() -> None:
        async with World(echo) as world:
            held = [await world.open() for _ in range(3)]
            for _, writer in held:
                writer.write(CONNECT)
            for reader, _ in held[:2]:
                await reader.readuntil(b"\r\n\r\n")
            assert len(world.dialled) == 2
            held[0][1].close()
            await held[2][0].readuntil(b"\r\n\r\n")
            for _, writer in held:
                writer.close()

    run(test)


def test_a_large_download_passes_and_a_client_that_does_not_read_fills_no_memory() -> None:
    size = 200 << 20

    async def generous(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(1)
        piece = bytes(1 << 16)
        try:
            for _ in range(size // len(piece)):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    async def test() -> None:
        async with World(generous) as world:
            reader, writer = await world.open()
            writer.write(CONNECT + b"x")
            await reader.readuntil(b"\r\n\r\n")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            lazy, lazy_writer = await world.open()
            lazy_writer.write(CONNECT + b"x")
            await lazy.readuntil(b"\r\n\r\n")
            got = 0
            while data := await reader.read(1 << 18):
                got += len(data)
            assert got == size
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # kilobytes
            writer.close()
            lazy_writer.close()

    run(test)


def test_the_end_of_the_sandbox_ends_every_connection() -> None:
    async def test() -> None:
        async with World(echo) as world:
            held = [await world.open() for _ in range(20)]
            for _, writer in held:
                writer.write(CONNECT)
            for reader, _ in held:
                await reader.readuntil(b"\r\n\r\n")
        for reader, writer in held:
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    run(test)
    assert len(list(descriptors.iterdir())) <= before


def test_a_porter_that_nobody_came_to_starts_no_thread() -> None:
    async def test() -> None:
        async with World(echo) as world:
            assert "melete-sandbox-network" not in [thread.name for thread in threading.enumerate()]
            assert world.dialled == []

    run(test)


WORDS = (
    b"CONNECT ", b"GET ", b"POST ", b"http://", b"host.example", b":443", b":80", b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"\r\n",
    b"Host: ", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n", b"\5\1\0", b"\5\1\0\3",
    b"\xff\xfe", b"[::1]", b"\0", b"Connection: host, content-length\r\n", b"Expect: 100-continue\r\n", b"/", b"@", b"%2f",
    b"\x0chost.example\1\xbb", b"CONNECT host.example:443 HTTP/1.1\r\nHost: x\r\n",
    b"POST http://host.example/ HTTP/1.1\r\nHost: x\r\n",
)  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.sampled_from(WORDS) | st.binary(max_size=20), min_size=1, max_size=12).map(b"".join).filter(bool))
def test_no_bytes_break_it(caplog: pytest.LogCaptureFixture, data: bytes) -> None:
    async def test() -> None:
        async with World(web()) as world:
            reader, writer = await world.open()
            writer.write(data)
            writer.write_eof()
            with suppress(ConnectionResetError):
                await reader.read()
            writer.close()
            assert set(world.dialled) <= {(HOST, 80), (HOST, 443)}

    run(test)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
