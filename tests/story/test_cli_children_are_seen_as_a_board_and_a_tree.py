"""Children at a terminal: a board while they work, a line at each end, a tree afterwards; `/agents` in a chat."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from melete.surfaces.cli.paint import columns
from melete.testing import Call, Fault, ScriptedModel
from tests.delegating import PARENT, Family, Line, delegate
from tests.story.cli import CONTROL, Terminal, lines, melete

BOARD = re.compile(r"[^\r\n]*•[^\r\n\x1b]*")
SLEEPS = Call("terminal", {"command": "sleep 1"})


def family(parent: Call, **children: Sequence[Line]) -> Family:
    return Family({PARENT: [parent, "All told."], **{name.replace("_", " "): said for name, said in children.items()}})


def tree(session: str) -> list[dict[str, Any]]:
    return lines(melete("sessions", "show", session, "--tree", "--json").stdout)


def last_session() -> str:
    return str(lines(melete("sessions", "list", "--json").stdout)[0]["id"])


def two_levels() -> Family:
    leads = [delegate("leaf one", "leaf two"), "led"]
    orchestrate = Call("delegate_task", {"tasks": [{"goal": "lead it", "role": "orchestrator"}, {"goal": "break it"}]})
    return family(
        orchestrate, lead_it=leads, leaf_one=[SLEEPS, "one"], leaf_two=["two"], break_it=[Fault("bad_request")]
    )


def deep() -> None:
    assert melete("config", "set", "delegation.max_spawn_depth", "2").returncode == 0


def test_a_run_tells_each_end_and_the_sum(tmp_path: Path) -> None:
    deep()
    with ScriptedModel(two_levels()) as model:
        done = melete("run", "-v", PARENT, model=model, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "All told.\n")
    told = done.stderr
    assert "→ child lead it" in told
    assert re.search(r"✗ child break it · failed · 1 step", told) or "✗ child break it" in told
    assert re.search(r"✓   child leaf one · 2 steps · [\d,]+ tokens", told)
    assert re.search(r"✓ child lead it · 2 steps", told)
    assert re.search(r"· beside it 4 children · [\d.]+k tokens", told)

    rows = tree(last_session())
    assert [(row["goal"], row.get("depth", 0), row.get("status", "")) for row in rows[1:]] == [
        ("lead it", 1, "completed"),
        ("leaf one", 2, "completed"),
        ("leaf two", 2, "completed"),
        ("break it", 1, "failed"),
    ]
    shown = melete("sessions", "show", last_session(), "--tree", COLUMNS="80").stdout
    assert "├─ ✓ lead it" in shown
    assert "│  └─ ✓ leaf two" in shown
    assert "└─ ✗ break it" in shown
    assert shown.splitlines()[-1].startswith("4 children · ")
    assert "leaf one" not in melete("sessions", "list").stdout, "children stand under their parents"
    assert "leaf one" in melete("sessions", "list", "--tree").stdout


@pytest.mark.parametrize("width", [80, 50])
def test_a_terminal_has_a_board_while_they_work(tmp_path: Path, width: int) -> None:
    deep()
    with (
        ScriptedModel(two_levels()) as model,
        Terminal(["run", PARENT], model=model, cwd=tmp_path, columns=width) as terminal,
    ):
        board = terminal.read_until("    • leaf one")
        assert "at work ·" in board
        assert "  • lead it" in board
        terminal.read_until("terminal")
        terminal.read_until("All told.")
        assert terminal.end() == 0
        assert len(BOARD.findall(terminal.raw)) > 1
        assert max(columns(CONTROL.sub("", line)) for line in BOARD.findall(terminal.raw)) < width
        after = terminal.raw[terminal.raw.rindex("\x1b[J") :] if "\x1b[J" in terminal.raw else ""
        assert "• leaf" not in after, "the board is taken back at the end"


def test_a_chat_shows_who_works_in_the_background(tmp_path: Path) -> None:
    long = [Call("terminal", {"command": "sleep 4"}), "counted"]
    begins = Call("delegate_task", {"goal": "count them", "background": True})
    these = Family({PARENT: [begins, "It is begun.", "They are counted."], "count them": long})
    with ScriptedModel(these) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type("/agents\r")
        chat.read_until("This session has handed no work to children.")
        chat.read_until("> ")
        chat.type(f"{PARENT}\r")
        chat.read_until("It is begun.")
        chat.read_until("> ")
        chat.type("/agents\r")
        chat.read_until("1 child at work")
        chat.read_until("• count them")
        chat.read_until("running · in the background")
        chat.read_until("» [Your child in the background has ended: completed: count them")
        chat.read_until("They are counted.")
        chat.read_until("> ")
        chat.type("/agents\r")
        chat.read_until("✓ count them")
        chat.read_until("completed · in the background")
        chat.type("/quit\r")
        assert chat.end() == 0


def test_what_children_changed_is_taken_back_with_the_turn(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "mine.txt"):
        (tmp_path / name).write_text("old\n")
    patch = Call("patch", {"path": "b.txt", "old_string": "old", "new_string": "new"})
    read = Call("read_file", {"path": "b.txt"})
    slow = [Call("terminal", {"command": "echo one >> a.txt; sleep 1; echo new > c.txt"}), "done"]
    quick = [read, patch, Call("terminal", {"command": "echo two > d.txt"}), "done"]
    with ScriptedModel(family(delegate("slow", "quick"), slow=slow, quick=quick)) as model:
        assert melete("run", PARENT, "--yolo", model=model, cwd=tmp_path).returncode == 0
    assert ((tmp_path / "b.txt").read_text(), (tmp_path / "c.txt").exists()) == ("new\n", True)
    done = melete("sessions", "rollback", last_session(), "--yes")
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == dict.fromkeys(
        ("a.txt", "b.txt", "mine.txt"), "old\n"
    )


def test_children_go_with_the_session_that_they_worked_for(tmp_path: Path) -> None:
    deep()
    with ScriptedModel(two_levels()) as model:
        assert melete("run", PARENT, model=model, cwd=tmp_path).returncode == 0
    session = last_session()
    children = [str(row["id"]) for row in lines(melete("sessions", "list", "--source", "subagent", "--json").stdout)]
    assert len(children) == 4
    done = melete("sessions", "delete", "--yes", session, children[0])
    assert (done.returncode, done.stderr) == (0, f"Deleted {session} and 4 children of it.\n")
    assert lines(melete("sessions", "list", "--source", "subagent", "--json").stdout) == []
    assert melete("verify").returncode == 0
