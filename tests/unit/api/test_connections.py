"""How many connections there may be: strangers who hold them open keep nobody out, and leave files for the work."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit.api.gated import gated, read_answer

from melete.surfaces.api import server

REQUEST = b"GET /open HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
MANY = 40


def test_connections_on_which_nothing_is_asked_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "room", lambda: 8)
    monkeypatch.setattr(server, "CLOSED", 4)

    async def test() -> None:
        async with gated(tmp_path) as made:
            idle = [await asyncio.open_connection("127.0.0.1", made.port) for _ in range(MANY)]
            reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
            writer.write(REQUEST)
            assert (await read_answer(reader)).status == 200
            cut = [asyncio.create_task(_cut(one)) for one, _ in idle]
            async with asyncio.timeout(10):
                for _, done in zip(range(MANY - 8), asyncio.as_completed(cut), strict=False):
                    await done
            for one in cut:
                one.cancel()
            for _, one in (*idle, (reader, writer)):
                one.close()

    asyncio.run(test())


async def _cut(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read()


def test_a_stream_is_not_closed_to_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "room", lambda: 2)

    async def test() -> None:
        async with gated(tmp_path) as made:
            reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
            writer.write(b"GET /ticks HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            await reader.readuntil(b"data: 0")
            idle = [await asyncio.open_connection("127.0.0.1", made.port) for _ in range(6)]
            await reader.readuntil(b"data: 5")
            for _, one in (*idle, (reader, writer)):
                one.close()

    asyncio.run(test())
