"""A file that a child has changed is read again before its parent changes it, and the parent is told so."""

import asyncio
from pathlib import Path
from typing import Any

from melete.core.event import ToolEnded
from melete.testing import Call, ScriptedModel
from tests.delegating import PARENT, Family, delegate
from tests.talking import content, talk


def test_a_stale_edit_is_refused_and_the_note_names_the_file(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "plan.txt").write_text("one\ntwo\n")
    read = Call("read_file", {"path": "plan.txt"})
    edit = Call("patch", {"path": "plan.txt", "old_string": "two", "new_string": "2"})
    change = Call("patch", {"path": "plan.txt", "old_string": "one", "new_string": "first"})
    these = Family(
        {
            PARENT: [read, delegate("change it"), edit, read, edit, "all told"],
            "change it": [read, change, "changed"],
        }
    )

    async def main() -> list[dict[str, Any]]:
        with ScriptedModel(these) as model:
            async with talk(model, work, settings={"skills.enabled": False}) as here:
                await here.say(PARENT)
                return [content(fact) for fact in await here.facts(ToolEnded)]

    _, delegated, refused, again, edited = asyncio.run(main())
    row = delegated["results"][0]
    assert row["files_changed"] == ["plan.txt"]
    assert "plan.txt" in row["note"]
    assert refused["success"] is False
    assert "Read it again" in refused["error"]
    assert "first" in again["content"]
    assert edited["success"] is True
    assert (work / "plan.txt").read_text() == "first\n2\n"
