"""Servers of the anthropic-messages wire that answer in an unusual way, and are understood."""

import gzip
import json
from functools import partial
from typing import Any

import pytest

from melete.core.event import CallDelta, Reply, TextDelta, ThinkingDelta
from melete.core.message import Text, Thinking, Usage
from melete.core.model import (
    AuthError,
    BadRequestError,
    ConnectionFailedError,
    ContentFilterError,
    ContextOverflowError,
    MalformedReplyError,
    ModelError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    StalledError,
    TooLargeError,
    UnavailableError,
    UnknownModelError,
)
from melete.models.anthropic_messages import open_model
from melete.testing import Fault, ScriptedModel
from tests.wire.adapters import adapter_of, ask, asking, replied, yielded
from tests.wire.raw import head

MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
WHOLE = json.dumps(MESSAGE | {"content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}).encode()
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def event(kind: str, **fields: Any) -> bytes:
    """One event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


BEGIN = event("message_start", message=MESSAGE | {"usage": {"input_tokens": 7, "output_tokens": 1}})
END = event("message_stop")


def block(index: int, body: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    """A block from its start to its stop."""
    pieces = [event("content_block_start", index=index, content_block=body)]
    pieces += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([*pieces, event("content_block_stop", index=index)])


def text(index: int, *pieces: str) -> bytes:
    """A text block."""
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": p} for p in pieces))


def call(index: int, name: str, *pieces: str, given: Any = None, call_id: str = "toolu_1") -> bytes:
    """A call block."""
    deltas = ({"type": "input_json_delta", "partial_json": p} for p in pieces)
    return block(index, {"type": "tool_use", "id": call_id, "name": name, "input": given or {}}, *deltas)


def stop(reason: str | None, **usage: Any) -> bytes:
    """The message's delta."""
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage)


SAID = BEGIN + text(0, "H", "i") + stop("end_turn", output_tokens=3) + END


items_of = partial(yielded, open_model, path="")
reply_to = partial(replied, open_model, path="")


def kept(reply: Reply) -> list[dict[str, Any]]:
    """The blocks that would go back."""
    assert reply.message.wire is not None
    return json.loads(bytes(reply.message.wire.body))["content"]


@pytest.mark.parametrize(
    "pieces",
    [
        (head("application/json"), WHOLE),
        (head("text/plain"), b"\r\n ", WHOLE),
        (head(), b"event: message\ndata: " + WHOLE + b"\n\n"),
        (head("application/json", content_encoding="gzip"), gzip.compress(WHOLE)),
        (head("application/json"), json.dumps({"role": "assistant", "content": "Hi"}).encode()),
        (head(content_encoding="gzip"), gzip.compress(SAID)),
        (head(), b"\xef\xbb\xbf", SAID),
        (head("application/octet-stream"), b": hello\n\n", PING, SAID),
        (head(), PING.join([BEGIN, text(0, "H", "i"), stop("end_turn"), END])),
        (head(), BEGIN, text(0, "Hi"), END),
        (head(), BEGIN, text(0, "Hi"), stop(None), b"data: [DONE]\n\n"),
        (head(), BEGIN, text(0, "Hi"), stop("end_turn"), b"data: {broken"),
        (head(), BEGIN, event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi"}), stop("end_turn")),
        (head(), BEGIN, block(0, {"type": "text", "text": "Hi"}), event("of_tomorrow", x=1), stop("end_turn"), END),
        (head(), text(0, "Hi"), stop("stop_sequence").strip()),
    ],
)  # fmt: skip
def test_an_unusual_answer_is_read(pieces: tuple[bytes, ...]) -> None:
    reply = reply_to(*pieces)
    assert (reply.message.text, reply.stop) == ("Hi", "end")


def test_a_finished_stream_is_not_waited_for() -> None:
    assert reply_to(head(), SAID, close=False, tail=0.05).message.text == "Hi"


def test_pings_are_not_tokens() -> None:
    with pytest.raises(StalledError):
        items_of(head(), BEGIN, *[PING] * 100, close=False, first_token=0.15, patience=0.3)


@pytest.mark.parametrize("pieces", [(BEGIN, text(0, "Hi")), (BEGIN, text(0, "Hi"), stop(None)), (PING,), ()])
def test_a_stream_without_its_end_is_a_broken_one(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(ConnectionFailedError):
        items_of(head(), *pieces)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "other"),
        ("of_tomorrow", "other"),
    ],
)
def test_reasons_to_stop(reason: str, expected: str) -> None:
    assert reply_to(head(), BEGIN, text(0, "Hi"), stop(reason), END).stop == expected


