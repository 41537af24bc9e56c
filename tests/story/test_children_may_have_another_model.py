"""`delegation.model` and its neighbours: another model for children, and no key on a host that it was not set for."""

import base64
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from melete.core.delegation import DELEGATE
from melete.testing import Call, Fault, ScriptedModel
from tests.delegating import PARENT, Family, Line, delegate, text_of, told
from tests.story.cli import melete
from tests.story.homes import at, configure, holders, keys

OURS = "sk-ours-0123456789abcdef"
THEIRS = "sk-theirs-fedcba9876543210"
VENDORS = "sk-vendors-00112233445566"
GOAL = "count the frogs"


def family(*child: Line, parent: Line | None = None) -> Family:
    """A parent that delegates once, and its child."""
    return Family({PARENT: [parent or delegate(GOAL), "all told"], GOAL: [*(child or ("nine",))]})


def elsewhere(model: ScriptedModel) -> str:
    """The address of a server as that of another host."""
    return model.base_url.replace("127.0.0.1", "localhost")


def go(tmp_path: Path, *words: str) -> str:
    """Run the parent to its end; what a person is told beside the answer."""
    done = melete("run", *words, PARENT, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "all told\n"), done.stderr
    return done.stderr


def keys_at(model: ScriptedModel) -> list[str]:
    """What each request to a server brought along to be let in."""
    return [request.headers.get("authorization", "").removeprefix("Bearer ") for request in model.requests]


def asked(model: ScriptedModel) -> list[tuple[str, str]]:
    """Which model a server was asked for in each request, and what the conversation began with."""
    return [
        (r.json["model"], text_of(next(m for m in r.json["messages"] if m["role"] == "user"))) for r in model.requests
    ]


def result(model: ScriptedModel) -> dict[str, Any]:
    """What the parent was told of its delegation."""
    found: dict[str, Any] = msgspec.json.decode(told(model.requests[-1].json))
    return found["results"][0] if "results" in found else found


