"""Carries bytes between two connections until both have ended, one fails, or nothing moves any more."""

import asyncio
from asyncio import StreamReader, StreamWriter
from typing import Final

Connection = tuple[StreamReader, StreamWriter]

PIECE: Final = 1 << 16
IDLE: Final = 300.0
CLOSING: Final = 2.0


class Patience:
    """A limit on how long nothing may move: `TimeoutError` comes out of it `seconds` after the last `moved`."""

    def __init__(self, seconds: float = IDLE) -> None:
        self._seconds = seconds
        self._limit = asyncio.timeout(seconds)

    async def __aenter__(self) -> "Patience":
        await self._limit.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> bool | None:
        return await self._limit.__aexit__(*raised)  # type: ignore[arg-type]

    def moved(self) -> None:
        """Something did."""
        if not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)


async def relay(one: Connection, other: Connection, *, idle: float = IDLE) -> None:
    """Carry both ways; the end of one direction is passed on, and the other goes on until it ends as well.

    A connection that breaks, or on which nothing moves for `idle` seconds, ends both. They are closed by whoever opened them.
    """
    try:
        async with Patience(idle) as patience, asyncio.TaskGroup() as group:
            group.create_task(_carry(one[0], other[1], patience))
            group.create_task(_carry(other[0], one[1], patience))
    except* (OSError, TimeoutError):
        pass  # whoever talked through it sees that it ended


async def close(writer: StreamWriter) -> None:
    """Close a connection, with what is still unsent where the other side takes it soon."""
    writer.close()
    try:
        async with asyncio.timeout(CLOSING):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


async def _carry(source: StreamReader, target: StreamWriter, patience: Patience) -> None:
    while piece := await source.read(PIECE):
        patience.moved()
        target.write(piece)
        await target.drain()
        patience.moved()
    if target.can_write_eof():
        target.write_eof()
