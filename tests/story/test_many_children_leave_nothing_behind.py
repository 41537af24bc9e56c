"""Children on two levels, once and again, and stopped in the middle: no task, process, file or connection of theirs is left.

`python -m benchmarks delegation --part soak` has 64 at a time.
"""

import asyncio
from pathlib import Path

import pytest
from benchmarks.delegation.soak import soak


@pytest.mark.parametrize("env", ["local", pytest.param("sandbox", marks=pytest.mark.needs("bwrap"))])
def test_twelve_children_at_a_time(tmp_path: Path, env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MELETE_ENV", env)
    left = asyncio.run(soak(tmp_path / "here", leads=3, leaves=3, rounds=2, stops=1))
    assert left.behind == []
    assert left.endless == []
    assert left.running == [9], "not all were at their commands when they were stopped"
    assert left.children == 4 * 12