def test_a_call_that_the_limit_cut_off_is_no_tool_call() -> None:
    reply = reply_to(head(), BEGIN, call(0, "write_file", '{"path": "a", "con'), stop("max_tokens"), END)
    assert (reply.stop, reply.message.calls[0].arguments) == ("length", '{"path": "a", "con')
    assert kept(reply)[0]["input"] == {}


def test_parallel_calls_arrive_apart_even_when_their_pieces_are_mixed() -> None:
    starts = [
        event("content_block_start", index=n, content_block={"type": "tool_use", "id": i, "name": i, "input": {}})
        for n, i in enumerate("ab")
    ]
    pieces = [
        event("content_block_delta", index=n, delta={"type": "input_json_delta", "partial_json": p})
        for p in ('{"x":', "1}")
        for n in (1, 0)
    ]
    items = items_of(head(), BEGIN, *starts, *pieces, stop("tool_use"), END)
    reply = items[-1]
    assert isinstance(reply, Reply)
    assert [(c.id, c.arguments) for c in reply.message.calls] == [("a", '{"x":1}'), ("b", '{"x":1}')]
    deltas = [i for i in items if isinstance(i, CallDelta)]
    assert [(d.index, d.id, d.name) for d in deltas if d.id] == [(0, "a", "a"), (1, "b", "b")]
    assert "".join(d.arguments for d in deltas if d.index == 1) == '{"x":1}'


def test_calls_that_all_have_number_0_and_one_id_are_told_apart() -> None:
    reply = reply_to(head(), BEGIN, call(0, "a", '{"x":1}'), call(0, "b", '{"y":2}'), stop("tool_use"), END)
    assert [(c.name, c.arguments) for c in reply.message.calls] == [("a", '{"x":1}'), ("b", '{"y":2}')]
    assert len({c.id for c in reply.message.calls}) == 2
    assert [b["id"] for b in kept(reply)] == [c.id for c in reply.message.calls]


@pytest.mark.parametrize(
    ("block_of_call", "arguments"),
    [
        (call(0, "a"), "{}"),
        (call(0, "a", ""), "{}"),
        (call(0, "a", given={"x": 1}), '{"x":1}'),
        (call(0, "a", '{"x" : ', "1}", given={}), '{"x" : 1}'),
        (block(0, {"type": "tool_use", "name": "a"}), "{}"),
    ],
)
def test_input_may_come_whole_in_pieces_or_not_at_all(block_of_call: bytes, arguments: str) -> None:
    reply = reply_to(head(), BEGIN, block_of_call, stop("tool_use"), END)
    assert reply.stop == "tool_calls"
    assert reply.message.calls[0].arguments == arguments
    assert reply.message.calls[0].id
    assert kept(reply)[0]["input"] == json.loads(arguments)


def test_thinking_between_texts_keeps_its_place_and_signature() -> None:
    def thought(index: int, words: str) -> bytes:
        deltas = ({"type": "thinking_delta", "thinking": words}, {"type": "signature_delta", "signature": words * 2})
        return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)

    sealed = block(2, {"type": "redacted_thinking", "data": "QUJD"})
    items = items_of(
        head(), BEGIN, thought(0, "A"), text(1, "one"), sealed, thought(3, "B"), text(4, "two"), stop("end_turn")
    )
    reply = items[-1]
    assert isinstance(reply, Reply)
    assert reply.message.parts == (Thinking(text="A"), Text(text="one"), Thinking(text="B"), Text(text="two"))
    assert [b["type"] for b in kept(reply)] == ["thinking", "text", "redacted_thinking", "thinking", "text"]
    assert [b.get("signature") for b in kept(reply)] == ["AA", None, None, "BB", None]
    assert [i.text for i in items if isinstance(i, ThinkingDelta)] == ["A", "B"]


def test_blocks_and_pieces_that_nobody_knows_are_kept_and_merged() -> None:
    unknown = block(
        0,
        {"type": "omen", "body": None, "signs": [1], "known": True},
        {"type": "omen_delta", "body": "dar"},
        {"type": "omen_delta", "body": "kness", "signs": [2], "weight": 3},
        {"type": "omen_delta", "weight": 4},
    )
    asked = block(
        1,
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"query":"x"}'},
    )
    cited = [{"type": "citations_delta", "citation": {"cited_text": n}} for n in ("p", "q")]
    said = block(2, {"type": "text", "text": "", "citations": []}, *cited, {"type": "text_delta", "text": "one, "})
    reply = reply_to(head(), BEGIN, unknown, asked, said, text(3, "two"), stop("end_turn"), END)
    assert kept(reply)[0] == {"type": "omen", "body": "darkness", "signs": [1, 2], "known": True, "weight": 4}
    assert kept(reply)[1]["input"] == {"query": "x"}
    assert kept(reply)[2] == {"type": "text", "text": "one, ", "citations": [{"cited_text": "p"}, {"cited_text": "q"}]}
    assert (reply.message.text, reply.message.calls) == ("one, two", ())


