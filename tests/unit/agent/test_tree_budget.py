"""One account for a tree of runs: all of them together pass the limit by one reply at most, whatever becomes of them."""

import asyncio

import pytest
from benchmarks.delegation.trees import play

from melete.agent.budget import Flight, RunBudget
from melete.core.errors import LimitError
from melete.core.message import Usage
from melete.core.policy import Allowance
from melete.core.ports import Day
from melete.store.memory import MemoryLedger
from melete.testing import ManualClock

MOST = Allowance(tokens=60)


@pytest.mark.parametrize("first", range(0, 150, 30))
def test_random_trees_keep_to_their_limit_and_their_accounts_are_their_bills(first: int) -> None:
    """`python -m benchmarks delegation --part trees` plays a thousand."""

    async def main() -> None:
        for seed in range(first, first + 30):
            await play(seed)

    asyncio.run(main())


def test_near_the_limit_requests_of_a_tree_go_one_by_one() -> None:
    async def main() -> None:
        root = RunBudget(None, who="s", run=Allowance(tokens=100), day=Allowance())
        children = [root.share("s", among=4 - number) for number in range(4)]
        await children[0].reserve(tokens=10, usd=None, most=MOST)
        others = [asyncio.create_task(child.reserve(tokens=10, usd=None, most=MOST)) for child in children[1:]]
        await asyncio.sleep(0)
        assert not any(task.done() for task in others), "two may cost 120"
        await children[0].settle("local-1", usage=Usage(output=95), usd=None)
        found = await asyncio.gather(*others, return_exceptions=True)
        assert all(isinstance(one, LimitError) for one in found), "95 and 10 are more than 100"
        assert root.left().tokens == 100 - 95 - 3 * 20

    asyncio.run(main())


def test_one_that_is_stopped_while_it_waits_holds_nobody_up() -> None:
    async def main() -> None:
        flight = Flight(Allowance(tokens=100))
        first = await flight.begin(Allowance(tokens=10), MOST)
        waiting = [asyncio.create_task(flight.begin(Allowance(tokens=10), MOST)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        flight.end(first, Usage(output=5), None)
        second = await waiting[1]
        flight.end(second, Usage(), None)
        assert await flight.begin(Allowance(tokens=95), MOST)

    asyncio.run(main())


def test_what_a_child_spends_is_spent_by_all_above_it_at_once() -> None:
    async def main() -> None:
        root = RunBudget(None, who="s", run=Allowance(tokens=1_000), day=Allowance())
        child = root.share("s", among=1)
        grandchild = child.share("s", among=1)
        assert (root.left().tokens, child.left().tokens, grandchild.left().tokens) == (500, 250, 250)
        key = await grandchild.reserve(tokens=10, usd=None)
        await grandchild.settle(key, usage=Usage(output=300), usd=None)
        assert (root.left().tokens, child.left().tokens, grandchild.left().tokens) == (500, 200, -50)
        root.release(child)
        assert root.left().tokens == 700
        key = await child.reserve(tokens=10, usd=None)
        await child.settle(key, usage=Usage(output=100), usd=None)
        root.release(child)
        assert root.left().tokens == 600

    asyncio.run(main())


def test_what_was_spent_is_booked_for_the_day_although_it_is_cancelled_meanwhile() -> None:
    class Busy(MemoryLedger):
        async def settle(self, reservation: str, *, usage: Usage, usd: float | None) -> Day:
            await asyncio.sleep(0.01)
            return await super().settle(reservation, usage=usage, usd=usd)

    async def main() -> None:
        ledger = Busy(clock=ManualClock())
        budget = RunBudget(ledger, who="s", run=Allowance(), day=Allowance(tokens=1_000))
        key = await budget.reserve(tokens=900, usd=None)
        task = asyncio.create_task(budget.settle(key, usage=Usage(output=5), usd=None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await ledger.today()).tokens == 5
        await budget.settle(key, usage=Usage(output=5), usd=None)
        assert (await ledger.today()).tokens == 5

    asyncio.run(main())
