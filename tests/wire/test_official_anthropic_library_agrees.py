"""The official library, pointed at the same server, sends what we send and reads what we read."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import pytest
from anthropic.types import Message as Theirs
from anthropic.types import MessageParam, TextBlockParam, ToolParam, message_create_params
from msgspec import Raw
from pydantic import TypeAdapter

from melete.core.event import Reply
from melete.core.message import Image, Message, Text, Thinking, ToolResult, Usage
from melete.core.model import (
    AuthError,
    BadRequestError,
    ContextOverflowError,
    ModelError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    TooLargeError,
    UnavailableError,
    UnknownModelError,
)
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from tests.wire.adapters import KEY, TOOL, Adapter, adapter_of, ask, asking, results

MARK: Any = {"type": "ephemeral"}
TOOLS: list[ToolParam] = [
    {"name": TOOL.name, "description": TOOL.about, "input_schema": json.loads(bytes(TOOL.parameters))}
]
SYSTEM: list[TextBlockParam] = [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
BODIES = TypeAdapter(message_create_params.MessageCreateParamsStreaming)


@pytest.fixture
def adapter() -> Adapter:
    """This wire alone."""
    return adapter_of("anthropic-messages")


@contextmanager
def library(server: ScriptedModel) -> Iterator[anthropic.Anthropic]:
    """The library's client of this server."""
    with anthropic.Anthropic(api_key=KEY, base_url=server.base_url.removesuffix("/v1"), max_retries=0) as client:
        yield client


def streamed(server: ScriptedModel, *messages: MessageParam, **fields: Any) -> Theirs:
    """The library's reading of a streamed answer."""
    with library(server) as client:
        asked: dict[str, Any] = {"tools": TOOLS, "system": SYSTEM, "max_tokens": 9000} | fields
        with client.messages.stream(model="scripted-model", messages=list(messages), **asked) as stream:
            return stream.get_final_message()


def walked(value: Any) -> Any:
    """The value with everything in it that validates only when it is looked at."""
    if isinstance(value, dict):
        return {k: walked(v) for k, v in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else [walked(v) for v in value]


def checked(body: dict[str, Any]) -> dict[str, Any]:
    """A body that the library's own types allow, down to its last block."""
    assert set(body) <= set(message_create_params.MessageCreateParamsStreaming.__annotations__) | set(
        message_create_params.MessageCreateParamsBase.__annotations__
    )
    assert walked(BODIES.validate_python(body)) == body
    return body


def the_same(ours: dict[str, Any], theirs: dict[str, Any]) -> set[str]:
    """The fields that both send, which must be equal."""
    both = set(ours) & set(theirs)
    assert {name: ours[name] for name in both} == {name: theirs[name] for name in both}
    return both


# ---- requests ----------------------------------------------------------------------------------------------------------


def test_a_turn_with_thinking_tools_and_images_is_sent_alike(adapter: Adapter) -> None:
    """Both carry on from the answer that they read themselves."""
    calls = [Call("read_file", {"path": "ä.txt"}, id="toolu_a"), Call("read_file", {"path": "b"}, id="toolu_b")]
    reply = Calls(
        calls, text="Let me see.", thinking="Hm… 😀", extra={"blocks": [{"type": "redacted_thinking", "data": "QUJD"}]}
    )
    picture = Image(media_type="image/png", data="aGk=")
    block: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    thinking: Any = {"type": "adaptive", "display": "summarized"}
    effort: Any = {"effort": "high"}
    with ScriptedModel([reply, Say("Done."), reply, Say("Done.")]) as server:
        first = asking(Message(role="user", parts=(Text(text="Look"), picture)), max_output=9000, effort="high")
        (answer,) = ask(adapter, server.base_url, first)
        done = results(
            ToolResult(call="toolu_a", name="read_file", content='{"content":"A"}', images=(picture,)),
            ToolResult(call="toolu_b", name="read_file", content="gone", error=True),
        )
        ask(adapter, server.base_url, asking(*first.messages, answer.message, done, max_output=9000, effort="high"))
        said: MessageParam = {
            "role": "user",
            "content": [{"type": "text", "text": "Look"}, block | {"cache_control": MARK}],
        }
        read = streamed(server, said, thinking=thinking, output_config=effort)
        listed: Any = [{"type": "text", "text": '{"content":"A"}'}, block]
        given: MessageParam = {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_a", "content": listed},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_b",
                    "content": "gone",
                    "is_error": True,
                    "cache_control": MARK,
                },
            ],
        }
        streamed(
            server, said, {"role": "assistant", "content": read.content}, given, thinking=thinking, output_config=effort
        )
        bodies = [r.json for r in server.requests]
    for ours, theirs in zip(bodies[:2], bodies[2:], strict=True):
        fields = the_same(checked(ours), theirs)
        assert fields == set(theirs) == {
            "model", "max_tokens", "system", "tools", "messages", "thinking", "output_config", "stream",
        }  # fmt: skip
        assert set(ours) == fields


@pytest.mark.parametrize(("choice", "kind"), [("none", "none"), ("required", "any")])
def test_the_choice_of_tools_is_sent_alike(adapter: Adapter, choice: str, kind: str) -> None:
    with ScriptedModel([Say("ok"), Say("ok")]) as server:
        ask(adapter, server.base_url, asking("Go", tool_choice=choice, max_output=9000))
        said: MessageParam = {"role": "user", "content": [{"type": "text", "text": "Go", "cache_control": MARK}]}
        streamed(server, said, tool_choice={"type": kind})
        ours, theirs = (r.json for r in server.requests)
    assert "tool_choice" in the_same(checked(ours), theirs)