def test_its_key_goes_to_its_address_and_the_parents_to_the_parents(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(family()) as ours, ScriptedModel(family()) as theirs:
        home = configure(
            own_home,
            model=at(ours, name="big"),
            delegation={"model": "vendor/small", "base_url": elsewhere(theirs), "api_key": THEIRS},
        )
        keys(own_home, MELETE_API_KEY=OURS, OPENAI_API_KEY=VENDORS)
        assert go(tmp_path) == ""
        looks = ("check", "get", "get --json", "get delegation", "get delegation --json", "get delegation.api_key")
        shown = [melete("config", *look.split(), cwd=tmp_path) for look in looks]
        shown += [melete("logs", cwd=tmp_path), melete("config", "set", "delegation.api_key", THEIRS, cwd=tmp_path)]
    assert not any(one.returncode for one in shown)
    assert sum("[redacted:delegation.api_key]" in one.stdout + one.stderr for one in shown) == 6
    assert asked(theirs) == [("vendor/small", GOAL)]
    assert (keys_at(ours), keys_at(theirs)) == ([OURS, OURS], [THEIRS])
    assert not [r for r in ours.requests if THEIRS in str(r)]
    assert not [r for r in theirs.requests if OURS in str(r) or VENDORS in str(r)]
    assert not [one.args for one in shown if THEIRS in one.stdout + one.stderr]
    assert holders(home, THEIRS) == ["config.yaml"]


@pytest.mark.parametrize("more", [{}, {"provider": "groq"}])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_without_a_key_gets_none(tmp_path: Path, own_home: Path, host: str, more: dict[str, str]) -> None:
    """Neither on another host nor on another port of the same, and no vendor's whose name stands beside it."""
    with ScriptedModel(family()) as ours, ScriptedModel(family()) as theirs:
        address = theirs.base_url.replace("127.0.0.1", host)
        configure(own_home, model=at(ours, name="big"), delegation={"model": "small", "base_url": address, **more})
        keys(own_home, MELETE_API_KEY=OURS, OPENAI_API_KEY=VENDORS, GROQ_API_KEY=VENDORS)
        go(tmp_path)
    assert (keys_at(ours), keys_at(theirs)) == ([OURS, OURS], [""])
    assert not [r for r in theirs.requests if OURS in str(r) or VENDORS in str(r)]


def test_an_address_that_needs_a_key_is_told_of_at_the_start(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(family()) as ours:
        away = {"model": "small", "base_url": "https://models.example.test/v1"}
        configure(own_home, model=at(ours, name="big"), delegation=away)
        keys(own_home, MELETE_API_KEY=OURS, OPENAI_API_KEY=VENDORS)
        warned = go(tmp_path)
    for text in (warned, result(ours)["error"]):
        assert "no key for models.example.test; set delegation.api_key" in text


@pytest.mark.parametrize("given", [{"api_key": THEIRS}, {"api_key": THEIRS, "model": "small"}])
def test_a_key_for_no_address_is_a_mistake(tmp_path: Path, own_home: Path, given: dict[str, str]) -> None:
    with ScriptedModel(family()) as ours:
        configure(own_home, model=at(ours, name="big"), delegation=given)
        done = melete("run", PARENT, cwd=tmp_path)
    assert done.returncode == 2
    assert "config.yaml:1: delegation.api_key is for no server" in done.stderr
    assert THEIRS not in done.stderr
    assert not ours.requests


@pytest.mark.parametrize("given", [{"model": "small", "provider": "my-box"}, {"model": "my-box/small"}])
@pytest.mark.parametrize("own", ["", OURS[::-1]])
def test_a_provider_gets_its_own_key_or_the_one_beside_it(
    tmp_path: Path, own_home: Path, given: dict[str, str], own: str
) -> None:
    with ScriptedModel(family()) as ours, ScriptedModel(family()) as theirs:
        configure(
            own_home,
            model=at(ours, name="big"),
            providers={"my-box": {"base_url": elsewhere(theirs)}},
            delegation={**given, **({"api_key": own} if own else {})},
        )
        keys(own_home, MELETE_API_KEY=OURS, MY_BOX_API_KEY=THEIRS, OPENAI_API_KEY=VENDORS)
        go(tmp_path)
    assert asked(theirs) == [("small", GOAL)]
    assert keys_at(theirs) == [own or THEIRS]
    assert not [r for r in theirs.requests if OURS in str(r) or VENDORS in str(r)]


def test_its_key_goes_to_its_address_also_when_the_name_begins_like_a_vendors(tmp_path: Path, own_home: Path) -> None:
    """`-m` names a vendor's model, and children have an address and no name of their own: the name is then taken whole."""
    with ScriptedModel() as ours, ScriptedModel(family()) as box, ScriptedModel(family()) as theirs:
        configure(
            own_home,
            model=at(ours, name="big"),
            providers={"my-box": {"base_url": elsewhere(box)}},
            delegation={"base_url": theirs.base_url, "api_key": THEIRS},
        )
        keys(own_home, MELETE_API_KEY=OURS, MY_BOX_API_KEY=VENDORS)
        go(tmp_path, "-m", "my-box/large")
    assert (keys_at(box), keys_at(theirs)) == ([VENDORS, VENDORS], [THEIRS])
    assert not ours.requests


def test_children_follow_the_parents_model_unless_they_have_one(tmp_path: Path, own_home: Path) -> None:
    for setting, its in ({}, "other"), ({"model": "small"}, "small"):
        with ScriptedModel(family()) as ours:
            configure(own_home, model=at(ours, name="big"), delegation=setting)
            keys(own_home, MELETE_API_KEY=OURS)
            go(tmp_path, "-m", "other")
        assert asked(ours) == [("other", PARENT), (its, GOAL), ("other", PARENT)]
        assert keys_at(ours) == [OURS] * 3


def test_the_settings_server_keeps_its_key_when_the_parent_is_elsewhere(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(family()) as ours, ScriptedModel(family()) as box:
        configure(
            own_home,
            model=at(ours, name="big"),
            providers={"my-box": {"base_url": elsewhere(box)}},
            delegation={"model": "small"},
        )
        keys(own_home, MELETE_API_KEY=OURS, MY_BOX_API_KEY=VENDORS)
        go(tmp_path, "-m", "my-box/large")
    assert (asked(ours), keys_at(ours)) == ([("small", GOAL)], [OURS])
    assert keys_at(box) == [VENDORS, VENDORS]


@pytest.mark.parametrize("own", [{}, {"model": "small", "base_url": "", "api_key": OURS[::-1]}])
def test_the_fallback_stands_in_with_its_own_key(tmp_path: Path, own_home: Path, own: dict[str, str]) -> None:
    """Where the child's model fails, the parent's or its own, the settings' fallback goes on."""
    broken = family(Fault("quota"))
    with (
        ScriptedModel(broken) as ours,
        ScriptedModel(broken) as childs,
        ScriptedModel(family("nine from afar")) as third,
    ):
        stand_in = {"name": "stand-in", "base_url": elsewhere(third), "key_variable": "THEIRS"}
        configure(
            own_home,
            model={**at(ours, name="big"), "fallbacks": [stand_in]},
            delegation={**own, "base_url": childs.base_url} if own else {},
        )
        keys(own_home, MELETE_API_KEY=OURS, THEIRS=THEIRS)
        go(tmp_path)
        parents = third if not own else ours  # a model that failed its child rests for the parent as well
        row = result(parents)
    assert (row["status"], row["summary"], row["model"]) == ("completed", "nine from afar", "stand-in")
    assert asked(third)[0] == ("stand-in", GOAL)
    assert {*keys_at(third)} == {THEIRS}
    assert {*keys_at(ours)} == {OURS}
    assert {*keys_at(childs)} == ({own["api_key"]} if own else set())


def test_a_parent_on_its_fallback_has_children_on_it(tmp_path: Path, own_home: Path) -> None:
    """The first model rests for all: no child knocks at a door that its parent has just found shut."""
    several = Family({PARENT: [delegate("one", "two"), "all told"], "one": ["1"], "two": ["2"]})
    with ScriptedModel([Fault("quota")] * 9) as ours, ScriptedModel(several) as third:
        stand_in = {"name": "stand-in", "base_url": elsewhere(third), "key_variable": "THEIRS"}
        configure(own_home, model={**at(ours, name="big"), "fallbacks": [stand_in]})
        keys(own_home, MELETE_API_KEY=OURS, THEIRS=THEIRS)
        go(tmp_path)
        rows = msgspec.json.decode(told(third.requests[-1].json))["results"]
    assert [(row["summary"], row["model"]) for row in rows] == [("1", "stand-in"), ("2", "stand-in")]
    assert len(ours.requests) == 1
    assert keys_at(third) == [THEIRS] * 4


@pytest.mark.parametrize(("own", "its"), [("", "low"), ("high", "high")])
def test_how_hard_it_thinks_is_the_parents_choice_or_its_own(
    tmp_path: Path, own_home: Path, own: str, its: str
) -> None:
    with ScriptedModel(family()) as ours:
        configure(
            own_home, model=at(ours, name="big", effort="low"), delegation={"reasoning_effort": own} if own else {}
        )
        go(tmp_path)
    assert [request.json.get("reasoning_effort") for request in ours.requests] == ["low", its, "low"]


def picture() -> bytes:
    """A black dot."""

    def piece(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = piece(b"IHDR", bytes.fromhex("00000001000000010800000000"))
    return b"\x89PNG\r\n\x1a\n" + head + piece(b"IDAT", zlib.compress(b"\0\0")) + piece(b"IEND", b"")


def test_one_that_takes_no_images_is_told_in_words(tmp_path: Path, own_home: Path) -> None:
    (tmp_path / "dot.png").write_bytes(picture())
    looks = Call("read_file", {"path": "dot.png"})
    with ScriptedModel(family()) as ours, ScriptedModel(family(looks, "a dot, I am told")) as theirs:
        blind = {"model": "deepseek-v3", "provider": "deepseek", "base_url": theirs.base_url, "api_key": THEIRS}
        configure(own_home, model=at(ours, name="big"), delegation=blind)
        go(tmp_path)
        row = result(ours)
    assert row["summary"] == "a dot, I am told"
    assert base64.b64encode(picture()) not in theirs.requests[-1].body
    assert b"image_url" not in theirs.requests[-1].body


def test_one_with_a_small_window_is_shown_less_and_makes_room(tmp_path: Path, own_home: Path) -> None:
    (tmp_path / "long.txt").write_text("a line of a file that is long\n" * 4_000)
    reads = [Call("read_file", {"path": "long.txt", "offset": at}) for at in (1, 500, 1_000, 1_500)]
    with ScriptedModel(family()) as ours, ScriptedModel(family(*reads, "read"), context=8_000) as theirs:
        configure(
            own_home,
            model=at(ours, name="big"),
            providers={"tiny": {"base_url": elsewhere(theirs), "context_length": 8_000}},
            delegation={"model": "tiny/small"},
        )
        go(tmp_path)
        row = result(ours)
    assert (row["status"], row["summary"]) == ("completed", "read")
    shown = [{tool["function"]["name"] for tool in model.requests[0].json["tools"]} for model in (ours, theirs)]
    assert shown[1] < shown[0]
    assert max(len(request.body) for request in theirs.requests) < 4 * 8_000


def test_another_model_brings_no_more_tools(tmp_path: Path, own_home: Path) -> None:
    """The parent has a small window and few toolsets; its child's model could take all that there are."""
    with ScriptedModel(family()) as ours, ScriptedModel(family()) as theirs:
        configure(
            own_home,
            model=at(ours, name="tiny", context_length=9_000),
            tools={"enabled": ["file", "delegation"]},
            providers={"large": {"base_url": elsewhere(theirs), "context_length": 1_000_000}},
            delegation={"model": "large/huge"},
        )
        go(tmp_path)
    (names,) = [{tool["function"]["name"] for tool in request.json["tools"]} for request in theirs.requests]
    assert names == {"read_file", "write_file", "patch", "search_files"}
    assert DELEGATE not in names
