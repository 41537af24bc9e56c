"""Texts of a session made fit for a page: visible, cut where they are long, JSON taken apart. Composition root, pure."""

import re
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.message import Usage

MAIN = ("command", "path", "pattern", "query", "question", "url", "name", "action")
"""Arguments of a call that say most, the best first."""
SHORT = 100
"""Characters up to which a value stands in the line of all short values."""
SUMMARY = 160
HEAD = 0.7
NEAR = 200
"""Characters from a cut within which it is moved to the end of a line."""

_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Cut(Struct, frozen=True, kw_only=True):
    """A text within its limit: all of it in `head`, or its two ends and how many characters are missing between them."""

    head: str
    tail: str = ""
    missing: int = 0


class Field(Struct, frozen=True, kw_only=True):
    """A text of its own inside a call or a result."""

    name: str
    text: str


class Fields(Struct, frozen=True, kw_only=True):
    """A JSON object taken apart: what is short, as compact JSON, and each long text; or `plain`, where it is no object."""

    short: str = ""
    long: tuple[Field, ...] = ()
    plain: str = ""


def clean(text: str) -> str:
    """The text without colours of a terminal, and with what would hide or turn round other text made visible."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", _COLOURS.sub("", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """The text on one line."""
    return clean(" ".join(text.split()))


def cut(text: str, limit: int | None) -> Cut:
    """The text within `limit` characters, more of it from its beginning; None is no limit."""
    if limit is None or len(text) <= limit:
        return Cut(head=text)
    split = int(limit * HEAD)
    first, last = text[:split], text[split - limit :]
    if "\n" in first[-NEAR:]:  # whole lines read better
        first = first[: first.rindex("\n") + 1]
    if "\n" in last[:NEAR]:
        last = last[last.index("\n") + 1 :]
    return Cut(head=first, tail=last, missing=len(text) - len(first) - len(last))


def arguments(text: str) -> Fields:
    """A call's arguments as people read them; nothing where the line of the call tells them all."""
    found = _object(text)
    if found is None:
        return Fields() if one_line(text) == text and len(text) <= SUMMARY else Fields(plain=clean(text))
    alone = len(found) == 1 and next(iter(found.values())) == main_argument(text)
    return Fields() if alone else _fields(found)


def result(text: str) -> Fields:
    """A result as people read it; whether it is one of success is shown elsewhere."""
    found = _object(text)
    if found is None:
        return Fields(plain=clean(text))
    return _fields({name: value for name, value in found.items() if name != "success" or not isinstance(value, bool)})


def _object(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _fields(found: dict[str, Any]) -> Fields:
    long = {name: value for name, value in found.items() if isinstance(value, str) and _is_long(value)}
    short = {name: value for name, value in found.items() if name not in long}
    return Fields(
        short=clean(msgspec.json.encode(short).decode()) if short else "",
        long=tuple(Field(name=one_line(name), text=clean(value)) for name, value in long.items()),
    )


def _is_long(text: str) -> bool:
    return len(text) > SHORT or "\n" in text


def main_argument(text: str) -> str:
    """The argument of a call that says most, on one line."""
    found = _object(text)
    if found is None:
        return one_line(text)[:SUMMARY]
    texts = {name: value for name, value in found.items() if isinstance(value, str) and value}
    best = next((texts[name] for name in MAIN if name in texts), next(iter(texts.values()), ""))
    line = one_line(best)
    return line if len(line) <= SUMMARY else f"{line[: SUMMARY - 1]}…"


def when(at: datetime) -> str:
    """A time to the minute."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def tokens(usage: Usage) -> str:
    """Tokens in words; empty for none."""
    read = usage.input + usage.cache_read + usage.cache_write
    if not usage.total:
        return ""
    cached = f" ({100 * usage.cache_read / read:.0f} % from the cache)" if usage.cache_read else ""
    return f"{read:,} tokens in{cached}, {usage.output:,} out"
