"""Several keys of one vendor: which is lent, which rests and for how long, and that one key takes one call at a time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from melete.core.model import AuthError, ModelError, QuotaError, RateLimitError
from melete.models.keys import Key, KeyPool, Strategy

A, B, C = (Key(name=f"KEY_{letter}", value=f"secret-{letter}") for letter in "ABC")


class Time:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Keys:
    """Keys that can be changed in mid-run."""

    def __init__(self, *keys: Key) -> None:
        self.keys: Sequence[Key] = keys
        self.asked = 0

    def __call__(self) -> Sequence[Key]:
        self.asked += 1
        return self.keys


def pool(*keys: Key, **options: Any) -> tuple[KeyPool, Keys, Time]:
    """A pool, its keys and its clock."""
    source, time = Keys(*keys), Time()
    return KeyPool(source, now=time, **options), source, time


async def lent(from_pool: KeyPool, *, excluding: Sequence[Key] = ()) -> str:
    """The name of the key that is lent now, given back at once."""
    async with from_pool.loan(excluding={key.value for key in excluding}) as key:
        return key.name if key else "none"


def names(from_pool: KeyPool, times: int) -> str:
    """The last letters of the names that are lent one after the other."""

    async def main() -> str:
        return "".join([(await lent(from_pool))[-1] for _ in range(times)])

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("strategy", "order"), [("fill_first", "AAAAA"), ("round_robin", "ABCAB"), ("least_used", "ABCAB")]
)
def test_the_strategy_chooses(strategy: Strategy, order: str) -> None:
    assert names(pool(A, B, C, strategy=strategy)[0], 5) == order


def test_a_random_key_is_chosen_from_those_that_are_usable() -> None:
    offered: list[Sequence[Key]] = []

    def choose(keys: Sequence[Key]) -> Key:
        offered.append(keys)
        return keys[-1]

    keys, _, _ = pool(A, B, C, strategy="random", choose=choose)
    keys.failed(C, RateLimitError("x"))
    assert names(keys, 1) == "B"
    assert offered == [[A, B]]


def test_least_used_counts_what_each_key_has_done() -> None:
    keys, _, time = pool(A, B, strategy="least_used")
    keys.failed(B, RateLimitError("x", retry_after=10))
    assert names(keys, 3) == "AAA"
    time.now += 11
    assert names(keys, 5) == "BBBAB"


def test_round_robin_goes_on_behind_a_key_that_rests() -> None:
    keys, _, _ = pool(A, B, C, strategy="round_robin")
    assert names(keys, 1) == "A"
    keys.failed(B, RateLimitError("x"))
    assert names(keys, 4) == "CACA"


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (AuthError("x"), 300),
        (AuthError("x", retry_after=5), 300),
        (RateLimitError("x"), 3600),
        (RateLimitError("x", retry_after=7), 7),
        (QuotaError("x"), 3600),
    ],
)
def test_a_key_rests_by_the_cause(error: ModelError, seconds: float) -> None:
    keys, _, time = pool(A, B)
    keys.failed(A, error)
    first, second = keys.statuses()
    assert (first.name, first.status, first.seconds) == ("KEY_A", "exhausted", seconds)
    assert (second.name, second.status, second.seconds) == ("KEY_B", "ok", 0)
    time.now += seconds - 0.5
    assert names(keys, 1) == "B"
    time.now += 1
    assert names(keys, 1) == "A"
    assert keys.statuses()[0].status == "ok"


def test_a_key_that_is_rejected_again_after_its_rest_is_dead_until_its_value_changes() -> None:
    keys, source, time = pool(A, B)
    keys.failed(A, AuthError("x"))
    time.now += 301
    keys.failed(A, AuthError("x"))
    time.now += 1e6
    assert keys.statuses()[0].status == "dead"
    assert names(keys, 1) == "B"
    source.keys = [Key(name="KEY_A", value="another value"), B]
    assert keys.statuses()[0].status == "ok"
    assert names(keys, 1) == "A"


def test_a_second_rejection_while_a_key_rests_does_not_kill_it() -> None:
    """Two calls under way meet the same refusal; and a lone key is lent although it rests."""
    keys, _, time = pool(A)
    keys.failed(A, AuthError("x"))
    time.now += 10
    assert names(keys, 1) == "A"
    keys.failed(A, AuthError("x"))
    assert keys.statuses()[0].status == "exhausted"


def test_an_answer_makes_a_key_well_again() -> None:
    keys, _, time = pool(A, B)
    keys.failed(A, AuthError("x"))
    keys.worked(A)
    assert names(keys, 1) == "A"
    time.now += 301
    keys.failed(A, AuthError("x"))
    assert keys.statuses()[0].status == "exhausted", "the earlier rejection no longer counts"


def test_when_all_rest_the_one_that_is_usable_soonest_is_lent() -> None:
    keys, _, time = pool(A, B, C)
    keys.failed(A, AuthError("x"))
    time.now += 301
    keys.failed(A, AuthError("x"))
    keys.failed(B, RateLimitError("x", retry_after=500))
    keys.failed(C, RateLimitError("x", retry_after=90))
    assert names(keys, 2) == "CC"


def test_the_dead_are_asked_last_but_asked() -> None:
    keys, _, time = pool(A)
    keys.failed(A, AuthError("x"))
    time.now += 301
    keys.failed(A, AuthError("x"))
    assert names(keys, 1) == "A"


def test_excluded_keys_are_not_lent_and_none_says_so() -> None:
    async def main() -> list[str]:
        keys, _, _ = pool(A, B)
        return [await lent(keys, excluding=[A]), await lent(keys, excluding=[A, B])]

    assert asyncio.run(main()) == ["KEY_B", "none"]


def test_keys_are_read_anew_for_each_loan_and_one_value_counts_once() -> None:
    keys, source, _ = pool(A, Key(name="COPY", value=A.value), strategy="round_robin")
    assert names(keys, 2) == "AA"
    source.keys = [B]
    assert names(keys, 1) == "B"
    assert source.asked == 3


def test_no_key_is_lent_as_an_empty_one_to_any_number_of_calls() -> None:
    async def main() -> None:
        keys, _, _ = pool(Key(name="EMPTY", value=""))
        async with keys.loan() as one, keys.loan() as two:
            assert one is not None
            assert (one.value, one) == ("", two)
        assert keys.statuses() == []

    asyncio.run(main())


def test_the_wait_for_another_key_is_known_where_the_server_has_stated_it() -> None:
    keys, _, time = pool(A, B, C)
    keys.failed(A, RateLimitError("x"))
    assert keys.soonest(excluding=()) is None
    keys.failed(B, RateLimitError("x", retry_after=50))
    time.now += 10
    assert keys.soonest(excluding=()) == 40
    assert keys.soonest(excluding={B.value}) is None


def test_no_status_and_no_repr_shows_a_value() -> None:
    keys, _, _ = pool(A, B)
    keys.failed(A, QuotaError("x"))
    shown = f"{A!r} {A} {keys.statuses()} {[s.words for s in keys.statuses()]}"
    assert "KEY_A has no credit left" in shown
    assert "secret" not in shown


# ---- one call per key -------------------------------------------------------------------------------------------------


async def holding(keys: KeyPool, log: list[str], who: str, until: asyncio.Event) -> None:
    """Borrow a key, say so, and keep it until told."""
    async with keys.loan() as key:
        assert key is not None
        log.append(f"{who}:{key.name[-1]}")
        await until.wait()


async def settle() -> None:
    """Let every task run as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_busy_keys_are_waited_for_in_order() -> None:
    async def main() -> list[str]:
        keys, _, _ = pool(A, B)
        log: list[str] = []
        done = [asyncio.Event() for _ in range(5)]
        async with asyncio.TaskGroup() as group:
            for number, event in enumerate(done):
                group.create_task(holding(keys, log, str(number), event))
            await settle()
            assert log == ["0:A", "1:B"]
            done[1].set()
            await settle()
            assert log[2:] == ["2:B"]
            done[0].set()
            done[2].set()
            await settle()
            assert log[3:] == ["3:A", "4:B"]
            done[3].set()
            done[4].set()
        return log

    asyncio.run(main())


