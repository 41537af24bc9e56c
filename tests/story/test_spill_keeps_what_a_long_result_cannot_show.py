"""A result above its tool's limit shows head and tail and the path of a file that holds all of it, readable with read_file."""

import asyncio
import json
from pathlib import Path
from typing import Any

from melete.core.event import ToolEnded
from melete.core.tool import ToolContext, ToolError, tool
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.talking import content, talk

LIMIT = 4_000


@tool(parallel=True, limit=LIMIT)
async def long_text(ctx: ToolContext, *, letter: str) -> dict[str, Any]:
    """A long text beside a short one."""
    return {"success": True, "output": "\n".join(f"{letter}{n:05d}" for n in range(5_000)), "note": "short"}


@tool(limit=LIMIT)
async def long_list(ctx: ToolContext) -> dict[str, Any]:
    """A long list beside a short text."""
    return {"success": True, "rows": [{"row": n} for n in range(5_000)], "note": "short"}


@tool(limit=LIMIT)
async def escapes(ctx: ToolContext) -> dict[str, Any]:
    """A text that JSON makes much longer."""
    return {"success": True, "output": '"\n\x01\\' * 3_000}


@tool(limit=LIMIT)
async def long_error(ctx: ToolContext) -> dict[str, Any]:
    """Fails at length."""
    raise ToolError("x " * 20_000)


TOOLS = [long_text, long_list, escapes, long_error]


def ended(tmp_path: Path, *calls: Call) -> list[ToolEnded]:
    async def main() -> list[ToolEnded]:
        async with talk(model, tmp_path / "work", tools=TOOLS) as here:
            assert (await here.say("Go.")).stop == "done"
            return await here.facts(ToolEnded)

    with ScriptedModel([Calls(calls), Say("Done.")]) as model:
        return asyncio.run(main())


def test_head_tail_and_path_of_a_long_text(tmp_path: Path) -> None:
    (fact,) = ended(tmp_path, Call("long_text", {"letter": "a"}))
    shown = content(fact)
    assert len(fact.result.content) <= LIMIT
    assert shown["output"].startswith("a00000\na00001\n")
    assert shown["output"].endswith("\na04999")
    assert f"left out; all of it is in {shown['full_output']}" in shown["output"]
    assert shown["note"] == "short"
    kept = Path(fact.spilled).read_text().split("\n")
    assert shown["full_output"] == fact.spilled
    assert kept == [f"a{n:05d}" for n in range(5_000)]


def test_results_that_end_side_by_side_do_not_share_a_file(tmp_path: Path) -> None:
    facts = ended(tmp_path, *(Call("long_text", {"letter": letter}) for letter in "abcd"))
    texts = {content(fact)["output"][0]: Path(fact.spilled).read_text()[0] for fact in facts}
    assert texts == {letter: letter for letter in "abcd"}


def test_a_result_that_is_long_without_a_long_text_is_kept_whole(tmp_path: Path) -> None:
    (fact,) = ended(tmp_path, Call("long_list"))
    assert len(fact.result.content) <= LIMIT
    shown = content(fact)
    assert shown["truncated"].startswith('{"success":true,"rows":[{"row":0}')
    assert shown["truncated"].endswith('"note":"short"}')
    assert '{"row":2500}' in Path(shown["full_output"]).read_text()


def test_no_text_passes_the_limit_by_being_escaped(tmp_path: Path) -> None:
    (fact,) = ended(tmp_path, Call("escapes"))
    assert len(fact.result.content) <= LIMIT
    assert fact.spilled


def test_a_long_error_is_shortened_as_well(tmp_path: Path) -> None:
    (fact,) = ended(tmp_path, Call("long_error"))
    assert len(fact.result.content) <= LIMIT
    assert fact.result.error
    assert content(fact)["error"].startswith("x x x")
    assert Path(fact.spilled).read_text() == "x " * 20_000


def test_the_model_can_read_on_in_the_file(tmp_path: Path) -> None:
    def script(request: dict[str, Any], index: int) -> Call | Say:
        if index == 0:
            return Call("terminal", {"command": "seq 1 60000"})
        if index == 1:
            path = content_of(request)["full_output"]
            return Call("read_file", {"path": path, "offset": 30_000, "limit": 2})
        return Say("Done.")

    def content_of(request: dict[str, Any]) -> dict[str, Any]:
        return json.loads(request["messages"][-1]["content"])

    async def main() -> list[dict[str, Any]]:
        async with talk(model, tmp_path / "work") as here:
            await here.say("Count.")
            return await here.results()

    with ScriptedModel(script) as model:
        counted, read = asyncio.run(main())
    assert "30000" not in counted["output"].split("\n")
    assert read["content"] == "30000|30000\n30001|30001"


def test_a_file_with_long_lines_is_shown_as_read_file_cuts_it(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("y" * 30_000 + "\nlast\n")
    (fact,) = ended(tmp_path, Call("read_file", {"path": "a.txt"}))
    assert not fact.spilled
    assert content(fact)["content"].endswith("2|last")
