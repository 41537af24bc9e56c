"""The Messages format: `POST …/v1/messages`, whole or as server-sent events. Part `testing`."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from melete.core.message import ToolCall, Usage
from melete.testing.faults import STATUS, Answer
from melete.testing.wires.base import Asked, Body, encoded

STOP = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
WORDS = {
    "rate_limit_exceeded": "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
    "overloaded": "Overloaded",
    "invalid_api_key": "invalid x-api-key",
    "insufficient_quota": "Your credit balance is too low to access the Anthropic API.",
    "model_not_found": "model: scripted-model",
    "context_length_exceeded": "prompt is too long: 9000 tokens > 8192 maximum",
}
"""How this API words what a script does not word itself."""

PLAIN = frozenset(message for _, _, message in STATUS.values())
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
Block = dict[str, Any]


class AnthropicMessages:
    """The Messages API as Anthropic serves it: thinking is signed, pings stand between the events.

    Of an answer's `extra`, `blocks` is a list of further blocks, put behind the thinking as they are, `signature` the
    thinking's signature, and anything else is a field of the answer's last block.
    """

    name = "anthropic-messages"

    def claims(self, path: str) -> bool:
        """Whether the path ends as this wire's does."""
        return path.endswith("/messages")

    def streams(self, body: Mapping[str, Any]) -> bool:
        """Whether `stream` is true."""
        return body.get("stream") is True

    def prompt(self, body: Mapping[str, Any]) -> bytes:
        """Tools, system, messages, without cache markers and without the brackets that would end a shorter list differently."""
        system: Any = body.get("system") or ()
        if isinstance(system, str):
            system = [{"type": "text", "text": system}]
        items = [*_items(body.get("tools")), *_items(system), *_items(body.get("messages"))]
        return b",".join(encoded(_unmarked(item)) for item in items)

    def whole(self, asked: Asked, answer: Answer) -> Body:
        """One `message` object."""
        content = [_whole(block) for block in _blocks(answer)]
        message = _message(asked, content, _output(asked.usage)) | {"stop_reason": STOP[answer.stop]}
        return Body(content_type="application/json", pieces=[encoded(message)])

    def stream(self, asked: Asked, answer: Answer) -> Body:
        """The events of one message, block by block."""
        pieces = [_event("message_start", message=_message(asked, [], {"output_tokens": 1}))]
        for index, block in enumerate(_blocks(answer)):
            start = _event("content_block_start", index=index, content_block=_begun(block))
            pieces.append(start + (PING if index == 0 else b""))
            deltas = _deltas(block, answer.pieces)
            pieces += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
            pieces.append(_event("content_block_stop", index=index))
        delta = {"stop_reason": STOP[answer.stop], "stop_sequence": None}
        pieces.append(_event("message_delta", delta=delta, usage=_usage(asked.usage) | _output(asked.usage)))
        pieces.append(_event("message_stop"))
        return Body(content_type="text/event-stream; charset=utf-8", pieces=pieces, closing=2)

    def error(self, status: int, *, code: str, message: str) -> bytes:
        """`{"type": "error", "error": {"type", "message"}}`."""
        words = WORDS.get(code, message) if message in PLAIN else message
        kind = KINDS.get(status, "api_error")
        return encoded({"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_scripted"})

    def error_event(self, *, code: str, message: str) -> bytes:
        """The same object as an event."""
        return b"event: error\ndata: " + self.error(500, code=code, message=message) + b"\n\n"


def signature(thinking: str) -> str:
    """The signature under a thinking text: base64, and another one for each text."""
    return base64.b64encode(b"signed:" + thinking.encode("utf-8", "replace")[:60]).decode()


def _blocks(answer: Answer) -> list[Block]:
    """The answer's blocks; a call's input is its text, whether it is JSON or not."""
    more = dict(answer.extra)
    listed = cast("Sequence[Block]", more.pop("blocks", ()))
    signed = more.pop("signature", signature(answer.thinking))
    blocks: list[Block] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": signed})
    blocks += [dict(block) for block in listed]
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    blocks += [_call(call) for call in answer.calls]
    if more and blocks:
        blocks[-1] |= more
    return blocks


def _call(call: ToolCall) -> Block:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}


def _whole(block: Block) -> Block:
    """A block as it stands in a whole message, where the API has no way to send input that is no object."""
    if block["type"] != "tool_use":
        return block
    try:
        return block | {"input": msgspec.json.decode(block["input"], type=dict[str, Any])}
    except msgspec.DecodeError:
        return block | {"input": {}}


def _begun(block: Block) -> Block:
    """A block as its first event shows it: what follows in pieces is empty, all else is there."""
    empty: dict[str, Block] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    return block | empty.get(block["type"], {})


def _deltas(block: Block, size: int) -> Iterator[Block]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in _cut(block["text"], size))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in _cut(block["thinking"], size))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            yield {"type": "input_json_delta", "partial_json": ""}
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in _cut(block["input"], size))
        case _:
            pass


def _message(asked: Asked, content: list[Block], output: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{asked.index}",
        "type": "message",
        "role": "assistant",
        "model": asked.body.get("model", ""),
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_usage(asked.usage), **output, "service_tier": "standard"},
    }


def _usage(usage: Usage) -> dict[str, Any]:
    """What was read: the API's input leaves out what came from the cache or went into it."""
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
    }


def _output(usage: Usage) -> dict[str, Any]:
    return {"output_tokens": usage.output, "output_tokens_details": {"thinking_tokens": usage.reasoning}}


def _unmarked(item: Any) -> Any:
    """A tool, a block or a message without its cache markers."""
    if not isinstance(item, dict):
        return item
    plain = {k: v for k, v in cast("Block", item).items() if k != "cache_control"}
    if isinstance(plain.get("content"), list):
        plain["content"] = [_unmarked(block) for block in plain["content"]]
    return plain


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + encoded({"type": kind, **fields}) + b"\n\n"


def _cut(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]
