"""A program that is killed while children work: those that had ended are not run again, the others are told of and go on."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from melete.core.event import Delegated, ToolEnded
from melete.core.session import Which
from melete.testing import Call, ScriptedModel
from tests.delegating import PARENT, Family, delegate, told
from tests.talking import content, environ, talk

PROGRAM = """
import asyncio, sys
from melete import Options, load, open_conversation, open_melete, user

async def main():
    async with open_melete(load({"skills.enabled": False})) as app:
        async with open_conversation(app, Options(cwd=sys.argv[1])) as conversation:
            await conversation.run(user("Go."))

asyncio.run(main())
"""
QUIET: dict[str, Any] = {"skills.enabled": False}


def until(seen: Any, *, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.02)


def begin(folder: Path, model: ScriptedModel) -> "subprocess.Popen[bytes]":
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], env=environ(model))


def test_what_had_ended_stands_and_the_rest_goes_on(tmp_path: Path) -> None:
    folder, children = tmp_path / "work", ("quick", "slow", "other")
    these = Family(
        {
            PARENT: [
                delegate(*children),
                lambda body: delegate("", resume=session_of(body, 1)),
                "all told",
            ],
            "quick": ["the quick one's report"],
            "slow": [Call("write_file", {"path": "half.txt", "content": "half"}), "the slow one's report"],
            "other": ["too late"],
        },
        slow={"slow": 1.0, "other": 6.0},
    )

    with ScriptedModel(these) as model:
        process = begin(folder, model)
        try:
            until(lambda: asked(these, "slow") >= 2 and asked(these, "other") >= 1)
        finally:
            process.kill()
            process.wait()
        these.slow = {}
        before = asked(these, "quick")
        asyncio.run(go_on(folder, model))
    assert before == asked(these, "quick") == 1
    assert (folder / "half.txt").read_text() == "half"


def session_of(body: dict[str, Any], number: int) -> str:
    return msgspec.json.decode(told(body))["results"][number]["session"]


def asked(these: Family, who: str) -> int:
    return sum(one == who for one, _, _ in these.asked)


async def go_on(folder: Path, model: ScriptedModel) -> None:
    async with talk(model, folder, settings=QUIET, latest=True) as here:
        ended = await here.go_on()
        assert (ended.stop, ended.text) == ("done", "all told")
        first, again = [content(fact) for fact in await here.facts(ToolEnded)]
        quick, slow, other = first["results"]
        assert (quick["status"], quick["summary"]) == ("completed", "the quick one's report")
        assert (slow["status"], slow["files_changed"]) == ("interrupted", ["half.txt"])
        assert other["status"] == "interrupted"
        assert "was not run again" in first["note"]
        assert again["results"][0]["summary"] == "the slow one's report"
        assert again["results"][0]["session"] == slow["session"]
        rows = await here.app.store.list(which=Which(sources=("subagent",)))
        assert len(rows) == 3
        states = [(fact.task, fact.status) for fact in await here.facts(Delegated)]
        assert states[-2:] == [(0, "running"), (0, "completed")]


def test_one_in_the_background_outlives_its_program(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    these = Family(
        {PARENT: [delegate("later", background=True), "begun", "heard"], "later": ["came late", "came late"]},
        slow={"later": 3.0, PARENT: 0.3},
    )

    async def again(model: ScriptedModel) -> None:
        async with talk(model, folder, settings=QUIET, latest=True, waits=True) as here:
            assert [*(here.app.loaded.home.state / "children").rglob("*.json")]
            ended = await here.go_on()
            assert ended.text == "heard"
            assert not [*(here.app.loaded.home.state / "children").rglob("*.json")]
            assert "came late" in here.messages()[-1]["content"]

    with ScriptedModel(these) as model:
        process = begin(folder, model)
        try:
            until(lambda: asked(these, "later") >= 1)
        finally:
            process.kill()
            process.wait()
        these.slow = {}
        asyncio.run(again(model))
