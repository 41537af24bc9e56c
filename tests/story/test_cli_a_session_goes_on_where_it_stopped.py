"""`melete run -c`, with and without a prompt."""

from pathlib import Path

from melete.testing import Call, Fault, ScriptedModel
from tests.story.cli import lines, melete


def test_a_prompt_continues_the_latest_session_with_the_same_beginning(tmp_path: Path) -> None:
    with ScriptedModel([Call("terminal", {"command": "true"}), "One.", "Two.", "Three."]) as model:
        melete("run", "first", model=model, cwd=tmp_path)
        assert melete("run", "-c", "second", model=model, cwd=tmp_path).stdout == "Two.\n"
        (row,) = lines(melete("sessions", "list", "--json", model=model).stdout)
        assert melete("run", "-s", row["id"][:-2], "third", model=model, cwd=tmp_path).stdout == "Three.\n"
    bodies = [request.body.decode() for request in model.requests]
    head = bodies[1].partition('"messages":[')[2].partition("]}")[0]
    assert head
    assert [len(request.json["messages"]) for request in model.requests] == [2, 4, 6, 8]
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.json["messages"][: len(before.json["messages"])] == before.json["messages"]


def test_without_a_prompt_a_failed_run_goes_on(tmp_path: Path) -> None:
    with ScriptedModel([Call("terminal", {"command": "true"}), Fault("unauthorized"), "At last."]) as model:
        assert melete("run", "first", model=model, cwd=tmp_path).returncode == 1
        done = melete("run", "-c", model=model, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("At last.\n", 0)


def test_with_nothing_left_to_do_it_says_so_and_asks_nobody(tmp_path: Path) -> None:
    with ScriptedModel(["One."]) as model:
        melete("run", "first", model=model, cwd=tmp_path)
        done = melete("run", "-c", model=model, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "")
        assert "nothing left to do" in done.stderr
        assert len(model.requests) == 1


def test_an_ephemeral_run_leaves_nothing_behind(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel([Call("terminal", {"command": "true"}), "One."]) as model:
        assert melete("run", "--ephemeral", "hello", model=model, cwd=tmp_path).stdout == "One.\n"
    assert not (own_home / ".melete").exists()


def test_a_session_without_a_past_cannot_be_continued(tmp_path: Path) -> None:
    with ScriptedModel() as model:
        done = melete("run", "-c", "hello", model=model, cwd=tmp_path)
    assert done.returncode == 2
    assert "melete run PROMPT" in done.stderr
