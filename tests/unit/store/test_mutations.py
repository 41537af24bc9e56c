"""Random accidents to every file of a home: it always opens, or says what was set aside; nothing vanishes silently.

Sixty of them, the same each time; two hundred with MELETE_CRASH_FULL=1.
"""

import asyncio
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from melete.core.errors import StoreError
from melete.core.event import Fact
from melete.core.policy import Allowance
from melete.core.session import Problem, Query, SessionRef, Store
from melete.store import open_ledger
from tests.unit.store.given import SetClock, note, opened_store, with_turns

SEED = 20261121
REFS = (SessionRef(id="s-1"), SessionRef(id="s-2"), SessionRef(id="s-3"))
MUTATIONS = 200 if os.environ.get("MELETE_CRASH_FULL") == "1" else 60
SLICES = 10
PAGE = 4096
BYTES = ("flip", "cut", "empty", "remove", "zero", "insert", "append", "double", "swap", "noise", "newline")
PLACES = ("folder", "pipe", "dangling", "link", "gone", "locked")


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
            await store.spill(ref, "c1", "a long text")
        log = self.folder / "state" / "sessions" / "s-3.log"
        log.write_bytes(log.read_bytes().replace(b"Question 1", b"Quest1on 1"))
        async with store.claim(REFS[2]):
            assert log.with_suffix(".damaged").exists()
        for ref in REFS:
            self.facts[ref.id] = await store.facts(ref)
        for number in range(20):
            await ledger.append("note", {"text": f"note {number}"})
            await ledger.reserve("run", Allowance(usd=0.1), Allowance())
        self.rows = ledger.read()
        await store.send(REFS[0], note("m-1"))
        await store.aclose()


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return Truth(tmp_path_factory.mktemp("truth"))


async def home_of(truth: Truth, home: Path, state_of_files: str) -> Store:
    """A copy of the home with tables and index: `in use`, `closed`, or as a `killed` process leaves them."""
    shutil.copytree(truth.folder, home)
    store = opened_store(home)
    await store.list()
    await store.search(Query(text="files"))
    (home / "state" / "search.db.damaged-20261121-090000").write_bytes(b"set aside")
    if state_of_files == "in use":
        return store
    files = {path: path.read_bytes() for path in (home / "state").glob("*.db*")}
    await store.aclose()
    if state_of_files == "killed":
        for path, data in files.items():
            path.write_bytes(data)
    return store


def mutate(path: Path, chance: random.Random) -> str:
    """One accident to a file."""
    kind = chance.choice((*BYTES, *BYTES, *PLACES))
    if kind in PLACES:
        return replace(path, kind)
    data = path.read_bytes() or b"x"
    at = chance.randrange(len(data))
    stop = at + chance.choice((1, 3, 60, 500, PAGE))
    new = changed(data, kind, at, stop, chance)
    if path.name.endswith("-shm"):  # SQLite maps this file: nobody survives that it is cut while it is in use
        new = new.ljust(len(data), b"\0")
    path.write_bytes(new)
    return f"{kind} {path.name} at {at}"


def changed(data: bytes, kind: str, at: int, stop: int, chance: random.Random) -> bytes:
    """The data after an accident between two places."""
    before, there, behind = data[:at], data[at:stop], data[stop:]
    pages = [data[start : start + PAGE] for start in range(0, len(data), PAGE)]
    return {
        "flip": lambda: before + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :],
        "cut": lambda: before,
        "empty": lambda: b"",
        "remove": lambda: before + behind,
        "zero": lambda: before + bytes(len(there)) + behind,
        "insert": lambda: before + chance.randbytes(stop - at) + there + behind,
        "append": lambda: data + chance.randbytes(stop - at),
        "double": lambda: before + there + there + behind,
        "swap": lambda: b"".join(chance.sample(pages, len(pages))),
        "noise": lambda: before + chance.randbytes(len(there)) + behind,
        "newline": lambda: before + b"\n" + data[at + 1 :],
    }[kind]()


def replace(path: Path, kind: str) -> str:
    """Something else in the place of a file."""
    kept = path.with_name(f"moved-{path.name}.old")
    if kind == "locked":
        path.chmod(0)
        return f"{kind} {path.name}"
    path.rename(kept)
    match kind:
        case "folder":
            path.mkdir()
            (path / "file").touch()
        case "pipe":
            os.mkfifo(path)
        case "dangling":
            path.symlink_to("nowhere")
        case "link":
            path.symlink_to(kept.name)
        case _:
            kept.unlink()
    return f"{kind} {path.name}"


def targets(home: Path) -> Sequence[Path]:
    """The files that can have an accident; logs more often than others."""
    state = home / "state"
    logs = [*(state / "sessions").glob("*.log")] * 2
    others = [path for path in state.rglob("*") if path.is_file()]
    return sorted([*logs, *others])


@pytest.mark.parametrize("part", range(SLICES))
def test_no_accident_makes_a_fact_vanish_silently(truth: Truth, tmp_path: Path, part: int) -> None:
    async def once(number: int) -> None:
        home = tmp_path / str(number)
        chance = random.Random(SEED + number)
        store = await home_of(truth, home, chance.choice(("in use", "closed", "killed")))
        path = chance.choice(targets(home))
        what = f"{number}: {mutate(path, chance)}"
        await survey(truth, store, home, what, gone=not os.path.lexists(path))
        with suppress(FileNotFoundError):
            path.chmod(0o700)
        shutil.rmtree(home)

    for number in range(part, MUTATIONS, SLICES):
        asyncio.run(once(number))


async def survey(truth: Truth, store: Store, home: Path, what: str, *, gone: bool) -> None:
    """Use everything, then ask whether all that is missing was told; a log that was removed was deleted."""
    ledger = open_ledger(home / "state", clock=SetClock())
    told = list(await store.verify(deep=True))
    refs = [ref for ref in REFS if not (gone and f"gone {ref.id}.log" in what)]
    for each in (store, opened_store(home)):
        listed = {row.id for row in await each.list()}
        found = {hit.session for hit in await each.search(Query(text="answer question", limit=99))}
        assert all({ref.id} <= listed & found or told_of(told, ref.id) for ref in refs), what
    for ref in refs:
        check_facts(truth.facts[ref.id], await facts_of(home, ref), told_of(told, ref.id), what)
        try:
            async with store.claim(ref) as session:
                session.pending()
                await session.record()
        except StoreError as error:
            assert error.kept or "there is no session" in error.what, what
    try:
        await ledger.append("note", {"text": "after"})
    except StoreError as error:
        assert error.kept, what
    told += await store.verify()
    for ref in refs:
        facts = await facts_of(home, ref)
        check_facts(truth.facts[ref.id], facts, told_of(told, ref.id), what)
    if not (gone and "gone ledger.log" in what):
        check_rows(truth.rows, rows_of(home), told_of(told, "ledger"), what)
    await store.rebuild()
    assert {row.id for row in await store.list()} <= {ref.id for ref in REFS}, what
    await each.aclose()
    await store.aclose()


def rows_of(home: Path) -> Sequence[Mapping[str, Any]]:
    try:
        return open_ledger(home / "state", clock=SetClock()).read()
    except StoreError:
        return ()


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
