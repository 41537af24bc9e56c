"""`melete sessions`: what runs in one process is followed, steered and cancelled from others; what is past is listed."""

import subprocess
from pathlib import Path
from typing import Any

from melete.testing import Call, ScriptedModel
from tests.story.cli import lines, melete, start

WAIT = Call("terminal", {"command": "while [ ! -e go ]; do sleep 0.05; done"})


def begun(process: subprocess.Popen[bytes]) -> str:
    """Wait until the run's first call runs, and return the session."""
    assert process.stdout is not None
    while True:
        event: dict[str, Any] = lines(process.stdout.readline().decode())[0]
        if event["type"] == "tool.started":
            return event["session"]


def test_it_is_followed_steered_and_queued_to(tmp_path: Path) -> None:
    with ScriptedModel([WAIT, "Steered.", "Queued."]) as model:
        run = start("run", "--json", "wait", model=model, cwd=tmp_path)
        session = begun(run)
        follower = start("sessions", "show", session, "--follow", "--json", model=model)
        steered = melete("sessions", "steer", session, "use", "tabs", "--json", model=model)
        assert (steered.returncode, lines(steered.stdout)[0]["status"]) == (0, "queued")
        queued = melete("sessions", "steer", "--queue", session, "then the tests", model=model)
        assert (queued.returncode, queued.stdout) == (
            0,
            "queued: the session runs and will read it when it would stop\n",
        )
        (tmp_path / "go").touch()
        out, _ = run.communicate(timeout=30)
        followed, said = follower.communicate(timeout=30)
    assert run.returncode == 0
    assert lines(out.decode())[-1]["text"] == "Queued."
    kinds = [event["type"] for event in lines(followed.decode())]
    assert kinds[0] == "session.opened"
    assert kinds[-1] == "run.ended"
    assert kinds.count("steered") == 1
    assert (follower.returncode, said) == (0, b"")
    assert "use tabs" in model.requests[1].body.decode()
    assert "then the tests" in model.requests[2].body.decode()


def test_what_is_said_to_a_session_that_does_not_run_waits(tmp_path: Path) -> None:
    with ScriptedModel(["One.", "Two."]) as model:
        melete("run", "first", model=model, cwd=tmp_path)
        (row,) = lines(melete("sessions", "list", "--json", model=model).stdout)
        waits = melete("sessions", "steer", row["id"], "use tabs", model=model)
        assert (waits.returncode, waits.stdout.split(";")[0]) == (0, "queued: nothing runs in the session now")
        assert melete("run", "-c", model=model, cwd=tmp_path).stdout == "Two.\n"
        assert "use tabs" in model.requests[1].body.decode()


def test_it_is_cancelled(tmp_path: Path) -> None:
    with ScriptedModel([WAIT]) as model:
        run = start("run", "--json", "wait", model=model, cwd=tmp_path)
        session = begun(run)
        busy = melete("run", "-s", session, "me too", model=model)
        assert busy.returncode == 1
        assert session in busy.stderr
        done = melete("sessions", "cancel", session, model=model)
        assert (done.returncode, done.stdout[:9]) == (0, "accepted:")
        run.communicate(timeout=30)
        assert run.returncode == 130
        again = melete("sessions", "cancel", session, model=model)
        assert (again.returncode, again.stdout[:8]) == (1, "expired:")


def test_following_a_session_whose_process_was_killed_ends(tmp_path: Path) -> None:
    with ScriptedModel([WAIT]) as model:
        run = start("run", "--json", "wait", model=model, cwd=tmp_path)
        session = begun(run)
        follower = start("sessions", "show", session, "-f", model=model)
        assert follower.stdout is not None
        while b"wait" not in follower.stdout.readline():
            pass
        run.kill()
        run.wait(timeout=30)
        (tmp_path / "go").touch()
        run.communicate()
        _, said = follower.communicate(timeout=30)
    assert follower.returncode == 0
    assert b"melete run -s" in said


def test_past_sessions_are_listed_searched_shown_renamed_and_deleted(tmp_path: Path) -> None:
    with ScriptedModel([Call("terminal", {"command": "false"}), "A purple answer."]) as model:
        melete("run", "a", "question", model=model, cwd=tmp_path)
    listed = melete("sessions", "list")
    assert listed.stdout.splitlines()[0].split() == ["ID", "STATE", "CHANGED", "MSGS", "MODEL", "TITLE"]
    (row,) = lines(melete("sessions", "list", "--json").stdout)
    shown = melete("sessions", "show", row["id"]).stdout
    for text in ("> you", "a question", "terminal false", "exit status 1", "A purple answer.", "done · 2 steps"):
        assert text in shown
    assert row["id"] in melete("sessions", "search", "purple").stdout
    assert melete("sessions", "rename", row["id"], "Colours", "of things").returncode == 0
    assert "Colours of things" in melete("sessions", "show", "Colours of things").stdout
    assert melete("sessions", "delete", row["id"]).returncode == 2
    assert melete("sessions", "delete", row["id"], "--yes").returncode == 0
    assert melete("sessions", "list").stdout == ""


def test_an_answer_needs_to_say_which_question_when_it_is_not_clear(tmp_path: Path) -> None:
    with ScriptedModel(["Done."]) as model:
        melete("run", "hello", model=model, cwd=tmp_path)
    (row,) = lines(melete("sessions", "list", "--json").stdout)
    done = melete("sessions", "answer", row["id"], "yes")
    assert done.returncode == 2
    assert "no question is open" in done.stderr
