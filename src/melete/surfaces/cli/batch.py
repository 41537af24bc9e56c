"""Searches in batches: a line of JSON in, a line of JSON out, in order, from one process."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.errors import MeleteError
from melete.surfaces.cli.output import out
from melete.surfaces.cli.stdin import stdin_lines


class Question(Struct, frozen=True, kw_only=True):
    """A line of a batch."""

    query: str
    id: Any = None


async def answer_lines(hits: Callable[[str], Awaitable[list[Any]]], *, redact: Callable[[str], str] = str) -> int:
    """Answer every line of {"id", "query"} on standard input by {"id", "hits"}; the status says whether all could be."""
    status = 0
    async with aclosing(stdin_lines()) as lines:
        async for line in lines:
            if line.strip():
                row = await _answer(hits, line)
                status |= "error" in row
                out(redact(msgspec.json.encode(row).decode()) + "\n")
    return status


async def _answer(hits: Callable[[str], Awaitable[list[Any]]], line: bytes) -> dict[str, Any]:
    try:
        question = msgspec.json.decode(line, type=Question)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return {"id": _id(line), "error": f'not a line of {{"id", "query"}}: {error}'}
    try:
        return {"id": question.id, "hits": await hits(question.query)}
    except MeleteError as error:
        return {"id": question.id, "error": str(error)}


def _id(line: bytes) -> Any:
    """The id of a line that is wrong elsewhere, null where it has none."""
    try:
        row: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return row.get("id") if isinstance(row, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
