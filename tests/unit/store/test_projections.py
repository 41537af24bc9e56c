"""Tables and index: they catch up with what is new, are remade when damaged, and tell when a log lost its end."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from melete.core.errors import StorageError
from melete.core.event import Opened
from melete.core.message import user
from melete.core.session import Query, SessionRef, Store
from melete.store import catchup, sqlite, watch
from tests.unit.store.given import opened_store, until, with_turns

REF = SessionRef(id="s-1")


def test_a_run_that_lists_nothing_never_loads_sqlite(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from pathlib import Path
from tests.unit.store.given import *
async def main():
    store = opened_store(Path(sys.argv[1]))
    ref = await with_turns(store)
    await store.facts(ref); await store.find(ref.id); await store.latest(); await store.verify()
asyncio.run(main())
print("sqlite3" in sys.modules, "asyncio.subprocess" in sys.modules and "melete.store.sqlite" in sys.modules)
"""
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, str(tmp_path)], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def test_two_stores_share_the_tables_and_each_sees_what_the_other_wrote(tmp_path: Path) -> None:
    async def main() -> None:
        one, two = opened_store(tmp_path), opened_store(tmp_path)
        for number in range(3):
            await with_turns((one, two)[number % 2], id=f"s-{number}")
            assert len(await one.list()) == len(await two.list()) == number + 1
            assert len(await one.search(Query(text="files"))) == len(await two.search(Query(text="files")))
        async with two.claim(SessionRef(id="s-0")) as session:
            await session.append(user("pelican"))
        assert [hit.session for hit in await one.search(Query(text="pelicans"))] == ["s-0"]
        assert (await one.info(SessionRef(id="s-0"))).messages == 5
        await one.aclose()
        await two.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("name", ["sessions.db", "search.db"])
@pytest.mark.parametrize("content", [b"", b"not a database at all", b"SQLite format 3\0" + bytes(4000)])
def test_a_file_that_is_no_database_is_set_aside_and_remade(tmp_path: Path, name: str, content: bytes) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, id="s-1")
        rows, hits = await store.list(), await store.search(Query(text="files"))
        await store.aclose()
        path = tmp_path / "state" / name
        path.write_bytes(content)
        assert await store.list() == rows
        assert await store.search(Query(text="files")) == hits
        aside = list((tmp_path / "state").glob(f"{name}.damaged-*"))
        problems = await store.verify()
        assert [Path(problem.kept) for problem in problems] == [path for path in aside if not path.suffix.endswith("l")]
        assert all(problem.harmless for problem in problems)
        assert bool(aside) == bool(content)
        await store.aclose()

    asyncio.run(main())


def test_a_log_that_lost_its_end_is_told_before_and_after_it_is_read_again(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, 2, id="s-1")
        await store.list()
        log = tmp_path / "state" / "sessions" / "s-1.log"
        lines = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(b"".join(lines[:-3]))
        (problem,) = await store.verify()
        assert "shorter" in problem.what
        assert not problem.harmless
        assert (await store.list())[0].messages == 7
        assert [problem.what for problem in await store.verify() if "facts 17 to 19" in problem.what]
        await store.aclose()

    asyncio.run(main())


def test_a_log_that_lost_its_end_and_grew_again_is_read_anew(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, 2, id="s-1")
        await store.list()
        log = tmp_path / "state" / "sessions" / "s-1.log"
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-9]))
        async with store.claim(REF) as session:
            await session.append(user("a long text " * 900))
        (row,) = await store.list()
        assert row.messages == 5
        await store.aclose()

    asyncio.run(main())


def test_files_held_by_somebody_else_answer_with_what_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAIT_SECONDS", (0.001, 0.002))

    async def main() -> None:
        store = opened_store(tmp_path)
        for number in range(3):
            await with_turns(store, id=f"s-{number}")
        await store.list()
        await store.search(Query(text="files"))
        await with_turns(store, id="s-9")
        (tmp_path / "state" / "sessions" / "s-0.log").unlink()
        held = [held_file(tmp_path / "state" / name) for name in ("sessions.db", "search.db")]
        for asked in (store, opened_store(tmp_path)):
            assert [row.id for row in await asked.list()] == ["s-2", "s-1"]
            assert {hit.session for hit in await asked.search(Query(text="files"))} == {"s-1", "s-2"}
            assert (await asked.find("s-9")).id == "s-9"
        for connection in held:
            connection.close()
        assert [row.id for row in await store.list()] == ["s-9", "s-2", "s-1"]
        assert {hit.session for hit in await store.search(Query(text="files"))} == {"s-1", "s-2", "s-9"}
        await asked.aclose()
        await store.aclose()

    asyncio.run(main())


