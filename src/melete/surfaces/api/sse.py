"""Events of runs as server-sent events: `id` is `seq.sub`, `event` the type, `data` the event as JSON."""

import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing

import msgspec

from melete.app.events import START, Batch, Place, place
from melete.core.errors import StoreError
from melete.core.event import Event
from melete.surfaces.api.errors import ApiError

log = logging.getLogger("melete.api")
COMMENT = b": still here\n\n"
PIECE = 64 << 10
"""Characters that are made ready at once, and bytes that are sent at once: what a slow reader has not taken is not even made."""
_PLACE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,15}))?")


def frame(event: Event) -> str:
    """One event as it is sent."""
    seq, sub = place(event)
    return f"id: {seq}.{sub}\nevent: {event.__struct_config__.tag}\ndata: {msgspec.json.encode(event).decode()}\n\n"


async def frames(batches: AsyncGenerator[Batch], redact: Callable[[str], str]) -> AsyncGenerator[bytes]:
    """The events as they are sent, known secrets taken out; a comment for each silence.

    It ends early when there is nothing to read any more.
    """
    try:
        async with aclosing(batches):
            async for batch in batches:
                for data in _pieces(batch, redact) if batch else (COMMENT,):
                    yield data
    except StoreError as error:  # the session was deleted: the head is sent, and says nothing of it
        log.warning("a stream of events ends: %s", error)


def _pieces(batch: Batch, redact: Callable[[str], str]) -> Iterator[bytes]:
    """Events as they are sent, in pieces that a connection takes at once."""
    made: list[str] = []
    size = 0
    for number, event in enumerate(batch, 1):
        made.append(frame(event))
        size += len(made[-1])
        if size < PIECE and number < len(batch):
            continue
        data = redact("".join(made)).encode()
        made, size = [], 0
        for start in range(0, len(data), PIECE):
            yield data[start : start + PIECE]


def ahead() -> ApiError:
    """What a reader is told that wants to go on behind an event that has not happened."""
    what = "Last-Event-ID is ahead of the stream: there is no such event"
    return ApiError(400, "event_id_ahead", what, next="leave it out to read from the beginning")


def after(last: str) -> Place:
    """Where a reader goes on whose last event had the id `last`; raises ApiError for an id that never was one."""
    if not last.strip():
        return START
    found = _PLACE.fullmatch(last.strip())
    if found is None:
        raise ApiError(
            400, "invalid_event_id", "Last-Event-ID is no id of an event", next="send it as it came: SEQ.SUB"
        )
    return int(found[1]), int(found[2] or 0)
