"""Tables and index after accidents: removed, cut and replaced files, killed rebuilds, full disks, strangers among the logs."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from melete.core.errors import StorageError
from melete.core.event import Opened
from melete.core.message import user
from melete.core.session import Query
from tests.unit.store.given import opened_store, with_turns

ROOT = Path(__file__).resolve().parents[3]

ACCIDENTS = {
    "removed": lambda path: path.unlink(),
    "removed with its journal": lambda path: [part.unlink() for part in path.parent.glob(f"{path.name}*")],
    "journal removed": lambda path: path.with_name(f"{path.name}-wal").unlink(),
    "emptied": lambda path: os.truncate(path, 0),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "overwritten": lambda path: path.write_bytes(b"x" * path.stat().st_size),
    "replaced": lambda path: shutil.copy(path, path.with_name("copy")).replace(path),
    "a folder": lambda path: (path.unlink(), path.mkdir(), (path / "file").touch()),
    "a link to nowhere": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "a link to a text": lambda path: (path.unlink(), make_text(f"{path}.txt"), path.symlink_to(f"{path}.txt")),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "its journal a folder": lambda path: (path.with_name(f"{path.name}-wal").unlink(), make(f"{path}-wal")),
}


def make(folder: str) -> None:
    Path(folder).mkdir()


def make_text(path: str) -> None:
    Path(path).write_text("these are notes, no database\n", "utf-8")


@pytest.mark.parametrize("name", ["sessions.db", "search.db"])
@pytest.mark.parametrize("accident", ACCIDENTS)
def test_what_happens_to_a_file_in_mid_use_heals_by_itself_in_every_store(
    tmp_path: Path, name: str, accident: str
) -> None:
    async def main() -> None:
        stores = [opened_store(tmp_path), opened_store(tmp_path)]
        for number in range(3):
            await with_turns(stores[0], id=f"s-{number}")
        store = stores[1]
        rows, hits = await store.list(), await store.search(Query(text="answer question"))
        assert (await stores[0].list(), len(await stores[0].search(Query(text="answer question")))) == (rows, len(hits))
        ACCIDENTS[accident](tmp_path / "state" / name)
        await with_turns(stores[0], id="s-3")
        for each in [*stores, opened_store(tmp_path)]:
            assert {row.id for row in await each.list()} == {row.id for row in rows} | {"s-3"}
            found = {hit.session for hit in await each.search(Query(text="answer question", limit=99))}
            assert found == {hit.session for hit in hits} | {"s-3"}
            await each.aclose()
        damaged = list((tmp_path / "state").glob("*.damaged-*"))
        problems = await store.verify(deep=True)
        assert bool(problems) == bool(damaged)
        assert all(problem.harmless for problem in problems)
        await with_turns(stores[0], id="s-4")
        assert len(await store.list()) == 5
        await store.aclose()

    asyncio.run(main())


def test_of_the_files_that_were_set_aside_the_last_three_are_kept(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, id="s-1")
        for number in range(5):
            await store.list()
            await store.aclose()
            (tmp_path / "state" / "sessions.db").write_bytes(b"damage %d" % number)
        assert len(await store.list()) == 1
        kept = sorted((tmp_path / "state").glob("sessions.db.damaged-*[0-9]"))
        assert [path.read_bytes() for path in kept] == [b"damage 2", b"damage 3", b"damage 4"]
        assert len(await store.verify()) == 3
        await store.aclose()

    asyncio.run(main())


def test_a_deleted_session_leaves_no_word_in_any_file_of_the_home(tmp_path: Path) -> None:
    async def main() -> None:
        store, reader = opened_store(tmp_path), opened_store(tmp_path)
        await with_turns(store, 20, id="s-0")
        ref = await with_turns(store, 2, opened=Opened(title="the quokka", cwd="/quokka"), id="s-1")
        async with store.claim(ref) as session:
            await session.append(user("a quokka is no pelican, says the quokka"))
        await store.spill(ref, "c1", "quokka")
        assert await store.search(Query(text="quokka"))
        assert await reader.search(Query(text="quokka"))
        assert holding(tmp_path, b"quokka")
        shutil.copy(tmp_path / "state" / "search.db", tmp_path / "state" / "search.db.damaged-20260101-000000")
        await store.delete(ref)
        assert holding(tmp_path, b"quokka") == []
        assert not await reader.search(Query(text="quokka"))
        await reader.aclose()
        await store.aclose()
        assert holding(tmp_path, b"quokka") == []

    asyncio.run(main())


def holding(folder: Path, word: bytes) -> list[str]:
    """Names of the files that hold the word."""
    return [path.name for path in folder.rglob("*") if path.is_file() and word in path.read_bytes().lower()]


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from melete.store import catchup
from tests.unit.store.given import *
catchup.BULK_SECONDS = 0.0
async def main():
    await opened_store(Path(sys.argv[1])).rebuild(on_progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
asyncio.run(main())
"""


