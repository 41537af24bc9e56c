"""Children of children, whose replies cost several times what was expected: together they pass the limit by one reply at most.

`python -m benchmarks delegation --part trees` plays more of them.
"""

import asyncio
from pathlib import Path

import pytest
from benchmarks.delegation.product import play, wrong_with


@pytest.mark.parametrize("seed", range(4))
def test_a_random_tree(tmp_path: Path, seed: int) -> None:
    assert wrong_with(asyncio.run(play(seed, tmp_path / "here"))) == ""
