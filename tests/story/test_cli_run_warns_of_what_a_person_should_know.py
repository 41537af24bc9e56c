"""`melete run` where nobody watches: a cut reply, a crash and a damaged log are told in one line each on standard error."""

from pathlib import Path

from melete.testing import Call, Fault, Say, ScriptedModel
from tests.story.cli import lines, melete, start

CUT = Say(text="Half of it", stop="length")
WAIT = Call("terminal", {"command": "while [ ! -e go ]; do sleep 0.05; done"})


def test_a_reply_that_was_cut_off_is_told(tmp_path: Path) -> None:
    with ScriptedModel([CUT, CUT]) as model:
        plain = melete("run", "go", model=model, cwd=tmp_path)
        as_json = melete("run", "--json", "go", model=model, cwd=tmp_path)
    assert (plain.returncode, plain.stdout) == (0, "Half of it\n")
    (line,) = plain.stderr.splitlines()
    assert line.startswith("melete: warning: ")
    assert as_json.stderr == ""
    assert [event["level"] for event in lines(as_json.stdout) if event["type"] == "notice"] == ["warning"]


def test_an_answer_without_words_is_told(tmp_path: Path) -> None:
    with ScriptedModel([Fault("empty")] * 3) as model:
        done = melete("run", "go", model=model, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "melete: warning: the model answered with neither text nor a call\n"


def test_a_call_that_a_crash_left_open_is_told(tmp_path: Path) -> None:
    with ScriptedModel([WAIT, "On we go."]) as model:
        run = start("run", "--json", "wait", model=model, cwd=tmp_path)
        assert run.stdout is not None
        while b'"tool.started"' not in run.stdout.readline():
            pass
        (tmp_path / "go").touch()
        run.kill()
        run.communicate()
        done = melete("run", "-c", model=model, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "On we go.\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("melete: warning: 1 call")


def test_a_damaged_log_is_told_even_when_nothing_is_left_to_do(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["One."]) as model:
        melete("run", "first", model=model, cwd=tmp_path)
        (log,) = (own_home / ".melete" / "state" / "sessions").glob("*.log")
        first, *more = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(b"".join([first, b"what is this\n", *more]))
        done = melete("run", "-c", model=model, cwd=tmp_path)
    assert done.returncode == 0
    warning, nothing = done.stderr.splitlines()
    assert warning.startswith("melete: warning: The log held ")
    assert "nothing left to do" in nothing
