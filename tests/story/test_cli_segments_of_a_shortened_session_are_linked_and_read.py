"""A conversation that was shortened is one session of several segments: listed, linked, searched as one, each read as it was."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from melete.testing import Call, Fault, Say, ScriptedModel
from tests.story.cli import lines, melete

WORD = "kingfisher"
FULL = [Call("terminal", {"command": f"seq {n}000 {n}900; echo {WORD} {n}"}) for n in range(1, 8)]
SCRIPT = [*FULL, Fault("overflow"), Say("It fitted."), *FULL, Fault("overflow"), Say("Again.")]


@pytest.fixture
def session(tmp_path: Path) -> str:
    """A session that was shortened twice."""
    with ScriptedModel(SCRIPT) as model:
        melete("run", "count a lot", model=model, cwd=tmp_path)
        melete("run", "-c", "count more", model=model, cwd=tmp_path)
    (row,) = lines(melete("sessions", "list", "--json").stdout)
    assert row["compactions"] == 2
    return row["id"]


def parts(session: str) -> list[dict[str, Any]]:
    return lines(melete("sessions", "show", session, "--segments", "--json").stdout)


def test_each_segment_is_the_child_of_the_one_before(session: str) -> None:
    found = parts(session)
    assert found[0]["id"] == session
    assert [one["parent"] for one in found] == ["", found[0]["id"], found[1]["id"]]
    assert [one["number"] for one in found] == [1, 2, 3]
    for before, after in pairwise(found):
        assert after["first"] == before["last"] + 1
        assert after["tokens_after"] < after["tokens_before"]
        assert after["how"]
    shown = melete("sessions", "show", session).stdout
    assert "shortened 2 times" in shown
    for one in found:
        assert one["id"] in shown
    assert "└─ 2 " in shown
    tree = melete("sessions", "list", "--tree").stdout
    assert f"└─ 3 {found[2]['id'][:12]}" in tree


def test_the_original_can_be_read_segment_by_segment(session: str) -> None:
    whole = lines(melete("sessions", "show", session, "--json").stdout)
    by_part = [
        lines(melete("sessions", "show", session, "--json", "--segment", name).stdout)
        for name in ("1", parts(session)[1]["id"], parts(session)[2]["id"][:8])
    ]
    assert [fact for part in by_part for fact in part] == whole
    first = [fact["result"]["content"] for fact in by_part[0] if fact["type"] == "tool.ended"]
    assert "1900" in first[0]
    assert WORD in melete("sessions", "show", session, "--full", "--segment", "1").stdout


def test_a_search_finds_what_is_in_any_segment(session: str) -> None:
    hits = lines(melete("sessions", "search", WORD, "--json", "--each", "0", "-n", "50").stdout)
    for one in parts(session)[:2]:
        assert [hit for hit in hits if one["first"] <= hit["seq"] <= one["last"]], one


def test_exports_name_the_segments(session: str) -> None:
    text = melete("sessions", "export", session, "--format", "md").stdout
    for one in parts(session)[1:]:
        assert f"segment {one['id']} begins, the child of" in text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--segment", "9"], "it has segments 1 to 3"),
        (["--segment", "1", "--step", "1"], "give one of them"),
        (["--segment", "1", "--tail", "1"], "give one of them"),
    ],
)
def test_what_makes_no_sense_is_told(session: str, options: list[str], told: str) -> None:
    done = melete("sessions", "show", session, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_session_that_was_never_shortened_is_one_segment(tmp_path: Path) -> None:
    with ScriptedModel(["Hello."]) as model:
        melete("run", "hi", model=model, cwd=tmp_path)
    (row,) = lines(melete("sessions", "list", "--json").stdout)
    (one,) = parts(row["id"])
    assert (one["id"], one["first"]) == (row["id"], 1)
    assert "never shortened" in melete("sessions", "show", row["id"], "--segments").stderr
    assert melete("sessions", "show", row["id"], "--segment", "2").returncode == 2
