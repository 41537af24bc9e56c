"""A model round a pool of keys: what makes it change the key, what it says, and what it leaves behind."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

import pytest

from melete.core.errors import MeleteError
from melete.core.event import Delta, Reply, Retried, TextDelta
from melete.core.message import Message, Text, user
from melete.core.model import (
    AuthError,
    Capabilities,
    ContextOverflowError,
    ModelError,
    ModelRequest,
    OverloadedError,
    QuotaError,
    RateLimitError,
    StalledError,
    UnavailableError,
)
from melete.models.keys import Key, KeyPool, KeyRotating
from melete.models.retry import Retrying

REQUEST = ModelRequest(model="m", messages=(user("Go"),))
A, B, C = (Key(name=f"KEY_{letter}", value=f"secret-{letter}") for letter in "ABC")
Step = ModelError | str


class Vendor:
    """A vendor whose clients play one script, whatever the key; `asked` holds the keys in order."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.asked: list[str] = []
        self.closed: list[str] = []
        self.gate: asyncio.Event | None = None
        self.on_ask: Callable[[], None] = lambda: None

    def open(self, key: str) -> "Client":
        """A client with this key."""
        return Client(self, key)


class Client:
    """What a vendor answers with one key; each answer begins with a delta."""

    name, provider, wire, can = "m", "vendor", "none", Capabilities()

    def __init__(self, vendor: Vendor, key: str) -> None:
        self.vendor = vendor
        self.key = key

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Play the next step."""
        self.vendor.asked.append(self.key[-1])
        yield TextDelta(text="begin")
        self.vendor.on_ask()
        if self.vendor.gate is not None:
            await self.vendor.gate.wait()
        step = self.vendor.steps.pop(0)
        if isinstance(step, ModelError):
            raise step
        yield Reply(message=Message(role="assistant", parts=(Text(text=step),)))

    async def aclose(self) -> None:
        """Note it."""
        self.vendor.closed.append(self.key[-1])


def rotating(vendor: Vendor, *keys: Key) -> KeyRotating:
    """A rotating model of these keys."""
    return KeyRotating(vendor.open, KeyPool(lambda: keys))


def run(vendor: Vendor, *keys: Key, times: int = 1) -> tuple[list[Delta | Retried | Reply], ModelError | None]:
    """What `times` requests yield together, and the error of the last."""
    client = rotating(vendor, *keys)
    items: list[Delta | Retried | Reply] = []

    async def main() -> ModelError | None:
        error: ModelError | None = None
        for _ in range(times):
            error = None
            try:
                async for item in client.stream(REQUEST):
                    items.append(item)  # noqa: PERF401 - what came before an error counts
            except ModelError as raised:
                error = raised
        return error

    return items, asyncio.run(main())


def told(items: Sequence[Delta | Retried | Reply]) -> list[str]:
    """The reasons of all changes."""
    return [item.reason for item in items if isinstance(item, Retried)]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RateLimitError("x"), "KEY_A is limited for 1 h; KEY_B is used now"),
        (RateLimitError("x", retry_after=90), "KEY_A is limited for 90 s; KEY_B is used now"),
        (QuotaError("x"), "KEY_A has no credit left; KEY_B is used now"),
        (AuthError("x"), "KEY_A was rejected; KEY_B is used now"),
    ],
)
def test_the_next_key_goes_on_and_both_variables_are_named(error: ModelError, reason: str) -> None:
    vendor = Vendor(error, "done", "again")
    items, failed = run(vendor, A, B, times=2)
    assert failed is None
    assert [type(i).__name__ for i in items] == ["TextDelta", "Retried", "TextDelta", "Reply", "TextDelta", "Reply"]
    assert told(items) == [reason]
    change = items[1]
    assert isinstance(change, Retried)
    assert (change.attempt, change.cause, change.delay) == (1, type(error).__name__, 0.0)
    assert (change.model, change.provider) == ("m", "vendor")
    assert vendor.asked == ["A", "B", "B"], "the first key still rests"


@pytest.mark.parametrize(
    "error", [OverloadedError("x"), UnavailableError("x"), StalledError("x"), ContextOverflowError("x")]
)
def test_other_errors_are_no_fault_of_a_key(error: ModelError) -> None:
    vendor = Vendor(error, "done")
    items, _ = run(vendor, A, B, times=2)
    assert not told(items)
    assert vendor.asked == ["A", "A"]


def test_with_one_key_the_error_comes_as_it_is() -> None:
    error = RateLimitError("limited", retry_after=30, next="wait")
    items, raised = run(Vendor(error), A)
    assert raised is error
    assert str(error) == "limited; wait"
    assert not told(items)


def test_a_lone_key_is_asked_with_again_after_its_wait() -> None:
    async def main() -> None:
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        vendor = Vendor(RateLimitError("x", retry_after=30), RateLimitError("x"), "done")
        client = Retrying(rotating(vendor, A), sleep=sleep, jitter=lambda: 1.0)
        items = [item async for item in client.stream(REQUEST)]
        assert isinstance(items[-1], Reply)
        assert waits == [30, 3]

    asyncio.run(main())


def test_an_answer_ends_the_rest_of_a_key() -> None:
    async def main() -> None:
        pool = KeyPool(lambda: [A])
        client = KeyRotating(Vendor(RateLimitError("x"), "done").open, pool)
        with pytest.raises(RateLimitError):
            _ = [item async for item in client.stream(REQUEST)]
        assert pool.statuses()[0].status == "exhausted"
        _ = [item async for item in client.stream(REQUEST)]
        assert pool.statuses()[0].status == "ok"

    asyncio.run(main())


def test_when_no_key_is_left_the_most_hopeful_error_is_raised_and_all_are_named() -> None:
    limited = RateLimitError("limited", retry_after=20)
    for steps in ([limited, AuthError("no")], [AuthError("no"), limited]):
        items, raised = run(Vendor(*steps), A, B)
        assert raised is limited
        assert len(told(items)) == 1
        assert "was rejected" in str(raised)
        assert "is limited for 20 s" in str(raised)
    soon, late = RateLimitError("soon", retry_after=5), RateLimitError("late", retry_after=500)
    assert run(Vendor(late, soon, RateLimitError("unknown")), A, B, C)[1] is soon


def test_a_key_that_rests_since_earlier_is_what_there_is_to_wait_for() -> None:
    """The second key dies while the first one rests for a stated time: the run waits for the first one."""
    vendor = Vendor(RateLimitError("x", retry_after=50), "done", QuotaError("no credit"))
    _, raised = run(vendor, A, B, times=2)
    assert isinstance(raised, RateLimitError)
    assert raised.retry_after == pytest.approx(50, abs=5)
    assert "KEY_B has no credit left" in str(raised)
    assert isinstance(raised.__cause__, QuotaError)


def test_a_short_wait_does_not_make_a_key_be_asked_with_twice_in_a_request() -> None:
    vendor = Vendor(*[RateLimitError("x", retry_after=0)] * 9)
    _, raised = run(vendor, A, B)
    assert isinstance(raised, RateLimitError)
    assert vendor.asked == ["A", "B"]


def test_a_key_that_is_changed_in_mid_run_is_used_at_once() -> None:
    keys = [A, B]
    vendor = Vendor(AuthError("old"), "done", "again", AuthError("old"), "last")

    def change() -> None:
        if vendor.asked == ["A"]:
            keys[:] = [Key(name="KEY_A", value="secret-N")]
        if vendor.asked == ["A", "N", "N", "N"]:
            keys[:] = [B, A]

    vendor.on_ask = change
    client = KeyRotating(vendor.open, KeyPool(lambda: list(keys)))

    async def main() -> list[str]:
        return [r for _ in range(3) for r in told([item async for item in client.stream(REQUEST)])]

    assert asyncio.run(main()) == [
        "KEY_A was rejected; its new value is used now",
        "KEY_A was rejected; KEY_B is used now",
    ]
    assert vendor.asked == ["A", "N", "N", "N", "B"]
    assert vendor.closed == ["A", "N"], "clients of keys that are gone are closed"


def test_a_key_is_given_back_however_the_stream_ends() -> None:
    async def main() -> None:
        vendor = Vendor("never read", UnavailableError("down"), "done")
        client = rotating(vendor, A)
        async with aclosing(client.stream(REQUEST)) as stream:  # left early
            await anext(stream)
        vendor.gate = asyncio.Event()
        task = asyncio.create_task(anext(rest := client.stream(REQUEST)))
        await task
        task = asyncio.create_task(anext(rest))
        await asyncio.sleep(0)
        task.cancel()  # cancelled
        with pytest.raises(asyncio.CancelledError):
            await task
        vendor.gate = None
        vendor.steps.pop(0)
        with pytest.raises(UnavailableError):  # failed
            _ = [item async for item in client.stream(REQUEST)]
        async with asyncio.timeout(10):
            assert isinstance([item async for item in client.stream(REQUEST)][-1], Reply)

    asyncio.run(main())


def test_two_models_share_a_pool_and_never_a_call() -> None:
    async def main() -> None:
        pool = KeyPool(lambda: [A])
        vendor = Vendor("one", "two")
        vendor.gate = asyncio.Event()
        first, second = KeyRotating(vendor.open, pool), KeyRotating(vendor.open, pool)

        async def all_of(client: KeyRotating) -> None:
            _ = [item async for item in client.stream(REQUEST)]

        async with asyncio.TaskGroup() as group:
            group.create_task(all_of(first))
            group.create_task(all_of(second))
            for _ in range(10):
                await asyncio.sleep(0)
            assert vendor.asked == ["A"]
            vendor.gate.set()
        assert vendor.asked == ["A", "A"]

    asyncio.run(main())


def test_a_key_is_free_for_others_once_the_answer_is_whole() -> None:
    async def main() -> None:
        vendor = Vendor("one", "two")
        client = rotating(vendor, A)
        async for item in client.stream(REQUEST):
            if isinstance(item, Reply):
                async with asyncio.timeout(10):
                    assert isinstance([i async for i in client.stream(REQUEST)][-1], Reply)

    asyncio.run(main())


def test_before_the_first_request_the_first_key_speaks_for_the_model() -> None:
    client = rotating(vendor := Vendor(), A, B)
    assert (client.name, client.provider, client.wire, client.can) == ("m", "vendor", "none", Capabilities())
    assert not vendor.asked


def test_closing_closes_every_client_that_was_opened() -> None:
    async def main() -> None:
        vendor = Vendor(AuthError("x"), "done")
        client = rotating(vendor, A, B, C)
        _ = [item async for item in client.stream(REQUEST)]
        await client.aclose()
        assert vendor.closed == ["A", "B"]

    asyncio.run(main())


def test_no_message_shows_a_key() -> None:
    items, raised = run(Vendor(AuthError("x"), RateLimitError("x"), QuotaError("x")), A, B, C)
    assert isinstance(raised, MeleteError)
    assert "secret" not in f"{told(items)} {raised} {raised!r}"
