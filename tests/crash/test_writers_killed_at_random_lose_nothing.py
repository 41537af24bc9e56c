"""Writers, a reader and a checker share a home and are killed at random: nothing acknowledged is lost, nobody sees an error."""

import asyncio
from pathlib import Path

from benchmarks.contention import contend, differences, lost


def test_writers_killed_at_random_lose_nothing_and_the_tables_equal_the_logs(tmp_path: Path) -> None:
    state = tmp_path / "state"
    outcome = contend(state, writers=3, messages=200, seed=4, pause=(0.0, 0.05), progress=60)
    assert outcome.messages >= 600
    assert outcome.kills.total() >= 4
    assert outcome.errors == []
    assert asyncio.run(lost(state, outcome)) == []
    assert asyncio.run(differences(state)) == []
    assert outcome.journal < 20_000_000
