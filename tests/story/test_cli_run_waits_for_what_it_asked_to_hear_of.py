"""`melete run` ends only when the background processes that it asked to hear of have been heard."""

from pathlib import Path

from melete.testing import Call, ScriptedModel
from tests.story.cli import Terminal, lines, melete
from tests.story.homes import of_type


def background(command: str, **more: object) -> Call:
    """A call that starts a command in the background."""
    return Call("terminal", {"command": command, "background": True, **more})


BUILD = background("sleep 0.5; echo linking; exit 2", notify_on_complete=True)


def test_the_end_of_a_build_reaches_the_same_run(tmp_path: Path) -> None:
    with ScriptedModel([BUILD, "It is building.", "The build failed."]) as model:
        done = melete("run", "build it", model=model, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "The build failed.\n")
        told = model.requests[-1].json["messages"][-1]
        assert told["role"] == "user"
        assert "ended with exit code 2" in told["content"]
        assert told["content"].endswith("> linking")
        session = lines(melete("sessions", "list", "--json", model=model).stdout)[0]["id"]
        shown = melete("sessions", "show", session).stdout
        assert "waiting for p1" in shown
        assert "> runtime" in shown
        assert "equal byte for byte" in melete("sessions", "replay", session).stdout


def test_without_the_wish_nothing_is_waited_for(tmp_path: Path) -> None:
    with ScriptedModel([background("sleep 300"), "It runs."]) as model:
        done = melete("run", "start it", model=model, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "It runs.\n")


def test_several_ends_are_answered_together(tmp_path: Path) -> None:
    both = [background("sleep 0.6", notify_on_complete=True) for _ in range(3)]
    with ScriptedModel([*both, Call("terminal", {"command": "sleep 1.5"}), "All started.", "All done."]) as model:
        done = melete("run", "--json", "go", model=model, cwd=tmp_path)
        events = lines(done.stdout)
        assert len([e for e in of_type(events, "message") if e.get("inbox")]) == 3
        assert of_type(events, "run.ended")[0]["text"] == "All done."
        assert len(model.requests) == 6


def test_an_end_that_was_asked_for_is_not_told_again(tmp_path: Path) -> None:
    poll = Call("process", {"action": "poll", "session_id": "p1"})
    script = [background("exit 5", notify_on_complete=True), Call("terminal", {"command": "sleep 0.5"}), poll, "Five."]
    with ScriptedModel(script) as model:
        done = melete("run", "--json", "go", model=model, cwd=tmp_path)
        events = lines(done.stdout)
        assert of_type(events, "run.ended")[0]["text"] == "Five."
        assert not [e for e in of_type(events, "message") if e.get("inbox")]


def test_an_interrupt_ends_the_waiting(tmp_path: Path) -> None:
    wait = background("sleep 300", notify_on_complete=True)
    with ScriptedModel([wait, "I wait."]) as model, Terminal(["run", "wait"], model=model, cwd=tmp_path) as run:
        run.read_until("waiting for p1 (sleep 300)")
        run.interrupt()
        run.read_until("cancelled")
        assert run.end() == 130


def test_the_time_of_a_run_ends_the_waiting(tmp_path: Path, own_home: Path) -> None:
    (own_home / ".melete").mkdir()
    (own_home / ".melete" / "config.yaml").write_text("budget:\n  run:\n    seconds: 2\n")
    with ScriptedModel([background("sleep 300", notify_on_complete=True), "I wait."]) as model:
        done = melete("run", "wait", model=model, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "I wait.\n")
