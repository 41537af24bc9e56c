"""Budgets: reserve before a request is sent, settle when it is done, for the run and for the day. Layer 2.

The day's account is the ledger's, shared by all processes of a home; the run's is kept here. A request reserves what it is
expected to cost, so that the limit is passed by one reply at most.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from itertools import takewhile

import msgspec

from melete.agent.sizes import tokens
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


class Flight:
    """The requests of a tree of runs that are under way together, and what the whole tree has spent.

    A reply may cost more than was expected. Requests share the clock for as long as the worst that all of them can cost still
    fits; nearer to the limit each waits until it is alone, so that the limit is passed by one reply at most, however many
    children there are.
    """

    def __init__(self, limit: Allowance) -> None:
        self._limit = limit
        self._tokens = 0
        self._usd = 0.0
        self._open: dict[int, Allowance] = {}
        self._landed = asyncio.Event()
        self._number = 0

    async def begin(self, want: Allowance, most: Allowance) -> int:
        """Wait until a request may go that is to cost `want` and at worst `most`; raises LimitError where none may any more."""
        while True:
            _need(self._limit, Allowance(tokens=self._tokens, usd=self._usd), want)
            if not self._open or self._fits(most):
                self._number += 1
                self._open[self._number] = most
                return self._number
            await self._landed.wait()

    def end(self, number: int, usage: Usage, usd: float | None) -> None:
        """A request is over."""
        self._open.pop(number, None)
        self._tokens += usage.total
        self._usd += usd or 0.0
        self._landed.set()
        self._landed = asyncio.Event()

    def _fits(self, most: Allowance) -> bool:
        worst = [*self._open.values(), most]
        tokens = self._tokens + sum(one.tokens or 0 for one in worst)
        usd = self._usd + sum(one.usd or 0.0 for one in worst)
        return tokens <= _or_any(self._limit.tokens) and usd <= _or_any(self._limit.usd)


class RunBudget:
    """One run's account over the day's; implements `Budget`. Those of its children are parts of it: what they spend, it spends."""

    def __init__(
        self, ledger: Ledger | None, *, who: str, run: Allowance, day: Allowance, above: "RunBudget | None" = None
    ) -> None:
        self._ledger = ledger
        self._who = who
        self._run = run
        self._day = day
        self._above = above
        self._flight: Flight = above._flight if above else Flight(run)
        self._tokens = 0
        self._usd = 0.0
        self._open: dict[str, tuple[int, Allowance]] = {}
        self._shares: dict[RunBudget, Allowance] = {}
        self._number = 0

    async def reserve(self, *, tokens: int, usd: float | None, most: Allowance | None = None) -> str:
        """Set aside what a request may cost; raises LimitError with both numbers and the key to change.

        `most` is the worst that it can cost; it may have to wait for requests of others in the same tree of runs.
        """
        want = Allowance(tokens=tokens, usd=usd)
        held = self._held()
        used = Allowance(tokens=self._tokens + (held.tokens or 0), usd=self._usd + (held.usd or 0.0))
        _need(self._run, used, want, own=self._above is None)
        number = await self._flight.begin(want, most or want)
        try:
            self._number += 1
            key = await self._ledger.reserve(self._who, want, self._day) if self._ledger else f"local-{self._number}"
        except BaseException:
            self._flight.end(number, Usage(), None)
            raise
        self._open[key] = (number, want)
        return key

    async def settle(self, reservation: str, *, usage: Usage, usd: float | None) -> None:
        """Book what was used in place of the reservation, also when it is cancelled meanwhile; a second call does nothing."""
        number, held = self._open.pop(reservation, (0, None))
        if held is None:
            return
        self._book(usage.total, usd or 0.0)
        self._flight.end(number, usage, usd)
        cancelled: asyncio.CancelledError | None = None
        while self._ledger:
            try:
                await self._ledger.settle(reservation, usage=usage, usd=usd)
                break
            except asyncio.CancelledError as error:  # else the day would hold the reservation until its end
                cancelled = error
        if cancelled:
            raise cancelled

    def left(self) -> Allowance:
        """What the run may still spend, reservations and the shares of children counted."""
        held = self._held()
        return Allowance(
            tokens=None if self._run.tokens is None else self._run.tokens - self._tokens - (held.tokens or 0),
            usd=None if self._run.usd is None else self._run.usd - self._usd - (held.usd or 0.0),
        )

    def share(self, who: str, *, among: int) -> "RunBudget":
        """An account for one child of so many that are still to get one; as much stays for the run itself."""
        left, parts = self.left(), among + 1
        part = Allowance(
            tokens=None if left.tokens is None else max(0, left.tokens // parts),
            usd=None if left.usd is None else max(0.0, left.usd / parts),
        )
        child = RunBudget(self._ledger, who=who, run=part, day=self._day, above=self)
        self._shares[child] = part
        return child

    def release(self, child: "RunBudget") -> None:
        """Take back what a child has left of its share; a second call does nothing."""
        self._shares.pop(child, None)

    def _book(self, tokens: int, usd: float) -> None:
        self._tokens += tokens
        self._usd += usd
        if self._above:
            self._above._book(tokens, usd)

    def _held(self) -> Allowance:
        """What is set aside: for requests, and what children have left of their shares."""
        wants = [want for _, want in self._open.values()]
        tokens = [max(0, (part.tokens or 0) - child._tokens) for child, part in self._shares.items()]
        usd = [max(0.0, (part.usd or 0.0) - child._usd) for child, part in self._shares.items()]
        return Allowance(
            tokens=sum(one.tokens or 0 for one in wants) + sum(tokens),
            usd=sum(one.usd or 0.0 for one in wants) + sum(usd),
        )


def _or_any(limit: float | None) -> float:
    return math.inf if limit is None else limit


def _need(limit: Allowance, used: Allowance, want: Allowance, *, own: bool = True) -> None:
    """Raise LimitError where `want` does not fit beside what is used; `own` says that the limit is the settings'."""
    whose = "the run's" if own else "this child's share of the"
    if limit.tokens is not None and (used.tokens or 0) + (want.tokens or 0) > limit.tokens:
        raise LimitError(
            f"{whose} token budget is used up: {used.tokens or 0:,} of {limit.tokens:,}, and the next request needs "
            f"about {want.tokens or 0:,}",
            kept="everything so far is stored",
            next="raise budget.run.tokens and go on with: melete run -c",
        )
    if limit.usd is not None and want.usd is not None and (used.usd or 0.0) + want.usd > limit.usd:
        raise LimitError(
            f"{whose} budget is used up: ${used.usd or 0.0:.4f} of ${limit.usd:.2f}, and the next request needs about "
            f"${want.usd:.4f}",
            kept="everything so far is stored",
            next="raise it with --budget or budget.run.usd and go on with: melete run -c",
        )


