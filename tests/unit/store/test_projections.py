"""Tables and index: they catch up with what is new, are remade when damaged, and tell when a log lost its end."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from melete.core.errors import StorageError
from melete.core.event import Opened
from melete.core.message import user
from melete.core.session import Query, SessionRef
from melete.store import sqlite
from tests.unit.store.given import opened_store, with_turns

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


def test_tables_held_by_somebody_else_give_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "WAIT_SECONDS", (0.001, 0.002))

    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, id="s-1")
        await store.list()
        await with_turns(store, id="s-2")
        other = sqlite3.connect(tmp_path / "state" / "sessions.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="logs hold everything"):
            await store.list()
        other.execute("ROLLBACK")
        other.close()
        assert len(await store.list()) == 2
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
