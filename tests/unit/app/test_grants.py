"""Lasting grants: for the owner alone, kept whole, and nothing at all from a file that is not sound."""

import asyncio
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from melete.app.clock import SystemClock
from melete.app.grants import GrantFile
from melete.core.errors import StorageError
from melete.core.policy import Grant


def grant(digest: str) -> Grant:
    return Grant(digest=digest, tool="terminal", shown="command: rm -rf build")


def test_what_was_granted_is_held_until_it_is_revoked(tmp_path: Path) -> None:
    file = GrantFile(tmp_path / "home" / "grants.json", clock=SystemClock())
    assert not asyncio.run(file.holds("aa"))
    assert not file.path.parent.exists()
    asyncio.run(file.add(grant("aa")))
    asyncio.run(file.add(grant("ab")))
    asyncio.run(file.add(grant("aa")))
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [kept.digest for kept in file.read()] == ["ab", "aa"]
    assert file.read()[0].at
    assert [gone.digest for gone in file.revoke("ab")] == ["ab"]
    assert not asyncio.run(file.holds("ab"))
    assert asyncio.run(file.holds("aa"))


@pytest.mark.parametrize("text", ["", "{", '{"grants": [{}]}', "[]", "\x00"])
def test_a_file_that_is_not_sound_grants_nothing_and_is_left_alone(tmp_path: Path, text: str) -> None:
    file = GrantFile(tmp_path / "grants.json", clock=SystemClock())
    file.path.write_text(text)
    with pytest.raises(StorageError, match="cannot be read"):
        asyncio.run(file.holds("aa"))
    with pytest.raises(StorageError):
        asyncio.run(file.add(grant("aa")))
    assert file.path.read_text() == text


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    def add(number: int) -> None:
        asyncio.run(GrantFile(tmp_path / "grants.json", clock=SystemClock()).add(grant(f"{number:04}")))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert len(GrantFile(tmp_path / "grants.json", clock=SystemClock()).read()) == 24
