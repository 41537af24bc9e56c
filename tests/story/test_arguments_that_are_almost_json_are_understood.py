"""A model that writes fences, Python, or numbers as text gets its call carried out, and its own words back unchanged."""

import asyncio
import json
from pathlib import Path

import pytest

from melete.core.event import Reply, ToolEnded, ToolStarted
from melete.testing import Call, Say, ScriptedModel
from tests.talking import content, talk


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path": "a.txt", "limit": "1"}',
        '```json\n{"path": "a.txt", "limit": 1}\n```',
        "{'path': 'a.txt', 'limit': 1}",
        '{"path": "a.txt", "limit": 1,}',
        '"{\\"path\\": \\"a.txt\\", \\"limit\\": \\"1\\"}"',
        '{"limit": 1, "path": "a.txt"',
    ],
)
def test_the_call_is_carried_out(tmp_path: Path, arguments: str) -> None:
    async def main() -> None:
        folder = tmp_path / "work"
        folder.mkdir()
        (folder / "a.txt").write_text("one\ntwo\n")
        async with talk(model, folder) as here:
            await here.say("Read it.")
            ended, started = await here.facts(ToolEnded), await here.facts(ToolStarted)
            replies = await here.facts(Reply)
        assert content(ended[0])["content"] == "1|one"
        assert replies[0].message.calls[0].arguments == arguments
        assert json.loads(started[0].call.arguments)["path"] == "a.txt"

    with ScriptedModel([Call("read_file", arguments), Say("Done.")]) as model:
        asyncio.run(main())
