"""A log that cannot grow ends the run with one typed error; what was stored stays readable and the session goes on later."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from melete.core.event import Reply, ToolEnded
from melete.testing import Call, Calls, Say, ScriptedModel, replies
from tests.talking import environ, talk

PROGRAM = """
import asyncio, resource, sys
from melete import MeleteError, Options, load, open_conversation, open_melete, user

async def main():
    async with open_melete(load()) as app:
        async with open_conversation(app, Options(cwd=sys.argv[1])) as conversation:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
            await conversation.run(user("Go."))

try:
    asyncio.run(main())
except MeleteError as error:
    print(type(error).__name__, error)
"""
READ = Call("read_file", {"path": "a.txt"})


@pytest.mark.parametrize(
    ("first", "roles"),
    [
        (Say("x" * 30_000), ["user", "assistant"]),
        (Calls([READ, READ]), ["user", "assistant", "tool", "tool"]),
    ],
)
def test_full_disk(tmp_path: Path, first: replies.Reply, roles: list[str]) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text(("y" * 999 + "\n") * 15)
    with ScriptedModel([first, Say("Gone on.")]) as model:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(folder)],
            env=environ(model), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.stdout.startswith("StorageError "), done.stderr
        assert "kept" in done.stdout
        asyncio.run(go_on(folder, model, roles))


async def go_on(folder: Path, model: ScriptedModel, roles: list[str]) -> None:
    async with talk(model, folder, latest=True) as here:
        replied = len(await here.facts(Reply))
        ended = await here.go_on()
        assert (ended.stop, ended.text) == ("done", "Gone on.")
        results = await here.facts(ToolEnded)
        assert all(fact.outcome == "unknown" for fact in results[-1:])
    sent = [message["role"] for message in here.messages()]
    assert sent == (["system", *roles] if replied else ["system", "user"])
