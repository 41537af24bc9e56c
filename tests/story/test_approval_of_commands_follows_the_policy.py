"""Destructive commands ask, are denied where nobody is there, and run with yolo; the worst never run."""

import asyncio
from pathlib import Path

from melete.core.event import ToolEnded
from melete.testing import Call, Calls, Say, ScriptedModel
from tests.talking import content, talk

CALLS = Calls([
    Call("terminal", {"command": "find build -delete"}),
    Call("terminal", {"command": "echo fine"}),
    Call("terminal", {"command": "rm -rf / --no-preserve-root"}),
])  # fmt: skip


def outcomes(folder: Path, *, yolo: bool = False, mode: str = "manual") -> list[ToolEnded]:
    (folder / "build").mkdir(parents=True, exist_ok=True)

    async def main() -> list[ToolEnded]:
        async with talk(model, folder, settings={"approvals.mode": mode}, yolo=yolo) as here:
            assert (await here.say("Clean up.")).stop == "done"
            return await here.facts(ToolEnded)

    with ScriptedModel([CALLS, Say("Done.")]) as model:
        return asyncio.run(main())


def test_unattended(tmp_path: Path) -> None:
    ended = outcomes(tmp_path / "work")
    assert [fact.outcome for fact in ended] == ["denied", "ok", "denied"]
    assert "nobody is there" in content(ended[0])["error"]
    assert (tmp_path / "work" / "build").is_dir()


def test_with_yolo_or_the_setting(tmp_path: Path) -> None:
    assert [fact.outcome for fact in outcomes(tmp_path / "one", yolo=True)] == ["ok", "ok", "denied"]
    assert not (tmp_path / "one" / "build").exists()
    ended = outcomes(tmp_path / "two", mode="off")
    assert [fact.outcome for fact in ended] == ["ok", "ok", "denied"]
