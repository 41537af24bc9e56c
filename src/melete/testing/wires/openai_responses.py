"""The Responses format: `POST …/responses`, whole or as server-sent events. Part `testing`."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from melete.core.message import ToolCall, Usage
from melete.testing.faults import Answer
from melete.testing.wires.base import Asked, Body, encoded

CREATED = 1_767_225_600  # the same in every run, so that bytes can be compared
REASON = {"length": "max_output_tokens", "content_filter": "content_filter"}
ENCRYPTED = "reasoning.encrypted_content"
DONE = b"data: [DONE]\n\n"
Json = dict[str, Any]


class OpenAIResponses:
    """Responses as OpenAI serves them, `[DONE]` behind the last event as several other servers send it.

    Thinking is an item of its own, a summary; its encrypted form is there where the request included it. Of an answer's
    `extra`, `items` are further output items behind the thinking, and everything else are fields of the message item, or of
    the first call where there is no message.
    """

    name = "openai-responses"

    def claims(self, path: str) -> bool:
        """Whether the path ends as this wire's does."""
        return path.endswith("/responses")

    def streams(self, body: Mapping[str, Any]) -> bool:
        """Whether `stream` is true."""
        return body.get("stream") is True

    def prompt(self, body: Mapping[str, Any]) -> bytes:
        """Tools, instructions, then input, without the brackets that would end a shorter list differently."""
        given = body.get("input")
        head = [body["instructions"]] if body.get("instructions") else []
        items = [*_items(body, "tools"), *head, *([given] if isinstance(given, str) else _items(body, "input"))]
        return b",".join(encoded(item) for item in items)

    def whole(self, asked: Asked, answer: Answer) -> Body:
        """One `response` object."""
        return Body(content_type="application/json", pieces=[encoded(_finished(asked, answer, _output(asked, answer)))])

    def stream(self, asked: Asked, answer: Answer) -> Body:
        """One event for each step of each item; the last one holds the whole response."""
        output = _output(asked, answer)
        events: list[Json] = [
            {"type": "response.created", "response": _response(asked, status="in_progress")},
            {"type": "response.in_progress", "response": _response(asked, status="in_progress")},
        ]
        for place, item in enumerate(output):
            at = {"output_index": place}
            events.append({"type": "response.output_item.added", **at, "item": _begun(item)})
            events += [{"item_id": item["id"], **at, **step} for step in _steps(item, answer.pieces)]
            events.append({"type": "response.output_item.done", **at, "item": item})
        end = "response.completed" if answer.stop not in REASON else "response.incomplete"
        events.append({"type": end, "response": _finished(asked, answer, output)})
        pieces = [_event({**event, "sequence_number": number}) for number, event in enumerate(events)]
        return Body(content_type="text/event-stream", pieces=[*pieces, DONE], closing=2)

    def error(self, status: int, *, code: str, message: str) -> bytes:
        """`{"error": {…}}`."""
        kind = "invalid_request_error" if 400 <= status < 500 else "server_error"  # noqa: PLR2004 - HTTP's classes
        return encoded({"error": {"message": message, "type": kind, "param": None, "code": code}})

    def error_event(self, *, code: str, message: str) -> bytes:
        """The `error` event."""
        return _event({"type": "error", "code": code, "message": message, "param": None, "sequence_number": 0})


def _response(asked: Asked, *, status: str) -> Json:
    body = asked.body
    return {
        "id": f"resp_{asked.index}",
        "object": "response",
        "created_at": CREATED + asked.index,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": body.get("model", ""),
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None, **(body.get("reasoning") or {})},
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "metadata": {},
    }


def _finished(asked: Asked, answer: Answer, output: list[Json]) -> Json:
    reason = REASON.get(answer.stop)
    ended = _response(asked, status="incomplete" if reason else "completed")
    details = {"reason": reason} if reason else None
    return {**ended, "incomplete_details": details, "output": output, "usage": _usage(asked.usage)}


def _output(asked: Asked, answer: Answer) -> list[Json]:
    """The answer's items: thinking, the extra ones, the message, the calls."""
    more = dict(answer.extra)
    items: list[Json] = []
    if answer.thinking:
        thought: Json = {"id": f"rs_{asked.index}", "type": "reasoning"}
        if ENCRYPTED in (asked.body.get("include") or ()):
            thought["encrypted_content"] = f"gAAAAAB{asked.index}_scripted=="
        items.append({**thought, "summary": [{"type": "summary_text", "text": answer.thinking}]})
    items += cast("list[Json]", more.pop("items", []))
    status = "incomplete" if answer.stop in REASON else "completed"
    if answer.text:
        part: Json = {"type": "output_text", "annotations": [], "logprobs": [], "text": answer.text}
        message: Json = {"id": f"msg_{asked.index}", "type": "message", "status": status}
        items.append({**message, "content": [part], "role": "assistant"} | more)
        more = {}
    for number, call in enumerate(answer.calls):
        items.append(_call(asked, number, call, status=status) | more)
        more = {}
    return items


def _call(asked: Asked, number: int, call: ToolCall, *, status: str) -> Json:
    return {
        "id": f"fc_{asked.index}_{number}",
        "type": "function_call",
        "status": status,
        "arguments": call.arguments,
        "call_id": call.id,
        "name": call.name,
    }


def _begun(item: Json) -> Json:
    """An item as it is announced: its fields without what is still to come."""
    empty: Json = {"status": "in_progress"} if "status" in item else {}
    empty |= {name: [] for name in ("summary", "content") if name in item}
    return {**item, **empty, **({"arguments": ""} if "arguments" in item else {})}


def _steps(item: Json, size: int) -> Iterator[Json]:
    """The events between an item's beginning and its end."""
    match item:
        case {"type": "reasoning", "summary": [{"text": str(text)} as part]}:
            at = {"summary_index": 0}
            yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
            for piece in _cut(text, size):
                yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
            yield {"type": "response.reasoning_summary_text.done", **at, "text": text}
            yield {"type": "response.reasoning_summary_part.done", **at, "part": part}
        case {"type": "message", "content": [{"type": "output_text", "text": str(text)} as part]}:
            at = {"content_index": 0}
            yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
            for piece in _cut(text, size):
                yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **at, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **at, "part": part}
        case {"type": "function_call", "arguments": str(text)}:
            for piece in _cut(text, size):
                yield {"type": "response.function_call_arguments.delta", "delta": piece}
            yield {"type": "response.function_call_arguments.done", "arguments": text}
        case _:
            pass


def _items(body: Mapping[str, Any], name: str) -> list[Any]:
    found = body.get(name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def _event(value: Json) -> bytes:
    return b"event: " + str(value["type"]).encode() + b"\ndata: " + encoded(value) + b"\n\n"


def _cut(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _usage(usage: Usage) -> Json:
    """The API's classes: the input includes what was cached, the output includes reasoning."""
    read = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": read + usage.output,
    }
