"""What models write where JSON was asked for: read where it can be without guessing, refused with help where not."""

import json
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.agent.arguments import check, parse
from melete.core.tool import ToolContext, ToolError, tool


@tool(parallel=True)
async def sample(
    ctx: ToolContext,
    *,
    path: str,
    limit: int = 5,
    deep: bool = False,
    mode: Literal["plain", "fancy"] = "plain",
    tags: list[str] | None = None,
) -> dict[str, Any]:
    """A tool with one argument of each kind."""
    return {}


def checked(text: str) -> dict[str, Any]:
    return msgspec.to_builtins(check(sample, text)[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("  \n", {}),
        ("{}", {}),
        ('{"path": "a"}', {"path": "a"}),
        ('```json\n{"path": "a"}\n```', {"path": "a"}),
        ('```\n{"path": "a"}```', {"path": "a"}),
        ('{"path": "a",}', {"path": "a"}),
        ('{"tags": ["a", "b",], }', {"tags": ["a", "b"]}),
        ('{"path": "a"', {"path": "a"}),
        ('{"tags": ["a", "b"', {"tags": ["a", "b"]}),
        ('{"tags": [{"x": 1}, {"y": 2}', {"tags": [{"x": 1}, {"y": 2}]}),
        ("{'path': 'a', 'deep': True, 'tags': None}", {"path": "a", "deep": True, "tags": None}),
        ('"{\\"path\\": \\"a\\"}"', {"path": "a"}),
        ('"\\"{\\\\\\"path\\\\\\": \\\\\\"a\\\\\\"}\\""', {"path": "a"}),
        ('{"path": "two\nlines"}', {"path": "two\nlines"}),
        ('{\n  "path": "two\nlines\tand a tab"\n}', {"path": "two\nlines\tand a tab"}),
        ('{\r\n  "path": "two\r\nlines"\r\n}', {"path": "two\r\nlines"}),
        ('{"path": "a \\"quoted\\" {bracket", "tags": ["x"', {"path": 'a "quoted" {bracket', "tags": ["x"]}),
        ('{"path": "ends in a backslash \\\\", "tags": ["x"', {"path": "ends in a backslash \\", "tags": ["x"]}),
        ('{"path": "a=(1,]", "deep": true,}', {"path": "a=(1,]", "deep": True}),
        ('{"path": ",}", "tags": [",]",],}', {"path": ",}", "tags": [",]"]}),
        ('{"path": "one \\\ntwo"}', {"path": "one \\\ntwo"}),
        ("{'path': '\\d+'}", {"path": "\\d+"}),
    ],
)
def test_almost_json_is_read(text: str, expected: dict[str, Any]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "no JSON at all",
        "[1, 2]",
        "7",
        '"just words"',
        '{"path": "cut inside a str',
        '{"path": "a"}}',
        '{"path"',
        '{"path": ',
        '{"path": "a", ',
        '{"path": "a", "limit": 12',
        "{1: 2}",
        "{'path': {1, 2}, 3: 4}",
        "{'a': 1j}",
        "{'a': b'bytes'}",
        '{"a": 1e400}',
        '{"path": "\\ud83d"}',
        "{'path': '\\ud83d'}",
        "{" * 5_000,
        "[" * 100_000,
        '{"a":' * 3_000 + "1" + "}" * 3_000,
        '{"path": "' + '\\"' * 300_000,
        "```json\n" + " \n" * 100_000 + "x",
    ],
)
def test_the_rest_is_refused_in_one_short_sentence(text: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse(text)
    assert "not a JSON object" in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ('{"path": "a", "limit": "3"}', "limit", 3),
        ('{"path": "a", "limit": 3.0}', "limit", 3),
        ('{"path": "a", "deep": "true"}', "deep", True),
        ('{"path": "a", "deep": "False"}', "deep", False),
        ('{"path": "a", "deep": 1}', "deep", True),
        ('{"path": "a", "tags": null}', "tags", None),
        ('{"path": "a", "limit": null}', "limit", 5),
        ('{"path": "a", "tags": "[\\"x\\", \\"y\\"]"}', "tags", ["x", "y"]),
        ('{"path": 12}', "path", "12"),
    ],
)
def test_values_are_coerced_to_the_types_of_the_signature(given: str, field: str, value: Any) -> None:
    assert checked(given)[field] == value


def test_an_unknown_name_is_told_with_the_nearest_right_one() -> None:
    with pytest.raises(ToolError) as caught:
        check(sample, '{"pathh": "a"}')
    assert str(caught.value) == "sample takes no argument 'pathh'. Did you mean 'path'?"
    assert caught.value.fields["expected"] == json.loads(bytes(sample.schema))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{}", "path"),
        ('{"path": "a", "limit": "many"}', "limit"),
        ('{"path": "a", "mode": "purple"}', "mode"),
        ('{"path": "a", "tags": [1, {}]}', "tags"),
        ('{"path": "a", "tags": "x"}', "tags"),
        ('{"path": "a", "tags": "{}"}', "tags"),
        ('{"path": 1.5}', "path"),
        ('{"path": {"a": 1}}', "path"),
    ],
)
def test_a_wrong_value_is_told_with_its_place(text: str, part: str) -> None:
    with pytest.raises(ToolError) as caught:
        check(sample, text)
    assert part in str(caught.value)


def test_what_comes_back_is_plain_json_of_what_was_meant() -> None:
    _, canonical = check(sample, "```json\n{'path': 'a', 'limit': '3',}\n```")
    assert json.loads(canonical) == {"path": "a", "limit": "3"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.text(st.characters(codec="utf-8")), json_values, max_size=5)


@given(objects)
def test_sound_json_is_never_changed(value: dict[str, Any]) -> None:
    assert parse(json.dumps(value)) == value
    assert parse(json.dumps(value, ensure_ascii=False, indent=1)) == value
    assert parse(json.dumps(json.dumps(value))) == value


@given(objects)
def test_closing_brackets_that_are_missing_are_all_that_is_added(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    cut = text.rstrip("}]")
    if cut.endswith(('"', "null", "true", "false")):
        assert parse(cut) == value


@given(st.text(max_size=300))
def test_no_text_does_anything_but_an_object_or_a_tool_error(text: str) -> None:
    for candidate in (text, "{" + text, '{"a": ' + text, "{'a': " + text + "}"):
        try:
            assert isinstance(parse(candidate), dict)
        except ToolError as error:
            assert str(error)
