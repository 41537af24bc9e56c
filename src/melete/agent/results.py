"""What the model reads back: results and failures as JSON objects, kept within their limits. Layer 2."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar, cast

import msgspec

from melete.core.event import ToolEnded
from melete.core.message import ToolCall, ToolResult
from melete.core.policy import Decision
from melete.core.session import Session
from melete.core.tool import Output, Result

OutcomeName = Literal["ok", "error", "denied", "timeout", "cancelled", "unknown", "not_run"]
T = TypeVar("T")
Spill = Callable[[str, str], Awaitable[str]]
LINES = 2_000
LINE = 2_500
"""Longer than what `read_file` shows of one line, so that its results pass as they are."""
HEAD = 0.6
UNKNOWN = (
    "The run stopped while this call was at work. Its outcome is unknown: it may or may not have taken effect. "
    "Check before you do it again."
)
NOT_BEGUN = "The run was stopped before this call began."
SHORTEST = 1_000
"""Characters of a text below which its head and tail say too little."""
LARGE = 20_000
"""Characters that are looked through while everything waits: some milliseconds, however they were made up."""
NOTE = 600
"""Characters that the notes about what was cut, paths included, may take."""


class Stopped(asyncio.CancelledError):
    """A call that was cancelled and has something to show for it: the fields of its result."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__()
        self.fields = fields


def encode(fields: Mapping[str, Any]) -> str:
    """A JSON object as compact text; what JSON cannot say is written as `str` would, half a character as its escape."""
    try:
        return msgspec.json.encode(fields, enc_hook=str).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_map(fields, _sound), enc_hook=str).decode()


def failure(
    call: ToolCall,
    error: str,
    *,
    outcome: OutcomeName = "error",
    fields: Mapping[str, Any] | None = None,
    decision: Decision | None = None,
) -> ToolEnded:
    """The result of a call that failed or did not run."""
    content = encode(
        {"success": False, "error": error, **{k: v for k, v in (fields or {}).items() if k not in ("success", "error")}}
    )
    return ToolEnded(
        result=ToolResult(call=call.id, name=call.name, content=content, error=True, taint="none"),
        outcome=outcome,
        decision=decision,
    )


def fields_of(ended: ToolEnded) -> dict[str, Any]:
    """The JSON object of a stored outcome; empty where its content is none."""
    return object_of(ended.result.content)


def object_of(text: str) -> dict[str, Any]:
    """The JSON object that a text is; empty where it is none."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


async def close_open_calls(session: Session) -> int:
    """Give every call without an outcome one, so that the conversation stays valid; returns how many there were.

    A call that had begun is reported as unknown, whether the program died or its outcome could not be stored.
    """
    begun = session.transcript.started
    facts = [
        failure(call, UNKNOWN, outcome="unknown") if call.id in begun else failure(call, NOT_BEGUN, outcome="not_run")
        for call in session.transcript.open_calls
    ]
    if facts:
        await session.record(*facts)
    return len(facts)


async def shape(result: Result, *, limit: int, redact: Callable[[str], str], spill: Spill) -> tuple[Output, str, str]:
    """Redact every string of a result and shorten it to `limit` characters: its longest text, or if need be the whole.

    Returns the output, its JSON text and the path of the full text, empty when nothing was cut. What is cut stays readable
    in that file, and the text in its place says so.
    """
    output = result if isinstance(result, Output) else Output(fields=result, failed=result.get("success") is False)
    fields = await aside(lambda: _map(output.fields, redact), len(encode(output.fields)))
    content = encode(fields)
    unwieldy = [(k, v) for k, v in fields.items() if isinstance(v, str) and _unwieldy(v)]
    if len(content) <= limit and not unwieldy:
        return output, content, ""
    texts = unwieldy if len(content) <= limit else [(k, v) for k, v in fields.items() if isinstance(v, str)]
    key, text = max(texts, key=lambda pair: len(pair[1]), default=("", ""))
    written = len(encode({key: text}))
    room = (limit - (len(content) - written) - NOTE) * len(text) // written
    if text and room >= min(len(text), SHORTEST):
        path = await spill(f"{key}.txt", text)
        shortened = encode({**fields, key: _cut(text, room, path), "full_output": path})
        if len(shortened) <= limit:
            return output, shortened, path
    path = await spill("result.json", content)
    cut = _cut(content, (limit - NOTE) // 2, path)
    return output, encode({"success": not output.failed, "truncated": cut, "full_output": path}), path


async def aside(look: Callable[[], T], size: int) -> T:
    """What `look` gives; in a thread for a text of a larger size, so that nothing else waits for it."""
    return await asyncio.to_thread(look) if size > LARGE else look()


def _map(value: Any, redact: Callable[[str], str]) -> Any:
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {_map(k, redact): _map(v, redact) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [_map(v, redact) for v in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _sound(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _unwieldy(text: str) -> bool:
    return len(text) > LINE and (text.count("\n") >= LINES or max(map(len, text.split("\n"))) > LINE)


def _cut(text: str, room: int, path: str) -> str:
    """Head and tail of a text within `room` characters, long lines shortened, the gap marked."""
    lines = text.split("\n")
    if len(lines) > LINES:
        first = int(LINES * HEAD)
        last = LINES - first - 1  # with the gap it is LINES again: a text is not cut a second time on its way
        gap = f"…[{len(lines) - first - last} lines left out; all of it is in {path}]"
        lines = [*lines[:first], gap, *lines[-last:]]
    short = "\n".join(map(_cut_line, lines))
    if len(short) <= room:
        return short
    head = int(room * HEAD)
    tail = room - head
    return f"{short[:head]}\n…[{len(short) - room} characters left out; all of it is in {path}]\n{short[-tail:]}"


def _cut_line(line: str) -> str:
    if len(line) <= LINE:
        return line
    head, tail = int((LINE - 60) * HEAD), int((LINE - 60) * (1 - HEAD))
    return f"{line[:head]} …[{len(line) - head - tail} characters of this line left out]… {line[-tail:]}"
