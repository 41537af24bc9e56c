"""Two hundred random accidents to a home: it always opens, or says what was set aside; nothing vanishes silently."""

import asyncio
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from melete.core.errors import StoreError
from melete.core.event import Fact
from melete.core.policy import Allowance
from melete.core.session import Problem, Query, SessionRef
from melete.store import open_ledger
from tests.unit.store.given import SetClock, note, opened_store, with_turns

SEED = 20261121
REFS = (SessionRef(id="s-1"), SessionRef(id="s-2"))
MUTATIONS = 200
SLICES = 10


class Truth:
    """What was acknowledged before the accident."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Sequence[Fact]] = {}
        self.rows: Sequence[Mapping[str, Any]] = ()
        asyncio.run(self._make())

    async def _make(self) -> None:
        store = opened_store(self.folder)
        ledger = open_ledger(self.folder / "state", clock=SetClock())
        for ref in REFS:
            await with_turns(store, 3, id=ref.id)
            self.facts[ref.id] = await store.facts(ref)
        for number in range(20):
            await ledger.append("note", {"text": f"note {number}"})
            await ledger.reserve("run", Allowance(usd=0.1), Allowance())
        self.rows = ledger.read()
        await store.send(REFS[0], note("m-1"))
        await store.list()
        await store.search(Query(text="files"))
        await store.aclose()


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return Truth(tmp_path_factory.mktemp("truth"))


def mutate(path: Path, chance: random.Random) -> str:
    """One accident to a file."""
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    length = chance.choice((1, 3, 60, 500, 4096))
    kind = chance.choice(("flip", "cut", "remove", "zero", "insert", "double", "noise", "newline"))
    match kind:
        case "flip":
            data[at] ^= 1 << chance.randrange(8)
        case "cut":
            del data[at:]
        case "remove":
            del data[at : at + length]
        case "zero":
            data[at : at + length] = bytes(len(data[at : at + length]))
        case "insert":
            data[at:at] = chance.randbytes(length)
        case "double":
            data[at:at] = data[at : at + length]
        case "noise":
            data[at : at + length] = chance.randbytes(len(data[at : at + length]))
        case _:
            data[at] = 10
    path.write_bytes(bytes(data))
    return f"{kind} {path.name} at {at}"


def targets(home: Path) -> Sequence[Path]:
    """The files that can have an accident; logs more often than others."""
    state = home / "state"
    logs = [*(state / "sessions").glob("*.log")] * 3
    return sorted([*logs, state / "ledger.log", *state.glob("*.db"), *state.rglob("*.json")])


@pytest.mark.parametrize("part", range(SLICES))
def test_no_accident_makes_a_fact_vanish_silently(truth: Truth, tmp_path: Path, part: int) -> None:
    for number in range(part, MUTATIONS, SLICES):
        home = tmp_path / str(number)
        shutil.copytree(truth.folder, home)
        chance = random.Random(SEED + number)
        what = f"{number}: " + mutate(chance.choice(targets(home)), chance)
        asyncio.run(survey(truth, home, what))
        shutil.rmtree(home)


async def survey(truth: Truth, home: Path, what: str) -> None:
    """Use everything, then ask whether all that is missing was told."""
    store = opened_store(home)
    ledger = open_ledger(home / "state", clock=SetClock())
    told = list(await store.verify())
    listed = {row.id for row in await store.list()}
    assert all(ref.id in listed or told_of(told, ref.id) for ref in REFS), what
    await store.search(Query(text="files"))
    for ref in REFS:
        check_facts(truth.facts[ref.id], await facts_of(home, ref), told_of(told, ref.id), what)
        try:
            async with store.claim(ref) as session:
                session.pending()
                await session.record()
        except StoreError as error:
            assert error.kept, what
    try:
        await ledger.append("note", {"text": "after"})
    except StoreError as error:
        assert error.kept, what
    told += await store.verify()
    for ref in REFS:
        facts = await facts_of(home, ref)
        check_facts(truth.facts[ref.id], facts, told_of(told, ref.id), what)
    check_rows(truth.rows, ledger.read(), told_of(told, "ledger"), what)
    await store.rebuild()
    assert {row.id for row in await store.list()} <= {ref.id for ref in REFS}, what
    await store.aclose()


async def facts_of(home: Path, ref: SessionRef) -> Sequence[Fact]:
    try:
        return await opened_store(home).facts(ref)
    except StoreError:
        return ()


def told_of(problems: Sequence[Problem], name: str) -> Sequence[Problem]:
    return [problem for problem in problems if Path(problem.path).stem == name]


def check_facts(before: Sequence[Fact], after: Sequence[Fact], told: Sequence[Problem], what: str) -> None:
    numbers = [fact.seq for fact in after]
    assert len(set(numbers)) == len(numbers), what
    old = {fact.seq: fact for fact in before}
    there = {fact.seq for fact in after if old.get(fact.seq) == fact}
    assert told or there == old.keys(), f"{what}: {old.keys() - there} vanished silently"


def check_rows(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], told: Sequence[Problem], what: str
) -> None:
    there = {row["number"]: row for row in after}
    gone = [row["number"] for row in before if there.get(row["number"]) != row]
    assert told or not gone, f"{what}: {gone} vanished silently"
