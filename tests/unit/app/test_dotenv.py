"""The .env file: what it may say, and what is said about the rest. A message never shows a value."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.app.dotenv import parse_env, read_env_file
from melete.core.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("K=v", "v"),
        ("K = v ", "v"),
        ("  export K=v", "v"),
        ("export\tK=v", "v"),
        ("K=", ""),
        ("K=a b", "a b"),
        ("K=a#b", "a#b"),
        ("K=a=b", "a=b"),
        ("K='a # $b \\n'", "a # $b \\n"),
        ('K="a # b"', "a # b"),
        ('K="a\\n\\t\\"b\\"\\\\"', 'a\n\t"b"\\'),
        ("K='v' # why", "v"),
        ('K="v"#why', "v"),
        ("K=v\r", "v"),
        ("K=\u2028v", "\u2028v"),
    ],
)
def test_a_line_gives_a_value_without_a_warning(line: str, value: str) -> None:
    found = parse_env(line, shown=".env")
    assert found.values == {"K": value}
    assert found.warnings == ()


def test_comments_and_blank_lines_are_left_out_and_lines_are_counted() -> None:
    found = parse_env("# a=b\n\n   # c\nK=v\n", shown=".env")
    assert (found.values, found.lines) == ({"K": "v"}, {"K": 4})


@pytest.mark.parametrize(("line", "value"), [("K=secret # why", "secret"), ("K= # why", ""), ("K=a\t#b", "a")])
def test_a_comment_behind_a_bare_value_is_cut_and_warned_about(line: str, value: str) -> None:
    found = parse_env(line, shown=".env")
    assert found.values == {"K": value}
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith(".env:1: the text after # is left out of K")
    assert "secret" not in found.warnings[0]


def test_the_last_of_two_equal_names_counts_and_is_warned_about() -> None:
    found = parse_env("K=a\nK=b\n", shown=".env")
    assert found.values == {"K": "b"}
    assert found.warnings == (".env:2: K stands in line 1 as well; this later line counts",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sk-secret", ".env:1: no = in the line"),
        ("A=1\nsk-secret", ".env:2: no = in the line"),
        ("1A=secret", ".env:1: what stands before the = is not a name"),
        ("A B=secret", ".env:1: what stands before the = is not a name"),
        ("=secret", ".env:1: what stands before the = is not a name"),
        ('A="secret', ".env:1: the quote of A is not closed"),
        ("A='secret\nB=1'", ".env:1: the quote of A is not closed"),
        ("A='secret'x", ".env:1: text after the closing quote of A"),
        ("A=secret\0", ".env:1: the value of A holds a NUL"),
    ],
)
def test_a_bad_line_is_named_but_not_shown(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_env(text, shown=".env")
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_missing_is_empty_and_one_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    assert read_env_file(path, shown=".env").values == {}
    path.write_bytes(b"A=1\nB=\xff\n")
    with pytest.raises(ConfigError, match=r"\.env:2: not UTF-8"):
        read_env_file(path, shown=".env")
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        read_env_file(path, shown=".env")


@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), st.text(max_size=20), max_size=5))
def test_whatever_is_quoted_reads_back(values: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
            value = value.replace(plain, escaped)
        return f'"{value}"'

    clean = {name: value.replace("\0", "") for name, value in values.items()}
    text = "\n".join(f"{name}={quoted(value)}" for name, value in clean.items())
    assert parse_env(text, shown=".env").values == clean


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        parse_env(text, shown=".env")
    except ConfigError as error:
        assert str(error).startswith(".env:")
