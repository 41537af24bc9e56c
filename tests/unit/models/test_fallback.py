"""Several models, one after the other: what makes it go on with the next, who rests, and the way back to the first."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from melete.core.errors import LimitError, MeleteError
from melete.core.event import Delta, Reply, Retried, TextDelta
from melete.core.message import Message, Text, user
from melete.core.model import (
    AuthError,
    BadRequestError,
    Capabilities,
    ConnectionFailedError,
    ContentFilterError,
    ContextOverflowError,
    MalformedReplyError,
    ModelError,
    ModelRequest,
    OverloadedError,
    QuotaError,
    RateLimitError,
    StalledError,
    TooLargeError,
    UnavailableError,
    UnknownModelError,
)
from melete.models.fallback import Falling, Health

REQUEST = ModelRequest(model="none of them", messages=(user("Go"),))
RESTING = (
    RateLimitError, QuotaError, AuthError, UnknownModelError, OverloadedError, UnavailableError, MalformedReplyError,
    ConnectionFailedError, StalledError,
)  # fmt: skip
AWAKE = (ContentFilterError, BadRequestError, TooLargeError)


class Time:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Scripted:
    """A model that plays steps, each after a delta; when they are over it answers."""

    wire = "none"

    def __init__(self, name: str, *steps: MeleteError) -> None:
        self.name = name
        self.provider = f"vendor-of-{name}"
        self.can = Capabilities(context=1000 * len(name))
        self.steps = list(steps)
        self.asked: list[str] = []
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Play the next step."""
        self.asked.append(request.model)
        yield TextDelta(text=self.name)
        if self.steps:
            raise self.steps.pop(0)
        yield Reply(message=Message(role="assistant", parts=(Text(text=self.name),)), model=self.name)

    async def aclose(self) -> None:
        """Count it."""
        self.closed += 1


def falling(*members: Scripted, cooldown: float = 60.0) -> tuple[Falling, Time]:
    """The members behind each other, and the clock of their rests."""
    time = Time()
    return Falling(members, health=Health(now=time), cooldown=cooldown), time


async def read(model: Falling) -> tuple[list[Delta | Retried | Reply], str]:
    """All that a request yields, and the name of the model that answered."""
    items = [item async for item in model.stream(REQUEST)]
    last = items[-1]
    assert isinstance(last, Reply)
    return items, last.model


def answers(model: Falling) -> str:
    """Which model answers a request."""
    return asyncio.run(read(model))[1]


@pytest.mark.parametrize("kind", RESTING + AWAKE)
def test_the_next_model_goes_on_after_the_first_token_as_well(kind: type[ModelError]) -> None:
    one, two = Scripted("one", kind("it broke")), Scripted("two")
    items, name = asyncio.run(read(falling(one, two)[0]))
    assert name == "two"
    assert [type(i).__name__ for i in items] == ["TextDelta", "Retried", "TextDelta", "Reply"]
    told = items[1]
    assert isinstance(told, Retried)
    assert (told.attempt, told.cause, told.delay) == (1, kind.__name__, 0.0)
    assert (told.model, told.provider) == ("two", "vendor-of-two")
    assert told.reason == "vendor-of-two/two goes on in place of vendor-of-one/one: it broke"
    assert (one.asked, two.asked) == (["one"], ["two"]), "each is asked for under its own name"


@pytest.mark.parametrize("kind", RESTING)
def test_a_model_that_failed_rests_and_is_then_asked_again(kind: type[ModelError]) -> None:
    one, two = Scripted("one", kind("x")), Scripted("two")
    model, time = falling(one, two)
    assert [answers(model), answers(model)] == ["two", "two"]
    assert len(one.asked) == 1
    time.now += 61
    assert answers(model) == "one"


@pytest.mark.parametrize("kind", AWAKE)
def test_what_was_wrong_with_the_request_does_not_put_a_model_to_rest(kind: type[ModelError]) -> None:
    model, _ = falling(Scripted("one", kind("x")), Scripted("two"))
    assert [answers(model), answers(model)] == ["two", "one"]


def test_a_wait_that_the_server_states_is_kept() -> None:
    model, time = falling(Scripted("one", RateLimitError("x", retry_after=500)), Scripted("two"))
    assert answers(model) == "two"
    time.now += 499
    assert answers(model) == "two"
    time.now += 2
    assert answers(model) == "one"


@pytest.mark.parametrize("error", [ContextOverflowError("too long"), LimitError("no budget")])
def test_room_and_budgets_are_no_reason_to_change_the_model(error: MeleteError) -> None:
    two = Scripted("two")
    model, _ = falling(Scripted("one", error), two)
    with pytest.raises(type(error)):
        answers(model)
    assert not two.asked
    assert model.name == "one"