def test_a_schema_for_the_answer_is_sent_alike(adapter: Adapter) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    with ScriptedModel([Say("{}"), Say("{}")]) as server:
        raw: Any = json.dumps(schema).encode()
        ask(adapter, server.base_url, asking("Go", answer_schema=Raw(raw), max_output=9000))
        said: MessageParam = {"role": "user", "content": [{"type": "text", "text": "Go", "cache_control": MARK}]}
        streamed(server, said, output_config={"format": {"type": "json_schema", "schema": schema}})
        ours, theirs = (r.json for r in server.requests)
    assert "output_config" in the_same(checked(ours), theirs)


# ---- answers -----------------------------------------------------------------------------------------------------------

USAGE = Usage(input=70, output=9, cache_read=30, cache_write=5, reasoning=4)
REPLIES = (
    Say("Grüße 😀", thinking="Hm.", pieces=3, usage=USAGE),
    Calls([Call("a", {"x": 1.5, "ü": None}), Call("b", {})], text="Two.", thinking="Why?", pieces=5, usage=USAGE),
    Say("cut", stop="length", usage=USAGE),
    Say("partly", stop="content_filter", usage=USAGE),
    Say("Hi", extra={"blocks": [{"type": "redacted_thinking", "data": "QUJD"}]}, usage=USAGE),
)
STOPS = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply.stop or type(reply).__name__)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_an_answer_is_read_alike(adapter: Adapter, reply: Say | Calls, stream: bool) -> None:
    calls = [Call(c.name, c.arguments, id=f"toolu_{n}") for n, c in enumerate(getattr(reply, "calls", ()))]
    if isinstance(reply, Calls):
        reply = Calls(calls, text=reply.text, thinking=reply.thinking, pieces=reply.pieces, usage=reply.usage)
    with ScriptedModel([reply, reply]) as server:
        (ours,) = ask(adapter, server.base_url, asking("Go"))
        if stream:
            theirs = streamed(server, {"role": "user", "content": "Go"})
        else:
            with library(server) as client:
                messages: list[MessageParam] = [{"role": "user", "content": "Go"}]
                theirs = client.messages.create(model="scripted-model", max_tokens=9, messages=messages)
    agree(ours, theirs)


def agree(ours: Reply, theirs: Theirs) -> None:
    """Both read the same text, thinking, calls, stop reason, model and counts, and would send the same blocks back."""
    message, blocks = ours.message, theirs.content
    assert message.text == "".join(b.text for b in blocks if b.type == "text")
    assert [p.text for p in message.parts if isinstance(p, Thinking)] == [
        b.thinking for b in blocks if b.type == "thinking"
    ]
    found = [(b.id, b.name, b.input) for b in blocks if b.type == "tool_use"]
    assert [(c.id, c.name, json.loads(c.arguments)) for c in message.calls] == found
    assert STOPS[ours.stop] == theirs.stop_reason
    assert ours.model == theirs.model
    usage = theirs.usage
    assert usage.output_tokens_details is not None
    assert ours.usage == USAGE == Usage(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cache_read=usage.cache_read_input_tokens or 0,
        cache_write=usage.cache_creation_input_tokens or 0,
        reasoning=usage.output_tokens_details.thinking_tokens,
    )  # fmt: skip
    assert message.wire is not None
    kept = json.loads(bytes(message.wire.body))["content"]
    assert kept == [b.model_dump(mode="json", exclude_unset=True) for b in blocks]


# ---- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "ours", "theirs"),
    [
        (Fault("rate_limited"), RateLimitError, anthropic.RateLimitError),
        (Fault("unauthorized"), AuthError, anthropic.AuthenticationError),
        (Fault("status", status=403, message="no"), AuthError, anthropic.PermissionDeniedError),
        (Fault("quota"), QuotaError, anthropic.PaymentRequiredError),
        (Fault("unknown_model"), UnknownModelError, anthropic.NotFoundError),
        (Fault("status", status=529, message="Overloaded"), OverloadedError, anthropic.OverloadedError),
        (Fault("server_error"), UnavailableError, anthropic.InternalServerError),
        (Fault("status", status=413, message="too large"), TooLargeError, anthropic.ContentTooLargeError),
        (Fault("overflow"), ContextOverflowError, anthropic.BadRequestError),
        (Fault("bad_request"), BadRequestError, anthropic.BadRequestError),
        (Fault("error_event"), UnavailableError, anthropic.APIStatusError),
    ],
)
def test_an_error_is_read_alike(
    adapter: Adapter, fault: Fault, ours: type[ModelError], theirs: type[anthropic.APIError]
) -> None:
    with ScriptedModel([fault, fault]) as server:
        with pytest.raises(ModelError) as mine:
            ask(adapter, server.base_url, asking("Go"))
        with pytest.raises(anthropic.APIError) as other:
            streamed(server, {"role": "user", "content": "Go"})
    assert type(mine.value) is ours
    assert isinstance(other.value, theirs)
    said = getattr(other.value, "api_message", None)
    assert said
    assert said in str(mine.value), "in the API's own words"
