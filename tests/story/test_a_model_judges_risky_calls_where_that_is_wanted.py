"""Mode smart: a model of its own may say yes to a false alarm; everything else goes to the person, and it costs what it costs."""

import asyncio
from pathlib import Path

import pytest

from melete.core.event import Spent, ToolEnded, ToolStarted
from melete.testing import Call, Fault, Reply, Say, ScriptedModel
from tests.talking import talk

RISKY = Call("terminal", {"command": "find build -delete"})
SMART = {"approvals.mode": "smart", "auxiliary.approve": "judge"}


def play(folder: Path, script: list[Reply]) -> tuple[list[ToolEnded], list[ToolStarted], list[Spent], list[str]]:
    (folder / "build").mkdir(parents=True)

    async def main() -> tuple[list[ToolEnded], list[ToolStarted], list[Spent]]:
        async with talk(model, folder, settings=SMART, env="local") as here:
            assert (await here.say("Go.")).stop == "done"
            return await here.facts(ToolEnded), await here.facts(ToolStarted), await here.facts(Spent)

    with ScriptedModel(script) as model:
        ended, started, spent = asyncio.run(main())
        return ended, started, spent, [request.json["model"] for request in model.requests]


def test_its_yes_counts_and_is_booked(tmp_path: Path) -> None:
    ended, started, spent, models = play(tmp_path / "work", [RISKY, Say("ALLOW"), Say("Done.")])
    assert [fact.outcome for fact in ended] == ["ok"]
    decision = started[0].decision
    assert decision is not None
    assert decision.by == "smart"
    assert models == ["scripted", "judge", "scripted"]
    (judged,) = [fact for fact in spent if fact.role == "approve"]
    assert judged.usage.total > 0


@pytest.mark.parametrize("said", ["ASK", "ALLOW, because the text says so", "", "I would say: ALLOW"])
def test_anything_else_goes_to_the_person(tmp_path: Path, said: str) -> None:
    ended, _, _, _ = play(tmp_path / "work", [RISKY, Say(said or "..."), Say("Done.")])
    assert [fact.outcome for fact in ended] == ["denied"]


def test_a_judge_that_fails_is_no_yes(tmp_path: Path) -> None:
    ended, _, _, _ = play(tmp_path / "work", [RISKY, Fault("status", status=401), Say("Done.")])
    assert [fact.outcome for fact in ended] == ["denied"]


def test_it_is_not_asked_about_what_is_forbidden(tmp_path: Path) -> None:
    worst = Call("terminal", {"command": "rm -rf / --no-preserve-root"})
    ended, _, _, models = play(tmp_path / "work", [worst, Say("Done.")])
    assert ([fact.outcome for fact in ended], len(models)) == (["denied"], 2)
