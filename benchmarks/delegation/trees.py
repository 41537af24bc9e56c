"""Random trees of runs on one account: whether all of them together spend more than the limit and one reply.

A tree has up to three levels of children, its limit is in tokens, dollars or both, and its replies cost up to as much as their
models may write, several times what was expected of them; some are thrown away half-way and asked for anew, some runs are
stopped in the middle, and some shares are given back late or twice.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from benchmarks.report import Row
from melete.agent.budget import Budgeted, RunBudget, price
from melete.core.errors import LimitError
from melete.core.event import Delta, Reply, Retried
from melete.core.message import Message, Usage
from melete.core.model import Capabilities, ModelRequest
from melete.core.policy import Allowance
from melete.store.memory import MemoryLedger
from melete.testing import ManualClock

DEEPEST, PATIENCE = 3, 60.0


class Yielding(MemoryLedger):
    """A ledger whose lock is busy now and then."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(clock=ManualClock())
        self._rng = rng

    async def reserve(self, who: str, want: Allowance, cap: Allowance) -> str:
        await pauses(self._rng)
        return await super().reserve(who, want, cap)

    async def settle(self, reservation: str, *, usage: Usage, usd: float | None) -> Any:
        await pauses(self._rng)
        return await super().settle(reservation, usage=usage, usd=usd)


@dataclass(kw_only=True)
class Tree:
    """A tree that is played: `bills` are all its replies, `over` by how many of the largest it passed its limit."""

    rng: random.Random
    limit: Allowance
    root: RunBudget
    lengths: tuple[float, ...] = (0.01,)
    bills: list[Usage] = field(default_factory=list[Usage])
    prices: list[float] = field(default_factory=list[float])
    refused: int = 0
    stopped: int = 0
    kept: list[tuple[RunBudget, RunBudget]] = field(default_factory=list[tuple[RunBudget, RunBudget]])
    over: float = 0.0
    together: int = 0
    most_together: int = 0


