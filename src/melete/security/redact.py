"""Secrets out of texts: values that are known, and what looks like a secret by its shape or by the name before it. Pure.

The same text always gives the same text, and what came out is left alone the second time. Most texts hold no secret, so a text
is searched for plain words and for long runs of letters first, and patterns are tried only there.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from threading import Lock
from typing import Final
from urllib.parse import quote, quote_plus

from melete.security import secret_shapes as data

SHORTEST = 8
LONGEST_NAME: Final = 64
LONGEST_WORD: Final = 20
LONG_NUMBER: Final = 15
LONG_WORD: Final = 30
LONGEST_ESCAPE: Final = 3
LONG_TOKEN: Final = 128
"""In what is longer and no token, none is looked for."""
SLICE: Final = 20_480
"""Characters that one search looks at: no other thread runs meanwhile."""
REACH: Final = 6_144
"""Characters of the longest shape."""
LONG_PLACEHOLDER: Final = 7
"""Shorter ones stand in long random strings by chance."""
FEWEST_LETTERS: Final = 6
MARK: Final = "[redacted:"
Found = tuple[int, int, str]
"""Where a secret begins and ends, and what it is called."""

_RUN: Final = b"x" * 16
_RUNS: Final = bytes(ord("x" if re.match("[A-Za-z0-9_~-]", chr(code)) else " ") for code in range(256))
_BEGINS: Final = r"(\b|\\[nrt]|%[0-9A-Fa-f]{2})(?=\w)"
_ENDS: Final = r"(?![A-Za-z0-9])"
_ASSIGNED: Final = r"""
    s?(?:[_-]?(?:value|string|str|text|raw|b64|base64|prod|live|test|dev|old|new|current|main|v?[0-9]{1,2}))?(?![a-z0-9_-])
    (?:\\{0,4}["'`])?\]?
    (?: [ \t]{0,8}(?::[ \t]?(?:str|string|bytes|optional\[str\]|&str)\b[ ]{0,4}(?:\|[ ]?none[ ]{0,4})?)?
        (?:=>|:=|==?|:|,(?=[ ]?["'])|>) [ \t]{0,8} (?:[|>]-?[ \t]*\n[ \t]*)? (?:(?:bearer|basic|token)[ ])?
      | (?P<weak>[ \t]{1,8}(?:(?:is|was|of|to)[ \t:]{1,4})?) )
    (?: [bru]{0,2}\\{0,4}["'`](?P<quoted>[^\s"'`\\]{8,512}+)(?!\s) | (?P<plain>[^\s"'`\\,;&<>(){}\[\]|]{8,512}+)(?![(\[{]) )
"""
_HEX: Final = "[0-9a-f]{32,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""Digests and UUIDs."""
_TYPED: Final = r"(.)\1{4}"
"""One letter five times: twice, and somebody has typed it."""
_NAME: Final = "[A-Z]?[a-z]+|[A-Z]+|[0-9]+"
_QUOTED: Final = r"""[^\s"'`\\]*+"""
_PLAIN: Final = r"""[^\s"'`\\,;&<>(){}\[\]|]*+"""
_WORD: Final = r"[^\s\"'<>]*+"
_WORDS: Final = "[A-Za-z_]+(?:[._-][A-Za-z_]+)*"
_BODY: Final = "[A-Za-z0-9+/]{32}"
_SWAP: Final = r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])"
_UNSPEAKABLE: Final = r"(?i:[bcdfghjklmnpqrstvwxz]{5})"
_FILE: Final = (
    r"[$/~%@]|\.{1,2}/|.*\.(?:pem|key|json|txt|ya?ml|crt|cer|pub|py|js|ts|go|rs|md|toml|conf|ini|cfg|sh|html?|png)$"
)


class Redactor:
    """Puts `[redacted:NAME]` for each known secret value: as it is, URL-encoded, in hexadecimal or base64, in longer base64 too.

    Values shorter than 8 characters are left alone: they would hit ordinary text. With `shapes` also what looks like a secret
    goes: `[redacted:KIND]`.
    """

    def __init__(self, secrets: Mapping[str, str], *, shapes: bool = True) -> None:
        self._known: tuple[dict[str, str], re.Pattern[str]] | None = None
        self._learning = Lock()
        self._shapes = shapes
        self.learn(secrets)

    def learn(self, secrets: Mapping[str, str]) -> None:
        """Take out these as well from now on; what was known stays known."""
        with self._learning:
            before = self._known[0] if self._known else {}
            names = dict(before)
            for name, value in secrets.items():
                if len(value) >= SHORTEST and value not in names:
                    for form in _forms(value):
                        names.setdefault(form, name)
            if len(names) > len(before):
                pattern = re.compile(
                    "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
                )  # the longest first
                self._known = names, pattern  # at once: a thread may be reading it

    def __call__(self, text: str) -> str:
        """The text without the secrets; the same object when it holds none."""
        if self._known:
            names, pattern = self._known
            if any(form in text for form in names):  # ten times faster than the pattern
                text = pattern.sub(lambda match: f"{MARK}{names[match[0]]}]", text)
        return without_shapes(text) if self._shapes else text


def without_shapes(text: str) -> str:
    """The text with `[redacted:KIND]` for what looks like a secret; the same object when nothing does.

    Takes time in proportion to the text. A shape that is cut in two by the edge of the text is not seen.
    """
    if len(text) < SHORTEST:
        return text
    kept: list[str] = []
    done = 0
    for start, end, kind in sorted(_found(text)):
        if start >= done:
            kept += (text[done:start], f"{MARK}{kind}]")
        done = max(done, end)
    return "".join((*kept, text[done:])) if done else text


def _found(text: str) -> Iterator[Found]:
    yield from _tokens(text)
    folded = text.replace("\u0130", "I").lower()  # the one letter whose small form is longer
    for word, pattern, kind in _places():
        for match in _each(word, pattern, folded):
            start, end = match.span("value")
            if _is_password(text[start:end], kind):
                yield start, end, kind
    for word, pattern, kind in _names():
        for match in _each(word, pattern, folded):
            start, end = match.span("quoted" if match["quoted"] else "plain")
            name = text[max(0, match.start() - LONGEST_NAME) : match.end("stem")]
            if (sure := _names_a_secret(name, match["stem"])) and _looks_random(
                text[start:end], sure=sure > 1 and match["weak"] is None, password=kind == "password"
            ):
                yield start, _end_of(text, end, quoted=match["quoted"] is not None), kind


def _each(word: str, pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """What `finditer` gives for a pattern that begins with a word, faster, and in short steps: no thread runs beside a step."""
    at = text.find(word)
    while at >= 0:
        if found := pattern.match(text, at):
            yield found
        at = text.find(word, found.end() if found else at + 1)


def _end_of(text: str, end: int, *, quoted: bool) -> int:
    """Where a value ends that may be longer than the pattern looks."""
    rest = _compiled(_QUOTED if quoted else _PLAIN).match(text, end)
    return rest.end() if rest else end


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Where sixteen letters of a token or more stand together; ten times as fast as a pattern."""
    plain = text.encode("latin-1", "replace").translate(_RUNS)
    start = plain.find(_RUN)
    while start >= 0:
        end = plain.find(b" ", start)
        yield start, end if end >= 0 else len(plain)
        start = plain.find(_RUN, end) if end >= 0 else -1


def _tokens(text: str) -> Iterator[Found]:
    seen = 0
    for start, end in _runs(text):
        plain_words = end - start < LONG_WORD and not _compiled("[0-9]").search(text, start, end)
        if start < seen or plain_words:
            continue
        if (
            _compiled(_HEX).fullmatch(text, start, end) and text[end : end + 1] != "@"
        ):  # with that, it begins an address
            continue
        rest = _compiled(_WORD).match(text, end)
        first, seen = max(seen, start - data.WINDOW - LONGEST_ESCAPE), rest.end() if rest else end
        kinds, pattern = _shapes()
        while first < seen:
            cut = min(first + SLICE, seen)
            found = pattern.search(text, first, cut)
            if not found or (cut < seen and found.start() >= cut - REACH):
                first = cut if cut == seen else cut - REACH
            elif _is_token(text[found.end(1) : found.end()].lower()):
                yield found.end(1), found.end(), kinds[(found.lastindex or 2) - 2]
                first = found.end()
            else:
                first = found.end() if found.end() > found.start() + LONG_TOKEN else found.start() + 1


def _is_token(low: str) -> bool:
    made_up = (part for part in data.PLACEHOLDERS if len(part) >= LONG_PLACEHOLDER or len(set(part)) == 1)
    typed = len(_compiled(_TYPED).findall(low)) > 1
    return len(set(low)) > FEWEST_LETTERS + 2 and not typed and not any(part in low for part in made_up)


def _names_a_secret(name: str, stem: str) -> int:
    """0: no; 1: where the value is plainly random; 2: yes. `name` ends with the stem, text before it included."""
    before = name[: len(name) - len(stem)]
    if before.rfind(MARK) > before.rfind("]"):
        return 0
    words = _compiled(_NAME).findall(before[-LONGEST_WORD:])
    last = words[-1] if words and before[-2:].rstrip("_.- ")[-1:].isalnum() else ""
    before_last = words[-2].lower() if len(words) > 1 and last.lower() == "key" else ""
    if last.lower() in data.NOT_SECRET or before_last in data.NOT_SECRET:
        return 0
    camel = name[len(before)].isupper() and last[-1:].islower()
    begins = not last or not before[-1:].isalnum() or camel
    if stem == "key":
        if last.lower().endswith(data.KEYS):
            return 2
        return 1 if last else 0
    return 2 if begins or stem not in data.BEGINS_A_WORD else 0


def _is_password(value: str, kind: str) -> bool:
    low = value.lower()
    if kind == "private-key":
        return _compiled(_BODY).search(value) is not None
    if (
        low in data.KNOWN_DEFAULTS
        or any(part in low for part in data.PLACEHOLDERS)
        or len(set(low)) < FEWEST_LETTERS - 2
    ):
        return False
    if kind == "authorization" and _compiled(_WORDS).fullmatch(value) and not _compiled(_UNSPEAKABLE).search(value):
        return False  # code that reads the header
    return value[0] not in "$%{[" and (kind not in data.RANDOM or _looks_random(value, sure=False, password=False))


def _looks_random(value: str, *, sure: bool, password: bool) -> bool:
    low = value.lower()
    if (
        len(set(low)) < FEWEST_LETTERS
        or any(part in low for part in data.PLACEHOLDERS)
        or _compiled(_FILE).match(value)
    ):
        return False
    if any(map(_random_run, _compiled("[A-Za-z0-9]+").findall(value))):
        return True
    specials = any(letter in "!#$%^&*+=?@" for letter in value)
    return sure and password and specials and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _random_run(run: str) -> bool:
    if len(run) < SHORTEST:
        return False
    if run.isdigit():
        return len(run) >= LONG_NUMBER
    return len(_compiled(_SWAP).findall(run)) > 1 or (
        len(run) > SHORTEST + 1 and bool(_compiled(_UNSPEAKABLE).search(run))
    )


@cache
def _shapes() -> tuple[tuple[str, ...], re.Pattern[str]]:
    """All shapes in one pattern, those that begin with the same letter together: it looks at few of them in each place."""
    rows = sorted(data.SHAPES, key=lambda row: row[1][0])
    places: list[str] = []
    for letter, same in groupby(rows, key=lambda row: row[1][0]):
        forms = [row for _, row in same]
        if letter.isalnum() or letter == "_":
            places.append(f"{letter}(?:{'|'.join(f'({row[1:]})' for row in forms)})")
        else:
            forms = "|".join(f"({row})" for row in forms)
            places.append(rf"(?=\w{{6}})(?:{forms})" if letter == "[" else forms)
    return tuple(kind for kind, _ in rows), re.compile(f"{_BEGINS}(?:{'|'.join(places)}){_ENDS}", re.ASCII)


@cache
def _places() -> tuple[tuple[str, re.Pattern[str], str], ...]:
    return tuple((_word(row), re.compile(row, re.ASCII), kind) for row, kind in data.PLACES)


@cache
def _names() -> tuple[tuple[str, re.Pattern[str], str], ...]:
    return tuple(
        (_word(stem), re.compile(f"(?P<stem>{stem}){_ASSIGNED}", re.ASCII | re.VERBOSE), kind)
        for stem, kind in data.STEMS
    )


def _word(pattern: str) -> str:
    """The plain word that a pattern begins with."""
    return re.split(r"[\\\[(.]", pattern, maxsplit=1)[0]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _forms(value: str) -> Iterator[str]:
    yield value
    if stripped := value.strip():
        yield stripped
    yield quote(value, safe="", errors="surrogateescape")  # variables may hold bytes that are no text
    yield quote_plus(value, errors="surrogateescape")
    yield from (escaped := quote(value, errors="surrogateescape"), re.sub("%..", lambda sign: sign[0].lower(), escaped))
    yield value.encode("utf-8", "surrogateescape").hex()
    quoted = json.dumps(value, ensure_ascii=False)[1:-1]
    yield from (quoted, quoted.replace("/", "\\/"), json.dumps(value)[1:-1])
    yield value.encode("unicode_escape").decode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            yield from _inside_base64(encode(b"\0" * shift + value.encode("utf-8", "surrogateescape")).decode(), shift)


def _inside_base64(encoded: str, shift: int) -> Iterator[str]:
    """The characters that the value alone decides, whatever stands before it (`shift` bytes) and behind it."""
    first = (0, 2, 3)[shift]
    body = encoded.rstrip("=")
    core = body[first : len(body) - 1] if body != encoded else body[first:]
    if len(core) >= SHORTEST:
        yield core
    if shift == 0:
        yield encoded
