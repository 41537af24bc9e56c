"""`melete sessions show --follow`: begun before, during and after a run, by several, until an end, a crash or Ctrl-C."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from melete.testing import Call, ScriptedModel
from tests.story.cli import PATIENCE, lines, melete, start

WAIT = Call("terminal", {"command": "while [ ! -e go ]; do sleep 0.05; done"})


def begun(process: subprocess.Popen[bytes]) -> str:
    """Wait until the run's first call runs, and return the session."""
    assert process.stdout is not None
    while True:
        event: dict[str, Any] = json.loads(process.stdout.readline())
        if event["type"] == "tool.started":
            return event["session"]


def seen(follower: subprocess.Popen[bytes], wanted: bytes) -> None:
    """Read until a line holds what is wanted."""
    assert follower.stdout is not None
    while wanted not in (line := follower.stdout.readline()):
        assert line, "it ended before that was shown"


def test_many_runs_are_over_and_two_follow_the_one_that_goes_on(tmp_path: Path) -> None:
    with ScriptedModel(["One.", "Two.", WAIT, "Three."]) as model:
        melete("run", "first", model=model, cwd=tmp_path)
        melete("run", "-c", "second", model=model, cwd=tmp_path)
        run = start("run", "-c", "--json", "third", model=model, cwd=tmp_path)
        session = begun(run)
        whole = start("sessions", "show", session, "-f", "--json")
        last = start("sessions", "show", session, "-f", "--tail", "1")
        seen(whole, b"tool.started")
        seen(last, b"third")
        (tmp_path / "go").touch()
        run.communicate(timeout=PATIENCE)
        told, _ = whole.communicate(timeout=PATIENCE)
        shown, said = last.communicate(timeout=PATIENCE)
    assert (run.returncode, whole.returncode, last.returncode, said) == (0, 0, 0, b"")
    assert lines(told.decode())[-1]["type"] == "run.ended"
    assert b"Three." in shown
    assert b"[4]" in shown


def test_one_that_is_over_is_shown_and_that_is_all(tmp_path: Path) -> None:
    with ScriptedModel(["One."]) as model:
        melete("run", "first", model=model, cwd=tmp_path)
    (row,) = lines(melete("sessions", "list", "--json").stdout)
    done = melete("sessions", "show", row["id"], "-f")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("One.") == 1
    assert done.stdout.splitlines()[3:] == melete("sessions", "show", row["id"]).stdout.splitlines()[3:]


def test_an_interrupt_ends_the_follower_and_not_the_run(tmp_path: Path) -> None:
    with ScriptedModel([WAIT, "Done."]) as model:
        run = start("run", "--json", "wait", model=model, cwd=tmp_path)
        follower = start("sessions", "show", begun(run), "-f")
        seen(follower, b"wait")
        follower.send_signal(signal.SIGINT)
        _, said = follower.communicate(timeout=PATIENCE)
        assert (follower.returncode, said) == (130, b"")
        (tmp_path / "go").touch()
        out, _ = run.communicate(timeout=PATIENCE)
    assert lines(out.decode())[-1]["text"] == "Done."


def test_a_reader_that_leaves_is_no_failure(tmp_path: Path) -> None:
    with ScriptedModel([WAIT, "Done."]) as model:
        run = start("run", "--json", "wait", model=model, cwd=tmp_path)
        follower = start("sessions", "show", begun(run), "-f")
        seen(follower, b"wait")
        assert follower.stdout is not None
        follower.stdout.close()
        (tmp_path / "go").touch()
        run.communicate(timeout=PATIENCE)
        assert follower.wait(PATIENCE) == 0
        assert follower.stderr is not None
        follower.stderr.close()


def test_a_session_that_is_deleted_meanwhile_is_told_so(tmp_path: Path) -> None:
    with ScriptedModel([WAIT]) as model:
        run = start("run", "--json", "wait", model=model, cwd=tmp_path)
        session = begun(run)
        follower = start("sessions", "show", session, "-f")
        seen(follower, b"wait")
        follower.send_signal(signal.SIGSTOP)
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
        (tmp_path / "go").touch()
        assert melete("sessions", "delete", session, "--yes").returncode == 0
        follower.send_signal(signal.SIGCONT)
        _, said = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 1
    assert b"was deleted meanwhile" in said
    assert b"Traceback" not in said
