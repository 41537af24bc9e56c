"""One process runs a session; another follows it live, steers it, answers its question and cancels it."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

from melete.core.event import Answered, Asked, CancelAsked, Fact, RunEnded, Said, Steered
from tests.crash.workers import REF
from tests.story.log_processes import line_of, worker
from tests.unit.store.given import note, opened_store, with_turns


def test_another_process_follows_steers_answers_and_cancels(tmp_path: Path) -> None:
    asyncio.run(story(tmp_path))


async def story(tmp_path: Path) -> None:
    store = opened_store(tmp_path)
    await with_turns(store, 1, id=REF.id)
    async with worker("own", tmp_path / "state") as owner:
        assert await line_of(owner) == "owned"
        assert (await store.info(REF)).running
        seen: list[Fact] = []
        async with asyncio.TaskGroup() as group:
            following = group.create_task(follow(store.follow(REF, after=10), seen))
            (question,) = [fact.question for fact in await store.facts(REF) if isinstance(fact, Asked)]
            steered = await store.send(REF, note("m-1", "steer", "use tabs"))
            queued = await store.send(REF, note("m-2", "queue", "and then the tests"))
            answered = await store.send(REF, note("m-3", "answer", "yes", question.id))
            again = await store.send(REF, note("m-1", "steer", "use tabs"))
            cancelled = await store.send(REF, note("m-4", "cancel"))
            await following
        statuses = [receipt.status for receipt in (steered, queued, answered, again, cancelled)]
        assert statuses == ["accepted"] * 5
        assert again.seq == steered.seq
        assert await owner.wait() == 0
    kinds = [type(fact) for fact in seen[2:]]
    assert kinds == [Steered, Said, Answered, CancelAsked, RunEnded]
    assert [fact.seq for fact in seen] == list(range(11, 18))
    assert list(await store.facts(REF, after=10)) == seen
    assert not (await store.info(REF)).running
    assert (await store.send(REF, note("m-5", "cancel"))).status == "expired"
    await store.aclose()


async def follow(facts: Any, seen: list[Fact]) -> None:
    async with aclosing(facts):
        async for fact in facts:
            seen.append(fact)
            if isinstance(fact, RunEnded):
                return
