"""After the last step the model is asked once more, tools shown but switched off, and the run says that it ran out."""

import asyncio
from pathlib import Path

from melete.app.opening import exit_code
from melete.core.event import ToolEnded
from melete.testing import Call, Say, ScriptedModel
from tests.talking import talk


def test_ninety_steps_are_the_default(tmp_path: Path) -> None:
    async def main() -> None:
        async with talk(model, tmp_path / "work", settings={"agent.loop_guard": "false"}) as here:
            ended = await here.say("Never stop.")
        assert (ended.stop, ended.steps, ended.text) == ("out_of_steps", 91, "What is done, and what is left.")
        assert exit_code(ended) == 3
        bodies = [request.json for request in model.requests]
        assert len(bodies) == 91
        assert [body.get("tool_choice") for body in bodies] == [None] * 90 + ["none"]
        assert bodies[-1]["tools"] == bodies[0]["tools"]
        note = bodies[-1]["messages"][-1]
        assert note["role"] == "user"
        assert "All 90 steps" in note["content"]

    with ScriptedModel([Call("todo")] * 90 + [Say("What is done, and what is left.")]) as model:
        asyncio.run(main())


def test_a_call_in_the_grace_turn_does_not_run(tmp_path: Path) -> None:
    last = Call("write_file", {"path": "a.txt", "content": "x"}, text="One more thing.")

    async def main() -> None:
        folder = tmp_path / "work"
        async with talk(model, folder, max_steps=1) as here:
            ended = await here.say("Write.")
            outcomes = [fact.outcome for fact in await here.facts(ToolEnded)]
            later = await here.say("And now?")
        assert (ended.stop, ended.text) == ("out_of_steps", "One more thing.")
        assert outcomes == ["ok", "not_run"]
        assert not (folder / "a.txt").exists()
        assert (later.stop, later.text) == ("done", "Now it is fine.")

    with ScriptedModel([Call("todo"), last, Say("Now it is fine.")]) as model:
        asyncio.run(main())
