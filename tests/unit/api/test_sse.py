"""Server-sent events on their way out: in pieces that a connection takes at once, whatever their size."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from melete.core.event import Event, TextDelta
from melete.surfaces.api import sse


def test_large_events_are_sent_in_pieces_that_make_the_whole() -> None:
    events: list[Event] = [
        TextDelta(seq=1, sub=n, text="ä" * size) for n, size in enumerate((1, 200_000, 3, 60_000, 70_000), 1)
    ]

    async def batches() -> AsyncGenerator[Sequence[Event]]:
        yield events[:2]
        yield ()
        yield events[2:]

    async def test() -> list[bytes]:
        return [piece async for piece in sse.frames(batches(), str)]

    pieces = asyncio.run(test())
    assert max(map(len, pieces)) <= sse.PIECE
    whole = b"".join(piece for piece in pieces if piece != sse.COMMENT)
    assert whole.decode() == "".join(map(sse.frame, events))
    assert pieces.count(sse.COMMENT) == 1
