"""Servers of the openai-responses wire that answer in an unusual way, and are understood."""

import asyncio
import gzip
import json
from functools import partial
from typing import Any

import pytest

from melete.core.event import CallDelta, Delta, Reply, Retried, TextDelta, ThinkingDelta
from melete.core.message import Text, Thinking, Usage
from melete.core.model import (
    BadRequestError,
    ConnectionFailedError,
    ContentFilterError,
    ContextOverflowError,
    MalformedReplyError,
    ModelError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    UnavailableError,
)
from melete.models.openai_responses import open_model
from melete.models.spec import Timeouts
from tests.wire.adapters import answered, asking, collect, replied, spec
from tests.wire.raw import head, sending, serving

HI = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read_file", "arguments": '{"path":"x"}'}
DELTA = "response.output_text.delta"


def whole(*output: Any, **fields: Any) -> dict[str, Any]:
    """A response object."""
    return {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": list(output)} | fields


def event(name: str, **fields: Any) -> bytes:
    """One event."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


def said(text: str) -> bytes:
    """A piece of text as an event."""
    return event(DELTA, item_id="m", output_index=0, content_index=0, delta=text)


def done(*output: Any, **fields: Any) -> bytes:
    """The last event."""
    return event("response.completed", response=whole(*output, **fields))


reply_to = partial(replied, open_model)


def streamed(*pieces: bytes) -> list[Delta | Retried | Reply]:
    """Everything that these events yield."""

    async def main() -> list[Delta | Retried | Reply]:
        async with serving(sending(head(), *pieces)) as port:
            client = open_model(spec(f"http://127.0.0.1:{port}/v1"))
            try:
                return await collect(client.stream(asking("Go")))
            finally:
                await client.aclose()

    return asyncio.run(main())


FILTERED = whole(status="incomplete", incomplete_details={"reason": "content_filter"})
WHOLE = json.dumps(whole(HI)).encode()


@pytest.mark.parametrize(
    "pieces",
    [
        (head("application/json"), WHOLE),
        (head("text/plain"), b"\r\n ", WHOLE),
        (head("application/json", content_encoding="gzip"), gzip.compress(WHOLE)),
        (head(content_encoding="gzip"), gzip.compress(done(HI))),
        (head(), b"\xef\xbb\xbf", said("Hi"), done()),
        (head(), said("H"), said("i"), done()),
        (head(), said("Hi"), done(HI)),
        (head(), said("Hi"), b"data: [DONE]\n\n"),
        (head(), done(HI), b"data: {broken"),
        (head(), done(HI).strip()),
        (head(), event("response.output_item.done", output_index=0, item=HI), done()),
        (head(), event("response.output_text.done", text="Hi"), done()),
        (head(), event(DELTA, delta="Hi"), done()),
        (head(), event("keepalive", sequence_number=1), event("response.custom.news", x=1), done(HI)),
        (head(), done({"type": "message", "role": "assistant", "content": "Hi"})),
        (head(), event("response.output_item.added", item=None), event(DELTA, delta=None), done(None, HI)),
    ],
)
def test_an_unusual_answer_is_read(pieces: tuple[bytes, ...]) -> None:
    reply = reply_to(*pieces)
    assert (reply.message.text, reply.stop) == ("Hi", "end")


def test_a_finished_stream_is_not_waited_for() -> None:
    assert reply_to(head(), done(HI), close=False, tail=0.05).message.text == "Hi"


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ((head("application/json"), b'{"error":{"message":"maximum context length is 9"}}'), ContextOverflowError),
        (
            (head("application/json"), json.dumps(whole(status="failed", error={"message": "oh"})).encode()),
            UnavailableError,
        ),
        ((head(), said("Hi"), event("error", code="rate_limit_exceeded", message="slow")), RateLimitError),
        ((head(), event("error", error={"code": "insufficient_quota", "message": "no"})), QuotaError),
        ((head(), event("error", code="server_is_overloaded", message="busy")), OverloadedError),
        ((head(), event("error", code="slow_down", message="busy")), OverloadedError),
        ((head(), b'event: error\ndata: {"message":"rate limit reached"}\n\n'), RateLimitError),
        ((head(), event("response.failed", response=whole(status="failed", error=None))), UnavailableError),
        ((head(), event("response.cancelled", response=whole(status="cancelled"))), UnavailableError),
        ((head("application/json"), b"[1]"), MalformedReplyError),
        ((head("application/json"), b'{"output":[{"typ'), MalformedReplyError),
        ((head("application/json"), b'{"choices":[]}'), MalformedReplyError),
        ((head(), b"data: it works!\n\n"), MalformedReplyError),
        ((head(), b'data: {"type":' + b"[" * 9000 + b"]" * 9000 + b"}\n\n"), MalformedReplyError),
        ((head("text/plain"), b"<!DOCTYPE html><title>Hello</title>"), MalformedReplyError),
        ((head("application/json"), json.dumps(whole(HI, status="in_progress")).encode()), ConnectionFailedError),
        ((head(), said("Hi")), ConnectionFailedError),
        ((head(), event("response.incomplete", response=FILTERED)), ContentFilterError),
    ],
)  # fmt: skip
def test_an_error_under_status_200_is_an_error(pieces: tuple[bytes, ...], kind: type[ModelError]) -> None:
    with pytest.raises(kind):
        reply_to(*pieces)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("server_error", "An error occurred while processing your request.", UnavailableError),
        ("rate_limit_exceeded", "Rate limit reached for gpt-x. Please try again in 11.054s.", RateLimitError),
        ("context_length_exceeded", "Your input exceeds the context window of this model.", ContextOverflowError),
        ("invalid_prompt", "Your prompt may violate our usage policy.", ContentFilterError),
        ("image_parse_error", "The image could not be parsed.", BadRequestError),
        ("invalid_image_url", "The image could not be fetched.", BadRequestError),
    ],
)
def test_an_answer_that_failed_says_why(code: str, message: str, kind: type[ModelError]) -> None:
    failed = whole(status="failed", error={"code": code, "message": message})
    with pytest.raises(kind) as caught:
        reply_to(head(), event("response.created", response=whole()), event("response.failed", response=failed))
    assert message in str(caught.value)
    assert caught.value.retry_after == (11.054 if kind is RateLimitError else None)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("steered", "other"), (None, "other")],
)
def test_an_answer_that_is_incomplete_says_why(reason: str | None, stop: str) -> None:
    ended = whole(HI, status="incomplete", incomplete_details={"reason": reason} if reason else None)
    assert reply_to(head(), event("response.incomplete", response=ended)).stop == stop
    assert reply_to(head("application/json"), json.dumps(ended).encode()).stop == stop


def test_a_refusal_is_shown_and_named_as_one() -> None:
    content = [{"type": "refusal", "refusal": "I will not."}]
    item = {"type": "message", "role": "assistant", "content": content}
    pieces = [event("response.refusal.delta", output_index=0, content_index=0, delta=d) for d in ("I will", " not.")]
    for last in (done(item), done()):
        *deltas, reply = streamed(*pieces, last)
        assert isinstance(reply, Reply)
        assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == reply.message.text == "I will not."
        assert reply.stop == "content_filter"
        assert reply.message.wire is not None
        assert json.loads(bytes(reply.message.wire.body))[0]["content"] == content


def test_what_was_not_streamed_is_shown_at_the_end() -> None:
    *deltas, reply = streamed(said("H"), done({"type": "reasoning", "summary": []}, HI, CALL))
    assert isinstance(reply, Reply)
    assert [d.text for d in deltas if isinstance(d, TextDelta)] == ["H", "i"]
    assert [(d.index, d.id, d.name, d.arguments) for d in deltas if isinstance(d, CallDelta)] == [
        (0, "c1", "read_file", ""),
        (0, "", "", '{"path":"x"}'),
    ]


def test_the_last_word_counts_where_it_says_something() -> None:
    """Servers exist that leave the output out of their last event, or only what was said in it."""
    items = (
        event("response.output_item.done", output_index=0, item=HI),
        event("response.output_item.done", output_index=1, item=CALL),
    )
    for last in (done(), done({"type": "reasoning", "summary": []}), done(HI, CALL)):
        reply = reply_to(head(), *items, last)
        assert (reply.message.text, [c.id for c in reply.message.calls]) == ("Hi", ["c1"])
        assert reply.stop == "tool_calls"


def test_an_answer_is_put_together_from_its_pieces_alone() -> None:
    skeleton = {"id": "fc_9", "type": "function_call", "call_id": "c9", "name": "read_file", "arguments": ""}
    *deltas, reply = streamed(
        event("response.reasoning_text.delta", item_id="r", output_index=0, content_index=0, delta="Hm."),
        event("response.output_text.delta", item_id="m", output_index=1, content_index=0, delta="Hi"),
        event("response.output_item.added", output_index=2, item=skeleton),
        event("response.function_call_arguments.delta", item_id="fc_9", output_index=2, delta='{"path":'),
        event("response.function_call_arguments.delta", item_id="fc_9", output_index=2, delta='"x"}'),
        done(),
    )
    assert isinstance(reply, Reply)
    assert reply.message.wire is not None
    assert json.loads(bytes(reply.message.wire.body)) == [
        {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "annotations": [], "text": "Hi"}],
        },
        {**skeleton, "arguments": '{"path":"x"}'},
    ]
    assert reply.message.parts[0] == Thinking(text="Hm.")
    assert "".join(d.arguments for d in deltas if isinstance(d, CallDelta)) == '{"path":"x"}'


def test_further_thoughts_and_messages_are_paragraphs_of_their_own() -> None:
    thought = {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": t} for t in ("One.", "Two.")],
        "content": [{"type": "reasoning_text", "text": "One. Two."}],
    }
    *deltas, reply = streamed(done(thought, {**HI, "phase": "commentary"}, CALL, {**thought, "id": "rs_2"}, HI))
    assert isinstance(reply, Reply)
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == reply.message.text == "Hi\n\nHi"
    thoughts = [p.text for p in reply.message.parts if isinstance(p, Thinking)]
    assert thoughts == ["One.\n\nTwo."] * 2
    assert "".join(d.text for d in deltas if isinstance(d, ThinkingDelta)) == "\n\n".join(thoughts)
    kinds = [type(p) for p in reply.message.parts[:4]]
    assert kinds == [Thinking, Text, Thinking, Text]


def test_calls_without_or_with_the_same_id_get_their_own() -> None:
    nameless = {"type": "function_call", "name": "read_file", "arguments": {"path": "x"}}
    reply = reply_to(head(), done(CALL, CALL, nameless, nameless))
    ids = [c.id for c in reply.message.calls]
    assert len(set(ids)) == 4
    assert all(ids)
    assert reply.message.calls[2].arguments == '{"path":"x"}'
    assert reply.message.wire is not None
    assert [i["call_id"] for i in json.loads(bytes(reply.message.wire.body))] == ids


def test_a_server_that_counts_differently_or_not_at_all_is_read() -> None:
    full = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
    }
    assert reply_to(head(), done(HI, usage=full)).usage == Usage(
        input=30, cache_read=60, cache_write=10, output=9, reasoning=4
    )
    assert reply_to(head(), done(HI, usage={"input_tokens": 5, "output_tokens": None})).usage == Usage(input=5)
    assert reply_to(head(), done(HI, usage=None)).usage == Usage()


def test_keep_alives_in_the_stream_are_no_tokens() -> None:
    async def main() -> None:
        alive = [event("keepalive", sequence_number=n) for n in range(200)]
        async with serving(sending(head(), *alive, pause=0.02)) as port:
            client = open_model(spec(f"http://127.0.0.1:{port}/v1", timeouts=Timeouts(first_token=0.2, patience=0.5)))
            with pytest.raises(ModelError, match="sent nothing of"):
                await answered(client, asking("Go"))
            await client.aclose()

    asyncio.run(main())
