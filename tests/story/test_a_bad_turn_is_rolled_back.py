"""`melete sessions rollback` and `/rollback`: files as they were before a turn; what the person changed since stays."""

import asyncio
from pathlib import Path

import pytest

from melete.app.checkpoints import checkpoints_at
from melete.testing import Call, ScriptedModel
from tests.story.cli import lines, melete
from tests.talking import talk

pytestmark = pytest.mark.needs("git")


def session_of(model: ScriptedModel) -> str:
    (row,) = lines(melete("sessions", "list", "--json", model=model).stdout)
    return str(row["id"])


def rollback(session: str, *words: str) -> tuple[int, str, str]:
    done = melete("sessions", "rollback", session, *words)
    return done.returncode, done.stdout, done.stderr


def test_what_a_turn_did_is_taken_back_and_brought_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("good\n")
    (tmp_path / "mine.txt").write_text("old\n")
    (tmp_path / "both.txt").write_text("one\n")
    calls = [
        Call("terminal", {"command": "ls"}),
        Call("patch", {"path": "a.txt", "old_string": "good", "new_string": "bad"}),
        Call("write_file", {"path": "new/b.txt", "content": "b\n"}),
        Call("terminal", {"command": "echo more >> both.txt"}),
        "Done.",
    ]
    with ScriptedModel(calls) as model:
        assert melete("run", "spoil it", "--yolo", model=model, cwd=tmp_path).returncode == 0
        session = session_of(model)
    assert (tmp_path / "a.txt").read_text() == "bad\n"
    (tmp_path / "mine.txt").write_text("mine\n")
    (tmp_path / "both.txt").write_text("one\nmore\nand mine\n")
    assert "spoil it" in rollback(session, "--list")[1]
    shown = rollback(session, "--diff")[1]
    assert "-bad" in shown
    assert "+good" in shown
    code, _, said = rollback(session)
    assert code == 2
    assert "--yes" in said
    code, told, _ = rollback(session, "--yes")
    assert code == 0, (told, _)
    assert (tmp_path / "a.txt").read_text() == "good\n"
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "mine.txt").read_text() == "mine\n"
    assert (tmp_path / "both.txt").read_text() == "one\nmore\nand mine\n"
    assert "Kept, for somebody else changed it since (--force rolls it back): both.txt" in told
    assert rollback(session, "--yes")[0] == 0  # a rollback is rolled back
    assert (tmp_path / "a.txt").read_text() == "bad\n"
    assert (tmp_path / "new" / "b.txt").read_text() == "b\n"


def test_a_turn_that_only_looked_leaves_no_checkpoint(tmp_path: Path) -> None:
    with ScriptedModel([Call("terminal", {"command": "ls | head -3"}), "Nothing here."]) as model:
        assert melete("run", "look", model=model, cwd=tmp_path).returncode == 0
        session = session_of(model)
    code, _, said = rollback(session, "--yes")
    assert code == 2
    assert "no checkpoint" in said


def test_in_a_chat_it_is_a_slash_command(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("good\n")
    calls = [Call("terminal", {"command": "echo bad > a.txt"}), "Done."]
    with ScriptedModel(calls) as model:
        typed = b"spoil it\n/rollback\n/rollback diff 1\n/rollback 1\n/exit\n"
        done = melete("chat", "--yolo", model=model, cwd=tmp_path, stdin=typed)
    assert done.returncode == 0, done.stderr
    assert "spoil it" in done.stdout
    assert "-bad" in done.stdout
    assert (tmp_path / "a.txt").read_text() == "good\n"


def test_how_much_is_kept_is_a_setting(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    calls = [Call("terminal", {"command": "echo bad > a.txt"}), "Done."]

    async def main(**settings: object) -> int:
        async with talk(
            model, tmp_path / "work", settings={f"checkpoints.{k}": v for k, v in settings.items()}
        ) as here:
            await here.say("Go.")
            checkpoints = checkpoints_at(here.app, str(tmp_path / "work"))
            return len(await checkpoints.list())

    for given, kept in (({"enabled": False}, 0), ({}, 1), ({"keep": 2}, 2), ({"keep": 2}, 2)):
        with ScriptedModel(calls) as model:
            assert asyncio.run(main(**given)) == kept
