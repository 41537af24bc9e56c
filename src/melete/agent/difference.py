"""Where two JSON values part, told so that a person finds the place. Layer 2, pure."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, cast

import msgspec
from msgspec import Struct

BEFORE, SHOWN = 24, 120
"""Characters that are shown before the first one that differs, and in all."""
NOTHING = "(nothing)"


class Difference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first place where a run that was made again parts from its recording; `seq` and `type` name the fact.

    `field` leads to the value; `recorded` and `replayed` show it from shortly before the place on, shortened. `what` says in
    words what is wrong; `request` is the number of the request in its run, where the request itself differs.
    """

    seq: int
    type: str
    what: str
    field: str = ""
    recorded: str = ""
    replayed: str = ""
    request: int = 0


def parting(recorded: bytes, replayed: bytes) -> tuple[str, str, str]:
    """The path of the first value that differs in two JSON texts, and both values, shortened; or where only the bytes differ."""
    one, other = msgspec.json.decode(recorded), msgspec.json.decode(replayed)
    path, here, there = next(_parted(one, other, ""), ("", None, None))
    if not path:
        here, there = recorded.decode(), replayed.decode()
    return (path, *shortened(here, there))


def shortened(one: Any, other: Any) -> tuple[str, str]:
    """Two values as texts, both from shortly before the first character that differs."""
    left, right = _text(one), _text(other)
    same = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    start = max(0, same - BEFORE)
    return _cut(left, start), _cut(right, start)


def _parted(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        here, there = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        for name in dict.fromkeys([*here, *there]):
            inner = f"{path}.{name}" if path else name
            yield from _parted(here.get(name, NOTHING), there.get(name, NOTHING), inner)
    elif isinstance(one, list) and isinstance(other, list):
        pairs = zip_longest(cast("list[Any]", one), cast("list[Any]", other), fillvalue=NOTHING)
        for at, (left, right) in enumerate(pairs):
            yield from _parted(left, right, f"{path}[{at}]")
    elif one != other or isinstance(one, bool) is not isinstance(other, bool):
        yield path, one, other


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _cut(text: str, start: int) -> str:
    piece = text[start : start + SHOWN]
    return f"{'…' if start else ''}{piece}{'…' if start + SHOWN < len(text) else ''}"
