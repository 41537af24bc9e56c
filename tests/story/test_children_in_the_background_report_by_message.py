"""Children in the background: the parent goes on, their result comes as a message, and a restart loses none."""

import asyncio
import time
from pathlib import Path
from typing import Any

from melete.core.delegation import DELEGATE
from melete.core.event import Notice, Said, ToolEnded
from melete.testing import Call, ScriptedModel
from tests.delegating import PARENT, Family, delegate, several
from tests.talking import Talk, content, talk

QUIET: dict[str, Any] = {"skills.enabled": False}


def reports(facts: list[Said]) -> list[str]:
    return [fact.message.text for fact in facts if "Your child in the background" in fact.message.text]


async def reported(here: Talk) -> None:
    """Wait until no child is at work any more."""
    children, until = here.conversation.children, time.monotonic() + 20
    while children and children.awaited() and time.monotonic() < until:  # noqa: ASYNC110 - nobody says it
        await asyncio.sleep(0.02)


def test_a_run_that_waits_hears_of_it(tmp_path: Path) -> None:
    these = Family(
        {PARENT: [delegate("later", background=True), "begun", "heard"], "later": ["came late"]}, slow={"later": 0.5}
    )

    async def main() -> tuple[str, list[str]]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=QUIET, waits=True) as here:
                ended = await here.say(PARENT)
                assert not [*(here.app.loaded.home.state / "children").rglob("*.json")]
                return ended.text, reports(await here.facts(Said))

    text, said = asyncio.run(main())
    assert text == "heard"
    assert len(said) == 1
    assert "came late" in said[0]
    assert "completed" in said[0]


def test_one_that_was_cut_off_goes_on_when_the_session_is_open_again(tmp_path: Path) -> None:
    these = Family(
        {PARENT: [delegate("later", background=True), "begun", "heard"], "later": ["came late", "came late"]}
    )
    these.slow = {"later": 3.0}

    async def main() -> list[str]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=QUIET) as here:
                await here.say(PARENT)
                session = here.conversation.ref.id
                assert here.conversation.works_in_background
            these.slow = {}
            async with talk(model, tmp_path / "work", settings=QUIET, session=session, waits=True) as here:
                assert [*(here.app.loaded.home.state / "children").rglob("*.json")]
                await reported(here)
                await here.go_on()
                assert not [*(here.app.loaded.home.state / "children").rglob("*.json")]
                return reports(await here.facts(Said))

    said = asyncio.run(main())
    assert len(said) == 1
    assert "came late" in said[0]


def test_those_that_can_begin_do_and_the_others_say_why(tmp_path: Path) -> None:
    tasks = [{"goal": "good"}, {"goal": "bad", "toolsets": ["nonesuch"]}, {"goal": "fine"}]
    begins = Call(DELEGATE, {"tasks": tasks, "background": True})
    these = Family({PARENT: [begins, "begun", "heard", "heard all"], "good": ["is good"], "fine": ["is fine"]})

    async def main() -> tuple[dict[str, Any], list[str]]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=QUIET, waits=True) as here:
                await here.say(PARENT)
                return content((await here.facts(ToolEnded))[0]), reports(await here.facts(Said))

    told, said = asyncio.run(main())
    assert [row["status"] for row in told["results"]] == ["running", "error", "running"]
    assert "nonesuch" in told["results"][1]["error"]
    assert {name for name in ("good", "fine") if any(f"is {name}" in text for text in said)} == {"good", "fine"}


def test_what_is_said_of_one_that_is_waited_for_holds_no_secret(tmp_path: Path) -> None:
    secret = "sk-canary" + "Q7x9Zb3LmN0pRtV2wYc5"
    goal = f"later {secret}"
    these = Family(
        {PARENT: [delegate(goal, background=True), "begun", "heard"], "later": ["late"]}, slow={"later": 0.5}
    )

    async def main() -> list[str]:
        with ScriptedModel(these) as model:
            variables = {"MELETE_API_KEY": secret}
            async with talk(model, tmp_path / "work", settings=QUIET, waits=True, variables=variables) as here:
                await here.say(PARENT)
                return [fact.text for fact in await here.facts(Notice)]

    said = [text for text in asyncio.run(main()) if "child" in text]
    assert said
    assert not any(secret in text for text in said)


def test_one_that_waits_for_its_turn_is_not_taken_up_elsewhere(tmp_path: Path) -> None:
    goals = ("first", "second")
    these = Family(
        {
            PARENT: [several(*(delegate(g, background=True) for g in goals)), "begun"],
            **{g: [f"{g} came"] for g in goals},
        },
        slow={"first": 1.5},
    )
    settings = {**QUIET, "delegation.max_concurrent_children": 2}

    async def main() -> list[str]:
        with ScriptedModel(these) as model:
            async with talk(model, tmp_path / "work", settings=settings) as here:
                children = here.conversation.children
                assert children
                children.behind._gate = asyncio.Semaphore(1)
                await here.say(PARENT)
                session = here.conversation.ref.id
                async with talk(model, tmp_path / "work", settings=settings, session=session) as there:
                    assert not there.conversation.works_in_background
                assert len(children.awaited()) == 2
                await reported(here)
                await here.go_on()
                return reports(await here.facts(Said))

    said = asyncio.run(main())
    assert sorted(goal for goal in goals for text in said if f"{goal} came" in text) == ["first", "second"]
    assert [who for who, _, _ in these.asked if who in goals] == ["first", "second"]
