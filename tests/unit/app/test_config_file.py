"""config.yaml as a file: YAML that is none, files that are none, and values in every style."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.app.config_file import parse_config, read_config
from melete.app.settings import keys
from melete.core.errors import ConfigError

GOOD = (
    "# c\nagent:\n  max_steps: 5  # five\ntools: {enabled: [a, b]}\nmodel:\n  name: 'x: y'\n  base_url: http://h:1/v1\n"
)


def values(text: str) -> dict[str, object]:
    found = parse_config(text, keys(), shown="config.yaml")
    assert found.problems == ()
    return {name: setting.value for name, setting in found.settings.items()}


def problem(path: Path) -> str:
    (found,) = read_config(path, keys(), shown="config.yaml").problems
    return str(found)


@pytest.mark.parametrize(
    "text", ["", "\n", "# only a comment\n", "---\n", "agent:\n", "agent:\n  max_steps:\n", "{}", "~x:\n"[:0]]
)
def test_nothing_set_is_nothing(text: str) -> None:
    assert values(text) == {}


def test_values_take_the_type_of_their_key() -> None:
    assert values(
        "agent:\n  max_steps: 20_000\n  loop_guard: off\n"
        "budget:\n  run: {usd: null, tokens: }\n  day:\n    usd: 5\n    tokens: ~\n"
        "tools:\n  enabled: [a, 'b']\n  disabled:\n  - no\n  - 1.0\n"
        'model:\n  name: 4.1\n  provider: "null"\n  wire: >-\n    folded\n    text\n'
    ) == {
        "agent.max_steps": 20_000,
        "agent.loop_guard": False,
        "budget.run.usd": None,
        "budget.day.usd": 5.0,
        "budget.day.tokens": None,
        "tools.enabled": ("a", "b"),
        "tools.disabled": ("no", "1.0"),
        "model.name": "4.1",
        "model.provider": "null",
        "model.wire": "folded text",
    }


def test_each_value_knows_its_line() -> None:
    found = parse_config(GOOD, keys(), shown="c")
    assert {name: s.line for name, s in found.settings.items()} == {
        "agent.max_steps": 3,
        "tools.enabled": 4,
        "model.name": 6,
        "model.base_url": 7,
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("agent: {max_steps: 3\n", "c:2:1: not YAML"),
        ("a: b: c\n", "c:1:5: not YAML"),
        ("\tagent: 1\n", "c:1:1: not YAML"),
        ("model:\n  name: 'x\n", "c:3:1: not YAML"),
        ("model:\n  name: a\x01b\n", "c:2:10: not YAML: control characters"),
        ("x: &a [1]\ny: *a\n", "c:1: anchors and aliases"),
        ("x: *a\n", "c:1: anchors and aliases"),
        ("x: !!python/object/apply:os.system [ls]\n", "c:1: tags"),
        ("[" * 9000, "c:1: nested more than 20 deep"),
        ("? [a]\n: b\n", "c:1: a key is not a plain name"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, keys(), shown="c")
    assert str(caught.value).startswith(place)


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    assert read_config(path, keys(), shown="c").settings == {}
    path.write_bytes(b"model:\n  name: \xff\n")
    assert problem(path).startswith("config.yaml:2: not UTF-8 text")
    path.write_bytes(b"#" * (2 << 20))
    assert "at most 1,048,576 are read" in problem(path)
    path.unlink()
    os.mkfifo(path)
    assert "is not a regular file" in problem(path)
    path.unlink()
    path.mkdir()
    assert "is a folder" in problem(path)


def test_a_byte_order_mark_and_windows_lines_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_config(path, keys(), shown="c").settings["agent.max_steps"].value == 5


@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=3))
def test_a_damaged_file_is_read_or_refused_with_its_name(at: int, damage: bytes) -> None:
    data = GOOD.encode()
    text = (data[:at] + damage + data[at + 1 :]).decode(errors="replace")
    try:
        found = parse_config(text, keys(), shown="config.yaml")
    except ConfigError as error:
        assert str(error).startswith("config.yaml:")
    else:
        assert all(str(p).startswith("config.yaml:") for p in found.problems)