class Budgeted(ModelWrapper):
    """A ModelClient that reserves before each request, at the price of the model that will answer, and settles after it.

    A try that was paid for and thrown away is settled by itself: the next one has to find room of its own.
    """

    def __init__(self, inner: ModelClient, budget: Budget, *, estimate: Estimate) -> None:
        super().__init__(inner)
        self._budget = budget
        self._estimate = estimate

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Stream the inner model's reply inside a reservation; raises LimitError before anything is sent."""
        prompt, answer = self._estimate(request), request.max_output or ANSWER
        expected = Usage(input=prompt, output=answer)
        want, most = price(self.can, expected), self._most(prompt, request.max_output)
        usage, usd = Usage(), price(self.can, Usage())
        key = await self._budget.reserve(tokens=expected.total, usd=want, most=most)
        try:
            async with aclosing(self.inner.stream(request)) as stream:
                async for item in stream:
                    if isinstance(item, Reply | Retried):
                        cost = price(self.can, item.usage)
                        usage, usd = usage + item.usage, usd if cost is None else (usd or 0.0) + cost
                    yield item
                    if isinstance(item, Retried) and usage.total:
                        await self._budget.settle(key, usage=usage, usd=usd)
                        usage, usd = Usage(), price(self.can, Usage())
                        key = await self._budget.reserve(tokens=expected.total, usd=want, most=most)
        finally:
            await self._budget.settle(key, usage=usage, usd=usd)

    def _most(self, prompt: int, limit: int | None) -> Allowance:
        """The worst that a request can cost: a prompt that goes into the cache, a reply as long as the model may write."""
        longest = limit or self.can.max_output or max(ANSWER, self.can.context - prompt)
        ways = Usage(input=prompt, output=longest), Usage(cache_write=prompt, output=longest)
        usd = [cost for way in ways if (cost := price(self.can, way)) is not None]
        return Allowance(tokens=ways[0].total, usd=max(usd, default=None))


def estimate(session: Session) -> Callable[[ModelRequest], int]:
    """Tokens of the next prompt: what the provider counted last and characters / 4 of what came since, or of all of it."""

    def guess(request: ModelRequest) -> int:
        counted = session.transcript.last_usage.total
        since = takewhile(lambda message: message.role != "assistant", reversed(session.messages))
        return counted + tokens([*since]) if counted else characters(request)

    return guess


def characters(request: ModelRequest) -> int:
    """Tokens of a prompt that nobody has counted: characters / 4."""
    return len(msgspec.json.encode((request.system, request.tools, request.messages))) // 4
