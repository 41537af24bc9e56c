"""A reply that hit the output limit may hold half a call: nothing of it runs, and the model is told why."""

import asyncio
from pathlib import Path

from melete.core.event import ToolEnded, ToolStarted
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.talking import content, talk


def test_no_call_of_a_cut_reply_runs(tmp_path: Path) -> None:
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
        assert "cut off at the output limit" in content(results[0])["error"]

    with ScriptedModel([Calls(calls, stop="length"), Say("Then not.")]) as model:
        asyncio.run(main())