def test_when_all_fail_the_first_ones_error_comes_with_a_note_of_the_others() -> None:
    first = QuotaError("no credit", kept="nothing was sent twice")
    model, _ = falling(
        Scripted("one", first), Scripted("two", AuthError("wrong key")), Scripted("three", StalledError("x"))
    )
    with pytest.raises(QuotaError) as caught:
        answers(model)
    assert caught.value is first
    assert "nothing was sent twice; the fallbacks failed as well: vendor-of-two/two (wrong key)" in str(first)
    assert "vendor-of-three/three (x)" in str(first)


def test_when_all_rest_they_are_asked_in_order() -> None:
    one, two = Scripted("one", RateLimitError("x", retry_after=500)), Scripted("two", UnavailableError("y"))
    model, time = falling(one, two)
    with pytest.raises(RateLimitError):
        answers(model)
    assert answers(model) == "one"
    time.now += 61
    assert answers(model) == "one", "who answers rests no longer"


def test_a_resting_model_is_the_last_resort_when_the_others_fail() -> None:
    one, two = Scripted("one", UnavailableError("x")), Scripted("two")
    model, _ = falling(one, two)
    assert answers(model) == "two"
    two.steps.append(OverloadedError("busy"))
    items, name = asyncio.run(read(model))
    assert name == "one"
    assert [i.model for i in items if isinstance(i, Retried)] == ["one"]


def test_rests_are_shared_by_all_that_ask() -> None:
    time = Time()
    health = Health(now=time)
    one, two = Scripted("one", UnavailableError("x")), Scripted("two")
    assert answers(Falling((one, two), health=health)) == "two"
    other = Scripted("one")
    assert answers(Falling((other, two), health=health)) == "two"
    assert not other.asked
    assert health.seconds(other) == 60


def test_it_shows_the_model_that_is_asked_and_between_requests_the_one_that_would_be() -> None:
    one, two = Scripted("one", UnavailableError("x"), BadRequestError("y")), Scripted("three")
    model, time = falling(one, two)
    seen: list[tuple[str, str, int]] = []

    async def main() -> None:
        for _ in range(2):
            async for item in model.stream(REQUEST):
                if isinstance(item, TextDelta):
                    assert item.text == model.name
                elif isinstance(item, Retried):
                    assert (item.model, item.provider) == (model.name, model.provider)
                else:
                    seen.append((model.name, model.provider, model.can.context))
            seen.append((model.name, model.wire, model.can.context))
            time.now += 61
            seen.append((model.name, model.wire, model.can.context))

    assert model.name == "one"
    asyncio.run(main())
    stand_in = ("three", "vendor-of-three", 5000)
    assert seen == [
        stand_in, ("three", "none", 5000), ("one", "none", 3000),
        stand_in, ("one", "none", 3000), ("one", "none", 3000),
    ]  # fmt: skip


def test_it_shows_the_right_model_after_a_stream_that_was_left() -> None:
    one, two = Scripted("one"), Scripted("two")
    health = Health(now=Time())
    model = Falling((one, two), health=health)

    async def main() -> None:
        stream = model.stream(REQUEST)
        await anext(stream)
        health.rest(one, 5)
        assert model.name == "one", "it is still being asked"
        await stream.aclose()
        assert model.name == "two"

    asyncio.run(main())


@pytest.mark.parametrize("names", [("one",), ("one", "two", "three")])
def test_closing_closes_all(names: Sequence[str]) -> None:
    members = [Scripted(name) for name in names]
    asyncio.run(falling(*members)[0].aclose())
    assert [member.closed for member in members] == [1] * len(names)


def test_who_asks_beside_others_sees_the_model_that_it_asks_itself() -> None:
    """Children share their parent's models: what a reply has cost is told by the model that wrote it."""
    first, second = Scripted("a"), Scripted("bb")
    shared, _ = falling(first, second)

    async def main() -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []
        other = asyncio.Event()

        async def slow() -> None:
            async for item in shared.stream(REQUEST):
                if isinstance(item, TextDelta):
                    await other.wait()
                seen.append((shared.name, shared.can.context))

        async def fails() -> None:
            first.steps.append(QuotaError("used up"))
            async for item in shared.stream(REQUEST):
                if isinstance(item, TextDelta) and item.text == "bb":
                    other.set()
                    await waiting

        waiting = asyncio.create_task(slow())
        await asyncio.sleep(0)
        await fails()
        return seen

    assert asyncio.run(main()) == [("a", 1000), ("a", 1000)]
