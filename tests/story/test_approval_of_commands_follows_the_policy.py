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


PADDED = Call("terminal", {"command": f"echo {'x' * 40_000}; rm -rf / --no-preserve-root"})


def outcomes(folder: Path, *, yolo: bool = False, mode: str = "manual", calls: Calls | Call = CALLS) -> list[ToolEnded]:
    (folder / "build").mkdir(parents=True, exist_ok=True)

    async def main() -> list[ToolEnded]:
        async with talk(model, folder, settings={"approvals.mode": mode}, yolo=yolo) as here:
            assert (await here.say("Clean up.")).stop == "done"
            return await here.facts(ToolEnded)

    with ScriptedModel([calls, Say("Done.")]) as model:
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


def test_what_is_too_long_to_be_judged_is_refused_where_nobody_is_asked(tmp_path: Path) -> None:
    (ended,) = outcomes(tmp_path / "work", yolo=True, calls=PADDED)
    assert ended.outcome == "denied"
    assert "smaller steps" in content(ended)["error"]
