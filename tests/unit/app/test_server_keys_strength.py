"""Which keys a server takes that others can reach: none that anybody would guess, and every one that was drawn by lot."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.app.key_strength import SHORTEST, check_strength, own_keys, weakness
from melete.core.errors import ConfigError

EVERYWHERE = ("0.0.0.0", "::", "", "192.168.1.7", "melete.example", "fe80::1%eth0", "127.0.0.1.example")
LOOPBACK = ("localhost", "127.0.0.1", "127.8.9.10", "::1")
WEAK = (
    "", "short", "fifteen-letters", "changeme", "changeme-changeme-changeme", "changeme12345678", "your-api-key-goes-here",
    "sk-your-openai-api-key-here", "insert_your_key_here_please", "my-super-secret-api-key-2024", "supersecretpassword123",
    "passwordpassword", "password12345678", "P@ssw0rdP@ssw0rd!", "replace-this-with-a-secret", "sk-xxxxxxxxxxxxxxxxxxxx",
    "aaaaaaaaaaaaaaaaaaaa", "0000000000000000", "----------------------", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRST",
    "zyxwvutsrqponmlkjihg", "12345678901234567890", "qwertyuiopasdfghjkl", "abababababababababab", "aabbccddeeffgghhiijj",
    "deadbeefdeadbeefdeadbeef", "abc123abc123abc123abc123", "x7Qp2x7Qp2x7Qp2x7Qp2", "melete-server-secret-key",
)  # fmt: skip


@pytest.mark.parametrize("key", WEAK)
def test_a_key_that_is_easily_guessed_is_refused_where_others_can_reach_the_server(key: str) -> None:
    for host in EVERYWHERE:
        with pytest.raises(ConfigError) as caught:
            check_strength(key, host, env="~/.melete/.env")
        text = str(caught.value)
        assert "MELETE_SERVER_KEY=" in text
        assert ">> ~/.melete/.env" in text
        assert not key or key not in text
    for host in LOOPBACK:
        check_strength(key, host)


@pytest.mark.parametrize(
    "key",
    [
        "mk_0Bq2lT7aZ9vWm4cXy6Rk1sJd8uHf3gPeN5oIwQtLxYb",
        "correcthorsebatterystaple",
        "b1946ac92492d2347c6235b4d2611184",
        "-{(([/:/,%~+'*;;",
        "8301746295518203",
    ],
)
def test_a_key_that_is_hard_to_guess_is_taken(key: str) -> None:
    for host in (*EVERYWHERE, *LOOPBACK):
        check_strength(key, host)


@given(st.integers())
def test_what_was_drawn_by_lot_is_never_taken_for_a_placeholder(seed: int) -> None:
    lot = random.Random(seed)
    for letters, count in ((string.ascii_letters + string.digits + "-_", 43), ("0123456789abcdef", 32)):
        key = "".join(lot.choice(letters) for _ in range(count))
        assert weakness(key) == ""


@given(st.text(min_size=1, max_size=8, alphabet=st.characters(codec="ascii")), st.integers(2, 20))
def test_a_short_text_does_not_become_a_good_key_by_being_repeated(block: str, times: int) -> None:
    assert weakness(block * times)


@pytest.mark.parametrize(
    "key", ["schlüssel-für-den-server-42", "key\x00with-a-nul-byte-in-it", "keÿ", "a\x7fb", "\udc80"]
)
def test_a_key_that_no_header_can_carry_is_refused_everywhere(key: str) -> None:
    for host in (*EVERYWHERE, *LOOPBACK):
        with pytest.raises(ConfigError, match="header"):
            check_strength(key, host)


def test_several_keys_are_told_apart() -> None:
    assert own_keys("") == own_keys(" , ,") == ()
    assert own_keys("one") == ("one",)
    assert own_keys("one two,three,, four\nfive ") == ("one", "two", "three", "four", "five")


@given(st.text())
def test_any_text_can_be_judged(text: str) -> None:
    assert (weakness(text) == "") <= (len(text) >= SHORTEST)
