"""`melete run` while the wanted model is out: another one, over another wire, goes on with the same work."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from melete.testing import Call, Fault, Say, ScriptedModel
from melete.testing.replies import Reply
from tests.story.cli import lines, melete
from tests.story.homes import WIRES, at, configure, nowhere, of_type

WORK = [
    Call("terminal", {"command": "echo done > proof.txt; cat proof.txt"}, thinking="Let me do it."),
    Say("It is done.", thinking="That went well."),
]
CUT = Fault("cut", after=2, reply=Say("Half a sentence, and then"))


@pytest.mark.parametrize("named", [True, False], ids=["of a provider", "of its own address"])
@pytest.mark.parametrize(
    ("faults", "wire", "other"),
    [([CUT] * 3, *WIRES[:2]), ([Fault("quota")], *WIRES[2:]), ([Fault("unauthorized")], *WIRES[1:3])],
    ids=["dies in mid-answer", "no credit", "wrong key"],
)
def test_the_work_is_done_by_the_fallback(
    faults: Sequence[Reply], wire: str, other: str, named: bool, tmp_path: Path, own_home: Path
) -> None:
    with ScriptedModel(faults) as first, ScriptedModel(WORK) as second:
        fallback = "spare/stand-in" if named else at(second, wire=other, name="stand-in")
        configure(
            own_home,
            model={**at(first, wire=wire, name="wanted"), "fallbacks": [fallback], "fallback_cooldown": 600},
            providers={"spare": at(second, wire=other)},
        )
        done = melete("run", "--json", "do it", cwd=tmp_path)
        said = melete("run", "-c", "and now?", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "proof.txt").read_text() == "done\n"
    assert {request.wire for request in second.requests} == {other}
    events = lines(done.stdout)
    (ended,) = of_type(events, "run.ended")
    assert (ended["stop"], ended["text"], ended["steps"]) == ("done", "It is done.", 2)
    told = of_type(events, "retried")
    provider = "spare" if named else "127.0.0.1"
    assert told[-1]["reason"].startswith(f"{provider}/stand-in goes on in place of 127.0.0.1/wanted: ")
    assert (told[-1]["model"], told[-1]["provider"]) == ("stand-in", provider)
    rows = of_type(events, "spent")
    assert [(row["model"], row["provider"], row["role"]) for row in rows] == [("stand-in", provider, "main")] * 2
    assert len(first.requests) == len(faults) + 1  # another process knows of no rest: it asks the wanted model first
    assert said.stdout == "(script is over)\n"


def test_a_server_that_is_gone_costs_a_moment(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(WORK) as second:
        configure(
            own_home,
            model={"base_url": nowhere(), "name": "wanted", "fallbacks": [at(second, wire="gemini", name="stand-in")]},
        )
        done = melete("run", "do it", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "It is done.\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("melete: warning: 127.0.0.1/stand-in goes on in place of 127.0.0.1/wanted: ")


def test_when_nobody_answers_all_are_named(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel([Fault("quota")]) as first, ScriptedModel([Fault("quota")]) as second:
        configure(
            own_home, model={**at(first, name="wanted"), "fallbacks": [at(second, name="stand-in", wire="gemini")]}
        )
        done = melete("run", "do it", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    *_, line = done.stderr.splitlines()
    assert "the fallbacks failed as well: 127.0.0.1/stand-in (" in line