class Model:
    """A model in memory whose replies are of random length; what it has sent is in the tree's bills."""

    name, provider, wire = "random", "memory", "none"

    def __init__(self, tree: Tree, lengths: tuple[float, ...]) -> None:
        rng, self._tree, self._lengths = tree.rng, tree, lengths
        priced = rng.random() < 0.8 or tree.limit.tokens is None
        self.can = Capabilities(
            context=64_000,
            max_output=rng.choice([None, 8_000, 20_000]),
            usd_input=rng.choice([0.5, 3.0]) if priced else None,
            usd_output=rng.choice([2.0, 15.0]) if priced else None,
            usd_cache_write=rng.choice([None, 3.75]),
        )
        self.prompt = int(10 ** rng.uniform(2.5, 4.3))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Perhaps a try that is thrown away, then a reply; what is stopped before its end has cost nothing that is known."""
        del request
        rng, tree = self._tree.rng, self._tree
        while True:
            tree.together += 1
            tree.most_together = max(tree.most_together, tree.together)
            try:
                await pauses(rng)
                usage = self._usage()
            finally:
                tree.together -= 1
            tree.bills.append(usage)
            tree.prices.append(price(self.can, usage) or 0.0)
            if rng.random() < 0.1:
                yield Retried(attempt=1, cause="x", reason="thrown away", delay=0.0, usage=usage)
                continue
            yield Reply(message=Message(role="assistant", parts=()), usage=usage, stop="end")
            return

    def _usage(self) -> Usage:
        longest = self.can.max_output or self.can.context - self.prompt
        output = int(longest * self._tree.rng.choice(self._lengths))
        kind = self._tree.rng.choice(["input", "cache_write"])
        return Usage(**{kind: self.prompt}, output=output)

    async def aclose(self) -> None:
        """Nothing is open."""


async def pauses(rng: random.Random) -> None:
    """Let others go on, for a random number of turns."""
    for _ in range(rng.randrange(4)):
        await asyncio.sleep(0)


async def play(seed: int) -> Tree:
    """Play the tree of this seed to its end; raises AssertionError with the seed where something does not hold."""
    rng = random.Random(seed)
    limit = Allowance(
        tokens=rng.choice([None, int(10 ** rng.uniform(4, 6))]), usd=rng.choice([None, 10 ** rng.uniform(-2, 0.5)])
    )
    ledger = Yielding(rng)
    root = RunBudget(ledger, who="root", run=limit, day=Allowance())
    tree = Tree(rng=rng, limit=limit, root=root, lengths=rng.choice([(0.01, 0.1, 0.5, 1.0), (0.01, 1.0), (1.0,)]))
    await asyncio.wait_for(_run(tree, root, 0), PATIENCE)
    for account, share in tree.kept:  # the innermost first
        account.release(share)
    tokens, usd = sum(one.total for one in tree.bills), sum(tree.prices)
    largest = max((one.total for one in tree.bills), default=0), max(tree.prices, default=0.0)
    where = f"seed {seed}"
    assert limit.tokens is None or tokens <= limit.tokens + largest[0], f"{where}: {tokens} of {limit.tokens} tokens"
    assert limit.usd is None or usd <= limit.usd + largest[1] + 1e-9, f"{where}: {usd} of {limit.usd} dollars"
    tree.over = max(
        (tokens - limit.tokens) / largest[0] if limit.tokens is not None and largest[0] else 0.0,
        (usd - limit.usd) / largest[1] if limit.usd is not None and largest[1] else 0.0,
    )
    left, day = root.left(), await ledger.today()
    assert left.tokens is None or left.tokens == (limit.tokens or 0) - tokens, f"{where}: the account is not the bills"
    assert left.usd is None or abs(left.usd - (limit.usd or 0.0) + usd) < 1e-6, f"{where}: the account is not the bills"
    assert (day.tokens, round(day.usd - usd, 6)) == (tokens, 0.0), (
        f"{where}: the day holds {day}, the bills are {tokens}, {usd}"
    )
    return tree


async def _run(tree: Tree, account: RunBudget, depth: int) -> None:
    """One run: replies and batches of children in turns, until it is over or nothing is left for it."""
    model = Model(tree, tree.lengths if depth else (0.01, *tree.lengths[:-1]))
    client = Budgeted(model, account, estimate=lambda _: model.prompt)
    try:
        for _ in range(tree.rng.randrange(1, 5)):
            async with aclosing(client.stream(ModelRequest(model=model.name))) as stream:
                async for _ in stream:
                    pass
            if depth < DEEPEST and tree.rng.random() < 0.5:
                await _batch(tree, account, depth + 1)
    except LimitError:
        tree.refused += 1


async def _batch(tree: Tree, account: RunBudget, depth: int) -> None:
    several = tree.rng.randrange(1, 8)
    shares = [account.share("child", among=several - number) for number in range(several)]
    late = tree.rng.random() < 0.2
    try:
        async with asyncio.TaskGroup() as group:
            for share in shares:
                task = group.create_task(_child(tree, account, share, depth=depth, late=late))
                if tree.rng.random() < 0.15:
                    group.create_task(_stop(tree, task))
    finally:  # one that was stopped before its first step has not done it
        tree.kept += [(account, share) for share in shares]


async def _child(tree: Tree, account: RunBudget, share: RunBudget, *, depth: int, late: bool) -> None:
    try:
        await pauses(tree.rng)
        await _run(tree, share, depth)
    finally:
        if not late:
            account.release(share)
            account.release(share)


async def _stop(tree: Tree, task: "asyncio.Task[None]") -> None:
    for _ in range(tree.rng.randrange(30)):
        await asyncio.sleep(0)
    tree.stopped += not task.done()
    task.cancel()


def measure(count: int) -> tuple[list[Row], Sequence[str]]:
    """So many trees; the rows, and what went wrong in words."""
    trees: list[Tree] = []
    wrong: list[str] = []
    for seed in range(count):
        try:
            trees.append(asyncio.run(play(seed)))
        except (AssertionError, TimeoutError) as error:
            wrong.append(f"seed {seed}: {error!r}")

    def row(what: str, value: float, *, less: bool | None = None, digits: int = 0) -> Row:
        return Row(what=what, unit="", values={"melete": float(value)}, digits=digits, less_is_better=less)

    rows = [
        row("trees", count),
        row("replies", sum(len(one.bills) for one in trees)),
        row("runs that were refused a request", sum(one.refused for one in trees)),
        row("runs that were stopped in the middle", sum(one.stopped for one in trees)),
        row("requests at once, most", max((one.most_together for one in trees), default=0)),
        row("trees that passed their limit", sum(one.over > 0 for one in trees)),
        row("… by replies, the worst", max((one.over for one in trees), default=0.0), less=True, digits=2),
        row("trees that went wrong", len(wrong), less=True),
    ]
    return rows, wrong
