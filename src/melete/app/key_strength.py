"""Whether a person's own key is good enough for the place where the server listens. Part of the composition root, pure."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from melete.app.vendors import is_loopback
from melete.core.errors import ConfigError

SHORTEST = 16
"""Characters of a key at least, beyond loopback."""
LEAST_BITS = 30.0
"""Estimated entropy of a key at least, beyond loopback; sixteen random letters are estimated at fifty or so."""
REMAINDER = 8
"""Characters that must be left of a key once the words of placeholders are taken out."""
PLACEHOLDERS = (
    "administrator", "passphrase", "placeholder", "undefined", "changethis", "changeme", "openrouter", "anthropic",
    "password", "passwort", "passwd", "replace", "example", "default", "letmein", "iloveyou", "sunshine", "welcome",
    "trustno", "testing", "private", "insert", "secret", "change", "server", "openai", "bearer", "ollama", "melete",
    "hermes", "sample", "dragon", "monkey", "master", "strong", "random", "apikey", "access", "notset", "needed",
    "required", "token", "admin", "dummy", "super", "local", "agent", "empty", "value", "valid", "none", "null", "here",
    "test", "demo", "root", "user", "your", "this", "with", "some", "todo", "pass", "fake", "key", "api", "the", "you",
    "not", "top", "my", "me", "sk", "pk", "mk",
)  # fmt: skip
"""Words that keys in examples and first attempts are made of, the longer before the shorter."""

_ROWS = ("abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "yxcvbnm")
_STEPS = frozenset(pair for row in _ROWS for one, two in pairwise(row) for pair in ((one, two), (two, one)))
_WORDS = re.compile("|".join(PLACEHOLDERS))
_OTHER = re.compile(r"[^a-z0-9]")
_SEPARATORS = re.compile(r"[,\s]+")
_AS_LETTERS = str.maketrans("013457@$!", "oleastasi")


def own_keys(text: str) -> tuple[str, ...]:
    """The keys that `server.api_key` holds: one, or several with spaces or commas between while one replaces another."""
    return tuple(key for key in _SEPARATORS.split(text) if key)


def check_strength(key: str, host: str, *, env: str = "~/.melete/.env") -> None:
    """Raise ConfigError, which says how to make a better one, unless `key` may open a server that listens on `host`.

    On loopback any key will do, none as well. `env` is the home's `.env` as a person would write it. No message shows the key.
    """
    if not all(" " < letter <= "~" for letter in key):
        raise ConfigError(
            "server.api_key holds characters that cannot be sent in a header",
            kept="the server was not started",
            next=f"use printable ASCII only; {_made(env)}",
        )
    if is_loopback(host) or not (what := weakness(key)):
        return
    raise ConfigError(
        f"the server would listen on {host or 'all addresses'}, where others can reach it, but server.api_key {what}",
        kept="the server was not started",
        next=f"{_made(env)}; or listen on 127.0.0.1",
    )


def weakness(key: str) -> str:
    """What is wrong with a key, as the end of a sentence; empty for one that is hard enough to guess."""
    if not key:
        return "is not set"
    if len(key) < SHORTEST:
        return f"has only {len(key)} characters, of {SHORTEST} at least"
    if is_placeholder(key):
        return "is a placeholder, or made of words that everybody tries"
    if len(_block(key)) < SHORTEST or estimated_bits(key) < LEAST_BITS:
        return "is too easy to guess: it repeats itself or follows the order of letters, digits or the keyboard"
    return ""


def is_placeholder(key: str) -> bool:
    """Whether little is left of a key without the words that placeholders are made of, digits read as letters as well."""
    forms = (key.lower(), key.lower().translate(_AS_LETTERS))
    return any(_made_of_words(_OTHER.sub("", form)) for form in forms)


def estimated_bits(key: str) -> float:
    """A low estimate of a key's entropy: characters that the two before foretell count for nothing, the rest by frequency."""
    free = list(_unforeseen(key))
    return sum(-count * math.log2(count / len(free)) for count in Counter(free).values())


def _unforeseen(key: str) -> Iterator[str]:
    """The characters that do not go on with a repetition or a row; two alike or in order are chance, three are a pattern."""
    lowered = key.lower()
    run = 0
    for place, letter in enumerate(key):
        pair = (lowered[place - 1 : place], lowered[place])
        run = run + 1 if pair[0] == pair[1] or pair in _STEPS else 0
        if run <= 1:
            yield letter


def _block(key: str) -> str:
    """The part of a key that the whole key repeats; the key itself where it repeats nothing."""
    return key[: (key + key).find(key, 1)]


def _made_of_words(text: str) -> bool:
    rest = _WORDS.sub("", text)
    return rest != text and sum(1 for _ in _unforeseen(rest)) < REMAINDER


def _made(env: str) -> str:
    return f'make one with: echo "MELETE_SERVER_KEY=$(head -c 32 /dev/urandom | base64)" >> {env}'
