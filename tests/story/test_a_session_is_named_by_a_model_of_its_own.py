"""`auxiliary.title`: a small model names a new session beside the run, is paid in a row of its own, and harms nothing."""

from pathlib import Path
from typing import Any

import pytest

from melete.core.message import Usage
from melete.testing import Call, Fault, Say, ScriptedModel
from melete.testing.replies import Reply
from tests.story.cli import lines, melete
from tests.story.homes import WIRES, at, configure, of_type

WORK = [Call("terminal", {"command": "true"}), Say("Done.")]


def titles() -> list[str]:
    return [row["title"] for row in lines(melete("sessions", "list", "--json").stdout)]


def settings(main: ScriptedModel, small: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": at(main, name="big"),
        "providers": {"small": small},
        "auxiliary": {"title": "small/namer"},
    }


@pytest.mark.parametrize("wire", WIRES)
def test_the_name_and_its_price_are_recorded(wire: str, tmp_path: Path, own_home: Path) -> None:
    named = Say('"Mending the *fence*."', usage=Usage(input=50, output=6), thinking="Hm, a name.")
    with ScriptedModel(WORK) as main, ScriptedModel([named]) as small:
        configure(own_home, **settings(main, at(small, wire=wire)))
        done = melete("run", "--json", "mend the fence, will you", cwd=tmp_path)
        again = melete("run", "-c", "--json", "and the gate", cwd=tmp_path)
    assert (done.returncode, again.returncode) == (0, 0), done.stderr
    assert len(small.requests) == 1
    events = lines(done.stdout)
    assert titles() == ["Mending the *fence"]
    (row,) = [row for row in of_type(events, "spent") if row["role"] == "title"]
    assert (row["model"], row["provider"], row["usage"]["input"]) == ("namer", "small", 50)
    last = events[-1]
    assert (last["type"], last["steps"], last["text"]) == ("run.ended", 2, "Done.")
    assert last["usage"]["input"] >= 50


FAILS: list[list[Reply]] = [
    [Fault("unauthorized")], [Fault("html")] * 3, [Fault("empty")] * 4, [Call("terminal", {"command": "touch harm"})],
]  # fmt: skip


@pytest.mark.parametrize("script", FAILS, ids=["wrong key", "web page", "empty", "a call"])
def test_a_model_that_fails_leaves_the_first_words(script: list[Reply], tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(WORK) as main, ScriptedModel(script) as small:
        configure(own_home, **settings(main, at(small)))
        done = melete("run", "mend the fence", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Done.\n", "")
    assert titles() == ["mend the fence"]
    assert not (tmp_path / "harm").exists()


def test_a_model_that_hangs_is_not_waited_for(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(WORK) as main, ScriptedModel([Fault("stall", seconds=600.0)]) as small:
        configure(own_home, **settings(main, at(small)))
        done = melete("run", "--json", "mend the fence", cwd=tmp_path)
    (ended,) = of_type(lines(done.stdout), "run.ended")
    assert (done.returncode, ended["stop"]) == (0, "done")
    assert titles() == ["mend the fence"]


@pytest.mark.parametrize("name", ["anthropic/claude-haiku-4-5", "nobody-has-this", "small/"])
def test_a_model_that_cannot_be_opened_is_told_once(name: str, tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(["One.", "Two."]) as main:
        configure(
            own_home,
            model={"name": "box/big"},
            providers={"box": at(main), "small": {"base_url": "http://127.0.0.1:1/v1"}},
            auxiliary={"title": name},
        )
        done = melete("run", "mend the fence", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "One.\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("melete: warning: auxiliary.title cannot be used: ")
    assert titles() == ["mend the fence"]
