"""The ledger between processes, after a crash and when it grows long."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from melete.core.errors import StorageError, StoreError
from melete.core.message import Usage
from melete.core.policy import Allowance
from melete.store import open_ledger, record
from melete.store.verify import verify as check
from tests.unit.store.given import SetClock, opened_store

ROOT = Path(__file__).resolve().parents[3]

SPENDER = """
import asyncio, sys
from pathlib import Path
from melete.core.errors import LimitError
from melete.core.message import Usage
from melete.core.policy import Allowance
from melete.store import open_ledger
from tests.unit.store.given import SetClock

async def main():
    ledger = open_ledger(Path(sys.argv[1]), clock=SetClock())
    got = 0
    for _ in range(40):
        try:
            held = await ledger.reserve(sys.argv[2], Allowance(tokens=10), Allowance(tokens=500))
        except LimitError:
            continue
        got += 1
        if got % 2:
            await ledger.settle(held, usage=Usage(input=10), usd=None)
    print(got)

asyncio.run(main())
"""


def test_processes_that_reserve_at_once_never_pass_the_cap(tmp_path: Path) -> None:
    spenders = [
        subprocess.Popen(
            [sys.executable, "-B", "-c", SPENDER, str(tmp_path), str(number)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    got = [int(spender.communicate(timeout=60)[0]) for spender in spenders]
    assert sum(got) == 50
    ledger = open_ledger(tmp_path, clock=SetClock())
    rows = ledger.read()
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert max(row["day_tokens"] for row in rows) == 500


def test_what_a_crash_left_is_cut_and_kept_aside(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = open_ledger(tmp_path / "state", clock=SetClock())
        await ledger.append("note", {"text": "one"})
        path = tmp_path / "state" / "ledger.log"
        whole = path.read_bytes()
        path.write_bytes(whole + whole[: len(whole) // 2])
        assert len(ledger.read()) == 1
        (problem,) = await opened_store(tmp_path).verify()
        assert problem.harmless
        assert await ledger.append("note", {"text": "two"}) == 2
        assert [row["text"] for row in ledger.read()] == ["one", "two"]
        (problem,) = await opened_store(tmp_path).verify()
        assert problem.kept.endswith("ledger.damaged")

    asyncio.run(main())


def test_a_ledger_without_one_readable_record_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.log"
    path.write_bytes(b"what is this\n" * 3)
    with pytest.raises(StoreError, match="no readable record"):
        asyncio.run(open_ledger(tmp_path, clock=SetClock()).append("note", {}))
    assert path.read_bytes() == b"what is this\n" * 3


def test_a_record_longer_than_a_block_and_a_reservation_far_back_are_found(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = open_ledger(tmp_path, clock=SetClock())
        held = await ledger.reserve("run", Allowance(usd=1.0), Allowance())
        for number in range(30):
            await ledger.append("skill.version", {"text": "x" * 9_000 * (number % 3)}, durable=False)
        assert (await ledger.today()).usd == 1.0
        assert (await ledger.settle(held, usage=Usage(), usd=0.5)).usd == 0.5
        assert len(ledger.read()) == 32

    asyncio.run(main())


@pytest.mark.parametrize("what", ["folder", "pipe", "device"])
def test_what_is_no_file_in_the_ledgers_place_is_a_typed_error(tmp_path: Path, what: str) -> None:
    path = tmp_path / "ledger.log"
    match what:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.symlink_to("/dev/zero")
    assert [problem.path for problem in check(tmp_path)] == [str(path)]
    ledger = open_ledger(tmp_path, clock=SetClock())

    async def main() -> None:
        with pytest.raises(StorageError):
            await ledger.append("note", {})
        with pytest.raises(StorageError):
            await ledger.reserve("run", Allowance(), Allowance())
        with pytest.raises(StorageError):
            ledger.read()
        with pytest.raises(StorageError):
            await ledger.today()

    asyncio.run(main())


def test_a_bad_record_in_the_middle_of_the_ledger_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = open_ledger(tmp_path / "state", clock=SetClock())
        for number in range(3):
            await ledger.append("note", {"n": number})
        path = tmp_path / "state" / "ledger.log"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(lines[0] + lines[1].replace(b"1", b"7") + lines[2])
        assert [row["n"] for row in ledger.read()] == [0, 2]
        assert len([problem for problem in await opened_store(tmp_path).verify() if not problem.harmless]) == 2
        assert record.check(lines[1][:-1], record.seed("ledger"))

    asyncio.run(main())
