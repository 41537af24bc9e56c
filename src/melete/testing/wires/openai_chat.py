"""The Chat Completions format: `POST …/chat/completions`, whole or as server-sent events. Part `testing`."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from melete.core.message import ToolCall, Usage
from melete.testing.faults import Answer
from melete.testing.wires.base import Asked, Body, encoded

CREATED = 1_767_225_600  # the same in every run, so that bytes can be compared
STOP = {"end": "stop", "tool_calls": "tool_calls", "length": "length", "content_filter": "content_filter"}
DONE = b"data: [DONE]\n\n"


class OpenAIChat:
    """Chat Completions as OpenAI and most others serve it; reasoning goes into the field `reasoning`."""

    name = "openai-chat"

    def __init__(self, *, reasoning: str = "reasoning_content") -> None:
        self._reasoning = reasoning

    def claims(self, path: str) -> bool:
        """Whether the path ends as this wire's does."""
        return path.endswith("/chat/completions")

    def streams(self, body: Mapping[str, Any]) -> bool:
        """Whether `stream` is true."""
        return body.get("stream") is True

    def prompt(self, body: Mapping[str, Any]) -> bytes:
        """Tools, then messages, without the brackets that would end a shorter list differently."""
        items = [*_items(body, "tools"), *_items(body, "messages")]
        return b",".join(encoded(item) for item in items)

    def whole(self, asked: Asked, answer: Answer) -> Body:
        """One `chat.completion` object."""
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.thinking:
            message[self._reasoning] = answer.thinking
        if answer.calls:
            message["tool_calls"] = [_call(call) for call in answer.calls]
        choice = {"index": 0, "message": message | answer.extra, "finish_reason": STOP[answer.stop]}
        head = _head(asked, "chat.completion")
        return Body(
            content_type="application/json",
            pieces=[encoded(head | {"choices": [choice], "usage": _usage(asked.usage)})],
        )

    def stream(self, asked: Asked, answer: Answer) -> Body:
        """`chat.completion.chunk` events; the usage comes last, and only where it was asked for."""
        head = _head(asked, "chat.completion.chunk")
        pieces = [_event(head | {"choices": [_delta(delta)]}) for delta in self._deltas(answer)]
        pieces.append(_event(head | {"choices": [_delta({}, STOP[answer.stop])]}))
        options = asked.body.get("stream_options")
        if isinstance(options, dict) and "include_usage" in options and options["include_usage"] is True:
            pieces.append(_event(head | {"choices": [], "usage": _usage(asked.usage)}))
            return Body(content_type="text/event-stream", pieces=[*pieces, DONE], closing=3)
        return Body(content_type="text/event-stream", pieces=[*pieces, DONE], closing=2)

    def error(self, status: int, *, code: str, message: str) -> bytes:
        """`{"error": {…}}`."""
        kind = "invalid_request_error" if 400 <= status < 500 else "server_error"  # noqa: PLR2004 - HTTP's classes
        return encoded({"error": {"message": message, "type": kind, "param": None, "code": code}})

    def error_event(self, *, code: str, message: str) -> bytes:
        """The same object as an event."""
        return b"data: " + self.error(500, code=code, message=message) + b"\n\n"

    def _deltas(self, answer: Answer) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        for piece in _cut(answer.thinking, answer.pieces):
            yield {self._reasoning: piece}
        for piece in _cut(answer.text, answer.pieces):
            yield {"content": piece}
        for number, call in enumerate(answer.calls):
            first = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
            yield {"tool_calls": [{"index": number, **first}]}
            for piece in _cut(call.arguments, answer.pieces):
                yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}
        if answer.extra:
            yield dict(answer.extra)


def _items(body: Mapping[str, Any], name: str) -> list[Any]:
    found = body.get(name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def _head(asked: Asked, kind: str) -> dict[str, Any]:
    model = asked.body.get("model", "")
    return {"id": f"chatcmpl-{asked.index}", "object": kind, "created": CREATED + asked.index, "model": model}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _delta(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": stop}


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + encoded(value) + b"\n\n"


def _cut(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _usage(usage: Usage) -> dict[str, Any]:
    """OpenAI's classes: the prompt includes what was cached, the completion includes reasoning."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
