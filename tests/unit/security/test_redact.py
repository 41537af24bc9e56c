"""Known secrets do not survive in a text, in any of their usual forms."""

import base64
import json
import re
from urllib.parse import quote, quote_plus

from hypothesis import given
from hypothesis import strategies as st

from melete.security.redact import SHORTEST, Redactor

SECRET = 'sk-live/+aB3 9==xyz\\q"w'


def test_the_name_stands_in_for_the_value() -> None:
    redact = Redactor({"API_KEY": "abcdefgh12"})
    assert redact("key=abcdefgh12, again abcdefgh12!") == "key=[redacted:API_KEY], again [redacted:API_KEY]!"


def test_encoded_forms_go_as_well() -> None:
    redact = Redactor({"K": SECRET})
    for form in (
        SECRET,
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET),
        re.sub("%..", lambda sign: sign[0].lower(), quote(SECRET)),
        SECRET.encode().hex(),
        json.dumps(SECRET)[1:-1],
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
    ):
        assert redact(f"<{form}>") == "<[redacted:K]>", form


@given(before=st.binary(max_size=20), after=st.binary(max_size=20))
def test_it_is_found_inside_longer_base64(before: bytes, after: bytes) -> None:
    secret = "correct-horse-battery"
    redacted = Redactor({"K": secret})(base64.b64encode(before + secret.encode() + after).decode())
    assert "[redacted:K]" in redacted


def test_a_value_that_is_no_text_is_a_value_as_well() -> None:
    assert Redactor({"K": "caf\udce9-au-lait"})("caf\udce9-au-lait caf%E9-au-lait") == "[redacted:K] [redacted:K]"


def test_short_values_are_left_alone() -> None:
    assert Redactor({"A": "x" * (SHORTEST - 1)})("x" * 20) == "x" * 20


def test_a_secret_inside_another_takes_the_longer_name() -> None:
    assert Redactor({"A": "12345678", "B": "1234567890"})("1234567890") == "[redacted:B]"


def test_no_secrets_no_change() -> None:
    text = "nothing here"
    assert Redactor({})(text) is text


@given(st.text(min_size=SHORTEST, max_size=30), st.text(max_size=50), st.text(max_size=50))
def test_the_value_never_survives(secret: str, before: str, after: str) -> None:
    redacted = Redactor({"N": secret})(before + secret + after)
    assert "[redacted:N]" in redacted