def test_nobody_overtakes_those_who_wait() -> None:
    async def main() -> list[str]:
        keys, _, _ = pool(A)
        log: list[str] = []

        async def greedy(who: str) -> None:
            for _ in range(3):
                async with keys.loan():
                    log.append(who)
                    await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for who in "xyz":
                group.create_task(greedy(who))
        return log

    assert asyncio.run(main()) == list("xyzxyzxyz")


def test_the_limit_can_be_set_and_lifted() -> None:
    async def two() -> None:
        keys, _, _ = pool(A, at_once=2)
        async with asyncio.TaskGroup() as group:
            async with keys.loan() as one, keys.loan() as other:
                assert one == other == A
                third = group.create_task(lent(keys))
                await settle()
                assert not third.done()
            assert await third == "KEY_A"

    async def unlimited() -> None:
        keys, _, _ = pool(A, at_once=0)
        async with keys.loan(), keys.loan(), keys.loan() as third:
            assert third == A

    asyncio.run(two())
    asyncio.run(unlimited())


def test_who_leaves_the_line_or_is_cut_off_blocks_nobody() -> None:
    async def main() -> None:
        keys, _, _ = pool(A)
        log: list[str] = []
        never, end = asyncio.Event(), asyncio.Event()
        holder = asyncio.create_task(holding(keys, log, "holder", never))
        await settle()
        waiting = [asyncio.create_task(holding(keys, log, str(n), end)) for n in range(3)]
        await settle()
        waiting[0].cancel()  # at the head of the line
        waiting[1].cancel()
        await settle()
        holder.cancel()
        await settle()
        assert log == ["holder:A", "2:A"]
        end.set()
        await waiting[2]
        assert await lent(keys) == "KEY_A"
        for task in (holder, *waiting[:2]):
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_a_key_whose_rest_ends_is_taken_while_another_is_waited_for() -> None:
    async def main() -> None:
        keys = KeyPool(Keys(A, B))
        keys.failed(A, RateLimitError("x", retry_after=0.05))
        log: list[str] = []
        end = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(holding(keys, log, "one", end))
            await settle()
            waiter = group.create_task(lent(keys))
            async with asyncio.timeout(10):
                assert await waiter == "KEY_A"
            assert log == ["one:B"]
            end.set()

    asyncio.run(main())


def test_a_key_that_fails_while_others_wait_is_left_to_rest() -> None:
    async def main() -> None:
        keys, source, _ = pool(A)
        end = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            holder = group.create_task(holding(keys, [], "one", end))
            await settle()
            waiter = group.create_task(lent(keys))
            await settle()
            source.keys = [A, B]
            keys.failed(A, AuthError("x"))
            assert await waiter == "KEY_B"
            end.set()
            await holder

    asyncio.run(main())
