"""`melete run -c`, with and without a prompt."""

import subprocess
from pathlib import Path

import pytest

from melete.testing import Call, Fault, ScriptedModel
from tests.story.cli import MELETE, PATIENCE, lines, melete, variables


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


@pytest.mark.parametrize("where", ["local", pytest.param("sandbox", marks=pytest.mark.needs("bwrap"))])
def test_a_folder_that_is_gone_is_told_to_the_person_and_to_the_model(tmp_path: Path, where: str) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    with ScriptedModel(["One.", "Two.", "Three."]) as model:
        assert melete("run", "--env", where, "first", model=model, cwd=old).returncode == 0
        old.rmdir()
        done = melete("run", "-c", "second", model=model, cwd=new)
        assert (done.stdout, len(done.stderr.splitlines())) == ("Two.\n", 1)
        assert f"{old}, is not there: it goes on in {new}" in done.stderr
        done = melete("run", "-c", "third", "--cwd", str(new), model=model, cwd=tmp_path)
        assert (done.stdout, done.stderr) == ("Three.\n", "")
    first, second, third = [request.json["messages"][0]["content"] for request in model.requests]
    assert f"The working folder is {old}" in first
    assert f"The working folder is {new}" in second
    assert third == second


def test_where_both_folders_are_gone_nothing_is_begun(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    with ScriptedModel(["One."]) as model:
        melete("run", "first", model=model, cwd=old)
        old.rmdir()
        done = subprocess.run(
            ["sh", "-c", 'mkdir x; cd x; rmdir ../x; exec "$@"', "sh", *MELETE, "run", "-c", "second"],
            cwd=tmp_path, env=variables(model), capture_output=True, timeout=PATIENCE,
        )  # fmt: skip
    assert (done.returncode, len(model.requests)) == (2, 1)
    assert b"give --cwd" in done.stderr


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
