"""Gemini's own format: `POST …/models/NAME:streamGenerateContent`, or `:generateContent` for a whole answer. Part `testing`."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from melete.core.message import ToolCall, Usage
from melete.testing.faults import Answer
from melete.testing.wires.base import Asked, Body, encoded

Json = dict[str, Any]
STOP = {"end": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
SIGNATURE = "c2lnbmF0dXJlIA=="
STREAM = ":streamGenerateContent"
WHOLE = ":generateContent"


class Gemini:
    """Gemini as Google serves it; one object answers in pieces, another (`streamed` False) whole, because the path decides.

    Thinking comes as thoughts and leaves a signature: on the first call, or on an empty text at the end. A call whose arguments
    are no object is what Google makes of one: no call at all, and MALFORMED_FUNCTION_CALL as the reason to stop. `extra` of an
    answer: its `parts` come as parts of their own before the calls, and its other fields in the answer's last part.
    """

    name = "gemini"

    def __init__(self, *, streamed: bool = True) -> None:
        self._streamed = streamed

    def claims(self, path: str) -> bool:
        """Whether the path ends as this wire's does."""
        return path.endswith(STREAM if self._streamed else WHOLE)

    def streams(self, body: Mapping[str, Any]) -> bool:
        """Whether the path asked for pieces."""
        del body
        return self._streamed

    def prompt(self, body: Mapping[str, Any]) -> bytes:
        """Tools, then system text, then contents, without the brackets that would end a shorter list differently."""
        system = body.get("systemInstruction")
        items = [*_items(body, "tools"), *([system] if system else []), *_items(body, "contents")]
        return b",".join(encoded(item) for item in items)

    def whole(self, asked: Asked, answer: Answer) -> Body:
        """One response object."""
        parts = [part for part in (*_spoken(answer, 0), *_last(answer)) if part != {"text": ""}]
        value = _chunk(asked, parts, stop=_stop(answer)) | {"usageMetadata": _usage(asked.usage)}
        return Body(content_type="application/json; charset=UTF-8", pieces=[encoded(value)])

    def stream(self, asked: Asked, answer: Answer) -> Body:
        """Response objects as events, each with the counts so far; without `alt=sse` as one JSON list.

        The last one holds counts alone: whoever has seen the reason to stop has seen all.
        """
        before = _usage(msgspec.structs.replace(asked.usage, output=0, reasoning=0))
        spoken = list(_spoken(answer, answer.pieces)) or [{"text": ""}]
        chunks = [_chunk(asked, [part]) | {"usageMetadata": before} for part in spoken]
        counts = {"usageMetadata": _usage(asked.usage)}
        last = _last(answer) or [{"text": ""}]
        chunks += [_chunk(asked, last, stop=_stop(answer)) | counts, counts | _head(asked)]
        if "alt=sse" not in asked.target:
            pieces = [(b",\r\n" if number else b"[") + encoded(chunk) for number, chunk in enumerate(chunks)]
            pieces[-1] += b"]"
            return Body(content_type="application/json; charset=UTF-8", pieces=pieces, closing=2)
        return Body(content_type="text/event-stream", pieces=[_event(chunk) for chunk in chunks], closing=2)

    def error(self, status: int, *, code: str, message: str) -> bytes:
        """`{"error": {…}}` with Google's name of the status, and the code as its reason."""
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code.upper(), "domain": "googleapis.com"}
        name = STATUS.get(status, "UNKNOWN")
        return encoded({"error": {"code": status, "message": message, "status": name, "details": [info]}})

    def error_event(self, *, code: str, message: str) -> bytes:
        """The same object as an event."""
        return b"data: " + self.error(500, code=code, message=message) + b"\r\n\r\n"


def _spoken(answer: Answer, size: int) -> Iterator[Json]:
    """The parts of an answer in order, texts in pieces of `size` characters, 0 for whole."""
    for piece in _cut(answer.thinking, size):
        yield {"text": piece, "thought": True}
    for piece in _cut(answer.text, size):
        yield {"text": piece}
    yield from answer.extra.get("parts", ())
    calls = _calls(answer)
    for number, (call, args) in enumerate(calls):
        part: Json = {"functionCall": {"id": call.id, "name": call.name, "args": args}}
        if answer.thinking and not number:
            part["thoughtSignature"] = SIGNATURE
        yield part | (_more(answer) if number == len(calls) - 1 else {})


def _last(answer: Answer) -> list[Json]:
    """The part beside the reason to stop: after a text its signature and further fields, after calls none."""
    fields = {} if _calls(answer) else _more(answer)
    if answer.thinking and not _calls(answer):
        fields |= {"thoughtSignature": SIGNATURE}
    return [{"text": "", **fields}] if fields else []


def _more(answer: Answer) -> Json:
    return {name: value for name, value in answer.extra.items() if name != "parts"}


def _calls(answer: Answer) -> list[tuple[ToolCall, Json]]:
    """The calls that Google could read, with their arguments."""
    read: list[tuple[ToolCall, Json]] = []
    for call in answer.calls:
        try:
            args: Any = msgspec.json.decode(call.arguments)
        except msgspec.DecodeError:
            continue
        if isinstance(args, dict):
            read.append((call, cast(Json, args)))
    return read


def _stop(answer: Answer) -> str:
    unread = answer.calls and not _calls(answer)
    return "MALFORMED_FUNCTION_CALL" if unread and answer.stop == "tool_calls" else STOP[answer.stop]


def _chunk(asked: Asked, parts: list[Json], *, stop: str = "") -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}}
    if stop:
        candidate["finishReason"] = stop
    return {"candidates": [{**candidate, "index": 0}], **_head(asked)}


def _head(asked: Asked) -> Json:
    name = asked.target.partition("?")[0].rpartition("/")[2].rpartition(":")[0]
    return {"modelVersion": name, "responseId": f"response-{asked.index}"}


def _items(body: Mapping[str, Any], name: str) -> list[Any]:
    found = body.get(name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def _event(value: Json) -> bytes:
    return b"data: " + encoded(value) + b"\r\n\r\n"


def _cut(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size or len(text) or 1):
        yield text[start : start + (size or len(text))]


def _usage(usage: Usage) -> Json:
    """Google's classes: the prompt includes what was cached, thoughts stand beside the candidates' tokens."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    counts = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "cachedContentTokenCount": usage.cache_read,
        "totalTokenCount": prompt + usage.output,
    }
    return {name: count for name, count in counts.items() if count}
