"""The system prompt is built when a session begins and reused byte for byte, whatever changes on the disk meanwhile."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from melete.core.event import Framed
from melete.core.tool import Tool, ToolContext, tool
from melete.testing import Call, Say, ScriptedModel
from tests.talking import sent_prefix, talk


@tool()
async def extra(ctx: ToolContext) -> dict[str, Any]:
    """One tool more."""
    return {}


@tool(deferred=True)
async def hidden(ctx: ToolContext) -> dict[str, Any]:
    """Shown only when asked for."""
    return {}


def home() -> Path:
    folder = Path(os.environ["MELETE_HOME"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def say(
    tmp_path: Path, model: ScriptedModel, *prompts: str, tools: Sequence[Tool] = (), **options: Any
) -> list[Framed]:
    async def main() -> list[Framed]:
        async with talk(model, tmp_path / "work", tools=tools, **options) as here:
            for prompt in prompts:
                await here.say(prompt)
            return await here.facts(Framed)

    return asyncio.run(main())


def test_soul_and_context_files_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (home() / "SOUL.md").write_text("You are Otto, who answers in rhymes.\n")
    (tmp_path / "work" / "AGENTS.md").write_text("Use tabs.")
    with ScriptedModel(["One.", Call("todo"), "Two.", "Three."]) as model:
        say(tmp_path, model, "First.")
        (home() / "SOUL.md").write_text("You are somebody else.")
        (tmp_path / "work" / "AGENTS.md").write_text("Use spaces.")
        (tmp_path / "work" / "CLAUDE.md").write_text("More.")
        frames = say(tmp_path, model, "Second.", latest=True)
        say(tmp_path, model, "A new session.")
    assert [frame.why for frame in frames] == ["start"]
    first, second, third, new = (request.json["messages"][0]["content"] for request in model.requests)
    assert first == second == third
    assert first.startswith("You are Otto, who answers in rhymes.\n\n")
    assert "Use tabs." in first
    assert new.startswith("You are somebody else.")
    assert "Use spaces." in new
    for before, after in zip(model.requests[:2], model.requests[1:3], strict=True):
        assert sent_prefix(after.body).startswith(sent_prefix(before.body))


def test_an_empty_soul_is_the_built_in_one(tmp_path: Path) -> None:
    (home() / "SOUL.md").write_text(" \n")
    with ScriptedModel(["Hello."]) as model:
        say(tmp_path, model, "Hi.")
    assert model.requests[0].json["messages"][0]["content"].startswith("You are Melete")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_soul_that_is_no_file_is_the_built_in_one(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(home() / "SOUL.md")
    with ScriptedModel(["Hello."]) as model:
        say(tmp_path, model, "Hi.")
    assert model.requests[0].json["messages"][0]["content"].startswith("You are Melete")


def test_other_tools_are_a_new_frame_with_the_same_words(tmp_path: Path) -> None:
    with ScriptedModel(["One.", "Two.", "Three."]) as model:
        say(tmp_path, model, "First.")
        frames = say(tmp_path, model, "Second.", tools=[extra], latest=True)
    assert [frame.why for frame in frames] == ["start", "other tools"]
    assert frames[0].system == frames[1].system
    assert [tool["function"]["name"] for tool in model.requests[1].json["tools"]][-1] == "extra"


def test_what_is_deferred_is_not_shown_and_changes_no_frame(tmp_path: Path) -> None:
    with ScriptedModel(["One.", "Two."]) as model:
        say(tmp_path, model, "First.", tools=[hidden])
        frames = say(tmp_path, model, "Second.", tools=[hidden], latest=True)
    assert [frame.why for frame in frames] == ["start"]
    assert "hidden" not in [tool["function"]["name"] for tool in model.requests[1].json["tools"]]


def test_the_date_and_the_surface_stand_at_the_end(tmp_path: Path) -> None:
    with ScriptedModel([Say("Hello.")]) as model:
        say(tmp_path, model, "Hi.", variables={"MELETE_CLOCK": "2026-01-31T12:00:00Z"}, extra="Be quick.")
    shown = model.requests[0].json["messages"][0]["content"].split("\n\n")
    assert shown[-5] == "Be quick."
    assert "remember" in shown[-4]
    assert "skill" in shown[-3]
    assert "2026-01-31" in shown[-2]
    assert str(tmp_path / "work") in shown[-2]
    assert "terminal" in shown[-1]
