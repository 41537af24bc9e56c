"""Budgets: reserve before a request is sent, settle when it is done, for the run and for the day. Layer 2.

The day's account is the ledger's, shared by all processes of a home; the run's is kept here. A request reserves what it is
expected to cost, so that the limit is passed by one reply at most.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from melete.core.errors import LimitError
from melete.core.event import Delta, Reply, Retried, Spent
from melete.core.message import Usage
from melete.core.model import Capabilities, ModelClient, ModelRequest, ModelWrapper
from melete.core.policy import Allowance, Budget
from melete.core.ports import Ledger
from melete.core.session import Session

ANSWER = 4_096
"""Tokens that a reply is expected to take at most, where the request sets no limit of its own."""

Estimate = Callable[[ModelRequest], int]


def price(can: Capabilities, usage: Usage) -> float | None:
    """What a usage costs in USD, or None where the model's prices are not known."""
    if can.usd_input is None or can.usd_output is None:
        return None
    read = can.usd_cache_read if can.usd_cache_read is not None else can.usd_input
    write = can.usd_cache_write if can.usd_cache_write is not None else can.usd_input
    cost = usage.input * can.usd_input + usage.output * can.usd_output
    return (cost + usage.cache_read * read + usage.cache_write * write) / 1_000_000


def bill(model: ModelClient, reply: Reply | Retried, role: str) -> Spent:
    """What a request for side work has cost, to be stored."""
    usd = price(model.can, reply.usage)
    return Spent(
        usage=reply.usage,
        role=role,
        model=reply.model or model.name,
        provider=reply.provider or model.provider,
        usd=usd,
        source=model.can.source if usd is not None else "unknown",
    )


class RunBudget:
    """One run's account over the day's; implements `Budget`."""

    def __init__(self, ledger: Ledger | None, *, who: str, run: Allowance, day: Allowance) -> None:
        self._ledger = ledger
        self._who = who
        self._run = run
        self._day = day
        self._tokens = 0
        self._usd = 0.0
        self._open: dict[str, Allowance] = {}
        self._number = 0

    async def reserve(self, *, tokens: int, usd: float | None) -> str:
        """Set aside what a request may cost; raises LimitError with both numbers and the key to change."""
        held = sum(a.tokens or 0 for a in self._open.values())
        held_usd = sum(a.usd or 0.0 for a in self._open.values())
        if self._run.tokens is not None and self._tokens + held + tokens > self._run.tokens:
            raise LimitError(
                f"the run's token budget is used up: {self._tokens:,} of {self._run.tokens:,}, and the next request needs "
                f"about {tokens:,}",
                kept="everything so far is stored",
                next="raise budget.run.tokens and go on with: melete run -c",
            )
        if self._run.usd is not None and usd is not None and self._usd + held_usd + usd > self._run.usd:
            raise LimitError(
                f"the run's budget is used up: ${self._usd:.4f} of ${self._run.usd:.2f}, and the next request needs about "
                f"${usd:.4f}",
                kept="everything so far is stored",
                next="raise it with --budget or budget.run.usd and go on with: melete run -c",
            )
        want = Allowance(tokens=tokens, usd=usd)
        self._number += 1
        key = await self._ledger.reserve(self._who, want, self._day) if self._ledger else f"local-{self._number}"
        self._open[key] = want
        return key

    async def settle(self, reservation: str, *, usage: Usage, usd: float | None) -> None:
        """Book what was used in place of the reservation."""
        self._open.pop(reservation, None)
        self._tokens += usage.total
        self._usd += usd or 0.0
        if self._ledger:
            await self._ledger.settle(reservation, usage=usage, usd=usd)

    def left(self) -> Allowance:
        """What the run may still spend, reservations counted."""
        held = sum(a.tokens or 0 for a in self._open.values())
        held_usd = sum(a.usd or 0.0 for a in self._open.values())
        return Allowance(
            tokens=None if self._run.tokens is None else self._run.tokens - self._tokens - held,
            usd=None if self._run.usd is None else self._run.usd - self._usd - held_usd,
        )


class Budgeted(ModelWrapper):
    """A ModelClient that reserves before each request, at the price of the model that will answer, and settles after it."""

    def __init__(self, inner: ModelClient, budget: Budget, *, estimate: Estimate) -> None:
        super().__init__(inner)
        self._budget = budget
        self._estimate = estimate

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Stream the inner model's reply inside a reservation; raises LimitError before anything is sent."""
        prompt, answer = self._estimate(request), request.max_output or ANSWER
        expected = Usage(input=prompt, output=answer)
        key = await self._budget.reserve(tokens=expected.total, usd=price(self.can, expected))
        usage, usd = Usage(), price(self.can, Usage())
        try:
            async with aclosing(self.inner.stream(request)) as stream:
                async for item in stream:
                    if isinstance(item, Reply | Retried):  # a try that failed may have used tokens as well
                        cost = price(self.can, item.usage)
                        usage, usd = usage + item.usage, usd if cost is None else (usd or 0.0) + cost
                    yield item
        finally:
            await self._budget.settle(key, usage=usage, usd=usd)


def estimate(session: Session) -> Callable[[ModelRequest], int]:
    """Tokens of the next prompt: what the provider counted last, or characters / 4 before the first reply."""
    return lambda request: session.transcript.last_usage.total or characters(request)


def characters(request: ModelRequest) -> int:
    """Tokens of a prompt that nobody has counted: characters / 4."""
    return len(msgspec.json.encode((request.system, request.tools, request.messages))) // 4
