"""Kill -9 at every system call that changes the disk: nothing acknowledged is lost or doubled, no lock stays.

`strace` delivers SIGKILL as the N-th call of each kind begins, for N = 1, 2, 3, … until the worker survives. A part of
the points is taken unless MELETE_CRASH_FULL=1; the number of points is printed.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from melete.core.event import Opened
from melete.core.session import Query, Session, SessionRef, Store
from melete.store import lines, open_ledger, open_store
from melete.store.log import is_locked
from tests.crash.workers import RealClock, fact_of
from tests.unit.store.given import note, turn, with_turns

FULL = os.environ.get("MELETE_CRASH_FULL") == "1"
CALLS = (
    "write",
    "pwrite64",
    "fdatasync",
    "fsync",
    "ftruncate",
    "flock",
    "?rename,?renameat,?renameat2",
    "?unlink,?unlinkat",
    "?mkdir,?mkdirat",
    "?link,?linkat",
)
REF = SessionRef(id="s-1")
ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.needs("strace")


def command(role: str, state: Path, calls: str, number: int) -> list[str]:
    """A worker that is killed as its `number`-th call of this kind begins."""
    return [
        *("strace", "-f", "-qqq", "-e", "signal=none", "-o", os.devnull),
        *("-e", f"trace={calls}", "-e", f"inject={calls}:signal=SIGKILL:when={number}"),
        *(sys.executable, "-B", "-m", "tests.crash.workers", role, str(state)),
    ]


def at_every_point(stride: int, once: Callable[[str, int], bool]) -> int:
    """Do `once` for each kind of call and N = 1, 1 + stride, … until it tells that the worker survived; count the kills."""
    count = 0
    for calls in CALLS:
        number = 1
        while not once(calls, number):
            count += 1
            number += 1 if FULL else stride
    return count


def test_an_owner_killed_at_any_write_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def once(calls: str, number: int) -> bool:
        state = tmp_path / f"{calls.strip('?').partition(',')[0]}-{number}" / "state"
        ran = subprocess.run(
            command("work", state, calls, number), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        acknowledged = ran.stdout.splitlines()
        survived = "done" in acknowledged
        assert survived == (ran.returncode == 0), ran.stderr
        asyncio.run(check_owner(state, acknowledged, f"{calls} {number}"))
        return survived

    count = at_every_point(5, once)
    with capsys.disabled():
        print(f"[owner killed at {count} points]", end=" ")
    assert count > 15


def test_a_receipt_is_true_even_if_the_owner_is_killed_at_any_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def once(calls: str, number: int) -> bool:
        return asyncio.run(own_and_die(tmp_path / f"{calls.strip('?').partition(',')[0]}-{number}", calls, number))

    count = at_every_point(1, once)
    with capsys.disabled():
        print(f"[owner with a live sender killed at {count} points]", end=" ")
    assert count > 5


async def own_and_die(folder: Path, calls: str, number: int) -> bool:
    """Steer, answer and cancel an owner that dies somewhere on the way; each receipt says what came of the message."""
    state = folder / "state"
    where = f"{calls} {number}"
    store = open_store(state, clock=RealClock())
    await with_turns(store, 1, id="s-1")
    ran = await asyncio.create_subprocess_exec(
        *command("own", state, calls, number), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert ran.stdout is not None
    await ran.stdout.readline()
    told = {
        message.id: (await store.send(REF, message)).status
        for message in (note("m-1"), note("m-2", "answer", "yes", "q-1"), note("m-3", "cancel"))
    }
    survived = b"done" in (await ran.communicate())[0]
    async with store.claim(REF) as session:
        waiting = {message.id for message in session.pending()}
        await take_in(session)
    carried = [inbox for fact in await store.facts(REF) if (inbox := getattr(fact, "inbox", ""))]
    assert len(set(carried)) == len(carried), where
    assert {name for name, status in told.items() if status == "queued"} == waiting, where
    assert {name for name, status in told.items() if status in ("accepted", "queued")} == set(carried), where
    assert not is_locked(state / "sessions" / "s-1.log"), where
    assert all(problem.harmless for problem in await store.verify()), where
    await store.aclose()
    return survived


async def check_owner(state: Path, acknowledged: list[str], where: str) -> None:
    """What was acknowledged is there once, the lock is free, the message is neither lost nor doubled, tables agree."""
    log = state / "sessions" / "s-1.log"
    assert not is_locked(log), where
    store = open_store(state, clock=RealClock())
    assert all(problem.harmless for problem in await store.verify()), where
    promised = {int(line.split()[1]) for line in acknowledged if line.startswith("fact")}
    ref = await store.create(Opened(), id="s-1") if not has_session(log) else REF
    facts = await store.facts(ref)
    assert promised <= {fact.seq for fact in facts}, where
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1)), where
    async with store.claim(ref) as session:
        await take_in(session)
        assert not session.pending(), where
    carried = [fact for fact in await store.facts(ref) if getattr(fact, "inbox", "") == "m-0"]
    assert len(carried) == 1 if "sent m-0" in acknowledged else len(carried) <= 1, where
    await tables_agree(store, state, where)
    rows = open_ledger(state, clock=RealClock()).read()
    numbers = {int(line.split()[1]) for line in acknowledged if line.startswith("ledger")}
    assert numbers <= {row["number"] for row in rows}, where
    await store.aclose()


def has_session(log: Path) -> bool:
    return log.exists() and b"\n" in log.read_bytes()


async def take_in(session: Session) -> None:
    for message in session.pending():
        await session.record(fact_of(message))
        session.settle(message.id)


async def tables_agree(store: Store, state: Path, where: str) -> None:
    """The tables after catching up equal the log, and the tables made anew from it."""
    (row,) = await store.list()
    said = lines.of(await store.facts(REF))
    assert row.messages == len(said), where
    found = await store.search(Query(text="answer question files", limit=99))
    assert len({hit.seq for hit in found}) == len(found), where
    await store.rebuild()
    assert await store.list() == [row], where
    again = await store.search(Query(text="answer question files", limit=99))
    assert {(hit.seq, hit.snippet) for hit in again} == {(hit.seq, hit.snippet) for hit in found}, where


def test_a_sender_killed_at_any_write_is_heard_once_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def once(calls: str, number: int) -> bool:
        return asyncio.run(send_and_die(tmp_path / f"{calls.strip('?').partition(',')[0]}-{number}", calls, number))

    count = at_every_point(1, once)
    with capsys.disabled():
        print(f"[sender killed at {count} points]", end=" ")
    assert count > 15


async def send_and_die(folder: Path, calls: str, number: int) -> bool:
    """A live owner takes in what the sender sends until it dies."""
    state = folder / "state"
    where = f"{calls} {number}"
    store = open_store(state, clock=RealClock())
    await with_turns(store, 1, id="s-1")
    async with store.claim(REF) as session:
        ran = await asyncio.create_subprocess_exec(
            *command("send", state, calls, number), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        ended = asyncio.ensure_future(ran.communicate())
        while not ended.done():
            await take_in(session)
            await asyncio.sleep(0.005)
        await take_in(session)
        assert not session.pending(), where
        acknowledged = ended.result()[0].decode().splitlines()
    carried = [inbox for fact in await store.facts(REF) if (inbox := getattr(fact, "inbox", ""))]
    assert len(set(carried)) == len(carried), where
    assert {line.split()[1] for line in acknowledged if line.startswith("accepted")} <= set(carried), where
    assert not is_locked(state / "sessions" / "s-1.log"), where
    assert not await store.verify(), where
    await store.aclose()
    return "done" in acknowledged


def test_a_session_that_is_added_is_there_whole_or_not_at_all_and_a_deleted_one_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def once(calls: str, number: int) -> bool:
        state = tmp_path / f"{calls.strip('?').partition(',')[0]}-{number}" / "state"
        ran = subprocess.run(
            command("add", state, calls, number), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        acknowledged = ran.stdout.splitlines()
        survived = "done" in acknowledged
        assert survived == (ran.returncode == 0), ran.stderr
        asyncio.run(check_added(state, acknowledged, f"{calls} {number}"))
        return survived

    count = at_every_point(5, once)
    with capsys.disabled():
        print(f"[adding killed at {count} points]", end=" ")
    assert count > 15


async def check_added(state: Path, acknowledged: list[str], where: str) -> None:
    """Each session has all its facts or is not there, and what was acknowledged holds."""
    store = open_store(state, clock=RealClock())
    rows = {row.id: row.messages for row in await store.list()}
    assert set(rows.values()) <= {4}, where
    assert "added s-2" not in acknowledged or "s-2" in rows, where
    if "deleted s-1" in acknowledged:
        assert "s-1" not in rows, where
    elif "added s-2" not in acknowledged and "added s-1" in acknowledged:
        assert "s-1" in rows, where
    assert {hit.session for hit in await store.search(Query(text="files"))} <= rows.keys(), where
    assert all(problem.harmless for problem in await store.verify(deep=True)), where
    for name in {"s-1", "s-2"} - rows.keys():
        await store.add([Opened(), *turn()], id=name)
    assert len(await store.list()) == 2, where
    await store.aclose()
