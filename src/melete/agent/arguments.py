"""A call's arguments: read leniently, checked against the tool's signature. Layer 2.

Models write almost-JSON: fences, trailing commas, Python's words, a missing bracket. What can be read without guessing at
values is read; the rest is an error that tells the model what to send.
"""

import ast
import difflib
import re
from typing import Any, cast

import msgspec
from msgspec import Struct

from melete.core.tool import Tool, ToolError

_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
_TRAILING = re.compile(r",(\s*[}\]])")
_CLOSERS = {"{": "}", "[": "]"}


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
        checked = msgspec.convert(_drop_nulls(values), tool.arguments, strict=False)
    except msgspec.ValidationError as error:
        raise ToolError(f"{tool.name}: {error}", expected=msgspec.json.decode(tool.schema)) from error
    return checked, msgspec.json.encode(values).decode()


def parse(text: str) -> dict[str, Any]:
    """A JSON object from what a model wrote; raises ToolError when there is none to be found."""
    stripped = text.strip()
    if not stripped:
        return {}
    for candidate in _readings(stripped):
        try:
            value = msgspec.json.decode(candidate)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if isinstance(value, str):  # the object was encoded twice
            return parse(value) if value.strip().startswith("{") else _refuse(text)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    return _python(stripped) or _refuse(text)


def _readings(text: str) -> list[str]:
    fenced = _FENCE.match(text)
    plain = fenced.group(1) if fenced else text
    tidy = _TRAILING.sub(r"\1", plain)
    escaped = tidy.replace("\r\n", "\n").replace("\n", "\\n").replace("\t", "\\t")
    return [plain, tidy, tidy + _missing(tidy), escaped, escaped + _missing(escaped)]


def _missing(text: str) -> str:
    """The brackets that would close what is open, only outside strings: a text cut inside a string is not completed."""
    stack: list[str] = []
    quoted = escaped = False
    for char in text:
        if quoted:
            escaped = char == "\\" and not escaped
            quoted = not (char == '"' and not escaped) if char == '"' else True
            continue
        if char == '"':
            quoted = True
        elif char in _CLOSERS:
            stack.append(_CLOSERS[char])
        elif stack and char == stack[-1]:
            stack.pop()
    return "" if quoted else "".join(reversed(stack))


def _python(text: str) -> dict[str, Any] | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _drop_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None}


def _refuse(text: str) -> dict[str, Any]:
    raise ToolError(f"The arguments are not a JSON object: {text[:200]}")
