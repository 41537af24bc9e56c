"""One run's account over the day's: reserved before, settled after."""

import asyncio

import pytest

from melete.agent.budget import RunBudget, price
from melete.core.errors import LimitError
from melete.core.message import Usage
from melete.core.model import Capabilities
from melete.core.policy import Allowance
from melete.store.memory import MemoryLedger
from melete.testing import ManualClock


def test_reservations_count_until_they_are_settled() -> None:
    async def main() -> None:
        budget = RunBudget(None, who="s", run=Allowance(tokens=100, usd=1.0), day=Allowance())
        first = await budget.reserve(tokens=60, usd=0.6)
        assert budget.left() == Allowance(tokens=40, usd=0.4)
        with pytest.raises(LimitError, match="0 of 100, and the next request needs about 60"):
            await budget.reserve(tokens=60, usd=None)
        await budget.settle(first, usage=Usage(input=10, output=5), usd=0.25)
        assert budget.left() == Allowance(tokens=85, usd=0.75)
        with pytest.raises(LimitError, match=r"\$0.2500 of \$1.00"):
            await budget.reserve(tokens=1, usd=0.8)
        await budget.reserve(tokens=85, usd=0.75)

    asyncio.run(main())


def test_the_days_account_is_shared() -> None:
    async def main() -> None:
        ledger = MemoryLedger(clock=ManualClock())
        one, two = (RunBudget(ledger, who=name, run=Allowance(), day=Allowance(tokens=100)) for name in "ab")
        held = await one.reserve(tokens=60, usd=None)
        with pytest.raises(LimitError, match="the day's budget of 100 tokens"):
            await two.reserve(tokens=60, usd=None)
        await one.settle(held, usage=Usage(), usd=None)
        await two.reserve(tokens=60, usd=None)
        assert two.left() == Allowance()

    asyncio.run(main())


def test_a_price_needs_both_directions_and_knows_the_cache() -> None:
    usage = Usage(input=1_000_000, output=100_000, cache_read=2_000_000, cache_write=500_000)
    assert price(Capabilities(usd_input=3.0), usage) is None
    assert price(Capabilities(usd_input=2.0, usd_output=10.0), usage) == 2 + 1 + 4 + 1
    cached = Capabilities(usd_input=2.0, usd_output=10.0, usd_cache_read=0.2, usd_cache_write=2.5)
    assert price(cached, usage) == pytest.approx(2 + 1 + 0.4 + 1.25)
