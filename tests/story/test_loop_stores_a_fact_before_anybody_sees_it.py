"""A fact is in the log before any reader of the stream sees it, and the facts of a run stand in one order."""

import asyncio
from pathlib import Path

from melete.core.event import (
    Fact,
    Framed,
    Opened,
    Reply,
    RunEnded,
    RunStarted,
    Said,
    Spent,
    Titled,
    ToolEnded,
    ToolStarted,
)
from melete.testing import Call, Say, ScriptedModel
from tests.talking import Talk, talk


async def compare(here: Talk, seen: list[str]) -> None:
    with here.conversation.hub.subscribe() as events:
        async for event in events:
            if isinstance(event, Fact):
                stored = await here.log()
                assert stored[event.seq - 1] == event
                seen.append(type(event).__name__)


def test_each_fact_is_stored_first_and_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[str] = []
        async with talk(model, tmp_path / "work") as here:
            reader = here.app.group.create_task(compare(here, seen))
            await asyncio.sleep(0)
            ended = await here.say("Look around.\nPlease.")
            facts = await here.log()
            here.conversation.hub.close()
            await reader
        assert ended == facts[-1]
        assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
        expected = [
            Opened,
            RunStarted,
            Framed,
            Said,
            Titled,
            Reply,
            Spent,
            ToolStarted,
            ToolEnded,
            Reply,
            Spent,
            RunEnded,
        ]
        assert [type(fact) for fact in facts] == expected
        assert seen == [type(fact).__name__ for fact in facts[1:]]
        assert {fact.run for fact in facts[1:]} == {ended.run}
        assert (ended.stop, ended.text, ended.steps, ended.error) == ("done", "An empty folder.", 2, None)

    with ScriptedModel([Call("terminal", {"command": "ls"}), Say("An empty folder.")]) as model:
        asyncio.run(main())
