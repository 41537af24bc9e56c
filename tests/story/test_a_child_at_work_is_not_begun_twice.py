"""A child that is at work is not begun a second time: not by its parent, and not by a second process on the parent's session."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from melete.core.delegation import DELEGATE
from melete.core.event import Said
from melete.testing import Call, ScriptedModel
from melete.testing.replies import Reply
from tests.delegating import PARENT, Family, delegate, several, told
from tests.talking import Talk, talk

QUIET: dict[str, Any] = {"skills.enabled": False}


def again(body: dict[str, Any], **more: Any) -> Call:
    """A call that goes on with the child of the last one."""
    session = msgspec.json.decode(told(body))["results"][0]["session"]
    return Call(DELEGATE, {"resume": session, "goal": "more", **more})


def twice(body: dict[str, Any]) -> Reply:
    return several(again(body), again(body))


def behind(body: dict[str, Any]) -> Reply:
    return several(again(body, background=True))


def rows(told: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(row["status"], row.get("summary")) for result in told for row in result["results"]]


def records(here: Talk) -> list[Path]:
    return [*(here.app.loaded.home.state / "children").rglob("*.json")]


def test_two_calls_of_one_reply_that_resume_the_same_child(tmp_path: Path) -> None:
    these = Family({PARENT: [delegate("one"), twice, "end"], "one": ["first", "second"]}, slow={"one": 0.2})

    async def main() -> list[dict[str, Any]]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=QUIET) as here:
                await here.say(PARENT)
                return await here.results()

    found = rows(asyncio.run(main()))
    assert found[0] == ("completed", "first")
    assert sorted(found[1:], key=str) == [("completed", "second"), ("error", None)]


def test_one_in_the_background_is_resumed_while_it_works(tmp_path: Path) -> None:
    these = Family(
        {PARENT: [delegate("one", background=True), behind, "end", "heard"], "one": ["first"]}, slow={"one": 0.6}
    )

    async def main() -> tuple[list[dict[str, Any]], list[str]]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=QUIET, waits=True) as here:
                await here.say(PARENT)
                return await here.results(), [fact.message.text for fact in await here.facts(Said)]

    told, said = asyncio.run(main())
    assert rows(told) == [("running", None), ("error", None)]
    assert "is at work" in told[1]["results"][0]["error"]
    assert len(said) == 2
    assert '"summary": "first"' in said[1]


def test_a_second_process_on_the_session_leaves_it_alone(tmp_path: Path) -> None:
    these = Family({PARENT: [delegate("one", background=True), "end", "heard"], "one": ["first"]}, slow={"one": 1.5})

    async def main() -> list[str]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=QUIET, waits=True) as here:
                running = asyncio.create_task(here.say(PARENT))
                while not (here.conversation.children and here.conversation.children.at_work):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.2)
                async with talk(model, tmp_path / "work", settings=QUIET, session=here.conversation.ref.id):
                    await asyncio.sleep(0.5)
                assert records(here)
                await running
                assert not records(here)
                return [fact.message.text for fact in await here.facts(Said)]

    said = asyncio.run(main())
    assert len(said) == 2
    assert '"summary": "first"' in said[1]
