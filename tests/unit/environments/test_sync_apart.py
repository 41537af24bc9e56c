"""What synchronising leaves alone: its own rests and Melete's own folders."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from melete.core.errors import EnvironmentFailure
from melete.environments.sync import Sync
from tests.unit.environments.test_sync import Both, both, tree


def test_a_round_that_is_cancelled_ends_what_it_is_writing(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        await two.sync.push()
        for number in range(200):
            two.there.joinpath(f"f{number}").write_text("x" * 1000)
        for pause in (0.0, 0.02, 0.05, 0.1):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await two.sync.round()
        await two.sync.round()
        assert tree(two.here) == tree(two.there)
        assert not list(two.here.glob(".melete-sync*"))

    both(tmp_path, test)


def test_what_is_melete_s_own_neither_goes_nor_comes(tmp_path: Path) -> None:
    async def test(two: Both) -> None:
        own = two.here / ".melete"
        own.mkdir()
        (own / ".env").write_text("KEY=secret")
        (two.here / ".melete-notes").write_text("not its own")
        sync = Sync(two.env, two.here, str(two.there), skip=(str(own), "/elsewhere"))
        await sync.push()
        assert tree(two.there) == {".melete-notes": "not its own"}
        (two.there / ".melete").mkdir()
        (two.there / ".melete/config.yaml").write_text("approvals: {mode: off}")
        (two.there / ".melete/.env").write_text("KEY=other")
        await sync.round()
        assert tree(own) == {".env": "KEY=secret"}
        with pytest.raises(EnvironmentFailure, match="Melete's own"):
            Sync(two.env, own, str(two.there), skip=(str(own),))

    both(tmp_path, test)
