"""An owner that is killed with -9 leaves no lock; the session opens, and what waits for it is still there."""

import asyncio
from pathlib import Path

from melete.core.event import Asked
from tests.crash.workers import REF
from tests.story.log_processes import line_of, worker
from tests.unit.store.given import note, opened_store, with_turns


def test_a_killed_owner_leaves_no_lock_and_a_sender_hears_that_nobody_is_there(tmp_path: Path) -> None:
    asyncio.run(story(tmp_path))


async def story(tmp_path: Path) -> None:
    store = opened_store(tmp_path)
    await with_turns(store, 1, id=REF.id)
    async with worker("own", tmp_path / "state") as owner:
        assert await line_of(owner) == "owned"
        owner.kill()
        await owner.wait()
    assert (await store.send(REF, note("m-1", "answer", "yes", "q-1"))).status == "expired"
    assert (await store.send(REF, note("m-2", "steer", "later"))).status == "queued"
    async with store.claim(REF) as session:
        assert session.transcript.running
        assert session.transcript.questions.keys() == {"q-1"}
        assert [message.id for message in session.pending()] == ["m-2"]
    assert isinstance((await store.facts(REF))[-1], Asked)
    assert not await store.verify()
