"""A tool call whole: what it was asked and what it said, as people read it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from melete.core.event import ToolEnded, ToolStarted
from melete.surfaces.cli.output import visible
from melete.surfaces.cli.paint import Paint

INDENT = "    "


def call_lines(fact: ToolEnded, started: ToolStarted | None, paint: Paint) -> Iterator[str]:
    """Lines, without their ends, with the arguments and the result."""
    if started is not None:
        yield from (paint("dim", f"{INDENT}{line}") for line in _fields(started.call.arguments))
    for line in _fields(fact.result.content):
        yield f"{INDENT}{line}".rstrip()
    if fact.spilled:
        yield paint("dim", f"{INDENT}all of it: {visible(fact.spilled)}")


def _fields(text: str) -> Iterator[str]:
    """A JSON object's fields, texts of several lines as such; anything else as it is."""
    try:
        fields = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        yield from visible(text).splitlines()
        return
    for name, value in fields.items():
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        first, *more = visible(shown).splitlines() or [""]
        if more:
            yield f"{visible(name)}:"
            yield from (f"  {line}" for line in (first, *more))
        else:
            yield f"{visible(name)}: {first}"
