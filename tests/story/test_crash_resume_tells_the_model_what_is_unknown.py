"""A process that dies in the middle of a tool leaves a session that goes on: the call is told as unknown, not repeated."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from melete.core.event import Notice, RunEnded, RunStarted, ToolEnded, ToolStarted
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.talking import content, environ, sent_prefix, talk

PROGRAM = """
import asyncio, sys
from melete import Options, load, open_conversation, open_melete, user

async def main():
    async with open_melete(load()) as app:
        async with open_conversation(app, Options(cwd=sys.argv[1])) as conversation:
            await conversation.run(user("Go."))

asyncio.run(main())
"""


def test_killed_in_mid_tool(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    calls = [
        Call("read_file", {"path": "a.txt"}),
        Call("terminal", {"command": "echo $$ >> ran; exec sleep 600"}),
        Call("write_file", {"path": "b.txt", "content": "x"}),
    ]
    with ScriptedModel([Calls(calls), Say("I looked, and it had run.")]) as model:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], env=environ(model))
        try:
            until = time.monotonic() + 20
            while not (folder / "ran").is_file() or not (folder / "ran").read_text():
                assert time.monotonic() < until
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        os.kill(int((folder / "ran").read_text()), signal.SIGKILL)  # what outlived its parent
        asyncio.run(go_on(folder, model))
    assert len((folder / "ran").read_text().split()) == 1
    assert not (folder / "b.txt").exists()


async def go_on(folder: Path, model: ScriptedModel) -> None:
    async with talk(model, folder, latest=True) as here:
        before = await here.log()
        assert isinstance(before[-1], ToolStarted)
        ended = await here.go_on()
        results = await here.facts(ToolEnded)
        assert [fact.outcome for fact in results] == ["error", "unknown", "not_run"]
        assert "may or may not have taken effect" in content(results[1])["error"]
        assert [fact.about for fact in await here.facts(Notice)] == ["crash"]
        assert [len(await here.facts(kind)) for kind in (RunStarted, RunEnded)] == [2, 1]
        assert (ended.stop, ended.text, ended.steps) == ("done", "I looked, and it had run.", 1)
    assert sent_prefix(model.requests[1].body).startswith(sent_prefix(model.requests[0].body))
    assert [message["role"] for message in here.messages()[-3:]] == ["tool"] * 3
