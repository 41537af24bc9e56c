"""A model with a window of 8k tokens that writes its calls as text: few tools, few words, and long work still ends."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from melete.core.event import Compacted, Framed, Retried, RunEnded, ToolEnded
from melete.testing import Call, Fault, Say, ScriptedModel
from melete.testing.replies import Reply
from tests.talking import Talk, sent_prefix, talk

WINDOW = 8_192
SMALL = {"MELETE_CONTEXT_LENGTH": str(WINDOW)}
NO_TOOLS = Fault("bad_request", message="tiny does not support tools")
BYTES_PER_TOKEN = 4


def written(name: str, arguments: str, words: str = "") -> Say:
    """A call as a small model writes it."""
    return Say(f'{words}\n<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>')


def play(folder: Path, model: ScriptedModel, **more: Any) -> tuple[RunEnded, list[Any]]:
    async def main() -> tuple[RunEnded, list[Any]]:
        async with talk(model, folder / "work", variables=SMALL, **more) as here:
            ended = await here.say("Count the long way, and tell me the end.")
            return ended, [*await here.log()]

    return asyncio.run(main())


@pytest.mark.parametrize("takes_tools", [True, False])
def test_twelve_steps_with_long_results_stay_in_the_window(tmp_path: Path, takes_tools: bool) -> None:
    steps: list[Reply] = [
        written("terminal", f'{{"command": "seq {n}000 {n + 2}000"}}', f"Step {n}.") for n in range(1, 13)
    ]
    script = [*([] if takes_tools else [NO_TOOLS]), *steps, Say("It ends at 14000.")]
    with ScriptedModel(script) as model:
        ended, facts = play(tmp_path, model)
    assert (ended.stop, ended.text, ended.steps) == ("done", "It ends at 14000.", 13)
    results = [fact for fact in facts if isinstance(fact, ToolEnded)]
    assert len(results) == 12
    assert all(not fact.result.error and fact.spilled for fact in results)
    assert any(isinstance(fact, Compacted) for fact in facts)
    assert max(len(request.body) for request in model.requests) <= 0.9 * WINDOW * BYTES_PER_TOKEN
    assert [fact.cause for fact in facts if isinstance(fact, Retried)] == ([] if takes_tools else ["BadRequestError"])


def test_the_first_request_is_small(tmp_path: Path) -> None:
    with ScriptedModel([NO_TOOLS, written("read_file", '{"path": "a.txt"}'), "Done."]) as model:
        play(tmp_path, model)
    native, described, after = model.requests
    assert [one["function"]["name"] for one in native.json["tools"]] == [
        "terminal", "read_file", "write_file", "patch", "search_files",
    ]  # fmt: skip
    assert len(native.body) <= 3_000
    assert len(described.body) <= 1_000 * BYTES_PER_TOKEN
    assert "tools" not in described.json
    assert "- read_file(path: string, offset?: integer = 1" in described.json["messages"][0]["content"]
    assert [message["role"] for message in after.json["messages"]] == ["system", "user", "assistant", "user"]
    assert '<tool_result name="read_file" call="call_1">' in after.json["messages"][-1]["content"]


def test_the_prefix_only_grows_also_where_tools_are_told_in_words(tmp_path: Path) -> None:
    steps = [written("terminal", f'{{"command": "echo {n}"}}', f"<think>Step {n}?</think>Yes.") for n in range(5)]
    with ScriptedModel([NO_TOOLS, *steps, "Done."]) as model:
        ended, _ = play(tmp_path, model)
    assert ended.stop == "done"
    for before, after in pairwise(model.requests[1:]):
        assert sent_prefix(after.body).startswith(sent_prefix(before.body))
    assert not [request for request in model.requests[1:] if b"Step " in request.body]


def test_a_call_that_is_cut_off_is_not_run(tmp_path: Path) -> None:
    cut = Say('<tool_call>{"name": "write_file", "arguments": {"path": "a.txt", "content": "one', stop="length")
    whole = written("write_file", '{"path": "b.txt", "content": "two"}')
    with ScriptedModel([cut, whole, "Done."]) as model:
        ended, facts = play(tmp_path, model)
    assert ended.stop == "done"
    assert [fact.outcome for fact in facts if isinstance(fact, ToolEnded)] == ["not_run", "ok"]
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["b.txt"]


def test_context_files_take_a_tenth_of_the_window(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("Use tabs. " * 1_000)
    (tmp_path / "work" / "CLAUDE.md").write_text("Be brief. " * 1_000)
    with ScriptedModel(["Done."]) as model:
        _, facts = play(tmp_path, model)
    (frame,) = [fact for fact in facts if isinstance(fact, Framed)]
    files = next(block for block in frame.system if block.startswith("<context"))
    assert "Use tabs." in files
    assert "Be brief." in files
    assert len(files) <= 0.1 * WINDOW * BYTES_PER_TOKEN
    assert len(model.requests[0].body) <= 1_800 * BYTES_PER_TOKEN


def test_a_session_keeps_its_frame_when_the_window_changes(tmp_path: Path) -> None:
    async def one(model: ScriptedModel, **more: Any) -> list[Framed]:
        async with talk(model, tmp_path / "work", **more) as here:
            return await framed(here)

    async def framed(here: Talk) -> list[Framed]:
        await here.say("Go on.")
        return await here.facts(Framed)

    with ScriptedModel(["One.", "Two.", "Three.", "Four."]) as model:
        small = asyncio.run(one(model, variables=SMALL))
        assert asyncio.run(one(model, latest=True)) == small
        wide = asyncio.run(one(model))
        assert asyncio.run(one(model, variables=SMALL, latest=True)) == wide
    assert len(small[0].tools) == 5
    assert len(wide[0].tools) == 17


def test_the_profile_can_be_chosen(tmp_path: Path) -> None:
    for profile, count in (("full", 17), ("small", 5)):
        with ScriptedModel([Call("terminal", {"command": "true"}), "Done."]) as model:
            _, facts = play(tmp_path, model, settings={"agent.profile": profile})
        (frame,) = [fact for fact in facts if isinstance(fact, Framed)]
        assert len(frame.tools) == count
