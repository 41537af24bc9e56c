"""Writes the generated pages of the documentation from the code itself; with --check only says whether they are up to date."""

import argparse
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from melete.core import event

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
GENERATED = "<!-- Made by scripts/reference.py from the code; edits here are lost. -->"


# ---- events --------------------------------------------------------------------------------------


def events() -> str:
    """Every event with its fields, in the order of the code."""
    stamp = frozenset(event.Stamp.__struct_fields__)
    lines = [
        "# Events",
        "",
        "What `melete run --json` prints, one object a line, and what the log holds. Every event has `type`, `seq`, `session`,",
        "`run` and `at`. A **fact** is stored before it is shown, and `seq` counts facts without gaps; a **delta** is not stored:",
        "its `seq` is the last fact's and `sub` counts the deltas behind it. `melete config schema events` prints the JSON Schema.",
    ]
    for title, union in (
        ("Facts of a run", event.RunFact),
        ("Facts of a session", event.SessionFact),
        ("Deltas", event.Delta | event.ToolProgress | event.Lagged),
    ):
        lines += ["", f"## {title}"]
        for kind in typing.get_args(union):
            lines += ["", f"### `{kind.__struct_config__.tag}`", "", inspect.cleandoc(kind.__doc__ or "")]
            lines += _fields(kind, without=stamp)
    lines += ["", "## Values inside"]
    for kind in _values(event.Event):
        tag = kind.__struct_config__.tag
        lines += [
            "",
            f"### {kind.__name__} {{ #value-{kind.__name__.lower()} }}",
            "",
            inspect.cleandoc(kind.__doc__ or ""),
        ]
        lines += [f'Its `type` is `"{tag}"`.'] if tag else []
        lines += _fields(kind)
    return "\n".join(lines)


def _values(union: Any) -> Iterator[Any]:
    """The structs that events hold, each once, in the order in which they are met."""
    seen: list[Any] = []

    def visit(hint: Any) -> None:
        for inner in typing.get_args(hint):
            visit(inner)
        if not (inspect.isclass(hint) and issubclass(hint, msgspec.Struct)) or hint in seen:
            return
        if not issubclass(hint, event.Stamp):
            seen.append(hint)
        for field in msgspec.structs.fields(hint):
            visit(field.type)

    visit(union)
    yield from seen


def _fields(kind: Any, *, without: frozenset[str] = frozenset()) -> list[str]:
    rows = [
        f"| `{field.encode_name}` | {_type(field.type)} | {_default(field)} |"
        for field in msgspec.structs.fields(kind)
        if field.name not in without
    ]
    return ["", "| Field | Type | Default |", "|---|---|---|", *rows] if rows else []


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if value is msgspec.NODEFAULT:
        return "required"
    if isinstance(value, msgspec.Struct):
        return "its defaults"
    return f"`{msgspec.json.encode(value).decode()}`"


def _type(hint: Any) -> str:
    """A type as JSON has it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(_type(kind) for kind in inner)
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in {tuple, list}:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"object of {_type(inner[1])}"
    plain = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        type(None): "null",
        datetime: "time",
        msgspec.Raw: "JSON",
    }
    return plain.get(hint) or f"[{hint.__name__}](#value-{hint.__name__.lower()})"


# ---- the pages -----------------------------------------------------------------------------------

PAGES: dict[str, Callable[[], str]] = {"events.md": events}


def main() -> int:
    """Write the pages, or with --check compare them; the exit status is 1 when one is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is out of date")
    check = parser.parse_args().check
    stale: list[str] = []
    for name, page in PAGES.items():
        text = f"{GENERATED}\n\n{page().rstrip()}\n"
        path = FOLDER / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and check:
        print(f"out of date: {', '.join(stale)}; run python scripts/reference.py", file=sys.stderr)
        return 1
    print(f"written: {', '.join(stale)}" if stale else "the reference is up to date")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
