"""Trying again: what, how often, how long to wait, and what the reader is told."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal

import pytest
from msgspec import structs

from melete.core.event import Delta, Reply, Retried, TextDelta
from melete.core.message import Message, Text, Thinking, ToolCall, Usage, user
from melete.core.model import (
    AuthError,
    Capabilities,
    EmptyReplyError,
    MalformedReplyError,
    ModelError,
    ModelRequest,
    RateLimitError,
    StalledError,
    UnavailableError,
)
from melete.models.retry import Backoff, Retrying, spoken

REQUEST = ModelRequest(model="m", messages=(user("Go"),))
Step = ModelError | Reply
USUAL = Backoff()


def says(text: str, *calls: ToolCall) -> Reply:
    """A reply of these words and calls."""
    parts = ((Text(text=text),) if text else ()) + calls
    return Reply(message=Message(role="assistant", parts=parts))


class Scripted:
    """A model client that plays steps; each begins with a delta."""

    name, provider, wire, can = "m", "test", "none", Capabilities()

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Yield a delta, then play the next step."""
        step = self.steps.pop(0)
        try:
            yield TextDelta(text="begin")
            if isinstance(step, ModelError):
                raise step
            yield step
        finally:
            self.closed += 1

    async def aclose(self) -> None:
        """Nothing to close."""


def run(*steps: Step, backoff: Backoff = USUAL) -> tuple[list[Delta | Retried | Reply], list[float], Exception | None]:
    """What a retrying model yields, the waits, and the error it ends with."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def main() -> tuple[list[Delta | Retried | Reply], Exception | None]:
        inner = Scripted(*steps)
        items: list[Delta | Retried | Reply] = []
        try:
            async for item in Retrying(inner, backoff=backoff, sleep=sleep, jitter=lambda: 1.0).stream(REQUEST):
                items.append(item)  # noqa: PERF401 - what came before an error counts
        except ModelError as error:
            return items, error
        finally:
            assert inner.closed == len(steps) - len(inner.steps)
        return items, None

    items, error = asyncio.run(main())
    return items, waits, error


def test_a_failure_after_the_first_token_is_voided_and_tried_again() -> None:
    items, waits, error = run(UnavailableError("down"), StalledError("quiet"), says("done"))
    assert error is None
    assert [type(i).__name__ for i in items] == ["TextDelta", "Retried"] * 2 + ["TextDelta", "Reply"]
    assert waits == [0.25, 0.75]
    told = items[1]
    assert isinstance(told, Retried)
    assert (told.attempt, told.cause, told.reason, told.delay) == (1, "UnavailableError", "down", 0.25)
    assert (told.model, told.provider, told.usage) == ("m", "test", Usage())


def test_tries_are_counted_and_the_last_error_comes_through() -> None:
    items, waits, error = run(*[UnavailableError(str(n)) for n in range(9)])
    assert str(error) == "3"
    assert waits == [0.25, 0.75, 2.25]
    assert sum(isinstance(i, Retried) for i in items) == 3


def test_waits_grow_up_to_a_cap() -> None:
    _, waits, _ = run(*[UnavailableError("x")] * 9, backoff=Backoff(tries=5, base=2, cap=30))
    assert waits == [2, 6, 18, 30, 30]


def test_a_limit_of_unknown_length_is_given_more_time() -> None:
    assert run(RateLimitError("x"), RateLimitError("x"), says("ok"))[1] == [1.0, 3.0]


@pytest.mark.parametrize("asked", [2.0, 119.0])
def test_the_servers_wish_is_kept(asked: float) -> None:
    assert run(RateLimitError("x", retry_after=asked), says("ok"))[1] == [asked]


def test_a_wish_that_is_too_long_ends_the_request_and_is_told() -> None:
    items, waits, error = run(RateLimitError("x", retry_after=7500))
    assert isinstance(error, RateLimitError)
    assert "2 h 5 min" in str(error)
    assert not waits
    assert not any(isinstance(i, Retried) for i in items)


def test_what_no_try_can_mend_stops_at_once() -> None:
    _, waits, error = run(AuthError("no"), says("never"))
    assert isinstance(error, AuthError)
    assert not waits


def test_a_malformed_answer_is_asked_for_twice_more() -> None:
    _, waits, error = run(*[MalformedReplyError("html")] * 5, backoff=Backoff(tries=9))
    assert isinstance(error, MalformedReplyError)
    assert len(waits) == 2
    assert run(MalformedReplyError("html"), MalformedReplyError("html"), says("ok"))[2] is None


def test_an_empty_answer_is_asked_for_twice_more_and_then_accepted() -> None:
    items, _, error = run(says(""), says("  "), says(""), says("never asked for"), backoff=Backoff(tries=9))
    assert error is None
    assert [i.cause for i in items if isinstance(i, Retried)] == [EmptyReplyError.__name__] * 2
    assert isinstance(items[-1], Reply)
    assert items[-1].message.text == ""


def test_reasoning_alone_is_no_answer_and_what_it_cost_is_told() -> None:
    usage = Usage(input=10, output=900, reasoning=900)
    thought = Reply(message=Message(role="assistant", parts=(Thinking(text="Hm."),)), usage=usage)
    items, _, _ = run(thought, says("done"))
    assert [i.usage for i in items if isinstance(i, Retried)] == [usage]
    assert isinstance(items[-1], Reply)
    assert items[-1].message.text == "done"


@pytest.mark.parametrize("stop", ["length", "content_filter"])
def test_an_answer_that_was_cut_off_is_not_asked_for_again(stop: Literal["length", "content_filter"]) -> None:
    items, waits, _ = run(structs.replace(says(""), stop=stop))
    assert not waits
    assert isinstance(items[-1], Reply)


def test_a_stop_for_calls_that_are_not_there_is_an_empty_answer() -> None:
    items, waits, _ = run(structs.replace(says(""), stop="tool_calls"), says("done"))
    assert len(waits) == 1
    assert isinstance(items[-1], Reply)


def test_an_empty_answer_is_accepted_rather_than_failing_when_no_try_is_left() -> None:
    items, _, error = run(says(""), backoff=Backoff(tries=0))
    assert error is None
    assert isinstance(items[-1], Reply)


def test_calls_without_words_are_an_answer() -> None:
    items, waits, _ = run(says("", ToolCall(id="a", name="f", arguments="{}")))
    assert isinstance(items[-1], Reply)
    assert not waits


def test_a_wait_can_be_interrupted() -> None:
    async def main() -> None:
        client = Retrying(Scripted(RateLimitError("x", retry_after=60)))
        told = asyncio.Event()

        async def read() -> None:
            async for item in client.stream(REQUEST):
                if isinstance(item, Retried):
                    told.set()

        task = asyncio.create_task(read())
        await told.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (45, "45 s"), (119, "119 s"), (120, "2 min"), (3600, "1 h"), (7501, "2 h 6 min")],
)
def test_waits_are_spoken(seconds: float, text: str) -> None:
    assert spoken(seconds) == text
