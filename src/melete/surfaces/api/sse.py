"""Events of runs as server-sent events: `id` is `seq.sub`, `event` the type, `data` the event as JSON."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from melete.app.events import START, Place, place
from melete.core.event import Event
from melete.surfaces.api.errors import ApiError

COMMENT = b": still here\n\n"
_PLACE = re.compile(r"(\d{1,15})(?:\.(\d{1,15}))?")


def frame(event: Event, redact: Callable[[str], str]) -> bytes:
    """One event as it is sent; known secrets are taken out."""
    seq, sub = place(event)
    data = redact(msgspec.json.encode(event).decode())
    return f"id: {seq}.{sub}\nevent: {event.__struct_config__.tag}\ndata: {data}\n\n".encode()


async def frames(events: AsyncGenerator[Event | None], redact: Callable[[str], str]) -> AsyncGenerator[bytes]:
    """The events as they are sent; a comment for each silence."""
    async with aclosing(events):
        async for event in events:
            yield COMMENT if event is None else frame(event, redact)


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
