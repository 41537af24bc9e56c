"""A character that a server has cut in two comes out whole, and half a one never comes out."""

import msgspec
import pytest

from melete.models.surrogates import Halves


def read(*events: bytes) -> str:
    halves = Halves()
    return "".join(halves.decode(event)["delta"]["text"] for event in events)


def test_two_halves_in_two_events_are_one_character() -> None:
    assert read(b'{"delta":{"text":"a\\ud83d"}}', b'{"delta":{"text":"\\ude00b"}}') == "a😀b"
    assert read(b'{"delta":{"text":"\\ud83d"}}', b'{"delta":{"text":""}}', b'{"delta":{"text":"\\ude00"}}') == "😀"


def test_whole_pairs_and_other_text_are_untouched() -> None:
    assert read(b'{"delta":{"text":"\\ud83d\\ude00 \\u00e9"}}', '{"delta":{"text":"ü"}}'.encode()) == "😀 éü"


def test_a_half_that_stays_alone_is_dropped() -> None:
    assert read(b'{"delta":{"text":"a\\ud83d"}}', b'{"delta":{"text":"b"}}') == "ab"
    assert read(b'{"delta":{"text":"\\ude00x"}}') == "x"


@pytest.mark.parametrize("data", [b"{", b'{"a":"\\ud83d"', b"\xff", b"[" * 9000])
def test_what_is_no_json_is_refused_as_before(data: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError, RecursionError)):
        Halves().decode(data)
