"""Servers of the gemini wire that answer in an unusual way, or refuse in Google's own words, and are understood."""

import gzip
import json
from functools import partial
from typing import Any

import msgspec
import pytest

from melete.core.event import CallDelta, Reply, TextDelta
from melete.core.message import Text, Thinking, Usage
from melete.core.model import (
    AuthError,
    ConnectionFailedError,
    ContentFilterError,
    ContextOverflowError,
    MalformedReplyError,
    ModelError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    UnavailableError,
    UnknownModelError,
)
from melete.models.gemini import open_model
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.wire.adapters import KEY, Adapter, adapter_of, ask, asking, replied, yielded
from tests.wire.raw import head


def chunk(*parts: dict[str, Any], finish: str = "", **fields: Any) -> bytes:
    """One response object."""
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}} if parts else {}
    candidate |= {"finishReason": finish} if finish else {}
    return json.dumps({"candidates": [candidate], **fields}).encode()


def event(data: bytes) -> bytes:
    """The same as an event."""
    return b"data: " + data + b"\r\n\r\n"


def said(text: str, finish: str = "") -> bytes:
    """A piece of text as an event."""
    return event(chunk({"text": text}, finish=finish))


items_of = partial(yielded, open_model, path="/v1beta")
reply_to = partial(replied, open_model, path="/v1beta")


WHOLE = chunk({"text": "Hi"}, finish="STOP")


@pytest.mark.parametrize(
    "pieces",
    [
        (head("application/json"), WHOLE),
        (head("application/json"), chunk({"text": "Hi"})),
        (head("application/json"), b"[" + chunk({"text": "H"}) + b",\r\n" + chunk({"text": "i"}, finish="STOP") + b"]"),
        (head(content_encoding="gzip"), gzip.compress(said("Hi", "STOP"))),
        (head(), b"\xef\xbb\xbf", said("Hi", "STOP")),
        (head("application/octet-stream"), b": hello\n\n", said("H"), said("i", "STOP")),
        (head(), said("Hi", "FINISH_REASON_UNSPECIFIED"), event(chunk(finish="STOP"))),
        (head(), said("Hi", "STOP"), event(b'{"usageMetadata":{"promptTokenCount":1}}'), b"data: {broken"),
        (head(), said("Hi"), b"data: [DONE]\n\n"),
        (head(), b"data: null\n\n", event(b'{"candidates":[]}'), said("Hi", "STOP").strip()),
        (head(), event(chunk({"text": "Hi", "partMetadata": {"a": 1}}, {"text": ""}, {}, finish="STOP"))),
    ],
)
def test_an_unusual_answer_is_read(pieces: tuple[bytes, ...]) -> None:
    reply = reply_to(*pieces)
    assert (reply.message.text, reply.stop) == ("Hi", "end")


def test_a_finished_stream_is_not_waited_for() -> None:
    assert reply_to(head(), said("Hi", "STOP"), close=False, tail=0.05).message.text == "Hi"


