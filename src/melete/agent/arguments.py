"""A call's arguments: read leniently, checked against the tool's signature. Layer 2.

Models write almost-JSON: fences, trailing commas, Python's words, a missing bracket. What can be read without guessing at
values is read; the rest is an error that tells the model what to send.
"""

import ast
import difflib
import json
import re
import warnings
from typing import Any, cast

import msgspec
from msgspec import Struct

from melete.core.tool import Tool, ToolError

_FENCE = re.compile(r"```[a-zA-Z]*[ \t\r]*")
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^"\[\]{},\s]+|\s+|.', re.DOTALL)
_ESCAPE = re.compile(r"\\.|[\n\r\t]", re.DOTALL)
_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CLOSERS = {"{": "}", "[": "]"}
_MISFIT = re.compile(r"^Expected `(?P<wanted>.+)`, got `(?P<got>\w+)`(?: - at `\$(?P<path>.*)`)?$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
MENDS = 50
"""How many values of one call may be of another type than asked for, and still be understood."""


def check(tool: Tool, text: str) -> tuple[Struct, str]:
    """The checked arguments and their canonical JSON; raises ToolError that says what is wrong and what is expected."""
    values = parse(text)
    known = set(tool.arguments.__struct_fields__)
    unknown = sorted(set(values) - known)
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ToolError(
            f"{tool.name} takes no argument {unknown[0]!r}.{hint}", expected=msgspec.json.decode(tool.schema)
        )
    try:
        checked = _converted(_drop_nulls(values), tool.arguments)
    except msgspec.ValidationError as error:
        raise ToolError(f"{tool.name}: {error}", expected=msgspec.json.decode(tool.schema)) from error
    return checked, msgspec.json.encode(values).decode()


def parse(text: str) -> dict[str, Any]:
    """A JSON object from what a model wrote; raises ToolError when there is none to be found."""
    plain = text.strip()
    first, _, rest = plain.partition("\n")
    if rest.endswith("```") and _FENCE.fullmatch(first):
        plain = rest.removesuffix("```").strip()
    if not plain:
        return {}
    for reading in (plain, _tidied(plain)):
        try:
            value = msgspec.json.decode(reading)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if isinstance(value, str):  # the object was encoded twice
            return parse(value)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    found = _python(plain)
    return _refuse(text) if found is None else found


def _tidied(text: str) -> str:
    """The text with line breaks in strings escaped, no comma before a closing bracket, and what is open at the end closed.

    A text that is cut inside a string or number, or before a value, is not completed: nobody knows what was to come.
    """
    made: list[str] = []
    missing: list[str] = []
    comma = -1
    for found in _TOKEN.finditer(
        text
    ):  # one at a time: behind a string that nobody closed, each search would go to the end
        piece = found[0]
        if piece == '"':
            return text
        if piece in _CLOSERS:
            missing.append(_CLOSERS[piece])
        elif piece in ("}", "]"):
            if comma >= 0:
                made[comma] = ""
            if missing and piece == missing[-1]:
                missing.pop()
        if piece == ",":
            comma = len(made)
        elif not piece.isspace():
            comma = -1
        made.append(_ESCAPE.sub(_escaped, piece) if piece[0] == '"' else piece)
    unfinished = comma >= 0 or text[-1].isdigit()
    return text if missing and unfinished else "".join(made + missing[::-1])


def _escaped(match: re.Match[str]) -> str:
    """A control character as JSON writes it; a backslash before one stays a backslash."""
    control = _CONTROLS.get(match[0][-1])
    if control is None:
        return match[0]
    return control if len(match[0]) == 1 else "\\\\" + control


def _python(text: str) -> dict[str, Any] | None:
    """A dict in Python's words, as far as JSON can say the same."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the text's odd escapes are no concern of ours
            value = ast.literal_eval(text)
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):  # pyright: ignore[reportUnknownVariableType]
            return None
        return msgspec.json.decode(json.dumps(value), type=dict[str, Any])
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, msgspec.DecodeError):
        return None


def _converted(values: dict[str, Any], kind: type[Struct]) -> Struct:
    """The values as the struct; a number where text is wanted, and JSON inside a string, are understood."""
    for _ in range(MENDS):
        try:
            return msgspec.convert(values, kind, strict=False)
        except msgspec.ValidationError as error:
            if not _mended(values, str(error)):
                raise
    return msgspec.convert(values, kind, strict=False)


def _mended(values: dict[str, Any], error: str) -> bool:
    """Put right, in place, the one value that the error is about; False where that would be a guess."""
    misfit = _MISFIT.match(error)
    steps: list[Any] = [name or int(index) for name, index in _STEP.findall(misfit["path"] or "")] if misfit else []
    if misfit is None or not steps:
        return False
    holder: Any = values
    for step in steps[:-1]:
        holder = holder[step]
    value, wanted = holder[steps[-1]], misfit["wanted"].split(" | ")
    if misfit["got"] == "int" and "str" in wanted:
        holder[steps[-1]] = str(value)
        return True
    if misfit["got"] != "str" or not {"array", "object"} & set(wanted):
        return False
    try:
        inner = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    holder[steps[-1]] = inner
    return isinstance(inner, list | dict)


def _drop_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None}


def _refuse(text: str) -> dict[str, Any]:
    raise ToolError(f"The arguments are not a JSON object: {text[:200]}")
