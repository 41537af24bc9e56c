"""The working folder's files for agents stand in the system prompt, long ones as head and tail, each text once."""

import asyncio
import os
from pathlib import Path

from melete.app.context_report import report
from melete.testing import Say, ScriptedModel
from tests.talking import talk


def system(tmp_path: Path) -> str:
    async def main() -> str:
        async with talk(model, tmp_path / "work") as here:
            before = [row.part for row in await report(here.conversation) if row.group == "system"]
            await here.say("Hi.")
            after = [row.part for row in await report(here.conversation) if row.group == "system"]
            assert before == after
            assert after[0] == "identity"
            return here.messages()[0]["content"]

    with ScriptedModel([Say("Hello.")]) as model:
        return asyncio.run(main())


def test_a_long_file_keeps_seventy_and_twenty_percent(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("H" * 15_000 + "M" * 20_000 + "T" * 5_000)
    shown = system(tmp_path)
    assert shown.count("H") - shown.count("How") in range(14_000, 14_020)
    assert "M" * 20 not in shown
    assert "T" * 4_000 in shown
    assert "T" * 4_001 not in shown
    assert "[22000 characters left out]" in shown
    assert '<context file="AGENTS.md">' in shown


def test_a_file_within_the_cap_is_shown_whole(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    text = "Use tabs. " * 2_000
    assert len(text) == 20_000
    (folder / "CLAUDE.md").write_text(text)
    assert text.strip() in system(tmp_path)


def test_the_same_text_under_two_names_is_shown_once(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Use tabs.\n")
    (folder / "CLAUDE.md").symlink_to("AGENTS.md")
    (folder / "MELETE.md").write_text("Mine.\n")
    shown = system(tmp_path)
    assert shown.count("Use tabs.") == 1
    assert shown.index("Mine.") < shown.index("Use tabs.")


def test_what_is_no_text_file_does_not_stop_a_session(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "AGENTS.md").mkdir()
    os.mkfifo(folder / "CLAUDE.md")
    (folder / ".melete.md").symlink_to(".melete.md")
    (folder / "MELETE.md").write_bytes(b"caf\xe9 \x00")
    (folder / ".cursorrules").write_text("  \n")
    shown = system(tmp_path)
    assert "caf\ufffd" in shown
    assert shown.count("<context file=") == 1
