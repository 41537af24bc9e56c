"""A server may send anything in any field: the answer is read without it or refused, and the conversation can go on either way."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from melete.core.event import Reply
from melete.core.message import Message, ToolResult
from melete.core.model import ModelClient, ModelError, ModelRequest
from tests.wire.adapters import ADAPTERS, Adapter, asking, collect, results, spec
from tests.wire.raw import head, sending, serving
from tests.wire.recordings import ANSWERS

STRANGE: tuple[Any, ...] = (None, True, -1, 1.5, "", " ", "x", [], ["x"], {}, {"text": None})


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.wire)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """Each wire of our own; what a vendor's library makes of such answers is its own business."""
    return request.param


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the fields and items of a value are."""
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*at, name))


def replaced(value: Any, at: tuple[Any, ...], other: Any) -> Any:
    """The value with another one in a place."""
    name, *rest = at
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[name] = replaced(value[name], tuple(rest), other) if rest else other
    return copy


def answers(recorded: bytes) -> Iterator[bytes]:
    """The recorded answer, over and over, with one field of another type each time."""
    lines = recorded.replace(b"\r\n", b"\n").split(b"\n")
    for number, line in enumerate(lines):
        if not line.startswith(b"data: {"):
            continue
        value = msgspec.json.decode(line.removeprefix(b"data: "))
        for turn, at in enumerate(places(value)):
            for other in STRANGE[turn % 2 :: 2]:
                changed = b"data: " + msgspec.json.encode(replaced(value, at, other))
                yield b"\n".join([*lines[:number], changed, *lines[number + 1 :]])


async def reply_of(client: ModelClient, request: ModelRequest) -> Reply | None:
    """The reply, None where the answer was refused with an error of the taxonomy."""
    try:
        *_, last = await collect(client.stream(request))
    except ModelError:
        return None
    assert isinstance(last, Reply)
    return last


def answered_with(said: Message) -> ModelRequest:
    """The request that follows a reply, its calls answered."""
    told = results(*(ToolResult(call=call.id, name=call.name, content="{}") for call in said.calls))
    return asking("Go", said, *([told] if said.calls else []), "On")


def test_an_answer_is_read_or_refused_and_the_conversation_goes_on(adapter: Adapter) -> None:
    async def main() -> int:
        read = 0
        for answer in answers(ANSWERS[adapter.wire]):
            async with serving(sending(head(), answer)) as port:
                client = adapter.open(spec(f"http://127.0.0.1:{port}/v1"))
                reply = await reply_of(client, asking("Go"))
                if reply is not None:
                    read += 1
                    stored = msgspec.json.decode(msgspec.json.encode(reply), type=Reply).message
                    assert len({call.id for call in stored.calls}) == len(stored.calls)
                    await reply_of(client, answered_with(stored))
                await client.aclose()
        return read

    assert asyncio.run(main()) > 100, "most fields say nothing that an answer could not do without"
