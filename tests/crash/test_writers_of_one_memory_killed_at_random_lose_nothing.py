"""Four processes change one memory and are killed at random: no entry is lost, doubled or half changed."""

from pathlib import Path

from benchmarks.memory import campaign


def test_no_entry_is_lost_or_doubled(tmp_path: Path) -> None:
    outcome = campaign(tmp_path, processes=4, operations=400, seed=7, progress=20)
    assert outcome.errors == []
    assert outcome.done.total() == 400
    assert outcome.kills >= 3