def held_file(path: Path) -> sqlite3.Connection:
    """Another connection that holds the file for itself."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


def test_a_deletion_says_so_when_words_stay_in_a_file_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAIT_SECONDS", (0.001, 0.002))

    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, id="s-1")
        await store.search(Query(text="files"))
        other = held_file(tmp_path / "state" / "search.db")
        with pytest.raises(StorageError, match="does not let go") as raised:
            await store.delete(REF)
        assert "words of it stay in search.db" in raised.value.kept
        assert await store.list() == []
        assert await store.search(Query(text="files")) == []
        other.close()
        assert await store.search(Query(text="files")) == []
        await store.aclose()

    asyncio.run(main())


def test_in_a_large_home_own_facts_are_seen_at_once_and_others_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "FEW", 0)
    monkeypatch.setattr(watch, "SHARE", 1e9)
    monkeypatch.setattr(watch, "LONGEST_PAUSE", 0.3)

    async def main() -> None:
        mine, other = opened_store(tmp_path), opened_store(tmp_path)
        await with_turns(mine, id="s-1")
        assert len(await mine.list()) == 1
        await with_turns(other, id="s-2")
        await with_turns(mine, id="s-3")
        assert [row.id for row in await mine.list()] == ["s-3", "s-1"], "nobody looked at the folder again"
        async with mine.claim(REF) as session:
            for number in range(3):
                await session.append(user(f"pelican {number}"))
                assert (await mine.info(REF)).messages == 5 + number
        await mine.add(await mine.facts(REF), id="s-4")
        await mine.delete(REF)
        assert {row.id for row in await mine.list()} == {"s-3", "s-4"}
        assert {hit.session for hit in await mine.search(Query(text="pelican"))} == {"s-4"}
        await until_async(mine, {"s-2", "s-3", "s-4"})
        await mine.aclose()

    asyncio.run(main())


async def until_async(store: Store, wanted: set[str]) -> None:
    """Wait until the store lists what is wanted."""
    for _ in range(1000):
        if {row.id for row in await store.list()} == wanted:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen within ten seconds")


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything that the tables of a file hold."""
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in names}


def test_a_long_log_is_taken_in_piece_by_piece_and_in_many_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, 30, id="s-1")
        await with_turns(store, 3, id="s-2")
        await store.rebuild()
        whole = rows_of(tmp_path / "state" / "sessions.db")
        hits = await store.search(Query(text="question", limit=200))
        monkeypatch.setattr(catchup, "PIECE_BYTES", 300)
        monkeypatch.setattr(catchup, "SHORT_SECONDS", 0.0)
        monkeypatch.setattr(catchup, "BULK_SECONDS", 0.0)
        told: list[tuple[int, int]] = []
        await store.rebuild(on_progress=lambda done, total: told.append((done, total)))
        assert rows_of(tmp_path / "state" / "sessions.db") == whole
        assert {(hit.session, hit.seq) for hit in hits} == {
            (hit.session, hit.seq) for hit in await store.search(Query(text="question", limit=200))
        }
        assert told[-1] == (2, 2)
        assert told == sorted(told)
        assert not await store.verify(deep=True)
        await store.aclose()

    asyncio.run(main())


def test_a_listing_that_nobody_waits_for_any_more_ends_soon_and_keeps_what_it_took_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catchup, "SHORT_SECONDS", 0.0)

    async def main() -> None:
        store = opened_store(tmp_path)
        for number in range(40):
            await with_turns(store, id=f"s-{number}")
        listing = asyncio.ensure_future(store.list())
        await until(lambda: (tmp_path / "state" / "sessions.db").exists())
        listing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listing
        assert len(await store.list()) == 40
        await store.aclose()

    asyncio.run(main())


def test_tables_that_hold_less_than_the_logs_are_told_by_a_deep_check(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, id="s-1")
        await store.list()
        await store.aclose()
        with closing(sqlite3.connect(tmp_path / "state" / "sessions.db", isolation_level=None)) as connection:
            connection.execute("DELETE FROM messages WHERE seq = 3")
        assert not await store.verify()
        (problem,) = await store.verify(deep=True)
        assert "holds 3 messages of the session s-1, whose log holds 4" in problem.what
        await store.rebuild()
        assert not await store.verify(deep=True)
        await store.aclose()

    asyncio.run(main())


def test_many_stores_catch_up_at_once(tmp_path: Path) -> None:
    async def make() -> None:
        store = opened_store(tmp_path)
        for number in range(12):
            await with_turns(store, id=f"s-{number}")

    asyncio.run(make())
    counts: list[tuple[int, int]] = []

    async def read() -> None:
        store = opened_store(tmp_path)
        rows = await store.list()
        counts.append((len(rows), sum(row.messages for row in rows)))
        await store.aclose()

    threads = [threading.Thread(target=lambda: asyncio.run(read())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [(12, 48)] * 4


def test_a_log_that_was_put_in_the_place_of_another_is_read_anew(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, 2, opened=Opened(title="old"), id="s-1")
        await store.list()
        await store.search(Query(text="files"))
        (tmp_path / "state" / "sessions" / "s-1.log").unlink()
        await with_turns(store, 1, opened=Opened(title="new"), id="s-1")
        (row,) = await store.list()
        assert (row.title, row.messages) == ("new", 4)
        assert {hit.seq for hit in await store.search(Query(text="answer question"))} <= set(range(1, 11))
        await store.aclose()

    asyncio.run(main())
