"""Several keys of one vendor: one that is refused rests and the next is used at once; none is ever shown."""

from pathlib import Path
from typing import Any

import pytest

from melete.testing import Call, Fault, Say, ScriptedModel
from melete.testing.replies import Reply
from tests.story.cli import lines, melete
from tests.story.homes import WIRES, at, configure, holders, keys, of_type

VALUES = [f"sk-number-{number}-0123456789" for number in (1, 2, 3)]
STEP = Call("terminal", {"command": "env; cat $MELETE_HOME/.env"})


def pool(home: Path, model: ScriptedModel, *, wire: str = "openai-chat", **more: Any) -> Path:
    keys(home, MINE_API_KEY=VALUES[0], MINE_API_KEY_2=VALUES[1], MINE_API_KEY_3=VALUES[2])
    return configure(home, model={"name": "mine/m", **more}, providers={"mine": at(model, wire=wire)})


def used(model: ScriptedModel) -> list[int]:
    """The numbers of the keys of the requests, in order."""
    return [next(n for n, value in enumerate(VALUES, 1) if value in str(r.headers)) for r in model.requests]


@pytest.mark.parametrize("wire", WIRES)
def test_a_key_that_is_limited_or_rejected_gives_way_at_once(wire: str, tmp_path: Path, own_home: Path) -> None:
    limited = Fault("rate_limited", retry_after=900)
    script: list[Reply] = [limited, Fault("unauthorized", message=f"wrong key {VALUES[1]}"), STEP, Say("Done.")]
    with ScriptedModel(script) as model:
        home = pool(own_home, model, wire=wire)
        done = melete("--debug", "run", "-v", "--yolo", "--json", "go", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert used(model) == [1, 2, 3, 3]
    told = of_type(lines(done.stdout), "retried")
    assert [event["delay"] for event in told] == [0.0, 0.0]
    assert told[0]["reason"] == "MINE_API_KEY is limited for 15 min; MINE_API_KEY_2 is used now"
    assert told[1]["reason"] == "MINE_API_KEY_2 was rejected; MINE_API_KEY_3 is used now"
    for value in VALUES:
        assert value not in done.stdout + done.stderr
        assert not holders(home, value, but=".env")
        assert not [request for request in model.requests if value.encode() in request.body]


@pytest.mark.parametrize(
    ("strategy", "order"),
    [("fill_first", [1, 1, 1, 1]), ("round_robin", [1, 2, 3, 1]), ("least_used", [1, 2, 3, 1]), ("random", [])],
)
def test_the_next_key_follows_the_strategy(strategy: str, order: list[int], tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel([*[Call("terminal", {"command": f"echo {n}"}) for n in range(3)], Say("Done.")]) as model:
        pool(own_home, model, key_strategy=strategy)
        done = melete("run", "go", cwd=tmp_path)
    assert done.stdout == "Done.\n", done.stderr
    assert used(model) == order or (not order and set(used(model)) <= {1, 2, 3})


def test_when_no_key_helps_the_error_says_how_each_stands(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel([Fault("quota"), Fault("unauthorized"), Fault("rate_limited", retry_after=7200)]) as model:
        home = pool(own_home, model)
        done = melete("run", "go", cwd=tmp_path)
    assert (done.returncode, used(model)) == (1, [1, 2, 3])
    for state in (
        "MINE_API_KEY has no credit left",
        "MINE_API_KEY_2 was rejected",
        "MINE_API_KEY_3 is limited for 2 h",
    ):
        assert state in done.stderr
    assert not [value for value in VALUES if value in done.stderr or holders(home, value, but=".env")]


def test_a_key_in_a_variable_of_any_name_is_not_shown(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel([Fault("quota")]) as first, ScriptedModel([Fault("quota"), STEP, Say("Done.")]) as second:
        keys(own_home, BOX=VALUES[0], BOX_2=VALUES[1], SHELF=VALUES[2])
        home = configure(
            own_home,
            model={**at(first, name="m"), "fallbacks": [at(second, name="s", key_variable="BOX")]},
            providers={"shelf": at(second, key_variable="SHELF")},
        )
        done = melete("run", "--yolo", "--json", "go", cwd=tmp_path)
    assert (done.returncode, used(second)) == (0, [1, 2, 2])
    assert "[redacted:BOX_2]" in done.stdout
    assert "[redacted:SHELF]" in done.stdout
    assert not [value for value in VALUES if value in done.stdout or holders(home, value, but=".env")]