def test_counts_are_totals_and_what_is_left_out_stays() -> None:
    first = {
        "input_tokens": 70,
        "cache_read_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 6},
        "output_tokens": 1,
    }
    start = event("message_start", message=MESSAGE | {"usage": first})
    last = {"input_tokens": 0, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}
    reply = reply_to(head(), start, text(0, "Hi"), stop("end_turn", **last), END)
    assert reply.usage == Usage(input=70, output=9, cache_read=30, cache_write=11, reasoning=4)
    assert (reply.model, reply.request_id) == ("m", "msg_1")


def test_text_and_thinking_of_a_whole_answer_are_shown_too() -> None:
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "t", "name": "a", "input": {"x": 1}},
    ]
    body = json.dumps(MESSAGE | {"content": content, "stop_reason": "tool_use"}).encode()
    items = items_of(head("application/json"), body)
    assert [type(i) for i in items] == [ThinkingDelta, TextDelta, CallDelta, Reply]
    reply = items[-1]
    assert isinstance(reply, Reply)
    assert (reply.stop, reply.message.calls[0].arguments) == ("tool_calls", '{"x":1}')
    assert kept(reply) == content


def told(kind: str, message: str) -> bytes:
    """An error inside a stream."""
    return event("error", error={"type": kind, "message": message}, request_id="req_1")


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ((head(), BEGIN, text(0, "Hi"), told("overloaded_error", "Overloaded")), OverloadedError),
        ((head(), told("rate_limit_error", "Number of requests has exceeded your rate limit")), RateLimitError),
        ((head(), BEGIN, told("api_error", "Internal server error")), UnavailableError),
        ((head(), told("authentication_error", "invalid x-api-key")), AuthError),
        ((head(), told("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")), ContextOverflowError),
        ((head(), told("invalid_request_error", "messages: at least one message is required")), BadRequestError),
        ((head(), b'event: error\ndata: {"message":"rate limit reached"}\n\n'), RateLimitError),
        ((head("application/json"), b'{"type":"error","error":{"type":"api_error","message":"no"}}'), UnavailableError),
        ((head(), BEGIN, stop("refusal"), END), ContentFilterError),
        ((head("application/json"), b"[1]"), MalformedReplyError),
        ((head("application/json"), b'{"content":[{"type'), MalformedReplyError),
        ((head("application/json"), b'{"status":"ok"}'), MalformedReplyError),
        ((head(), b"data: it works!\n\n"), MalformedReplyError),
        ((head(), b'data: {"type":' + b"[" * 9000 + b"]" * 9000 + b"}\n\n"), MalformedReplyError),
        ((head("text/plain"), b"<!DOCTYPE html><title>Hello</title>"), MalformedReplyError),
    ],
)
def test_an_error_under_status_200_is_an_error(pieces: tuple[bytes, ...], kind: type[ModelError]) -> None:
    with pytest.raises(ModelError) as caught:
        items_of(*pieces)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "prompt is too long: 208310 tokens > 200000 maximum", ContextOverflowError),
        (400, "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000", ContextOverflowError),
        (400, "Your credit balance is too low to access the Anthropic API.", QuotaError),
        (400, "You have reached your specified API usage limits. You will regain access on 2026-11-01.", QuotaError),
        (402, "There is an issue with your payment information.", QuotaError),
        (400, "Output blocked by content filtering policy", ContentFilterError),
        (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes", TooLargeError),
        (413, "Request exceeds the maximum size", TooLargeError),
        (401, "invalid x-api-key", AuthError),
        (403, "Your API key does not have permission to use the specified resource", AuthError),
        (404, "model: claude-none", UnknownModelError),
        (429, "This request would exceed your organization's rate limit of 40,000 input tokens per minute", RateLimitError),
        (500, "Internal server error", UnavailableError),
        (529, "Overloaded", OverloadedError),
        (400, "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after", BadRequestError),
    ],
)  # fmt: skip
def test_the_apis_own_words_are_understood(status: int, message: str, kind: type[ModelError]) -> None:
    with (
        ScriptedModel([Fault("status", status=status, message=message)]) as server,
        pytest.raises(ModelError) as caught,
    ):
        ask(adapter_of("anthropic-messages"), server.base_url, asking("Go"))
    assert type(caught.value) is kind, str(caught.value)
