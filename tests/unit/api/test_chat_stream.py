"""A stream of a run: its head waits for something to tell, silences become comments, and it always ends with the truth."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from melete.core.errors import MeleteError, StorageError
from melete.core.event import Event, Reply, RunEnded, RunStarted, Said, TextDelta
from melete.core.message import Message, Text, user
from melete.surfaces.api import sse
from melete.surfaces.api.chat_chunks import DONE, Chunks
from melete.surfaces.api.chat_stream import HOLD, ChatStream, tick_of
from melete.surfaces.api.errors import ApiError

STARTED, SAID = RunStarted(run="r", session="s"), Said(message=user("hi"), run="r")
TEXT, REPLY = TextDelta(text="Hello."), Reply(message=Message(role="assistant", parts=(Text(text="Hello."),)))
ENDED = RunEnded(stop="done", text="Hello.", run="r", session="s", seq=7)
FAILED = RunEnded(stop="failed", error="no luck", cause="QuotaError", run="r", session="s")


class Run:
    """What a stream knows of a run that goes on: it ends with `end`, a fact or an error."""

    def __init__(self, end: RunEnded | MeleteError = ENDED) -> None:
        self.over = False
        self.cancelled = False
        self._end = end

    async def ended(self) -> RunEnded:
        """The last fact."""
        self.over = True
        if isinstance(self._end, MeleteError):
            raise self._end
        return self._end

    def cancel(self) -> None:
        """Stop it."""
        self.cancelled = True


async def happening(events: Sequence[Event | None], closed: list[bool]) -> AsyncGenerator[Event | None]:
    """The events, one after the other; notes when it is closed."""
    try:
        for event in events:
            await asyncio.sleep(0)
            yield event
    finally:
        closed.append(True)


def stream(
    events: Sequence[Event | None], run: Run | None, *, closed: list[bool] | None = None, disconnect: str = "finish"
) -> ChatStream:
    """The stream of these events."""
    settings = SimpleNamespace(server=SimpleNamespace(disconnect=disconnect, keepalive=10.0))
    server: Any = SimpleNamespace(app=SimpleNamespace(loaded=SimpleNamespace(settings=settings), redact=str))
    going: Any = run
    return ChatStream(server, happening(events, [] if closed is None else closed), Chunks(redact=str), going=going)


def read(found: ChatStream) -> list[bytes]:
    """All that is sent."""

    async def main() -> list[bytes]:
        await found.begin()
        return [frame async for frame in found.frames()]

    return asyncio.run(main())


def error_of(frame: bytes) -> dict[str, Any]:
    """The error that a frame tells."""
    return msgspec.json.decode(frame.removeprefix(b"data: "))["error"]


def test_a_stream_is_told_to_its_end_and_remembered() -> None:
    answered: list[tuple[int, str]] = []
    closed: list[bool] = []
    found = stream([STARTED, SAID, TEXT, REPLY, ENDED], Run(), closed=closed)
    found.on_answer = lambda ended, text: answered.append((ended.seq, text))
    frames = read(found)
    assert b'"role":"assistant"' in frames[0]
    assert b"Hello." in frames[0], "what comes together is sent together"
    assert frames[-1].endswith(DONE)
    assert answered == [(7, "Hello.")]
    assert closed == [True]


def test_a_failure_before_anything_was_told_is_no_stream() -> None:
    closed: list[bool] = []
    with pytest.raises(ApiError, match="no luck") as caught:
        read(stream([STARTED, SAID, FAILED], Run(FAILED), closed=closed))
    assert (caught.value.status, caught.value.code) == (429, "insufficient_quota")
    assert closed == [True]


def test_a_failure_behind_that_is_an_error_in_it() -> None:
    *_, last = read(stream([STARTED, TEXT, FAILED], Run(FAILED)))
    assert error_of(last)["code"] == "insufficient_quota"


def test_a_head_does_not_wait_longer_than_a_silence() -> None:
    frames = read(stream([STARTED, None, FAILED], Run(FAILED)))
    assert b'"role":"assistant"' in frames[0]
    assert error_of(frames[-1])["code"] == "insufficient_quota"


def test_long_silences_are_comments_and_short_ones_nothing() -> None:
    frames = read(stream([STARTED, TEXT, None, TEXT, None, None, None, REPLY, ENDED], Run()))
    assert frames.count(sse.COMMENT) == 1
    assert tick_of(10.0) == HOLD
    assert tick_of(0.2) == 0.2
    assert tick_of(12.0) == 4.0


@pytest.mark.parametrize("events", [[STARTED], [STARTED, TEXT]])
def test_a_run_whose_end_could_not_be_stored_is_told_as_such(events: list[Event]) -> None:
    broken = Run(StorageError("the disk is full"))
    if len(events) == 1:
        with pytest.raises(StorageError, match="the disk is full"):
            read(stream(events, broken))
    else:
        last = read(stream(events, broken))[-1]
        assert error_of(last)["message"] == "the disk is full"


def test_a_last_fact_that_nobody_told_is_asked_for() -> None:
    assert read(stream([STARTED, TEXT, REPLY], Run()))[-1].endswith(DONE)


def test_a_run_of_the_past_without_an_end_is_an_error() -> None:
    assert error_of(read(stream([STARTED, TEXT], None))[-1])["code"] == "no_end"


@pytest.mark.parametrize("disconnect", ["finish", "cancel"])
def test_a_reader_who_leaves_ends_the_run_only_where_that_is_wanted(disconnect: str) -> None:
    async def main() -> tuple[bool, list[bool]]:
        closed: list[bool] = []
        run = Run()
        found = stream([STARTED, TEXT, TEXT, REPLY, ENDED], run, closed=closed, disconnect=disconnect)
        await found.begin()
        frames = found.frames()
        await anext(frames)
        await frames.aclose()
        return run.cancelled, closed

    assert asyncio.run(main()) == (disconnect == "cancel", [True])
