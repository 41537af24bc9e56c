"""The same through the whole product: random trees of children, a scripted model that says what its replies have cost."""

import asyncio
import logging
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.delegation.soak import opened
from benchmarks.report import Row, say
from melete import user
from melete.app.opening import Options
from melete.app.service import open_conversation
from melete.core.event import RunEnded, Spent
from melete.core.message import Usage
from melete.core.session import SessionRef, Which
from melete.testing import Call, Reply, Say, ScriptedModel

DEEPEST, ENDS = 3, {"done", "out_of_budget"}


class Script:
    """Who asks is told by the name in its first message, `Node 1.2`; what it says, and what that has cost, by the seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, request: dict[str, Any], index: int) -> Reply | str:
        """One reply."""
        del index
        name = next(str(one["content"]) for one in request["messages"] if one["role"] == "user").split()[1]
        turn = sum(one["role"] == "assistant" for one in request["messages"])
        rng = random.Random(f"{self._seed} {name} {turn}")
        usage = Usage(input=rng.randrange(2_000, 8_000), output=rng.choice([100, 2_000, 15_000, 40_000]))
        if turn < 3 and name.count(".") < DEEPEST and rng.random() < 0.6:
            goals = [f"Node {name}.{turn}{number} works" for number in range(rng.randrange(1, 4))]
            return Call(
                "delegate_task", {"tasks": [{"goal": one, "role": "orchestrator"} for one in goals]}, usage=usage
            )
        if turn < 2:
            return Call("todo", {}, usage=usage)
        return Say("It is done.", usage=usage)


async def play(seed: int, folder: Path) -> tuple[RunEnded, list[int], int, int]:
    """One tree in a home of its own: the run's end, the bills of all its replies, its limit, and what the day's account holds."""
    rng = random.Random(seed)
    limit = int(10 ** rng.uniform(4.2, 5.8))
    work = folder / "work"
    work.mkdir(parents=True)
    settings = {"budget.run.tokens": limit, "delegation.max_spawn_depth": DEEPEST, "skills.enabled": False}
    with ScriptedModel(Script(seed)) as server:
        async with opened(folder, server, **settings) as app:
            async with open_conversation(app, Options(cwd=str(work), env="local")) as conversation:
                ended = await conversation.run(user("Node 0 works"))
                refs = [conversation.ref]
            rows = await app.store.list(which=Which(sources=("subagent",)), limit=10_000)
            refs += [SessionRef(id=row.id) for row in rows]
            facts = [fact for ref in refs for fact in await app.store.facts(ref)]
            bills = [fact.usage.total for fact in facts if isinstance(fact, Spent)]
            return ended, bills, limit, (await app.ledger.today()).tokens


def wrong_with(played: tuple[RunEnded, list[int], int, int]) -> str:
    """What does not hold of a tree, in words; empty where all does."""
    ended, bills, limit, day = played
    spent = sum(bills)
    if spent > limit + max(bills, default=0):
        return f"{spent} of {limit} tokens were spent, {max(bills)} the largest reply"
    if day != spent:
        return f"the day's account holds {day}, the bills are {spent}"
    return "" if ended.stop in ENDS else f"the run ended as {ended.stop}: {ended.error}"


def measure(count: int) -> tuple[list[Row], Sequence[str]]:
    """So many trees; the rows, and what went wrong in words."""
    logging.getLogger("melete").setLevel(logging.ERROR)  # each run that is refused says so
    replies, passed, wrong = 0, 0, list[str]()
    for seed in range(count):
        with tempfile.TemporaryDirectory() as folder:
            played = asyncio.run(play(seed, Path(folder)))
        _, bills, limit, _ = played
        replies += len(bills)
        passed += sum(bills) > limit
        say(f"tree {seed}: {len(bills)} replies, {sum(bills):,} of {limit:,} tokens")
        if found := wrong_with(played):
            wrong.append(f"product, seed {seed}: {found}")

    def row(what: str, value: float, *, less: bool | None = None) -> Row:
        return Row(what=what, unit="", values={"melete": float(value)}, digits=0, less_is_better=less)

    rows = [
        row("trees through the whole product", count),
        row("… their replies", replies),
        row("… that passed their limit", passed),
        row("… that went wrong", len(wrong), less=True),
    ]
    return rows, wrong
