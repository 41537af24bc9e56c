"""What fell out of a small window stands in the state, comes back with a question, and a person may shorten by hand."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from melete.app.compacting import compress
from melete.app.replay import Runs
from melete.core.event import Compacted, Said, Spent
from melete.core.message import Text
from melete.core.taskstate import RECALLED
from melete.core.tool import Output, ToolContext, tool
from melete.testing import Call, Fault, Say, ScriptedModel
from melete.testing.replies import Reply
from tests.story.cli import Terminal
from tests.talking import Talk, talk

WINDOW = {"MELETE_CONTEXT_LENGTH": "8192"}
AUXILIARY = {"auxiliary.compact": "summariser"}
SUMMARY = "## Done\nThe person and the agent have talked about the harbour, and nothing in it was of any weight."
IDLE = "The mill turns in the wind and the harbour is quiet, and there is nothing else to be said of it. " * 8
NUMBERS = ("One.", "Two.", "Three.", "Four.", "Five.", "Six.", "Seven.", "Eight.")


@tool()
async def look(ctx: ToolContext, *, where: str) -> Output:
    """Looks somewhere."""
    found = "An old keeper whistles there at dusk.\nThe gauge of the lock shows 7719." if where == "lock" else IDLE
    return Output(fields={"output": f"{IDLE}\n{found}\n{IDLE}"}, taint="web" if where == "lock" else "tool")


class Model:
    """Answers a question only from what is in front of it; `broken` is how the one that sums up fails."""

    def __init__(self, broken: Reply | None) -> None:
        self.broken = broken

    def __call__(self, body: dict[str, Any], _: int) -> Reply | str:
        if body["model"] == "summariser":
            return self.broken or SUMMARY
        seen = json.dumps(body["messages"], ensure_ascii=False)
        said = [message["content"] for message in body["messages"] if message["role"] == "user"][-1]
        if body["messages"][-1]["role"] != "tool" and str(said).startswith("Look at the "):
            return Call("look", {"where": str(said).split()[3].strip(".")})
        for question, value in (("gauge", "7719"), ("code", "ZK-119"), ("whistles", "keeper")):
            if question in str(said) and str(said).startswith("What"):
                return value if value in seen else "unknown"
        return "Fine."


async def fill(here: Talk) -> None:
    await here.say("Never use the red door. The code of the gate is ZK-119.")
    await here.say("Look at the lock.")
    for number in range(24):
        await here.say(f"Look at the mill. Number {number}. {IDLE}")


@pytest.mark.parametrize("broken", [None, Fault("unauthorized"), Say("")], ids=["well", "refused", "empty"])
def test_questions_are_answered_from_what_is_in_front_of_the_model(tmp_path: Path, broken: Reply | None) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work", settings=AUXILIARY, variables=WINDOW, tools=[look]) as here:
            await fill(here)
            assert len(await here.facts(Compacted)) > 2
            assert (await here.say("What does the gauge of the lock show?")).text == "7719"
            assert (await here.say("What is the code of the gate?")).text == "ZK-119"
            assert (await here.say("What is it that whistles at dusk?")).text == "keeper"
            facts = await here.log()
            prompt = next(
                fact for fact in facts if isinstance(fact, Said) and fact.message.text.startswith("What is it")
            )
            _, added = prompt.message.parts
            assert isinstance(added, Text)
            assert added.text.startswith(RECALLED)
            assert added.taint == "web"
            assert "- result of look (step 2): An old keeper whistles there at dusk." in added.text
            assert not any(len(fact.message.parts) > 1 for fact in facts[:40] if isinstance(fact, Said))
            assert {fact.role for fact in facts if isinstance(fact, Spent)} <= {"main", "compact"}
            state = [fact.state for fact in facts if isinstance(fact, Compacted) and fact.state][-1]
            assert "Never use the red door." in [one.text for one in state.binding]
            async for played in Runs(facts).play():
                assert played.difference is None
                assert played.requests

    with ScriptedModel(Model(broken)) as model:
        asyncio.run(main())


def test_the_plan_outlives_the_window_and_the_process(tmp_path: Path) -> None:
    plan = [{"id": "1", "content": "Read", "status": "completed"}, {"id": "2", "content": "Write", "status": "pending"}]

    def script(body: dict[str, Any], _: int) -> Reply | str:
        if body["model"] == "summariser":
            return SUMMARY
        last = body["messages"][-1]
        if last["role"] == "user" and last["content"].startswith("Plan"):
            return Call("todo", {"todos": plan} if "it" in last["content"] else {})
        return "Fine."

    async def main() -> None:
        settings = AUXILIARY | {"agent.profile": "full"}
        async with talk(model, tmp_path / "work", settings=settings, variables=WINDOW) as here:
            await here.say("Plan it.")
            for number in range(12):
                await here.say(f"{number} {IDLE * 2}")
            assert await here.facts(Compacted)
            assert "todo" not in [
                part.name for m in (await here.conversation.transcript()).messages for part in m.calls
            ]
        async with talk(model, tmp_path / "work", settings=settings, variables=WINDOW, latest=True) as here:
            await here.say("Plan?")
            assert (await here.results())[-1]["todos"] == plan

    with ScriptedModel(script) as model:
        asyncio.run(main())


def test_a_conversation_is_shortened_because_a_person_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work", settings=AUXILIARY) as here:
            assert not (await compress(here.conversation)).how
            for number in range(6):
                await here.say(f"Say {number}. {IDLE}")
            shown = await compress(here.conversation, keep=1, preview=True)
            assert (shown.messages_before, shown.messages_after) == (12, 4)
            assert not await here.facts(Compacted)
            done = await compress(here.conversation, keep=1, focus="the mill")
            assert done.how.startswith("summed up by ")
            assert done.tokens_after < done.tokens_before
            await here.say("Go on.")
            assert [message["role"] for message in here.messages()] == [
                "system",
                "user",
                "user",
                "user",
                "assistant",
                "user",
            ]
            async for played in Runs(await here.log()).play():
                assert played.difference is None

    with ScriptedModel(Model(None)) as model:
        asyncio.run(main())


def test_the_command_of_the_chat(tmp_path: Path) -> None:
    def say(chat: Terminal, line: str, wanted: str) -> str:
        chat.type(f"{line}\r")
        chat.read_until(line[-12:])
        return chat.read_until(wanted) + chat.read_until("\n> ")

    with (
        ScriptedModel([*NUMBERS, SUMMARY]) as model,
        Terminal(["chat"], model=model, cwd=tmp_path) as chat,
    ):
        chat.read_until("> ")
        say(chat, "/compress", "There is nothing to sum up")
        for number in NUMBERS:
            say(chat, f"{number} {'word ' * 400}", number)
        say(chat, "/compress sometimes", "is not understood")
        say(chat, "/compress here 1 --preview", "Would be 16 → 4 messages")
        say(chat, "/compact here 1 focus the word", "summed up by")
        chat.type("\x04")
        assert chat.end() == 0


def test_what_comes_back_does_not_stand_behind_what_has_replaced_it(tmp_path: Path) -> None:
    """The later result is in view, the earlier one is not: the one that comes back brings the other with it."""
    colours = iter(("crimson", "ochre"))

    @tool()
    async def kiosk(ctx: ToolContext) -> Output:
        """Looks at the kiosk."""
        return Output(fields={"output": f"{IDLE}\nThe lighthouse kiosk is painted {next(colours)} today.\n{IDLE}"})

    def script(body: dict[str, Any], _: int) -> Reply | str:
        seen = json.dumps(body["messages"])
        said = [message["content"] for message in body["messages"] if message["role"] == "user"][-1]
        if str(said).startswith("What colour"):
            return max(("crimson", "ochre"), key=seen.rfind)
        return Call("kiosk", {}) if str(said) == "Look." and body["messages"][-1]["role"] == "user" else "Fine."

    async def main() -> None:
        async with talk(model, tmp_path / "work", settings=AUXILIARY, variables=WINDOW, tools=[kiosk]) as here:
            await here.say("Look.")
            for number in range(24):
                await here.say(f"Number {number}. {IDLE}")
            assert await here.facts(Compacted)
            await here.say("Look.")
            ended = await here.say("What colour is the lighthouse kiosk painted?")
            assert ended.text == "ochre"
            asked = (await here.facts(Said))[-1].message.text
            assert asked.index("crimson") < asked.index("ochre")

    with ScriptedModel(script) as model:
        asyncio.run(main())
