"""Tools whose schemas no request carries are found with tool_search and run through the same door as all others."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from melete.core.event import Framed, ToolEnded, ToolStarted
from melete.core.tool import Tool, ToolContext, ToolError, tool
from melete.testing import Call, Calls, ScriptedModel
from tests.talking import Talk, content, sent_prefix, talk


@tool(deferred=True, effect="outside")
async def book_train(ctx: ToolContext, *, to: str, seats: int = 1) -> dict[str, Any]:
    """Book a train journey. Seats are reserved."""
    if to == "Atlantis":
        raise ToolError("no train goes there", nearest="Athens")
    return {"success": True, "booked": f"{seats} to {to}"}


@tool(deferred=True, limit=50_000)
async def long_list(ctx: ToolContext) -> dict[str, Any]:
    """A list of five thousand lines."""
    return {"success": True, "text": "\n".join(f"line {n}" for n in range(5_000))}


def search(**arguments: Any) -> Call:
    return Call("tool_search", arguments)


def told(here: Talk) -> list[dict[str, Any]]:
    """What the model read, result by result."""
    return [msgspec.json.decode(m["content"]) for m in here.messages() if m["role"] == "tool"]


def run(
    folder: Path, model: ScriptedModel, *, tools: Sequence[Tool] = (book_train, long_list), **more: Any
) -> list[dict[str, Any]]:
    async def main() -> list[dict[str, Any]]:
        async with talk(model, folder / "work", tools=tools, **more) as here:
            ended = await here.say("Go.")
            assert ended.stop == "done", ended
            return told(here)

    return asyncio.run(main())


def test_a_tool_is_found_and_run(tmp_path: Path) -> None:
    script = [
        search(query="reserve a seat on a train"),
        search(name="book_train", arguments={"to": "Bonn", "seats": "2"}),
        Call("book_train", {"to": "Köln"}),
        "Booked.",
    ]
    with ScriptedModel(script) as model:
        found, booked, direct = run(tmp_path, model)
    shown = model.requests[0].json["tools"]
    assert [one["function"]["name"] for one in shown][-1] == "tool_search"
    assert "- book_train: Book a train journey" in shown[-1]["function"]["description"]
    assert b"seats" not in model.requests[0].body
    assert found["tools"][0]["parameters"]["required"] == ["to"]
    assert booked == {"success": True, "booked": "2 to Bonn"}
    assert direct == {"success": True, "booked": "1 to Köln"}
    for before, after in pairwise(model.requests):
        assert sent_prefix(after.body).startswith(sent_prefix(before.body))


def test_failures_are_those_of_the_tool(tmp_path: Path) -> None:
    script = [
        Calls([
            search(name="book_train", arguments={"to": "Atlantis"}),
            search(name="book_train", arguments={"seats": 2}),
            search(name="book_train", arguments={"to": "Bonn", "class": 1}),
            search(name="book_plane", arguments={}),
            search(name="terminal", arguments={"command": "rm -rf /"}),
        ]),
        "No luck.",
    ]  # fmt: skip

    async def main() -> None:
        async with talk(model, tmp_path / "work", tools=(book_train,)) as here:
            await here.say("Go.")
            none, missing, unknown, plane, danger = told(here)
            ended = [fact for fact in await here.facts(ToolEnded) if fact.result.name == "tool_search"]
            started = await here.facts(ToolStarted)
        assert none == {"success": False, "error": "no train goes there", "nearest": "Athens"}
        assert missing["expected"]["required"] == unknown["expected"]["required"] == ["to"]
        assert plane["nearest"] == ["book_train"]
        assert danger["success"] is False
        assert all(fact.result.error for fact in ended)
        assert [fact.call.name for fact in started if fact.effect == "outside"] == ["book_train"]
        assert not [fact for fact in started if fact.call.name == "terminal"]

    with ScriptedModel(script) as model:
        asyncio.run(main())


def test_a_long_result_is_cut_once(tmp_path: Path) -> None:
    script = [search(name="long_list", arguments={}), Call("long_list"), "Long."]

    async def main() -> None:
        async with talk(model, tmp_path / "work", tools=(long_list,)) as here:
            await here.say("Go.")
            inner, through, direct = await here.facts(ToolEnded)
            by_search, by_name = content(through), content(direct)
            assert inner.spilled
            assert not through.spilled
            assert by_search["text"].count("left out") == by_name["text"].count("left out") == 1
            full = Path(by_search["full_output"]).read_text()
        assert full.count("\n") == 4_999

    with ScriptedModel(script) as model:
        asyncio.run(main())


def test_a_tool_that_comes_later_is_found_and_changes_no_frame(tmp_path: Path) -> None:
    late = structs.replace(long_list, name="late_tool", deferred=False)

    async def main() -> None:
        async with talk(model, tmp_path / "work", tools=(book_train,)) as here:
            await here.say("First.")
        async with talk(model, tmp_path / "work", tools=(book_train, late), latest=True) as here:
            await here.say("Second.")
            assert [frame.why for frame in await here.facts(Framed)] == ["start"]
            (found,) = told(here)
        assert found["tools"][0]["name"] == "late_tool"

    with ScriptedModel(["One.", search(query="late"), "Two."]) as model:
        asyncio.run(main())
    for before, after in pairwise(model.requests):
        assert sent_prefix(after.body).startswith(sent_prefix(before.body))


def test_without_a_deferred_tool_there_is_no_search(tmp_path: Path) -> None:
    with ScriptedModel([Call("tool_search", {"query": "x"}), "Hm."]) as model:
        (result,) = run(tmp_path, model, tools=())
    assert "tool_search" not in [one["function"]["name"] for one in model.requests[0].json["tools"]]
    assert "There is no tool" in result["error"]
