"""A reply that hit the output limit or a content filter may hold half a call: nothing of it runs, and the model is told why."""

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from melete.core.event import ToolEnded, ToolStarted
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.talking import content, talk


@pytest.mark.parametrize(
    ("stop", "why"),
    [("length", "cut off at the output limit"), ("content_filter", "content filter cut the reply off")],
)
def test_no_call_of_a_cut_reply_runs(tmp_path: Path, stop: Literal["length", "content_filter"], why: str) -> None:
    calls = [Call("write_file", {"path": "a.txt", "content": "half"}), Call("read_file", {"path": "a.txt"})]

    async def main() -> None:
        folder = tmp_path / "work"
        async with talk(model, folder) as here:
            ended = await here.say("Write a long file.")
            results, started = await here.facts(ToolEnded), await here.facts(ToolStarted)
        assert ended.stop == "done"
        assert not started
        assert not (folder / "a.txt").exists()
        assert [fact.outcome for fact in results] == ["not_run", "not_run"]
        assert why in content(results[0])["error"]

    with ScriptedModel([Calls(calls, stop=stop), Say("Then not.")]) as model:
        asyncio.run(main())
