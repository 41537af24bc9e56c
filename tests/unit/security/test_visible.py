"""What a person sees of a text: nothing hidden, nothing that moves, nothing that passes for something else."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.security.visible import digest, measure, visible

HIDDEN = {
    "r\u200bm": "r⟦U+200B⟧m",
    "a\u202eb": "a⟦U+202E⟧b",
    "\x1b[8mx": "⟦U+001B⟧[8mx",
    "a\rb": "a⟦U+000D⟧b",
    "a\tb": "a⟦U+0009⟧b",
    "rm\u00a0-rf": "rm⟦U+00A0⟧-rf",
    "\U000e0041": "⟦U+E0041⟧",
    "x\u3164y": "x⟦U+3164⟧y",
    "\uff52m": "⟦U+FF52⟧m",
    "p\u0430ypal": "p⟦U+0430⟧ypal",
    "\U0001d42bm": "⟦U+1D42B⟧m",
    "x\ufe0f": "x⟦U+FE0F⟧",
    "⟦U+0000⟧": "⟦U+27E6⟧U+0000⟦U+27E7⟧",
    "\ud800": "⟦U+D800⟧",
    "a\u2028b": "a⟦U+2028⟧b",
}


@pytest.mark.parametrize(("text", "shown"), HIDDEN.items())
def test_what_hides_or_deceives_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["rm -rf build\nls", "grüße, 世界, Привет мир, Ελλάδα", "naïve café", "한국어 🙂"])
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@given(st.text(), st.text())
def test_two_texts_never_look_the_same_and_nothing_hidden_is_left(one: str, other: str) -> None:
    shown = visible(one)
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for c in shown if c != "\n")
    assert (shown == visible(other)) == (one == other)


def test_a_long_text_is_known_by_its_length_and_digest() -> None:
    assert measure("short") == ""
    assert measure("x" * 1_000) == f"1,000 characters, sha256 {digest('x' * 1_000)}"
