"""Standard output of `melete run` is the answer; everything else goes elsewhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from melete.testing import Call, Say, ScriptedModel
from tests.story.cli import Terminal, lines, melete, start, variables

WORK = Call("terminal", {"command": "echo something"}, text="Let me look.", thinking="Hm.")


def test_the_answer_alone_is_on_standard_output(tmp_path: Path) -> None:
    with ScriptedModel([WORK, "Forty-two."]) as model:
        done = melete("run", "What", "is", "it?", model=model, cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("Forty-two.\n", "", 0)
    assert model.requests[0].json["messages"][-1]["content"] == "What is it?"


def test_the_work_is_shown_on_standard_error_when_asked_for(tmp_path: Path) -> None:
    with ScriptedModel([WORK, "Forty-two."]) as model:
        done = melete("run", "-v", "What is it?", model=model, cwd=tmp_path)
    assert done.stdout == "Forty-two.\n"
    for shown in ("Hm.", "Let me look.", "terminal echo something", "done · 2 steps"):
        assert shown in done.stderr
    assert "\x1b" not in done.stderr


def test_with_json_every_event_is_a_line_and_the_last_is_the_end(tmp_path: Path) -> None:
    with ScriptedModel([WORK, "Forty-two."]) as model:
        done = melete("run", "--json", "What is it?", model=model, cwd=tmp_path)
    events = lines(done.stdout)
    assert all({"type", "seq", "session", "run", "at"} <= event.keys() for event in events)
    assert events[-1]["type"] == "run.ended"
    assert events[-1]["text"] == "Forty-two."
    assert {"run.started", "text.delta", "thinking.delta", "call.delta", "reply", "tool.started", "tool.ended"} <= {
        event["type"] for event in events
    }
    facts = [event["seq"] for event in events if "sub" not in event]
    assert facts == list(range(facts[0], facts[0] + len(facts)))


def test_the_prompt_may_come_through_a_pipe_alone_or_beside_words(tmp_path: Path) -> None:
    with ScriptedModel(["One.", "Two.", "Three."]) as model:
        assert melete("run", "-", model=model, stdin=b"from a pipe\n", cwd=tmp_path).stdout == "One.\n"
        assert melete(model=model, stdin=b"bare, from a pipe", cwd=tmp_path).stdout == "Two.\n"
        assert melete("run", "Sum up", model=model, stdin=b"a\xffb\n", cwd=tmp_path).stdout == "Three.\n"
    prompts = [request.json["messages"][-1]["content"] for request in model.requests]
    assert prompts[:2] == ["from a pipe\n", "bare, from a pipe"]
    assert prompts[2] == "Sum up\n\n<stdin>\na\N{REPLACEMENT CHARACTER}b\n</stdin>"


def test_a_reader_that_has_left_is_no_failure(tmp_path: Path) -> None:
    for words in (("run", "hello"), ("run", "--json", "hello"), ("--help",)):
        with ScriptedModel([Say(text="A line.\n" * 20_000)]) as model:
            process = start(*words, model=model, cwd=tmp_path)
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            left = process.stderr.read()
            process.stderr.close()
            assert process.wait(timeout=30) == 0, words
        assert left == b"", words


def test_an_answer_that_cannot_be_written_is_said_to_be(tmp_path: Path) -> None:
    if not os.access("/dev/full", os.W_OK):
        return
    with ScriptedModel(["Hello."]) as model, Path("/dev/full").open("wb") as full:
        process = start("run", "hello", model=model, cwd=tmp_path, stdout=full)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.startswith(b"melete: standard output cannot be written")
    assert b"Traceback" not in said


STREAMS = """
import atexit, os, pathlib, sys
from melete.__main__ import main
note = lambda: pathlib.Path("streams").write_text(" ".join(os.readlink(f"/proc/self/fd/{n}") for n in range(3)))
atexit.register(note)
sys.argv = ["melete", "run", "hello"]
main()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_stream_that_was_closed_before_is_not_taken_by_a_file(tmp_path: Path) -> None:
    closing = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', sys.executable, "-c", STREAMS]
    with ScriptedModel(["Hello."]) as model:
        done = subprocess.run(closing, env=variables(model), cwd=tmp_path, timeout=60)
    assert done.returncode == 0
    assert (tmp_path / "streams").read_text().split() == ["/dev/null"] * 3


def test_on_a_terminal_an_answer_cannot_take_the_terminal_over(tmp_path: Path) -> None:
    with (
        ScriptedModel(["Red \x1b[31m and a bell\x07."]) as model,
        Terminal(["run", "hello"], model=model, cwd=tmp_path, more={"NO_COLOR": "1"}) as terminal,
    ):
        terminal.read_until("and a bell")
        assert terminal.end() == 0
        assert "\x1b[31m" not in terminal.raw
        assert "\x07" not in terminal.raw
