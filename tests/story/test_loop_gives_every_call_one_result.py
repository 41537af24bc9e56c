"""Whatever a call is — sound, unknown, malformed, failing, a bug — the model gets one result for it and goes on."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from melete.core.event import Delta, Reply, Retried, ToolEnded, ToolStarted
from melete.core.model import ModelRequest, ModelWrapper
from melete.core.policy import Verdict
from melete.core.tool import Output, ToolContext, ToolError, tool
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.talking import content, talk


@tool()
async def fails(ctx: ToolContext) -> dict[str, Any]:
    """Fails on purpose."""
    raise ToolError("the file is locked", near=["a", "b"])


@tool()
async def breaks(ctx: ToolContext) -> dict[str, Any]:
    """Has a bug."""
    raise KeyError("no such thing")


def judge_with_a_bug(*_: Any) -> Verdict:
    raise ZeroDivisionError("a rule divides by zero")


@tool(judge=judge_with_a_bug)
async def unjudged(ctx: ToolContext) -> dict[str, Any]:
    """Its judge has a bug."""
    raise AssertionError("it must not run")


@tool()
async def odd(ctx: ToolContext) -> Output:
    """Gives back what JSON cannot say."""
    return Output(fields={"half": "\ud83d", "set": frozenset({1}), "nested": [{"half": "\udce9"}]})


CALLS = [
    Call("read_file", {"path": "a.txt"}),
    Call("read_fil", {"path": "a.txt"}),
    Call("read_file", '{"path": '),
    Call("read_file", {"pth": "a.txt"}),
    Call("read_file", {"path": "none.txt"}),
    Call("fails"),
    Call("breaks"),
    Call("unjudged"),
    Call("odd"),
    Call("read_file", {"path": "a.txt"}, id="call_same"),
    Call("read_file", {"path": "a.txt"}, id="call_same"),
]


def test_every_call_is_answered_once_and_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        folder = tmp_path / "work"
        folder.mkdir()
        (folder / "a.txt").write_text("hello\n")
        async with talk(model, folder, tools=[fails, breaks, unjudged, odd]) as here:
            ended = await here.say("Do it all.")
            facts = await here.facts(ToolEnded)
            started = {fact.call.id for fact in await here.facts(ToolStarted)}
        assert ended.stop == "done"
        asked = [call["id"] for call in here.messages()[-12]["tool_calls"]]
        assert [message["tool_call_id"] for message in here.messages()[-11:]] == asked
        assert len(set(asked)) == len(CALLS)
        assert sorted(fact.result.call for fact in facts) == sorted(asked)
        results = {fact.result.call: content(fact) for fact in facts}
        told = [results[call] for call in asked]
        outcomes = {fact.result.call: fact.outcome for fact in facts}
        assert [outcomes[call] for call in asked] == ["ok", *["error"] * 7, "ok", "ok", "ok"]
        assert [call in started for call in asked] == [
            True,
            False,
            False,
            False,
            True,
            True,
            True,
            False,
            True,
            True,
            True,
        ]
        assert "hello" in told[0]["content"]
        assert told[1]["error"] == "There is no tool 'read_fil'. Did you mean 'read_file'?"
        assert "terminal" in told[1]["tools"]
        assert told[2]["error"].startswith("The arguments are not a JSON object")
        assert "Did you mean 'path'?" in told[3]["error"]
        assert "does not exist" in told[4]["error"]
        assert told[5] == {"success": False, "error": "the file is locked", "near": ["a", "b"]}
        assert told[6]["error"].startswith("KeyError")
        assert told[6]["where"].startswith("breaks:")
        assert told[7]["error"].startswith("ZeroDivisionError")
        assert told[8]["half"] == "\\ud83d"
        assert told[8]["nested"] == [{"half": "\\udce9"}]

    with ScriptedModel([Calls(CALLS), Say("Done.")]) as model:
        asyncio.run(main())


def test_a_bug_in_the_model_layer_ends_the_run_with_a_fact(tmp_path: Path) -> None:
    class Broken(ModelWrapper):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
            raise AttributeError("nothing here")
            yield

    async def main() -> None:
        async with talk(model, tmp_path / "work") as here:
            await here.say("First.")
            sound = here.conversation.model
            here.conversation.model = Broken(sound)
            ended = await here.say("Second.")
            here.conversation.model = sound
            again = await here.say("Third.")
        assert (ended.stop, ended.error, ended.text) == ("failed", "AttributeError: nothing here", "")
        assert (again.stop, again.text) == ("done", "Two.")

    with ScriptedModel(["One.", "Two."]) as model:
        asyncio.run(main())
