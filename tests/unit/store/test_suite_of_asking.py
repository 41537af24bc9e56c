"""What every Store promises to those who ask: filters, owners, chains and order, the same for files and memory."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from melete.core.errors import SessionNotFoundError
from melete.core.event import Fact, Opened, Reply, RunStarted, Said
from melete.core.message import Message, Text, user
from melete.core.session import Query, SessionRef, Store, Which
from melete.store import open_store
from melete.store.memory import MemoryStore
from tests.unit.store.given import START, SetClock, with_turns

KINDS = ("files", "memory")


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "files":
        return open_store(tmp_path / "state", clock=SetClock())
    return MemoryStore(clock=SetClock())


def drive(store: Store, main: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        try:
            await main()
        finally:
            await store.aclose()

    asyncio.run(run())


async def fill(store: Store) -> None:
    """Five sessions a day apart: three of a chain, one of a tool, one of another owner."""
    sessions = (
        Opened(owner="ann", source="cli", cwd="/desk/a", title="first"),
        Opened(owner="ann", source="api", cwd="/desk/a/deep", title="forked", forked_from="s-0"),
        Opened(owner="ann", source="subagent", cwd="/desk/ab", title="child", parent="s-1"),
        Opened(owner="ann", source="tool", cwd="/elsewhere", title="alone", about={"imported": "its old name"}),
        Opened(owner="bob", source="cli", cwd="/desk/a", title="his"),
    )
    for number, opened in enumerate(sessions):
        at = START + timedelta(days=number)
        answer = Message(role="assistant", parts=(Text(text=f"In the drawer, said the lighthouse keeper {number}."),))
        facts: tuple[Fact, ...] = (
            msgspec.structs.replace(opened, at=at),
            RunStarted(at=at, model=f"m-{number % 2}", provider="acme"),
            Said(at=at, message=user(f"Where is the lighthouse key {number}?"), ref=f"old-{number}"),
            Reply(at=at, message=answer, model=f"m-{number % 2}", provider="acme"),
        )
        await store.add(facts, id=f"s-{number}")


WHICH = {
    "all": (Which(), {0, 1, 2, 3, 4}),
    "sources": (Which(sources=("cli", "tool")), {0, 3, 4}),
    "a folder and all below it": (Which(cwd="/desk/a"), {0, 1, 4}),
    "a folder that ends in a slash": (Which(cwd="/desk/a/"), {0, 1, 4}),
    "models": (Which(models=("m-1",)), {1, 3}),
    "models with their provider": (Which(models=("acme/m-1", "other/m-0")), {1, 3}),
    "since": (Which(since=START + timedelta(days=3)), {3, 4}),
    "until": (Which(until=START + timedelta(days=3)), {0, 1, 2}),
    "one session": (Which(session="s-2"), {2}),
    "its chain": (Which(chain="s-2"), {0, 1, 2}),
    "without a chain": (Which(without="s-1"), {3, 4}),
    "several": (Which(sources=("cli",), cwd="/desk", until=START + timedelta(days=2)), {0}),
    "nothing": (Which(sources=("none",)), set[int]()),
}


@pytest.mark.parametrize("name", WHICH)
def test_listings_and_searches_keep_to_what_is_meant(store: Store, name: str) -> None:
    which, numbers = WHICH[name]

    async def main() -> None:
        await fill(store)
        for owner, mine in (("", {0, 1, 2, 3, 4}), ("ann", {0, 1, 2, 3}), ("bob", {4}), ("eve", set[int]())):
            wanted = {f"s-{number}" for number in numbers & mine}
            assert {row.id for row in await store.list(owner=owner, which=which)} == wanted
            query = Query(text="where is the lighthouse key", owner=owner, which=which, limit=99)
            assert {hit.session for hit in await store.search(query)} == wanted

    drive(store, main)


def test_rows_and_hits_tell_of_chains_names_and_imports(store: Store) -> None:
    async def main() -> None:
        await fill(store)
        rows = {row.id: row for row in await store.list()}
        assert [rows[f"s-{number}"].root for number in range(5)] == ["s-0", "s-0", "s-0", "s-3", "s-4"]
        assert (rows["s-1"].forked_from, rows["s-2"].parent, rows["s-3"].source) == ("s-0", "s-1", "tool")
        hits = await store.search(Query(text="lighthouse key", roles=("user",), limit=99))
        assert {hit.role for hit in hits} == {"user"}
        assert {(hit.session, hit.ref, hit.title, hit.name) for hit in hits if hit.session == "s-3"} == {
            ("s-3", "old-3", "alone", "its old name")
        }
        assert all(hit.snippet[start:stop].strip() for hit in hits for start, stop in hit.marks)
        assert {hit.root for hit in await store.search(Query(text="lighthouse key", each=1, limit=99))} == {
            "s-0",
            "s-3",
            "s-4",
        }

    drive(store, main)


def test_order_and_pages_are_those_that_were_asked_for(store: Store) -> None:
    async def main() -> None:
        await fill(store)
        assert [row.id for row in await store.list(limit=2, offset=1)] == ["s-3", "s-2"]
        for order, sessions in (("newest", ["s-4", "s-3"]), ("oldest", ["s-0", "s-1"])):
            query = Query(text="lighthouse key", roles=("user",), order=order, limit=2)  # type: ignore[arg-type]
            assert [hit.session for hit in await store.search(query)] == sessions

    drive(store, main)


def test_what_changes_is_seen_at_once(store: Store) -> None:
    async def main() -> None:
        await fill(store)
        assert not await store.search(Query(text="pelican"))
        async with store.claim(SessionRef(id="s-3")) as session:
            await session.append(user("a pelican stood there"))
            assert [hit.session for hit in await store.search(Query(text="pelican"))] == ["s-3"]
            assert (await store.info(SessionRef(id="s-3"))).messages == 3
        await store.rename(SessionRef(id="s-0"), "renamed")
        assert (await store.find("renamed")).id == "s-0"
        await store.delete(SessionRef(id="s-3"))
        assert not await store.search(Query(text="pelican"))
        assert {row.id for row in await store.list()} == {"s-0", "s-1", "s-2", "s-4"}
        await with_turns(store, id="s-3")
        assert (await store.info(SessionRef(id="s-3"))).messages == 4
        assert not await store.search(Query(text="pelican"))

    drive(store, main)


def test_nobody_reaches_a_session_of_another_owner(store: Store) -> None:
    async def main() -> None:
        await fill(store)
        for name in ("s-4", "s-", "his"):
            with pytest.raises(SessionNotFoundError):
                assert (await store.find(name, owner="ann")).owner == "bob"
        for ref in (SessionRef(id="s-4", owner="ann"), SessionRef(id="s-0", owner="bob")):
            for act in (store.info(ref), store.facts(ref), store.scroll(ref, around=2), store.delete(ref)):
                with pytest.raises(SessionNotFoundError):
                    await act
        for which in (Which(session="s-4"), Which(chain="s-4")):
            assert not await store.list(owner="ann", which=which)
            assert not await store.search(Query(text="lighthouse", owner="ann", which=which))

    drive(store, main)


def test_a_run_in_memory_that_lists_nothing_never_loads_sqlite() -> None:
    code = """
import asyncio, sys
from tests.unit.store.given import *
from melete.store.memory import MemoryStore
async def main():
    store = MemoryStore(clock=SetClock())
    ref = await with_turns(store)
    await store.facts(ref); await store.find(ref.id); await store.latest(); await store.verify(); await store.aclose()
asyncio.run(main())
print("sqlite3" in sys.modules)
"""
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-B", "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_listing_names_no_session_of_somebody_else(store: Store) -> None:
    async def main() -> None:
        await store.add((Opened(owner="bob", at=START), Said(at=START, message=user("his own"))), id="his")
        mine = Opened(owner="ann", forked_from="his", forked_at=2, copied=2, at=START)
        await store.add((mine, Said(at=START, message=user("my own"))), id="mine")
        (row,) = await store.list(owner="ann")
        assert (row.root, row.forked_from, row.forked_at) == ("mine", "", 0)
        assert await store.info(SessionRef(id="mine", owner="ann")) == row
        assert {row.root for row in await store.list()} == {"his"}

    drive(store, main)
