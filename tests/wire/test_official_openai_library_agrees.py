"""The official library, pointed at the same server, sends what we send and reads what we read: both of its APIs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from msgspec import Raw, Struct
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from openai.types.completion_usage import CompletionUsage
from openai.types.responses import (
    EasyInputMessageParam,
    FunctionToolParam,
    Response,
    ResponseCompletedEvent,
    ResponseIncompleteEvent,
    ResponseInputItemParam,
    ResponseStreamEvent,
    ResponseUsage,
)
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from openai.types.responses.response_input_param import FunctionCallOutput, ResponseInputParam
from openai.types.responses.response_input_param import Message as InputMessage
from pydantic import TypeAdapter

from melete.core.event import Reply
from melete.core.message import Image, Message, Text, Thinking, ToolCall, ToolResult, Usage, user
from melete.core.model import (
    AuthError,
    BadRequestError,
    ContextOverflowError,
    ModelError,
    ModelRequest,
    OverloadedError,
    QuotaError,
    RateLimitError,
    UnavailableError,
    UnknownModelError,
)
from melete.models.spec import Quirks
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from melete.testing import Reply as Scripted
from tests.wire.adapters import KEY, TOOL, adapter_of, ask, asking, assistant, results

WIRES = ("openai-chat", "openai-responses")
PARAMETERS: dict[str, object] = json.loads(bytes(TOOL.parameters))
SCHEMA: dict[str, object] = {"type": "object", "properties": {"n": {"type": "integer"}}}
CALL = ToolCall(id="call_a", name="read_file", arguments='{"path":"ä.txt"}')
OTHER = ToolCall(id="call_b", name="read_file", arguments='{"path":"b.txt"}')
DATA = "data:image/png;base64,aGk="

CONVERSATION = (
    Message(role="user", parts=(Text(text="What is this? 😀"), Image(data="aGk="))),
    assistant("Let me see.", CALL, OTHER),
    results(
        ToolResult(call="call_a", name="read_file", content='{"content":"A"}'),
        ToolResult(call="call_b", name="read_file", content='{"content":"B"}'),
    ),
    assistant("Grüße."),
    user("And now?"),
)
FIELDS: dict[str, Any] = {
    "max_output": 700,
    "temperature": 0.5,
    "effort": "low",
    "cache_key": "k1",
    "tool_choice": "none",
    "answer_schema": Raw(json.dumps(SCHEMA).encode()),
}


@contextmanager
def library(server: ScriptedModel) -> Iterator[openai.OpenAI]:
    """The library's client of this server."""
    with openai.OpenAI(api_key=KEY, base_url=server.base_url, max_retries=0) as client:
        yield client


def ours(wire: str, request: ModelRequest) -> dict[str, Any]:
    """The body of our request."""
    with ScriptedModel([Say("ok")]) as server:
        ask(adapter_of(wire), server.base_url, request, quirks=Quirks(cache_key=True), service_tier="flex")
        return server.requests[0].json


def the_same(mine: dict[str, Any], theirs: dict[str, Any]) -> set[str]:
    """The fields that both send, which must be equal."""
    both = set(mine) & set(theirs)
    assert {name: mine[name] for name in both} == {name: theirs[name] for name in both}
    return both


def test_the_library_asks_as_we_ask_over_chat_completions() -> None:
    tools: list[ChatCompletionFunctionToolParam] = [
        {"type": "function", "function": {"name": TOOL.name, "description": TOOL.about, "parameters": PARAMETERS}}
    ]
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this? 😀"},
                {"type": "image_url", "image_url": {"url": DATA}},
            ],
        },
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in (CALL, OTHER)
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": '{"content":"A"}'},
        {"role": "tool", "tool_call_id": "call_b", "content": '{"content":"B"}'},
        {"role": "assistant", "content": "Grüße."},
        {"role": "user", "content": "And now?"},
    ]
    with ScriptedModel([Say("ok")]) as server, library(server) as client:
        stream = client.chat.completions.create(
            model="scripted-model",
            messages=messages,
            tools=tools,
            tool_choice="none",
            max_tokens=700,
            temperature=0.5,
            reasoning_effort="low",
            prompt_cache_key="k1",
            service_tier="flex",
            response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
            stream=True,
            stream_options={"include_usage": True},
        )
        assert [*stream]
        theirs = server.requests[0].json
    mine = ours("openai-chat", asking(*CONVERSATION, **FIELDS))
    assert the_same(mine, theirs) == set(mine) == set(theirs)