def test_a_rebuild_that_was_killed_is_made_again_and_the_old_file_answers_meanwhile(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, 3, id="s-1")
        await with_turns(store, 3, id="s-2")
        rows = await store.list()
        workshop = tmp_path / "state" / ".sessions.rebuild"
        for _ in range(2):
            done = await asyncio.to_thread(
                subprocess.run, [sys.executable, "-B", "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False
            )
            assert done.returncode == -signal.SIGKILL
            assert workshop.exists()
            assert any(problem.path == str(workshop) for problem in await store.verify())
            assert await store.list() == rows
        await store.rebuild()
        assert not workshop.exists()
        assert await store.list() == rows
        assert not await store.verify()
        await store.aclose()

    asyncio.run(main())


def test_a_file_of_a_newer_version_stays_as_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, id="s-1")
        rows = await store.list()
        await store.aclose()
        path = tmp_path / "state" / "sessions.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA user_version = 99")
        before = path.read_bytes()
        assert await store.list() == rows
        with pytest.raises(StorageError, match="newer version"):
            await store.rebuild()
        assert path.read_bytes() == before
        assert not (tmp_path / "state" / ".sessions.rebuild").exists()
        await store.aclose()

    asyncio.run(main())


def test_a_rebuild_that_cannot_begin_says_so_and_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store, id="s-1")
        rows = await store.list()
        (tmp_path / "state" / ".sessions.rebuild" / "lock").mkdir(parents=True)
        with pytest.raises(StorageError, match="nothing was changed"):
            await store.rebuild()
        assert await store.list() == rows
        await store.aclose()

    asyncio.run(main())


def test_on_a_full_disk_sessions_are_still_listed_and_found(tmp_path: Path) -> None:
    code = """
import asyncio, resource, signal, sys
from pathlib import Path
from tests.unit.store.given import *
from melete.core.session import Query
async def main():
    store = opened_store(Path(sys.argv[1]))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    print(len(await store.list()), len(await store.search(Query(text="files"))) > 0)
    await store.aclose()
asyncio.run(main())
"""

    async def fill() -> None:
        store = opened_store(tmp_path)
        for number in range(3):
            await with_turns(store, id=f"s-{number}")
        await store.aclose()

    asyncio.run(fill())
    for limit in (0, 10_000, 40_000):
        done = subprocess.run(
            [sys.executable, "-B", "-c", code, str(tmp_path), str(limit)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.split() == ["3", "True"], done.stderr


def test_sessions_beside_a_log_that_cannot_be_read_stay_listed_and_found(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        for number in range(3):
            await with_turns(store, id=f"s-{number}")
        folder = tmp_path / "state" / "sessions"
        for number, make in enumerate((Path.mkdir, os.mkfifo, lambda path: path.symlink_to(folder / "nowhere"))):
            make(folder / f"x-{number}.log")
        assert len(await store.list()) == 3
        assert {hit.session for hit in await store.search(Query(text="files"))} == {"s-0", "s-1", "s-2"}
        assert len(await store.verify()) == 3
        (folder / "s-1.log").unlink()
        (folder / "s-1.log").mkdir()
        assert {row.id for row in await store.list()} == {"s-0", "s-2"}
        await store.aclose()

    asyncio.run(main())
