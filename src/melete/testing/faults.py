"""From a scripted reply to what goes over the wire: an answer, or a refusal, and how it is delivered. Part `testing`."""

import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from melete.core.message import ToolCall, Usage
from melete.testing.replies import Call, Calls, Fault, Reply, Say, StopReason

PLAIN = Say(text="A scripted answer, long enough to arrive in several pieces.", pieces=8)
PAGE = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><h1>Sign in to the network</h1></body></html>\n"

STATUS = {
    "status": (500, "server_error", "something went wrong"),
    "rate_limited": (429, "rate_limit_exceeded", "too many requests"),
    "overloaded": (503, "overloaded", "the model is overloaded"),
    "server_error": (500, "server_error", "the server had an error"),
    "bad_request": (400, "invalid_request_error", "the request is not valid"),
    "unauthorized": (401, "invalid_api_key", "the API key is wrong"),
    "quota": (402, "insufficient_quota", "the account has no credit left"),
    "unknown_model": (404, "model_not_found", "the model does not exist"),
    "overflow": (
        400,
        "context_length_exceeded",
        "the prompt has 9000 tokens, more than this model's maximum context length of 8192 tokens",
    ),
}


class Answer(Struct, frozen=True, kw_only=True):
    """A model's message in neutral words; `usage` None leaves counting to the server."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    stop: StopReason = "end"
    usage: Usage | None = None
    extra: dict[str, Any] = {}
    pieces: int = 24


class Refusal(Struct, frozen=True, kw_only=True):
    """An answer that is no message: with `body` that text, else the wire's error object of `code` and `message`."""

    status: int
    code: str = ""
    message: str = ""
    body: str | None = None
    content_type: str = "application/json"
    retry_after: str = ""


class Delivery(Struct, frozen=True, kw_only=True):
    """How an answer travels. `after` counts pieces of the body: None is before the head is sent.

    `act` happens there: `reset` and `cut` end the connection, `error` puts an error object in and ends the stream, `truncate`
    (at the last piece, whatever `after` says) halves it and ends the body, `drop_end` leaves out the closing pieces.
    """

    act: Literal["", "reset", "cut", "stall", "error", "truncate", "drop_end"] = ""
    after: int | None = None
    seconds: float = 0.0
    between: float = 0.0
    content_type: str = ""


class Plan(Struct, frozen=True, kw_only=True):
    """What to send for one request."""

    what: Answer | Refusal
    how: Delivery = Delivery()


def plan(reply: Reply | str, index: int) -> Plan:
    """What to send for `reply`, the request's number making ids unique."""
    if isinstance(reply, str):
        reply = Say(text=reply)
    if isinstance(reply, Fault):
        return _fault(reply, index)
    return Plan(what=_answer(reply, index))


def _answer(reply: Say | Call | Calls, index: int) -> Answer:
    calls: Sequence[Call] = () if isinstance(reply, Say) else (reply,) if isinstance(reply, Call) else reply.calls
    return Answer(
        text=reply.text,
        thinking=reply.thinking,
        calls=tuple(
            ToolCall(id=call.id or f"call_{index}_{number}", name=call.name, arguments=_text(call.arguments))
            for number, call in enumerate(calls)
        ),
        stop=reply.stop or ("tool_calls" if calls else "end"),
        usage=reply.usage,
        extra=reply.extra,
        pieces=max(1, reply.pieces),
    )


def _text(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _fault(fault: Fault, index: int) -> Plan:
    if fault.kind in STATUS:
        return Plan(what=_refusal(fault))
    if fault.kind in {"html", "not_json", "other_json"}:
        return Plan(what=_stranger(fault))
    answer = _answer(fault.reply or _broken_message(fault) or PLAIN, index)
    if fault.kind == "length" and fault.reply:
        answer = msgspec.structs.replace(answer, stop="length")
    return Plan(what=answer, how=_delivery(fault))


def _refusal(fault: Fault) -> Refusal:
    status, code, message = STATUS[fault.kind]
    return Refusal(
        status=fault.status or status,
        code=code,
        message=fault.message or message,
        body=fault.body or None,
        retry_after="" if fault.retry_after is None else str(fault.retry_after),
    )


def _stranger(fault: Fault) -> Refusal:
    body, content_type = {
        "html": (PAGE, "text/html; charset=utf-8"),
        "not_json": ("it works!\n", "text/plain; charset=utf-8"),
        "other_json": ('{"status": "ok", "service": "something else"}', "application/json"),
    }[fault.kind]
    return Refusal(status=fault.status or 200, body=fault.body or body, content_type=content_type)


def _broken_message(fault: Fault) -> Say | Calls | Call | None:
    """The message of a fault whose message itself is the fault."""
    match fault.kind:
        case "empty":
            return Say(text="")
        case "length":
            return Say(text="An answer that was cut off by the limit before its", stop="length")
        case "malformed_arguments":
            return Call(name="read_file", arguments='{"path": "README.md", "offset": ')
        case "unknown_tool":
            return Call(name="open_pod_bay_doors", arguments={"now": True})
        case "duplicate_ids":
            one = Call(name="read_file", arguments={"path": "a.txt"}, id="call_same")
            return Calls(calls=(one, msgspec.structs.replace(one, arguments={"path": "b.txt"})))
        case _:
            return None


def _delivery(fault: Fault) -> Delivery:
    after = 2 if fault.after is None else fault.after
    made = {
        "reset": Delivery(act="reset"),
        "reset_midway": Delivery(act="reset", after=after),
        "cut": Delivery(act="cut", after=after),
        "stall": Delivery(act="stall", after=fault.after, seconds=fault.seconds),
        "slow": Delivery(between=fault.seconds),
        "truncated": Delivery(act="truncate", after=fault.after),
        "content_type": Delivery(content_type=fault.body or "text/plain"),
        "error_event": Delivery(act="error", after=after),
        "no_end": Delivery(act="drop_end"),
    }
    return made.get(fault.kind, Delivery())
