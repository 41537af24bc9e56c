"""Approvals and questions: shown whole, answered by a line, withdrawn when somebody else was faster."""

from pathlib import Path

from melete.testing import Call, ScriptedModel
from tests.story.cli import Terminal, lines, melete

REMOVE = Call("terminal", {"command": "find build -delete"})
COLOUR = Call("clarify", {"question": "Which colour?", "choices": ["red", "green"]})


def test_a_risky_command_runs_when_it_is_approved(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    with ScriptedModel([REMOVE, "Removed."]) as model, Terminal(["run", "x"], model=model, cwd=tmp_path) as terminal:
        asked = terminal.read_until("[1-4] ")
        assert "find build -delete" in asked
        terminal.type("maybe\r")
        terminal.read_until("none of the choices")
        terminal.type("once\r")
        terminal.read_until("Removed.")
        assert terminal.end() == 0
    assert not (tmp_path / "build").exists()


def test_a_risky_command_does_not_run_when_it_is_denied(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    with (
        ScriptedModel([REMOVE, "Not removed."]) as model,
        Terminal(["run", "x"], model=model, cwd=tmp_path) as terminal,
    ):
        terminal.read_until("[1-4] ")
        terminal.type("n\r")
        terminal.read_until("Not removed.")
        assert terminal.end() == 0
        assert (tmp_path / "build").exists()
        assert "said no" in model.requests[1].body.decode()


def test_the_end_of_input_is_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    with (
        ScriptedModel([REMOVE, "Not removed."]) as model,
        Terminal(["run", "x"], model=model, cwd=tmp_path) as terminal,
    ):
        terminal.read_until("[1-4] ")
        terminal.type("\x04")
        terminal.read_until("Not removed.")
        assert terminal.end() == 0
    assert (tmp_path / "build").exists()


def test_without_a_terminal_a_risky_command_is_denied_unless_yolo(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    with ScriptedModel([REMOVE, "Could not.", REMOVE, "Did."]) as model:
        assert melete("run", "clean", model=model, cwd=tmp_path).stdout == "Could not.\n"
        assert (tmp_path / "build").exists()
        assert melete("run", "--yolo", "clean", model=model, cwd=tmp_path).stdout == "Did.\n"
    assert not (tmp_path / "build").exists()


def test_a_run_for_a_script_tells_what_was_refused_and_the_model_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    with ScriptedModel([REMOVE, "Could not."]) as model:
        done = melete("run", "--json", "clean", model=model, cwd=tmp_path)
        assert "say in your answer what is left to do" in model.requests[1].body.decode()
    (ended,) = [event for event in lines(done.stdout) if event["type"] == "tool.ended"]
    assert (done.returncode, ended["outcome"]) == (0, "denied")
    assert {name: ended["decision"][name] for name in ("by", "allowed", "rule")} == {
        "by": "nobody", "allowed": False, "rule": "remove-many"
    }  # fmt: skip


def test_a_number_stands_for_its_choice(tmp_path: Path) -> None:
    with ScriptedModel([COLOUR, "Noted."]) as model, Terminal(["run", "x"], model=model, cwd=tmp_path) as terminal:
        assert "2  green" in terminal.read_until("[1-2] ")
        terminal.type("3\r")
        terminal.read_until("none of the choices")
        terminal.type("2\r")
        terminal.read_until("Noted.")
        assert terminal.end() == 0
        assert '\\"answer\\":\\"green\\"' in model.requests[1].body.decode()


def test_what_was_typed_before_a_question_is_no_answer_to_it(tmp_path: Path) -> None:
    slow = Call("terminal", {"command": "sleep 1"})
    with (
        ScriptedModel([slow, COLOUR, "Noted."]) as model,
        Terminal(["run", "x"], model=model, cwd=tmp_path) as terminal,
    ):
        terminal.read_until("terminal sleep 1")
        terminal.type("1\r")
        terminal.read_until("[1-2] ")
        terminal.type("green\r")
        terminal.read_until("Noted.")
        assert terminal.end() == 0
        assert '\\"answer\\":\\"green\\"' in model.requests[2].body.decode()


def test_a_question_that_another_terminal_answered_is_withdrawn(tmp_path: Path) -> None:
    with ScriptedModel([COLOUR, "Noted."]) as model, Terminal(["run", "x"], model=model, cwd=tmp_path) as terminal:
        terminal.read_until("[1-2] ")
        (row,) = lines(melete("sessions", "list", "--json", model=model).stdout)
        sent = melete("sessions", "answer", row["id"], "red", model=model)
        assert (sent.returncode, sent.stdout[:9]) == (0, "accepted:")
        terminal.read_until("answered: red, by cli")
        terminal.read_until("Noted.")
        assert terminal.end() == 0
        late = melete("sessions", "answer", row["id"], "gone", "red", model=model)
        assert (late.returncode, late.stdout[:8]) == (1, "expired:")


def test_another_terminal_sees_all_of_what_it_is_asked_to_approve(tmp_path: Path) -> None:
    command = f"find build {'and-a-long-name/' * 20}end -delete"
    with (
        ScriptedModel([Call("terminal", {"command": command}), "Not removed."]) as model,
        Terminal(["run", "x"], model=model, cwd=tmp_path) as terminal,
    ):
        terminal.read_until("[1-4] ")
        (row,) = lines(melete("sessions", "list", "--json", model=model).stdout)
        (asked,) = (
            event["question"]
            for event in lines(melete("sessions", "show", row["id"], "--json", model=model).stdout)
            if event["type"] == "asked"
        )
        shown = melete("sessions", "show", row["id"], model=model)
        question = shown.stdout.splitlines().index(f"? {asked['text']} ({asked['id']})")
        assert command in shown.stdout.splitlines()[question + 1]
        assert f"sessions answer {row['id']} {asked['id']} VALUE" in shown.stderr
        assert melete("sessions", "answer", row["id"], asked["id"], "deny", model=model).returncode == 0
        terminal.read_until("Not removed.")
        assert terminal.end() == 0


def test_an_interrupt_ends_a_run_that_asks(tmp_path: Path) -> None:
    with ScriptedModel([COLOUR]) as model, Terminal(["run", "x"], model=model, cwd=tmp_path) as terminal:
        terminal.read_until("[1-2] ")
        terminal.type("\x03")
        terminal.read_until("cancelled; go on with")
        assert terminal.end() == 130
