"""A person's own hand on what is remembered: looked at, added, edited, taken back, forgotten."""

import os
from pathlib import Path

import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import Terminal, lines, melete


def memories() -> Path:
    return Path.home() / ".melete" / "memories"


def ok(*words: str) -> str:
    done = melete("memory", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def entries() -> dict[str, str]:
    return {row["text"]: row["id"] for row in lines(ok("show", "--json"))}


def test_what_was_added_is_shown_changed_and_brought_back() -> None:
    ok("add", "The printer is on the third floor.")
    ok("add", "--user", "Is called Kim.", "--until", "2099-01-01")
    assert (memories() / "MEMORY.md").read_text() == "The printer is on the third floor.\n"
    (memories() / "MEMORY.md").write_text("The printer is on the fourth floor.\n")
    assert "fourth floor" in ok("show")
    rows = lines(ok("history", "--json"))
    found = next(row for row in rows if "fourth" in row.get("text", ""))
    assert found["author"] == "user"
    version = next(row["version"] for row in rows if "third" in row.get("text", ""))
    ok("revert", version)
    assert (memories() / "MEMORY.md").read_text() == "The printer is on the third floor.\n"
    printer = entries()["The printer is on the third floor."]
    done = melete("memory", "forget", "--dry-run", printer)
    assert done.returncode == 0, done.stderr
    assert "third floor" in (memories() / "MEMORY.md").read_text()
    ok("forget", printer)
    assert "third floor" not in (memories() / "MEMORY.md").read_text()
    assert "Is called Kim." in ok("show", "--user")
    assert "holds until 2099-01-01" in ok("show", "--user")


def test_what_a_session_left_is_forgotten_together(tmp_path: Path) -> None:
    ok("add", "Mine.")
    script = [
        Call("memory", {"target": "memory", "content": "From a page."}),
        Call("memory", {"target": "user", "content": "Likes pages."}),
        Say("Kept."),
    ]
    with ScriptedModel(script) as model:
        assert melete("run", "Read it.", model=model, cwd=tmp_path).returncode == 0
    (session,) = {row["session"] for row in lines(ok("show", "--json")) if row.get("session")}
    ok("forget", "--session", session, "--dry-run")
    assert len(entries()) == 3
    ok("forget", "--session", session)
    assert [*entries()] == ["Mine."]


def test_an_editor_is_opened_on_the_file_and_what_it_did_is_told(tmp_path: Path) -> None:
    ok("add", "Old.")
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nprintf "Old.\\n§\\nNew.\\n" > "$1"\n')
    script.chmod(0o755)
    done = melete("memory", "edit", EDITOR=str(script))
    assert done.returncode == 0, done.stderr
    assert "New." in done.stderr
    assert "Old." not in done.stderr
    assert [*entries()] == ["Old.", "New."]
    assert melete("memory", "edit", EDITOR="", PATH=os.devnull).returncode == 2


@pytest.mark.parametrize(
    "words",
    [
        ("forget",),
        ("forget", "nothing that is there"),
        ("forget", "--session", "20200101-000000-000000"),
        ("revert", "0000000000"),
        ("accept", "p-none"),
        ("reject", "p-none"),
        ("history", "no such entry"),
        ("add", "  "),
        ("add", "Ends.", "--until", "soon"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_or_makes_no_sense_is_a_mistake_of_use(words: tuple[str, ...]) -> None:
    ok("add", "Here.")
    done = melete("memory", *words)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [*entries()] == ["Here."]


def test_problems_are_shown_and_nothing_is_written_over() -> None:
    memories().mkdir(parents=True)
    (memories() / "MEMORY.md").write_bytes(b"\x00\x01binary")
    assert "MEMORY.md" in ok("show", "--problems")
    assert melete("memory", "add", "More.").returncode != 0
    assert (memories() / "MEMORY.md").read_bytes() == b"\x00\x01binary"
    ok("add", "--user", "Is called Kim.")
    assert "memory" in melete("doctor").stdout


def test_a_chat_shows_what_is_remembered(tmp_path: Path) -> None:
    ok("add", "The printer is on the third floor.")
    with ScriptedModel([]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as terminal:
        terminal.read_until("> ")
        terminal.type("/memory\r")
        terminal.read_until("third floor")
        terminal.type("/memory printer\r")
        terminal.read_until("third floor")
        terminal.type("/exit\r")
        assert terminal.end() == 0
