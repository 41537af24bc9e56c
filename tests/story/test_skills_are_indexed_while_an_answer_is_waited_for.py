"""What is in the texts of a large library can be found after one answer: they are indexed while the model writes it."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from melete.skills.catalogue import SETTLED_NS
from melete.skills.folders import Shelf
from melete.skills.library import Library
from melete.testing import Say, ScriptedModel
from tests.talking import talk
from tests.unit.skills.kept import text

MANY = 60


def test_texts_are_found_after_the_first_answer(tmp_path: Path) -> None:
    home = Path.home() / ".melete"
    for number in range(MANY):
        path = home / "skills" / "user" / f"filler-{number}" / "SKILL.md"
        path.parent.mkdir(parents=True)
        body = f"Weigh the zirconium of sample{number}. " * 10
        path.write_text(text(path.parent.name, body, description="Nothing of interest, at length, " * 8))

    time.sleep(2 * SETTLED_NS / 1e9)  # what is newer than that is read once more by the next library

    def answer(_body: Any, _number: int) -> Say:
        """The model takes as long as it needs."""
        for _ in range(600):
            with closing(sqlite3.connect(home / "state" / "skills.db")) as base:
                if (
                    base.execute("SELECT count(*) FROM doc WHERE whole AND folder LIKE '%filler%'").fetchone()[0]
                    == MANY
                ):
                    return Say("Done.")
            time.sleep(0.05)
        return Say("Too late.")

    async def main() -> None:
        async with talk(model, tmp_path / "work", settings={"skills.char_budget": 1_000}) as here:
            assert (await here.say("Sort these stamps.")).text == "Done."

    with ScriptedModel(answer) as model:
        asyncio.run(main())
    with closing(Library([Shelf(kind="user", path=str(home / "skills" / "user"))], state=home / "state")) as library:
        assert library.rank("the zirconium of sample7")[0][0].name == "filler-7"