def test_a_stream_without_a_reason_to_stop_is_broken_off() -> None:
    with pytest.raises(ConnectionFailedError, match="before its end"):
        reply_to(head(), said("Hi"), event(b'{"usageMetadata":{"promptTokenCount":1}}'))


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("STOP", "end"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("LANGUAGE", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_reasons_to_stop(finish: str, stop: str) -> None:
    assert reply_to(head(), said("Hi", finish)).stop == stop


@pytest.mark.parametrize("finish", ["STOP", "UNEXPECTED_TOOL_CALL", "MAX_TOKENS"])
def test_a_call_at_the_end_waits_for_its_result_unless_the_limit_cut_it(finish: str) -> None:
    reply = reply_to(head(), event(chunk({"functionCall": {"name": "a", "args": {}}}, finish=finish)))
    assert reply.stop == ("length" if finish == "MAX_TOKENS" else "tool_calls")


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"])
def test_a_call_that_google_could_not_read_makes_an_empty_answer(finish: str) -> None:
    thought = event(chunk({"text": "Hm.", "thought": True}))
    reply = reply_to(head(), thought, said("Let me look."), event(chunk(finish=finish)))
    assert reply.stop == "other"
    assert reply.message.parts == (Thinking(text="Hm."),)
    assert reply.message.wire is not None
    assert b"Let me look" not in bytes(reply.message.wire.body)


def test_text_after_thoughts_after_text_keeps_its_order_and_its_signatures() -> None:
    parts = (
        {"text": "One "},
        {"text": "two.", "thoughtSignature": "YQ=="},
        {"text": "Hm", "thought": True},
        {"text": ".", "thought": True},
        {"text": "Three."},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"text": "Four", "thought": False},
        {"text": "."},
    )
    reply = reply_to(head(), *(event(chunk(part)) for part in parts), event(chunk(finish="STOP")))
    assert reply.message.parts == (Text(text="One two."), Thinking(text="Hm."), Text(text="Three.Four."))
    assert reply.message.wire is not None
    body = msgspec.json.decode(reply.message.wire.body)
    assert body == {
        "role": "model",
        "parts": [
            {"text": "One "},
            {"text": "two.", "thoughtSignature": "YQ=="},
            {"text": "Hm.", "thought": True},
            {"text": "Three."},
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
            {"text": "Four.", "thought": False},
        ],
    }


def test_deltas_come_as_the_server_sends_them() -> None:
    call = {"functionCall": {"name": "read_file", "args": {"path": "ä"}, "id": "x"}}
    items = items_of(head(), said("H"), said("i"), event(chunk(call, finish="STOP")))
    assert [i for i in items if not isinstance(i, Reply)] == [
        TextDelta(text="H"),
        TextDelta(text="i"),
        CallDelta(index=0, id="x", name="read_file", arguments='{"path":"ä"}'),
    ]


def test_tokens_of_thoughts_caches_and_tools_are_counted() -> None:
    first = {"promptTokenCount": 100, "cachedContentTokenCount": 60, "thoughtsTokenCount": 7}
    last = {"promptTokenCount": 100, "candidatesTokenCount": 5, "thoughtsTokenCount": 9, "toolUsePromptTokenCount": 3}
    reply = reply_to(
        head(), event(chunk({"text": "Hi"}, usageMetadata=first)), event(chunk(finish="STOP", usageMetadata=last))
    )
    assert reply.usage == Usage(input=43, output=14, cache_read=60, reasoning=9)


def failed(code: int, status: str, message: str, **detail: Any) -> bytes:
    """Google's error object."""
    details = {"details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **detail}]} if detail else {}
    return json.dumps({"error": {"code": code, "message": message, "status": status, **details}}).encode()


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12.5s"}
NO_KEY = "API key not valid. Please pass a valid API key."
BUSY = "The model is overloaded. Please try again later."
QUOTA = "You exceeded your current quota, please check your plan and billing details."

REFUSALS: tuple[tuple[int, bytes, type[ModelError], str], ...] = (
    (400, failed(400, "INVALID_ARGUMENT", NO_KEY, reason="API_KEY_INVALID"), AuthError, "MELETE_API_KEY"),
    (400, failed(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key."), AuthError, "MELETE_API_KEY"),
    (403, failed(403, "PERMISSION_DENIED", "Your API key was reported as leaked."), AuthError, "leaked"),
    (
        400,
        failed(
            400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
        ),
        ContextOverflowError,
        "does not fit",
    ),
    (
        404,
        failed(404, "NOT_FOUND", "models/x is not found for API version v1beta, or is not supported for generateContent."),
        UnknownModelError,
        "does not know the model",
    ),
    (429, failed(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."), RateLimitError, "limits"),
    (429, failed(429, "RESOURCE_EXHAUSTED", QUOTA), QuotaError, "credit"),
    (429, failed(429, "RESOURCE_EXHAUSTED", QUOTA, **RETRY), RateLimitError, "limits"),
    (503, failed(503, "UNAVAILABLE", BUSY), OverloadedError, "overloaded"),
    (500, failed(500, "INTERNAL", "An internal error has occurred."), UnavailableError, "internal error"),
    (504, failed(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."), UnavailableError, "Deadline"),
)  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind", "words"), REFUSALS)
@pytest.mark.parametrize("form", ["object", "list", "event"])
def test_googles_errors_are_understood(status: int, body: bytes, kind: type[ModelError], words: str, form: str) -> None:
    """They come with their status, as a list of one, or in a stream that began well."""
    if form == "event":
        answer = (head(), said("Hi"), event(body))
    else:
        answer = (head("application/json", f"{status} No"), b"[" + body + b"]" if form == "list" else body)
    with pytest.raises(ModelError) as caught:
        reply_to(*answer)
    assert type(caught.value) is kind, caught.value
    assert words in str(caught.value)
    assert caught.value.retry_after == (12.5 if b"retryDelay" in body else None)


def test_a_key_of_googles_form_is_never_shown() -> None:
    shown = failed(
        403, "PERMISSION_DENIED", "Consumer 'api_key:AIzaSyD-1234567890abcdefghijklmnopqrstuv' has been suspended."
    )
    with pytest.raises(AuthError) as caught:
        reply_to(head("application/json", "403 No"), shown)
    assert "[key]" in str(caught.value)
    assert "AIzaSyD" not in str(caught.value)


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ((head(), event(b'{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}')), ContentFilterError),
        ((head("application/json"), b'{"promptFeedback":{"blockReason":"OTHER"}}'), ContentFilterError),
        ((head(), event(chunk(finish="SAFETY"))), ContentFilterError),
        ((head(), event(chunk(finish="IMAGE_SAFETY"))), ContentFilterError),
        ((head(), said("Hi"), b'event: error\ndata: {"message":"rate limit reached"}\n\n'), RateLimitError),
        ((head("application/json"), b"[1]"), MalformedReplyError),
        ((head("application/json"), b"[]"), MalformedReplyError),
        ((head("application/json"), b'{"candidates":[{"cont'), MalformedReplyError),
        ((head("application/json"), b'{"choices":[{"message":{"content":"Hi"}}]}'), MalformedReplyError),
        ((head(), b"data: it works!\n\n"), MalformedReplyError),
        ((head(), b'data: {"candidates":' + b"[" * 9000 + b"]" * 9000 + b"}\n\n"), MalformedReplyError),
        ((head("text/plain"), b"<!DOCTYPE html><title>Hello</title>"), MalformedReplyError),
    ],
)
def test_an_error_under_status_200_is_an_error(pieces: tuple[bytes, ...], kind: type[ModelError]) -> None:
    with pytest.raises(kind):
        reply_to(*pieces)


@pytest.mark.parametrize(
    "strange",
    [
        b'{"candidates":[7]}',
        b'{"candidates":[{"content":[]}]}',
        b'{"candidates":[{"content":{"parts":7}}]}',
        b'{"candidates":[{"content":{"parts":[7,null,"x",{"text":7},{"functionCall":7}]}}]}',
        b'{"candidates":{"content":{}},"usageMetadata":7,"promptFeedback":7,"modelVersion":7}',
        b'{"usageMetadata":{"promptTokenCount":"9","thoughtsTokenCount":-1,"candidatesTokenCount":1e99}}',
    ],
)
def test_fields_of_other_types_are_passed_over(strange: bytes) -> None:
    reply = reply_to(head(), event(strange), said("Hi", "STOP"))
    assert (reply.message.text, reply.usage) == ("Hi", Usage())


@pytest.fixture
def adapter() -> Adapter:
    """This wire alone."""
    return adapter_of("gemini")


def test_the_scripted_server_answers_with_a_list_where_events_were_not_asked_for(adapter: Adapter) -> None:
    with ScriptedModel([Call("read_file", {"path": "a"}, text="Hi"), Fault("cut", reply=Say("Hi"))]) as server:
        base = server.base_url + "?alt=json"
        (reply,) = ask(adapter, base, asking("Go"))
        with pytest.raises(ModelError):
            ask(adapter, base, asking("Go"))
        assert [r.target.partition("?")[2] for r in server.requests] == ["alt=json"] * 2
    assert (reply.message.text, reply.stop) == ("Hi", "tool_calls")
    assert KEY not in server.requests[0].target
