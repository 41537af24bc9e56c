"""0 answered, 1 failed, 2 wrong usage or configuration, 3 a limit, 130 interrupted, 143 terminated."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from melete.testing import Call, Fault, ScriptedModel
from tests.story.cli import lines, melete, start, variables

SLEEP = Call("terminal", {"command": "sleep 30"})


def test_a_wrong_key_is_a_failure_in_one_line(tmp_path: Path) -> None:
    with ScriptedModel([Fault("unauthorized")]) as model:
        done = melete("run", "hello", model=model, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("melete: ")
    assert done.stderr.count("\n") == 1


def test_a_failure_after_an_earlier_answer_does_not_print_that_answer_again(tmp_path: Path) -> None:
    with ScriptedModel(["First.", Fault("unauthorized")]) as model:
        melete("run", "hello", model=model, cwd=tmp_path)
        done = melete("run", "-c", "and now?", model=model, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")


def test_without_a_model_the_ways_to_get_one_are_listed(tmp_path: Path) -> None:
    done = melete("run", "hello", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    for way in ("no model is configured", "-m ", "melete config set model.name", "MELETE_BASE_URL", "melete demo"):
        assert way in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "there is no prompt"),
        (["run", "--no-such-option", "x"], "no such option"),
        (["run", "not \udcff text"], "argument 2 is not UTF-8 text"),
        (["frobnicate"], "no such command 'frobnicate'"),
        (["fix the tests"], 'melete run "'),
        (["run", "-s", "nowhere", "x"], "nowhere"),
        (["run", "-c", "-s", "x", "y"], "-s and -c"),
        (["run", "--cwd", "no/such/folder", "x"], "--cwd"),
        (["run", "--image", "notes.txt", "x"], "notes.txt"),
        (["run", "-p", "../up", "x"], "profile"),
        (["run", "--wire", "telegraph", "x"], "there is no wire 'telegraph'; known: anthropic-messages"),
        (["context", "--yolo"], "no such option"),
        (["sessions", "show", "nowhere"], "nowhere"),
        (["config", "set", "agent.max_stepz", "3"], "did you mean agent.max_steps?"),
    ],
)
def test_wrong_usage_is_told_in_one_line(words: list[str], said: str, tmp_path: Path) -> None:
    with ScriptedModel() as model:
        done = melete(*words, model=model, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.startswith("melete: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("mistake", [["-t", "nowhere"], ["--env", "nowhere"], ["--wire", "telegraph"]])
def test_a_mistake_leaves_no_session_behind(mistake: list[str], tmp_path: Path) -> None:
    with ScriptedModel() as model:
        assert melete("run", *mistake, "x", model=model, cwd=tmp_path).returncode == 2
        assert melete("sessions", "list", "--json", model=model).stdout == ""


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_picture_that_is_no_file_is_told_and_nobody_waits_for_it(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "a.png")
    with ScriptedModel() as model:
        done = melete("run", "--image", "a.png", "x", model=model, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "melete: a.png is no file; check the path\n")


def test_a_limit_is_told_and_the_answer_printed(tmp_path: Path) -> None:
    steps = [Call("terminal", {"command": "true"}), Call("terminal", {"command": "true"}), "This far I came."]
    with ScriptedModel(steps) as model:
        done = melete("run", "--max-steps", "2", "work", model=model, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "This far I came.\n")
    assert "the limit of steps was reached" in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_and_its_results_are_stored(number: signal.Signals, status: int, tmp_path: Path) -> None:
    with ScriptedModel([SLEEP]) as model:
        process = start("run", "--json", "wait", model=model, cwd=tmp_path)
        assert process.stdout is not None
        while b'"tool.started"' not in process.stdout.readline():
            pass
        process.send_signal(number)
        rest, said = process.communicate(timeout=30)
        listed = lines(melete("sessions", "list", "--json", model=model).stdout)
    assert process.returncode == status
    ended = lines(rest.decode())
    assert [event["type"] for event in ended][-1] == "run.ended"
    assert {event.get("outcome") for event in ended} >= {"cancelled"}
    assert said == b""
    assert [row["stop"] for row in listed] == ["cancelled"]


def test_a_second_interrupt_ends_everything_at_once(tmp_path: Path) -> None:
    stubborn = Call("terminal", {"command": "trap '' TERM; touch begun; while :; do sleep 0.1; done"})
    with ScriptedModel([stubborn]) as model:
        process = start("run", "wait", model=model, cwd=tmp_path)
        while not (tmp_path / "begun").exists():
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=30)  # and no process is left: the fixture looks
    assert (process.returncode, out, said) == (130, b"", b"")


def test_an_interrupt_while_the_program_is_still_being_loaded_is_no_traceback() -> None:
    begun = (
        "import signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'melete.surfaces.cli.main': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "sys.argv[1:] = ['sessions', 'list']\n"
        "from melete.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", begun], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize(("name", "said"), [(b"gone", "is gone"), (b"\xff", "is not UTF-8")])
def test_a_working_folder_that_cannot_be_used_is_told_in_one_line(tmp_path: Path, name: bytes, said: str) -> None:
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/" + name))
    folder.mkdir()
    code = f"import os, sys; os.chdir({str(folder)!r}); {said == 'is gone'} and os.rmdir({str(folder)!r}); "
    code += "sys.argv[1:] = ['run', 'hello']; from melete.__main__ import main; main()"
    with ScriptedModel() as model:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=variables(model), timeout=60)
        listed = melete("sessions", "list", model=model).stdout
    assert (done.returncode, done.stdout, listed) == (2, b"", "")
    assert said.encode() in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_group_without_a_command_shows_its_help() -> None:
    done = melete("sessions")
    assert done.returncode == 2
    assert "steer" in done.stderr


def test_a_home_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with ScriptedModel(["Hello."]) as model:
        done = melete("run", "hello", model=model, cwd=tmp_path, MELETE_HOME=str(tmp_path / "file" / "home"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert str(tmp_path / "file") in done.stderr


def test_a_traceback_is_shown_only_with_debug(tmp_path: Path) -> None:
    assert "Traceback" not in melete("sessions", "show", "x", cwd=tmp_path).stderr
    assert "Traceback" in melete("--debug", "sessions", "show", "x", cwd=tmp_path).stderr
