"""Two JSON texts that differ: the path of the first value that does, and both values from shortly before the place."""

import msgspec
import pytest

from melete.agent.difference import SHOWN, parting


@pytest.mark.parametrize(
    ("one", "other", "path", "values"),
    [
        ({"a": 1, "b": [1, {"c": "x"}]}, {"a": 1, "b": [1, {"c": "y"}]}, "b[1].c", ("x", "y")),
        ({"a": 1}, {"a": 1, "b": 2}, "b", ("(nothing)", "2")),
        ({"a": 1, "b": 2}, {"a": 1}, "b", ("2", "(nothing)")),
        ({"a": [1, 2]}, {"a": [1]}, "a[1]", ("2", "(nothing)")),
        ({"a": {"b": 1}}, {"a": [1]}, "a", ('{"b":1}', "[1]")),
        ({"a": True}, {"a": 1}, "a", ("true", "1")),
        ({"a": None}, {"a": ""}, "a", ("null", "")),
        ([{"é": "漢字"}], [{"é": "漢子"}], "[0].é", ("漢字", "漢子")),
    ],
)
def test_the_first_place_is_named(one: object, other: object, path: str, values: tuple[str, str]) -> None:
    assert parting(msgspec.json.encode(one), msgspec.json.encode(other)) == (path, *values)


def test_a_long_text_is_shown_from_shortly_before_the_place() -> None:
    one, other = "a" * 1_000 + "ONE" + "b" * 1_000, "a" * 1_000 + "OTHER" + "b" * 1_000
    path, here, there = parting(msgspec.json.encode({"t": one}), msgspec.json.encode({"t": other}))
    assert path == "t"
    assert here.startswith("…aaa")
    assert "ONE" in here
    assert "OTHER" in there
    assert here.endswith("b…")
    assert len(here) == SHOWN + 2


def test_bytes_that_mean_the_same_are_shown_as_they_are() -> None:
    assert parting(b'{"a":1,"b":2}', b'{"b":2,"a":1}') == ("", '{"a":1,"b":2}', '{"b":2,"a":1}')
    assert parting(b"1.0", b"1.00")[0] == ""
