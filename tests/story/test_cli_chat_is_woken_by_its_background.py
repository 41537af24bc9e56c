"""In a chat, a background process that ends is answered by itself, and the line that is being typed stays."""

import subprocess
from pathlib import Path

from melete.testing import Call, ScriptedModel
from tests.story.cli import MELETE, PATIENCE, Terminal, variables

BUILD = Call("terminal", {"command": "sleep 2; echo linking; exit 2", "background": True, "notify_on_complete": True})


def test_the_answer_comes_by_itself_and_what_was_typed_stays(tmp_path: Path) -> None:
    script = [BUILD, "It is building.", "The build failed.", "Four."]
    with ScriptedModel(script) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type("build it\r")
        chat.read_until("It is building.")
        chat.read_until("> ")
        chat.type("two and ")
        chat.read_until("two and ")
        chat.read_until("» [Background process p1 `sleep 2; echo linking; exit 2` ended with exit code 2 after 2 s]")
        chat.read_until("The build failed.")
        chat.read_until("> two and ")
        chat.type("two?\r")
        chat.read_until("Four.")
        assert model.requests[-1].json["messages"][-1]["content"] == "two and two?"
        chat.read_until("> ")
        chat.type("/quit\r")
        assert chat.end() == 0


def test_a_woken_run_can_be_asked_and_interrupted(tmp_path: Path) -> None:
    risky = Call("terminal", {"command": "find build -delete"})
    script = [BUILD, "It is building.", risky, Call("terminal", {"command": "sleep 30"}), "Never seen.", "Here."]
    with ScriptedModel(script) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type("build it\r")
        chat.read_until("It is building.")
        chat.read_until("> ")
        chat.type("one line\\\r")
        chat.read_until("… ")
        chat.read_until("find build -delete")
        chat.read_until("[1-4] ")
        chat.type("4\r")
        chat.read_until("terminal sleep 30")
        chat.interrupt()
        chat.read_until("· cancelled")
        chat.read_until("… ")
        chat.type("and another\r")
        chat.read_until("Never seen.")
        assert model.requests[-1].json["messages"][-1]["content"] == "one line\nand another"
        chat.read_until("> ")
        chat.type("\x04")
        assert chat.end() == 0


def test_a_chat_on_a_pipe_is_woken_as_well(tmp_path: Path) -> None:
    script = [BUILD, "It is building.", "The build failed.", "Four."]
    with (
        ScriptedModel(script) as model,
        subprocess.Popen(
            [*MELETE, "chat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables(model), cwd=tmp_path
        ) as chat,
    ):
        assert chat.stdin is not None
        assert chat.stdout is not None
        chat.stdin.write(b"build it\n")
        chat.stdin.flush()
        while b"The build failed." not in chat.stdout.readline():
            pass
        chat.stdin.write(b"two and two?\n")
        chat.stdin.close()
        assert b"Four." in chat.stdout.read()
        assert chat.wait(PATIENCE) == 0