def test_the_library_asks_as_we_ask_over_responses() -> None:
    tools: list[FunctionToolParam] = [
        {
            "type": "function",
            "name": TOOL.name,
            "description": TOOL.about,
            "parameters": PARAMETERS,
            "strict": False,
        }
    ]
    items: ResponseInputParam = [
        InputMessage(
            type="message",
            role="user",
            content=[
                {"type": "input_text", "text": "What is this? 😀"},
                {"type": "input_image", "image_url": DATA, "detail": "auto"},
            ],
        ),
        EasyInputMessageParam(type="message", role="assistant", content="Let me see."),
        {"type": "function_call", "call_id": "call_a", "name": "read_file", "arguments": CALL.arguments},
        {"type": "function_call", "call_id": "call_b", "name": "read_file", "arguments": OTHER.arguments},
        FunctionCallOutput(type="function_call_output", call_id="call_a", output='{"content":"A"}'),
        FunctionCallOutput(type="function_call_output", call_id="call_b", output='{"content":"B"}'),
        EasyInputMessageParam(type="message", role="assistant", content="Grüße."),
        InputMessage(type="message", role="user", content=[{"type": "input_text", "text": "And now?"}]),
    ]
    with ScriptedModel([Say("ok")]) as server, library(server) as client:
        stream = client.responses.create(
            model="scripted-model",
            instructions="Be brief.",
            input=items,
            tools=tools,
            tool_choice="none",
            max_output_tokens=700,
            temperature=0.5,
            reasoning={"effort": "low", "summary": "auto"},
            text={"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}},
            include=["reasoning.encrypted_content"],
            prompt_cache_key="k1",
            service_tier="flex",
            store=False,
            stream=True,
        )
        assert [*stream]
        theirs = server.requests[0].json
    mine = ours("openai-responses", asking(*CONVERSATION, **FIELDS))
    assert the_same(mine, theirs) == set(mine) == set(theirs)


def test_every_item_that_we_send_is_one_that_the_librarys_types_allow() -> None:
    shown = ToolResult(call="call_a", name="look", content="{}", images=(Image(data="aGk="),))
    mine = ours("openai-responses", asking("Go", assistant("", CALL, OTHER), results(shown), "On", **FIELDS))
    assert set(mine) <= set(ResponseCreateParamsStreaming.__annotations__) | {
        name for base in ResponseCreateParamsStreaming.__mro__ for name in getattr(base, "__annotations__", ())
    }
    allowed: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
    for item in mine["input"]:
        assert allowed.validate_python(item)


@pytest.mark.parametrize("streamed", [False, True])
def test_items_of_an_answer_go_back_as_the_library_sends_them_back(streamed: bool) -> None:
    script = [Calls([Call("read_file", {"path": "ä"}), Call("b")], text="Two.", thinking="Hm."), Say("ok")]
    with ScriptedModel(script) as server, library(server) as client:
        first: ResponseInputParam = [
            InputMessage(type="message", role="user", content=[{"type": "input_text", "text": "Go"}])
        ]
        include: Any = ["reasoning.encrypted_content"]
        if streamed:
            with client.responses.stream(model="m", input=first, include=include, store=False) as stream:
                answer: Response = stream.get_final_response()
        else:
            answer = client.responses.create(model="m", input=first, include=include, store=False)
        given: list[Any] = [*first, *(item.to_dict(mode="json") for item in answer.output)]
        client.responses.create(model="m", input=given, include=include, store=False)
        theirs = server.requests[1].json["input"]
    with ScriptedModel(script) as server:
        (reply,) = ask(adapter_of("openai-responses"), server.base_url, asking("Go"))
        ask(adapter_of("openai-responses"), server.base_url, asking("Go", reply.message))
        mine = server.requests[1].json["input"]
    dropped = {"parsed", "parsed_arguments"} if streamed else set[str]()  # what the library's own stream adds to items
    assert mine[: len(theirs)] == [without(item, dropped) for item in theirs]
    assert [item["type"] for item in theirs] == ["message", "reasoning", "message", "function_call", "function_call"]


def without(value: Any, names: set[str]) -> Any:
    """The value without fields of these names."""
    if isinstance(value, dict):
        fields: dict[str, Any] = value
        return {name: without(one, names) for name, one in fields.items() if name not in names}
    return [without(one, names) for one in value] if isinstance(value, list) else value


# ---- answers ---------------------------------------------------------------------------------------------------------


class Read(Struct, frozen=True, kw_only=True):
    """What somebody read out of an answer, in neutral words."""

    text: str
    thinking: str
    calls: list[tuple[str, str, str]]
    stop: str
    usage: Usage


ANSWERS: tuple[Scripted, ...] = (
    Say("Grüße 😀, at length.", thinking="Hm… let me\n\nthink.", pieces=3),
    Call("read_file", {"path": "ä"}, thinking="Hm."),
    Calls([Call("read_file", {"path": "a" * 50}), Call("b", "{}", id="call_own")], text="Two files."),
    Say("cut", stop="length"),
    Call("read_file", '{"path": "a', stop="length"),
    Say("partly", stop="content_filter"),
    Say("ok", usage=Usage(input=70, output=9, cache_read=30, reasoning=4)),
    Say(""),
)


def read_by_us(reply: Reply) -> Read:
    """Our reading."""
    parts = reply.message.parts
    return Read(
        text=reply.message.text,
        thinking="".join(p.text for p in parts if isinstance(p, Thinking)),
        calls=[(c.id, c.name, c.arguments) for c in reply.message.calls],
        stop=reply.stop,
        usage=reply.usage,
    )


def read_chat(answer: ChatCompletion) -> Read:
    """The library's reading of a chat completion."""
    choice = answer.choices[0]
    stops = {"stop": "end", "tool_calls": "tool_calls", "length": "length", "content_filter": "content_filter"}
    calls = [c for c in choice.message.tool_calls or () if c.type == "function"]
    assert answer.usage is not None
    return Read(
        text=choice.message.content or "",
        thinking=(choice.message.model_extra or {}).get("reasoning_content") or "",
        calls=[(c.id, c.function.name, c.function.arguments) for c in calls],
        stop=stops[choice.finish_reason],
        usage=chat_usage(answer.usage),
    )


def chat_usage(usage: CompletionUsage) -> Usage:
    """The five classes out of the library's usage."""
    read, spoken = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = (read.cached_tokens if read else 0) or 0
    reasoning = (spoken.reasoning_tokens if spoken else 0) or 0
    return Usage(
        input=usage.prompt_tokens - cached, cache_read=cached, output=usage.completion_tokens, reasoning=reasoning
    )


def read_response(answer: Response) -> Read:
    """The library's reading of a response."""
    calls = [item for item in answer.output if item.type == "function_call"]
    reason = answer.incomplete_details.reason if answer.incomplete_details else None
    stops = {None: "tool_calls" if calls else "end", "max_output_tokens": "length", "content_filter": "content_filter"}
    assert answer.usage is not None
    return Read(
        text=answer.output_text,
        thinking="".join(s.text for item in answer.output if item.type == "reasoning" for s in item.summary),
        calls=[(c.call_id, c.name, c.arguments) for c in calls],
        stop=stops[reason],
        usage=response_usage(answer.usage),
    )


def read_events(events: list[ResponseStreamEvent]) -> Read:
    """The library's reading of a streamed response, which must be what its pieces add up to."""
    last = events[-1]
    assert isinstance(last, ResponseCompletedEvent | ResponseIncompleteEvent)
    read = read_response(last.response)
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == read.text
    assert "".join(e.delta for e in events if e.type == "response.reasoning_summary_text.delta") == read.thinking
    arguments = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(arguments) == "".join(text for _, _, text in read.calls)
    return read


def response_usage(usage: ResponseUsage) -> Usage:
    """The five classes out of the library's usage."""
    details = usage.input_tokens_details
    return Usage(
        input=usage.input_tokens - details.cached_tokens - details.cache_write_tokens,
        cache_read=details.cached_tokens,
        cache_write=details.cache_write_tokens,
        output=usage.output_tokens,
        reasoning=usage.output_tokens_details.reasoning_tokens,
    )


def read_by_the_library(wire: str, body: dict[str, Any], script: list[Scripted], *, streamed: bool) -> Read:
    """The library's reading of the answer to this very body."""
    asked = {name: value for name, value in body.items() if name != "stream"}
    with ScriptedModel(script) as server, library(server) as client:
        if wire == "openai-responses":
            if not streamed:
                return read_response(client.responses.create(**asked))
            return read_events([*client.responses.create(**asked, stream=True)])
        if not streamed:
            return read_chat(client.chat.completions.create(**without(asked, {"stream_options"})))
        state = ChatCompletionStreamState()
        for chunk in client.chat.completions.create(**asked, stream=True):
            state.handle_chunk(chunk)
        return read_chat(state.current_completion_snapshot)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_the_library_reads_what_we_read(wire: str, answer: Scripted, streamed: bool) -> None:
    with ScriptedModel([answer]) as server:
        (reply,) = ask(adapter_of(wire), server.base_url, asking("Go", tools=()))
        body = server.requests[0].json
    mine = read_by_us(reply)
    assert read_by_the_library(wire, body, [answer], streamed=streamed) == mine


# ---- errors ----------------------------------------------------------------------------------------------------------

FAULTS: tuple[tuple[Fault, type[ModelError], type[openai.OpenAIError], str], ...] = (
    (Fault("rate_limited"), RateLimitError, openai.RateLimitError, "rate_limit_exceeded"),
    (Fault("status", status=429, message="insufficient_quota"), QuotaError, openai.RateLimitError, ""),
    (Fault("unauthorized"), AuthError, openai.AuthenticationError, "invalid_api_key"),
    (Fault("status", status=403), AuthError, openai.PermissionDeniedError, ""),
    (Fault("server_error"), UnavailableError, openai.InternalServerError, "server_error"),
    (Fault("overloaded"), OverloadedError, openai.InternalServerError, "overloaded"),
    (Fault("overflow"), ContextOverflowError, openai.BadRequestError, "context_length_exceeded"),
    (Fault("bad_request"), BadRequestError, openai.BadRequestError, "invalid_request_error"),
    (Fault("unknown_model"), UnknownModelError, openai.NotFoundError, "model_not_found"),
)


@pytest.mark.parametrize(("fault", "mine", "theirs", "code"), FAULTS, ids=[f[0].kind for f in FAULTS])
@pytest.mark.parametrize("wire", WIRES)
def test_an_error_has_the_same_cause(
    wire: str, fault: Fault, mine: type[ModelError], theirs: type[openai.OpenAIError], code: str
) -> None:
    with ScriptedModel([fault, fault]) as server:
        with pytest.raises(mine) as caught:
            ask(adapter_of(wire), server.base_url, asking("Go"))
        with library(server) as client, pytest.raises(theirs) as library_caught:
            if wire == "openai-chat":
                assert [*client.chat.completions.create(**server.requests[0].json)]
            else:
                assert [*client.responses.create(**server.requests[0].json)]
    assert type(caught.value) is mine
    assert type(library_caught.value) is theirs
    if code:
        assert getattr(library_caught.value, "code", None) == code
    assert caught.value.status == getattr(library_caught.value, "status_code", 0)


def test_an_error_inside_a_stream_has_the_same_cause() -> None:
    words = "the model failed while it was answering"
    for wire in WIRES:
        with ScriptedModel([Fault("error_event")]) as server, pytest.raises(UnavailableError, match=words):
            ask(adapter_of(wire), server.base_url, asking("Go"))
    with ScriptedModel([Fault("error_event"), Fault("error_event")]) as server, library(server) as client:
        with pytest.raises(openai.APIError, match=words):
            assert [*client.chat.completions.create(model="m", messages=[], stream=True)]
        last = [*client.responses.create(model="m", input="Go", stream=True)][-1]
    assert last.type == "error"
    assert (last.code, last.message) == ("server_error", words)
