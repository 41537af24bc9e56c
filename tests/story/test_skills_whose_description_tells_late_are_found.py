"""A skill is found by words that stand late in its description, where the list in the prompt is cut before them."""

import asyncio
from pathlib import Path
from typing import Any

from melete.testing import Say, ScriptedModel
from tests.talking import talk
from tests.unit.skills.kept import text

LEAD = "A procedure of this workshop that was found by trial and is to be read before the first call. " * 4
SUGGESTED = "[From the skill library, for this message; skill_view loads one]"
OF_LIST = 1_500


def put(name: str, description: str, place: str = "user") -> None:
    path = Path.home() / ".melete" / "skills" / place / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text(name, "Do it well, and look at the result.\n", description=description))


def said(folder: Path, *words: str, **settings: object) -> list[dict[str, Any]]:
    """The requests of a session in which the person says this."""

    async def main() -> None:
        async with talk(model, folder, settings=settings) as here:
            for one in words:
                assert (await here.say(one)).stop == "done"

    with ScriptedModel([Say("Done.")] * len(words)) as model:
        asyncio.run(main())
        return [request.json for request in model.requests]


def behind(request: dict[str, Any]) -> str:
    """What stands behind the person's last words."""
    content = [one for one in request["messages"] if one["role"] == "user"][-1]["content"]
    text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
    return SUGGESTED + text.partition(SUGGESTED)[2] if SUGGESTED in text else ""


def test_words_behind_the_cut_bring_a_skill_to_mind_once(tmp_path: Path) -> None:
    for number, deed in enumerate(("varnish", "plait", "solder")):
        put(f"workshop-{number}", f"{LEAD}It shows how to {deed}.")
    first, second, third = said(
        tmp_path, "Please solder the lantern on my desk.", "Now solder the other lantern.", "Thanks, that was it."
    )
    assert "solder" not in first["messages"][0]["content"], "the list is cut before it"
    line = "A procedure of this workshop that was found by… before the first call. It shows how to solder."
    assert behind(first) == f"{SUGGESTED}\n- workshop-2: {line}"
    assert behind(second) == behind(third) == ""


def test_words_that_the_list_shows_are_not_told_again(tmp_path: Path) -> None:
    put("lanterns", f"Solder lanterns well. {LEAD}")
    (request,) = said(tmp_path, "Please solder the lantern on my desk.")
    assert "Solder lanterns" in request["messages"][0]["content"]
    assert behind(request) == ""


def test_a_home_without_skills_of_its_own_is_told_nothing(tmp_path: Path) -> None:
    words = "Write a function that reverses a linked list, and tidy the calendar while the slow build runs."
    assert behind(said(tmp_path, words)[0]) == ""


def test_among_a_thousand_it_is_found_and_the_list_stays_short(tmp_path: Path) -> None:
    for number in range(1_000):
        put(f"filler-{number}", f"How to label the maps of a garden, number {number}. " * 5)
    put("workshop-1", f"{LEAD}It shows how to solder.")
    (request,) = said(tmp_path, "Please solder the lantern on my desk.")
    assert "workshop-1" in behind(request)
    system = request["messages"][0]["content"]
    start, end = system.index("# Skills"), system.index("are not listed")
    assert end - start <= 4 * OF_LIST
