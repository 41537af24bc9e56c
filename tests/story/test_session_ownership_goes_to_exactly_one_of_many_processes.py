"""Several processes want the same session at the same moment: one gets it, the others are told so at once."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from tests.crash.workers import REF
from tests.story.log_processes import line_of, worker
from tests.unit.store.given import opened_store, with_turns

PROCESSES = 4


def test_exactly_one_of_several_processes_gets_the_session(tmp_path: Path) -> None:
    asyncio.run(story(tmp_path))


async def story(tmp_path: Path) -> None:
    store = opened_store(tmp_path)
    await with_turns(store, 1, id=REF.id)
    moment = str(time.time() + 1.5)
    async with AsyncExitStack() as stack:
        claimers = [
            await stack.enter_async_context(worker("claim", tmp_path / "state", moment)) for _ in range(PROCESSES)
        ]
        told = [await line_of(claimer) for claimer in claimers]
        assert sorted(told) == ["busy"] * (PROCESSES - 1) + ["won"]
        winner = claimers[told.index("won")]
        assert winner.stdin is not None
        winner.stdin.close()
        assert await winner.wait() == 0
    async with store.claim(REF):
        pass
