"""`melete model test`: main model, fallbacks, routing and side jobs are each asked once, over their own wire with their own key."""

from pathlib import Path

from melete.testing import Call, Fault, Say, ScriptedModel
from tests.story.cli import lines, melete
from tests.story.homes import WIRES, at, configure, holders, keys

READY = Call("ready", {"word": "yes"})
OURS, THEIRS = "sk-ours-0123456789abcdef", "sk-theirs-fedcba9876543210"


def test_each_is_asked_once_and_told_in_a_row(own_home: Path) -> None:
    with (
        ScriptedModel([READY]) as main,
        ScriptedModel([READY]) as spare,
        ScriptedModel([Fault("rate_limited", retry_after=60)]) as cheap,
        ScriptedModel([Say("yes")]) as small,
    ):
        elsewhere = spare.base_url.replace("127.0.0.1", "localhost")
        home = configure(
            own_home,
            model={
                **at(main, name="big", wire=WIRES[0]),
                "fallbacks": [{"name": "spare", "base_url": elsewhere, "wire": WIRES[1], "key_variable": "THEIRS"}],
                "routing": {"enabled": True, "model": "cheap/tiny"},
            },
            providers={"cheap": at(cheap, wire=WIRES[2]), "small": at(small, wire=WIRES[3])},
            auxiliary={"title": "small/namer"},
        )
        keys(own_home, MELETE_API_KEY=OURS, THEIRS=THEIRS)
        done = melete("model", "test", "--json")
        shown = melete("model", "test")
    rows = lines(done.stdout)
    assert [(row["role"], row["model"], row["provider"], row["wire"], row["ok"]) for row in rows] == [
        ("main", "big", "127.0.0.1", WIRES[0], True),
        ("fallback", "spare", "localhost", WIRES[1], True),
        ("routing", "tiny", "cheap", WIRES[2], False),
        ("title", "namer", "small", WIRES[3], True),
    ]
    assert [row["tools"] for row in rows] == ["called", "called", "", "ignored"]
    assert done.returncode == 1
    assert "cheap limits how often it may be asked" in rows[2]["cause"]
    assert [len(model.requests) for model in (main, spare, cheap, small)] == [2] * 4
    assert main.requests[0].headers["authorization"] == f"Bearer {OURS}"
    assert spare.requests[0].headers["authorization"] == f"Bearer {THEIRS}"
    for model in (spare, cheap, small):
        assert OURS not in str(model.requests)
    for key in (OURS, THEIRS):
        assert key not in done.stdout + done.stderr + shown.stdout + shown.stderr
        assert not holders(home, key, but=".env")


def test_a_key_that_is_rejected_is_named_by_its_variable(own_home: Path) -> None:
    with ScriptedModel([Fault("unauthorized", message=f"bad key {OURS}")]) as model:
        keys(own_home, MINE_API_KEY=OURS)
        configure(own_home, model={"name": "mine/m"}, providers={"mine": at(model)})
        done = melete("model", "test", "--json")
    (row,) = lines(done.stdout)
    assert (done.returncode, row["ok"]) == (1, False)
    assert "MINE_API_KEY" in row["cause"] + row["fix"]
    assert OURS not in done.stdout + done.stderr
