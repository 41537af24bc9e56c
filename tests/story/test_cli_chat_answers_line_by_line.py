"""`melete chat`: prompts, slash commands, interrupts, and leaving."""

from pathlib import Path

from melete.testing import Call, Fault, Say, ScriptedModel
from tests.story.cli import Terminal, lines, melete

SLEEP = Call("terminal", {"command": "sleep 30"})


def test_it_answers_as_it_goes_and_shows_each_call_on_a_line(tmp_path: Path) -> None:
    echo = Call("terminal", {"command": "echo hi"}, text="Let me see.")
    with ScriptedModel([echo, "It says hi."]) as model, Terminal([], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type("what does it say?\r")
        shown = chat.read_until("It says hi.")
        assert "Let me see." in shown
        assert "terminal echo hi" in shown
        chat.read_until("> ")
        chat.type("\x04")
        assert chat.end() == 0


def test_the_slash_commands_work(tmp_path: Path) -> None:
    with ScriptedModel(["Hello.", "Later."]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        for typed, wanted in (
            ("/help", "/exit"),
            ("/sta", "did you mean /status?"),
            ("/status", "approvals"),
            ("/tools", "session_search"),
            ("/context", "sum"),
            ("/model", "openrouter"),
            ("/model deepseek/x", "no key for deepseek"),
            ("/yolo", "approved now"),
            ("/yolo off", "asked about again"),
            ("/retry", "nothing was asked yet"),
            ("/title", "no title yet"),
            ("good day", "Hello."),
            ("/retry", "the last run was answered"),
            ("/title Good days", "Good days"),
            ("/sessions", "Good days"),
            ("/resume nowhere", "nowhere"),
            ("/new", "session "),
            ("/usage", "0 tokens in"),
            ("/resume Good days", "2 messages"),
            ("and now?", "Later."),
            ("/quit", "/quit"),
        ):
            chat.type(f"{typed}\r")
            chat.read_until(wanted)
            if typed != "/quit":
                chat.read_until("> ")
        assert chat.end() == 0
        listed = lines(melete("sessions", "list", "--json", model=model).stdout)
    assert [(row["title"], row["messages"]) for row in listed] == [("Good days", 4)]  # the empty one is not kept


def test_a_line_that_is_no_text_can_be_typed_again(tmp_path: Path) -> None:
    with ScriptedModel(["Now I can read it."]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type("\udcff\udcfe( coffee\r")
        chat.read_until("not UTF-8")
        chat.read_until("> ")
        chat.type("coffee\r")
        chat.read_until("Now I can read it.")
        chat.read_until("> ")
        chat.type("/quit\r")
        assert chat.end() == 0


def test_an_interrupt_stops_the_run_and_not_the_chat(tmp_path: Path) -> None:
    with ScriptedModel([SLEEP, "Awake."]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type("wait\r")
        chat.read_until("terminal sleep 30")
        chat.interrupt()
        chat.read_until("· cancelled")
        chat.read_until("> ")
        chat.type("/retry\r")
        chat.read_until("Awake.")
        chat.read_until("> ")
        chat.type("half a line")
        chat.read_until("half a line")
        chat.interrupt()
        chat.read_until("to leave.")
        chat.read_until("> ")
        chat.type("x")
        chat.read_until("x")
        chat.interrupt()
        assert chat.end() == 0


def test_a_failure_is_told_and_can_be_tried_again(tmp_path: Path) -> None:
    script = [Fault("unauthorized"), "Now it works."]
    with ScriptedModel(script) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type("hello\r")
        chat.read_until("/retry tries again.")
        chat.read_until("> ")
        chat.type("/retry\r")
        chat.read_until("Now it works.")
        chat.read_until("> ")
        chat.type("/exit\r")
        assert chat.end() == 0


def test_a_line_may_go_on_in_the_next_and_a_path_is_no_command(tmp_path: Path) -> None:
    with ScriptedModel(["Yes.", "No."]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type("one\\\r")
        chat.read_until("… ")
        chat.type("two\r")
        chat.read_until("Yes.")
        chat.read_until("> ")
        chat.type("/etc/hosts is what?\r")
        chat.read_until("No.")
        chat.read_until("> ")
        chat.type("\x04")
        assert chat.end() == 0
        assert [r.json["messages"][-1]["content"] for r in model.requests] == ["one\ntwo", "/etc/hosts is what?"]


def test_it_can_be_driven_through_a_pipe(tmp_path: Path) -> None:
    with ScriptedModel(["One.", "Two."]) as model:
        done = melete("chat", model=model, stdin=b"first\n/title\nsecond\n", cwd=tmp_path)
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if line in ("One.", "first", "Two.")] == ["One.", "first", "Two."]
    assert "\x1b" not in done.stdout


def test_a_termination_ends_run_and_chat(tmp_path: Path) -> None:
    with ScriptedModel([SLEEP]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type("wait\r")
        chat.read_until("terminal sleep 30")
        chat.process.terminate()
        chat.read_until("· cancelled")
        assert chat.end() == 143


def test_the_terminal_is_not_taken_over_by_what_a_model_says(tmp_path: Path) -> None:
    with ScriptedModel([Say(text="a\x1b[2Jb\x07c")]) as model, Terminal(["chat"], model=model, cwd=tmp_path) as chat:
        chat.read_until("> ")
        chat.type("hello\r")
        chat.read_until("done")
        chat.read_until("> ")
        chat.type("\x04")
        assert chat.end() == 0
        assert "\x1b[2J" not in chat.raw
        assert "\x07" not in chat.raw
