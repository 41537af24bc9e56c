"""`.env` rewritten in mid-run: the next request carries the new key, and old and new ones are kept out of everything."""

from collections.abc import Callable
from pathlib import Path

import pytest

from melete.testing import Call, Fault, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.story.homes import WIRES, at, configure, holders, keys, of_type

FIRST, SECOND, THIRD = (f"sk-{letter * 3}-0123456789abcdef" for letter in "abc")
NAME = "MINE_API_KEY"


LOOK = Call("terminal", {"command": "cat $MELETE_HOME/.env"})


def change(home: Path, new: str) -> Callable[[object, int], Call]:
    """The person writes another key while the model answers, and the call shows it."""

    def reply(_: object, __: int) -> Call:
        keys(home, **{NAME: new})
        return LOOK

    return reply


@pytest.mark.parametrize("wire", WIRES)
def test_twice_in_one_run(wire: str, tmp_path: Path, own_home: Path) -> None:
    script = [LOOK, change(own_home, SECOND), change(own_home, THIRD), LOOK, Say("Done.")]
    with ScriptedModel(script) as model:
        keys(own_home, **{NAME: FIRST})
        home = configure(own_home, model={"name": "mine/m"}, providers={"mine": at(model, wire=wire)})
        done = melete("run", "--yolo", "--json", "-v", "go", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for request, key in zip(model.requests, (FIRST, FIRST, SECOND, THIRD, THIRD), strict=True):
        assert key in str(request.headers) + request.target
    results = [event["result"]["content"] for event in of_type(lines(done.stdout), "tool.ended")]
    assert [f"[redacted:{NAME}]" in result for result in results] == [True] * 4
    for value in (FIRST, SECOND, THIRD):
        assert value not in done.stdout + done.stderr
        assert not holders(home, value, but=".env")
        assert not [request for request in model.requests if value.encode() in request.body]


def test_a_key_that_is_refused_is_read_anew(tmp_path: Path, own_home: Path) -> None:
    """The person puts the right key in while the run goes on with the wrong one."""

    def refuse(_: object, __: int) -> Fault:
        keys(own_home, **{NAME: SECOND})
        return Fault("unauthorized")

    with ScriptedModel([refuse, Say("Better.")]) as model:
        keys(own_home, **{NAME: FIRST})
        configure(own_home, model={"name": "mine/m"}, providers={"mine": at(model, wire="anthropic-messages")})
        done = melete("run", "-v", "go", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "Better.\n"), done.stderr
    assert f"{NAME} was rejected; its new value is used now" in done.stderr
    assert SECOND in str(model.requests[1].headers)
