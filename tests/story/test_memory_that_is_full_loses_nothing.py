"""A full MEMORY.md: refusals with numbers, one try to merge, and whatever comes of it the person is told and can take it back."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete.core.event import Notice, Spent
from melete.testing import Call, Fault, Reply, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.talking import talk

LIMIT = 300
SMALL = {"memory.memory_char_limit": LIMIT}
OLD = [
    "The staging server is called heron and listens on port 8443 for the whole team.",
    "Logs of the staging server heron are to be found in /var/log/heron, rotated daily.",
    "Never restart heron between 09:00 and 17:00, because the sales demo runs on it.",
]
NEW = "Releases are cut from the branch release/2026 by running `just release` on heron."
MERGED = "Staging server heron: port 8443, logs in /var/log/heron (daily); never restart 09:00-17:00 (sales demo)."
ADD = Call("memory", {"target": "memory", "content": NEW})


def home() -> Path:
    return Path.home() / ".melete"


def notes() -> Path:
    return home() / "memories" / "MEMORY.md"


def fill() -> str:
    notes().parent.mkdir(parents=True, exist_ok=True)
    notes().write_text("\n§\n".join(OLD) + "\n")
    return notes().read_text()


def answer(text: str) -> Any:
    """A model of side work that merges the first entry with the others, as `text`; in the loop it tries to add twice."""
    steps = iter([ADD, ADD, Say("That is all.")])

    def play(request: dict[str, Any], number: int) -> Reply:
        said = str(request["messages"][-1]["content"])
        if not request["messages"][0]["content"].startswith("You tidy"):
            return next(steps)
        if "{" not in text:
            return Say(text)
        first, *others = msgspec.json.decode(str(request["messages"][1]["content"]))["entries"]
        assert NEW in str(request["messages"][1]["content"]), said
        made = [{"action": "replace", "old_text": first, "content": text.strip("{}")}]
        made += [{"action": "remove", "old_text": one} for one in others]
        return Say(msgspec.json.encode({"operations": made}).decode())

    return play


def session(folder: Path, script: Any, **given: Any) -> tuple[list[dict[str, Any]], list[Notice], list[Spent]]:
    async def main() -> tuple[list[dict[str, Any]], list[Notice], list[Spent]]:
        async with talk(model, folder, settings=SMALL, **given) as here:
            ended = await here.say(
                "Releases are cut from release/2026 with `just release` on heron; keep that in mind."
            )
            assert ended.stop == "done", ended
            told = [notice for notice in await here.facts(Notice) if notice.about == "memory"]
            return await here.results(), told, await here.facts(Spent)

    with ScriptedModel(script) as model:
        return asyncio.run(main())


def cli(*words: str) -> str:
    done = melete(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_refusal_says_how_full_it_is_and_what_the_entry_adds(tmp_path: Path) -> None:
    before = fill()
    script: Sequence[Reply] = [ADD, Say("It is full.")]
    (result,), told, _ = session(tmp_path / "work", script)
    assert not result["success"]
    assert result["current"] == len(before) - 1
    assert result["limit"] == LIMIT
    assert result["adds"] == len(NEW) + 3
    assert list(result["entries"].values()) == OLD
    assert notes().read_text() == before
    assert not told


def test_the_second_refusal_merges_once_and_tells_the_person(tmp_path: Path) -> None:
    fill()
    (first, second), (told,), spent = session(tmp_path / "work", answer(f"{{{MERGED}}}"))
    assert not first["success"]
    assert second["success"], second
    assert notes().read_text() == f"{MERGED}\n§\n{NEW}\n"
    assert "melete memory revert" in told.text
    assert "review" in {one.role for one in spent}
    by = {row["text"] or row["before"]: row["author"] for row in lines(cli("memory", "history", "--json"))}
    assert by[MERGED] == "consolidation"
    assert by[NEW] == "agent"
    assert all(old in cli("memory", "history") for old in OLD)
    cli(*told.text.partition("`melete ")[2].partition("`")[2].partition("`melete ")[2].partition("`")[0].split())
    assert {*notes().read_text().strip().split("\n§\n")} == {*OLD, NEW}, "taken back whole; what was kept since stays"


@pytest.mark.parametrize(
    "text",
    [
        "{The staging server heron listens on port 8443, logs in /var/log/heron, daily; a sales demo runs on it.}",
        "{}",
        "I would rather not.",
    ],
    ids=["loses a rule", "loses everything", "no JSON"],
)
def test_a_merging_that_is_not_safe_waits_for_the_person(text: str, tmp_path: Path) -> None:
    before = fill()
    (_, second), (told,), _ = session(tmp_path / "work", answer(text))
    assert not second["success"]
    assert notes().read_text() == before
    (proposal,) = lines(cli("memory", "show", "--proposals", "--json"))
    assert proposal["id"] in told.text
    assert NEW in str(proposal), "what was to be kept waits with it"
    cli("memory", "reject", proposal["id"])
    assert not cli("memory", "show", "--proposals", "--json")


def test_a_model_that_fails_loses_nothing_either(tmp_path: Path) -> None:
    before = fill()
    script = [ADD, ADD, Fault("bad_request"), Say("Full.")]
    results, (told,), _ = session(tmp_path / "work", script)
    assert not results[1]["success"]
    assert notes().read_text() == before
    (proposal,) = lines(cli("memory", "show", "--proposals", "--json"))
    assert proposal["id"] in told.text


def test_room_is_made_once_in_a_session(tmp_path: Path) -> None:
    fill()
    steps = [ADD, ADD, Say("I would rather not."), Say("No."), ADD, ADD, Say("Full.")]
    results, told, _ = session(tmp_path / "work", steps)
    assert [row["success"] for row in results] == [False] * 4
    assert len(told) == 1
