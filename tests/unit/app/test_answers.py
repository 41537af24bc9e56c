"""Structured answers: what a schema file may hold, and what an answer has to be."""

import signal
from pathlib import Path

import pytest

from melete.app.answers import AnswerSchema, read_schema
from melete.core.errors import UsageError

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def test_an_answer_that_fits_is_given_back_as_it_is() -> None:
    schema = AnswerSchema(SCHEMA)
    assert schema.read(' {"n": 1}\n') == '{"n": 1}'
    assert schema.read('```json\n{"n": 1}\n```') == '{"n": 1}'
    assert schema.complaint('{"n": 1}') == ""
    assert bytes(schema.schema).startswith(b'{"type":"object"')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I think it is 1.", "not JSON"),
        ('{"n": "1"}', "n must be integer"),
        ("{}", "must contain"),
        ('{"n": 1, "m": 2}', "must not contain"),
        ("[1]", "must be object"),
        ("[" * 9000 + "]" * 9000, "not JSON"),
    ],
)
def test_what_is_wrong_is_said_in_words(text: str, words: str) -> None:
    assert words in AnswerSchema(SCHEMA).complaint(text)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b'{"type": "text"}', "is not a JSON Schema"),
        (b'{"properties": 5}', "is not a JSON Schema"),
        (b'{"$ref": "http://127.0.0.1:9/schema"}', "another document"),
        (b'{"$ref": "file:///etc/passwd"}', "another document"),
        (b"{" + b" " * 200_001, "larger than 200 kB"),
    ],
)
def test_a_file_that_is_no_schema_is_told(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "schema.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words):
        read_schema(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_schema(tmp_path / "nothing.json")


def test_a_schema_that_is_about_itself_alone_ends_in_words() -> None:
    assert "refers to itself" in AnswerSchema({"$ref": "#"}).complaint("{}")


def test_a_pattern_that_is_none_is_told() -> None:
    with pytest.raises(UsageError, match="not a JSON Schema"):
        AnswerSchema({"type": "string", "pattern": "("})


def test_a_pattern_that_takes_for_ever_stops_nobody() -> None:
    schema = AnswerSchema({"properties": {"n": {"pattern": "^(a+)+$"}}})
    before = signal.getsignal(signal.SIGALRM)
    assert "too long" in schema.complaint('{"n": "' + "a" * 60 + '!"}')
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert schema.complaint('{"n": "aaa"}') == ""
