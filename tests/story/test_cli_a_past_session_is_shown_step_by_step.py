"""`melete sessions show`: every step under its number, some of them, whole calls, and where the session comes from."""

from pathlib import Path

import pytest

from melete.testing import Call, ScriptedModel
from tests.story.cli import Terminal, lines, melete

FAILS = Call("terminal", {"command": "echo one; echo two; false"}, text="Let me look.")


@pytest.fixture
def session(tmp_path: Path) -> str:
    """A session of two runs with three steps; the first step has a call that fails."""
    with ScriptedModel([FAILS, "It says one and two.", "Then three."]) as model:
        melete("run", "what", "does", "it", "say?", model=model, cwd=tmp_path)
        melete("run", "-c", "and then?", model=model, cwd=tmp_path)
    (row,) = lines(melete("sessions", "list", "--json").stdout)
    return row["id"]


def test_every_step_has_its_number(session: str, tmp_path: Path) -> None:
    shown = melete("sessions", "show", session).stdout.splitlines()
    assert shown[0] == "what does it say?"
    assert shown[1] == f"{session} · cli · {tmp_path}"
    assert "3 steps · 2 runs · 1 tool call" in shown[3]
    assert [line.split()[0] for line in shown if line.startswith("[")] == ["[1]", "[2]", "[3]"]
    assert shown.index("Let me look.") < shown.index("It says one and two.") < shown.index("Then three.")


def test_some_steps_are_shown_alone(session: str) -> None:
    second = melete("sessions", "show", session, "--step", "2").stdout
    assert "It says one and two." in second
    assert "done · 2 steps" in second
    assert "Let me look." not in second
    assert "and then?" not in second
    last = melete("sessions", "show", session, "--tail", "1").stdout
    assert "and then?" in last
    assert "[3]" in last
    assert "[2]" not in last
    kinds = [row["type"] for row in lines(melete("sessions", "show", session, "--json", "--step", "1").stdout)]
    assert kinds[0] == "session.opened"
    assert kinds[-1] == "tool.ended"
    assert kinds.count("reply") == 1


def test_calls_are_shown_whole_when_asked_for(session: str) -> None:
    assert "      two" not in melete("sessions", "show", session).stdout
    full = melete("sessions", "show", session, "--full").stdout.splitlines()
    at = full.index("    command: echo one; echo two; false")
    assert full[at + 1 : at + 5] == ["    output:", "      one", "      two", "    exit_code: 1"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--step", "4"], "the session has steps 1 to 3"),
        (["--step", "two"], "write --step 7"),
        (["--step", "1", "--tail", "1"], "give one of them"),
        (["--step", "1", "--follow"], "give one of them"),
        (["--tail", "0"], "--tail"),
    ],
)
def test_what_makes_no_sense_is_told(session: str, options: list[str], told: str) -> None:
    done = melete("sessions", "show", session, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_fork_and_its_original_name_each_other(session: str) -> None:
    fork = melete("sessions", "fork", session, "--at", "1", "--title", "another way").stdout.split()[0]
    assert f"forked from {session} at step 1" in melete("sessions", "show", fork).stdout
    assert f"forks: {fork} at step 1" in melete("sessions", "show", session).stdout


def test_a_pager_shows_it_on_a_terminal_only(session: str, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nsed 's/^/paged: /'\n")
    pager.chmod(0o700)
    with Terminal(["sessions", "show", session, "--pager"], more={"PAGER": str(pager)}) as terminal:
        terminal.read_until("Then three.")
        assert terminal.end() == 0
        assert "paged: " in terminal.raw
    assert "paged: " not in melete("sessions", "show", session, "--pager", PAGER=str(pager)).stdout


def test_a_session_is_named_by_id_beginning_or_title_and_never_by_guessing(session: str, tmp_path: Path) -> None:
    for name in (session, session[:-2], "what does it say?"):
        assert melete("sessions", "show", name).stdout.splitlines()[0] == "what does it say?"
    with ScriptedModel(["Again."]) as model:
        melete("run", "what does it say?", model=model, cwd=tmp_path)
        for command in (["sessions", "show", "what does it say?"], ["run", "-s", "what does it say?", "more"]):
            done = melete(*command, model=model)
            assert (done.returncode, done.stdout) == (2, "")
            assert "the title of 2 sessions" in done.stderr
            assert session in done.stderr
    assert melete("sessions", "rename", session, "  the\tfirst \n one ").returncode == 0
    assert melete("sessions", "show", "the first one").stdout.startswith("the first one\n")
    for title in ("", "  ", "x" * 201):
        assert melete("sessions", "rename", session, title).returncode == 2
    for nothing in ("", " ", "nowhere", "\x1b[2J"):
        done = melete("sessions", "show", nothing)
        assert (done.returncode, "there is no session" in done.stderr) == (2, True)
        assert "\x1b" not in done.stderr


def test_several_are_deleted_at_once_or_none(session: str, tmp_path: Path) -> None:
    with ScriptedModel(["One.", "Two."]) as model:
        melete("run", "a", model=model, cwd=tmp_path)
        melete("run", "b", model=model, cwd=tmp_path)
    ids = [row["id"] for row in lines(melete("sessions", "list", "--json").stdout)]
    assert melete("sessions", "delete", "--yes", ids[0], "nowhere").returncode == 2
    assert len(lines(melete("sessions", "list", "--json").stdout)) == 3
    with Terminal(["sessions", "delete", ids[0]]) as terminal:
        terminal.read_until("Delete session ")
        terminal.type("n\r")
        terminal.read_until("Nothing was deleted.")
        assert terminal.end() != 0
    assert len(lines(melete("sessions", "list", "--json").stdout)) == 3
    with Terminal(["sessions", "delete", ids[0], ids[1], ids[0]]) as terminal:
        terminal.read_until("Delete these 2 sessions?")
        terminal.type("y\r")
        assert terminal.end() == 0
    assert [row["id"] for row in lines(melete("sessions", "list", "--json").stdout)] == [session]
