"""Requests: what is sent, and that it only grows."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from melete.core.message import Image, Message, Text, ToolCall, ToolResult, user
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from tests.wire.adapters import KEY, TOOL, Adapter, adapter_of, answered, ask, asking, assistant, results, sent, spec


@pytest.fixture
def adapter() -> Adapter:
    """This wire alone."""
    return adapter_of("openai-chat")


CALL = ToolCall(id="call_a", name="read_file", arguments='{"path":"a.txt"}')
OTHER = ToolCall(id="call_b", name="read_file", arguments='{"path":"b.txt"}')
RESULT = ToolResult(call="call_a", name="read_file", content='{"content":"A"}')


def test_tools_system_and_messages_arrive(adapter: Adapter) -> None:
    body = sent(adapter, asking("Hello", system=("One.", "", "Two.")))
    assert body["model"] == "scripted-model"
    assert body["messages"] == [{"role": "system", "content": "One.\n\nTwo."}, {"role": "user", "content": "Hello"}]
    assert body["tools"][0]["function"] == {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": json.loads(bytes(TOOL.parameters)),
    }
    assert "tool_choice" not in body


def test_the_key_travels_in_the_header_only(adapter: Adapter) -> None:
    with ScriptedModel([Say("ok")]) as server:
        ask(adapter, server.base_url, asking("Hello"), headers={"X-Team": "blue"})
        request = server.requests[0]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-team"] == "blue"
    assert KEY.encode() not in request.body


def test_the_grace_call_keeps_the_tools(adapter: Adapter) -> None:
    body = sent(adapter, asking("Hello", tool_choice="none"))
    assert body["tool_choice"] == "none"
    assert len(body["tools"]) == 1


def test_prefill_and_ephemeral_text_are_added_at_call_time(adapter: Adapter) -> None:
    body = sent(adapter, asking("Now", prefill=(user("Earlier"), assistant("Indeed")), ephemeral="For now only."))
    assert [m["content"] for m in body["messages"]] == ["Be brief.\n\nFor now only.", "Earlier", "Indeed", "Now"]


def test_images_go_in_as_data(adapter: Adapter) -> None:
    picture = Image(media_type="image/png", data="aGk=")
    message = Message(role="user", parts=(Text(text="What is this?"), picture))
    content = sent(adapter, asking(message))["messages"][1]["content"]
    assert content[0] == {"type": "text", "text": "What is this?"}
    assert content[1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def test_images_of_a_result_follow_all_results(adapter: Adapter) -> None:
    shown = ToolResult(call="call_a", name="look", content="{}", images=(Image(data="aGk="),))
    other = ToolResult(call="call_b", name="read_file", content="{}")
    messages = sent(adapter, asking("Go", assistant("", CALL, OTHER), results(shown, other)))["messages"][1:]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[-1]["content"][-1]["image_url"]["url"].endswith("base64,aGk=")


def test_a_conversation_from_another_provider_is_rebuilt(adapter: Adapter) -> None:
    messages = sent(adapter, asking("Go", assistant("Let me see.", CALL), results(RESULT), assistant("A.")))["messages"]
    assert messages[2] == {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "call_a", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"a.txt"}'}}
        ],
    }
    assert messages[3] == {"role": "tool", "tool_call_id": "call_a", "content": '{"content":"A"}'}
    assert messages[4] == {"role": "assistant", "content": "A."}


def test_calls_and_results_are_sent_as_pairs_whatever_the_history(adapter: Adapter) -> None:
    orphan = ToolResult(call="gone", name="read_file", content="lost and found")
    history = (
        user("Go"),
        assistant("", CALL, OTHER),
        user("Wait"),
        results(RESULT),
        assistant("Done"),
        results(orphan),
    )
    messages = sent(adapter, asking(*history))["messages"][1:]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "user", "assistant", "user"]
    assert [m.get("tool_call_id") for m in messages[2:4]] == ["call_a", "call_b"]
    assert messages[2]["content"] == '{"content":"A"}'
    assert "unknown" in messages[3]["content"]
    assert "lost and found" in messages[6]["content"]


def test_an_empty_answer_is_sent_back_as_empty(adapter: Adapter) -> None:
    assert sent(adapter, asking("Go", assistant(""), "Again"))["messages"][2] == {
        "role": "assistant",
        "content": "(empty)",
    }


@pytest.mark.parametrize("arguments", ['{"path": ', '{"path": ' + "[" * 9000 + "]" * 9000 + "}"])
def test_arguments_that_are_no_object_are_not_sent_back(adapter: Adapter, arguments: str) -> None:
    broken = ToolCall(id="call_a", name="read_file", arguments=arguments)
    messages = sent(adapter, asking("Go", assistant("", broken), results(RESULT)))["messages"]
    assert messages[2]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_lone_surrogates_are_stripped_and_pairs_joined(adapter: Adapter) -> None:
    body = sent(adapter, asking("a\udc80b \ud83d\ude00", system=("s\ud800",)))
    assert [m["content"] for m in body["messages"]] == ["s", "ab 😀"]


def test_a_server_that_dislikes_the_text_gets_ascii(adapter: Adapter) -> None:
    refusal = Fault("bad_request", message="unsupported Unicode escape sequence in the input")
    with ScriptedModel([refusal, Say("ok"), Say("ok")]) as server:
        first = asking("é\x00😀")
        ask(adapter, server.base_url, first, first)
        assert [r.body.isascii() for r in server.requests] == [False, True, True]
        assert server.requests[1].json["messages"][1]["content"] == "é😀"


def test_the_models_own_message_goes_back_with_every_field(adapter: Adapter) -> None:
    extra = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "QUJD", "index": 0}], "vendor": {"x": [1]}}
    first = asking("Hello")
    with ScriptedModel([Call("read_file", {"path": "a.txt"}, thinking="Hm.", extra=extra), Say("ok")]) as server:
        (reply,) = ask(adapter, server.base_url, first)
        (call,) = reply.message.calls
        done = results(ToolResult(call=call.id, name=call.name, content="{}"))
        ask(adapter, server.base_url, asking("Hello", reply.message, done))
        back = server.requests[1].json["messages"][2]
    assert reply.message.wire is not None
    assert back == msgspec.json.decode(reply.message.wire.body)
    assert back["reasoning_content"] == "Hm."
    assert back["reasoning_details"] == extra["reasoning_details"]
    assert back["vendor"] == extra["vendor"]


def test_the_prefix_only_grows(adapter: Adapter) -> None:
    async def main(base_url: str) -> None:
        client: Any = adapter.open(spec(base_url))
        request, before = asking("Begin"), b""
        for _ in range(6):
            prefix = client.prefix_bytes(request)
            assert prefix.startswith(before)
            reply = await answered(client, request)
            before = prefix
            done = (results(*(ToolResult(call=c.id, name=c.name, content="{}") for c in reply.message.calls)),)
            more = (reply.message, *(done if reply.message.calls else (user("Go on"),)))
            request = msgspec.structs.replace(request, messages=request.messages + more)
        await client.aclose()

    script = [
        Call("read_file", {"path": "ä"}),
        Say("one"),
        Calls([Call("a"), Call("b")]),
        Fault("empty"),
        Say("two"),
        Say(""),
    ]
    with ScriptedModel(script) as server:
        asyncio.run(main(server.base_url))
        bodies = [r.body for r in server.requests]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier[: earlier.index(b'],"stream"')])


@pytest.mark.parametrize("field", ["max_output", "temperature", "effort", "answer_schema"])
def test_what_was_not_asked_for_is_not_sent(adapter: Adapter, field: str) -> None:
    values = {"max_output": 7, "temperature": 0.5, "effort": "low", "answer_schema": msgspec.Raw(b'{"type":"object"}')}
    plain = sent(adapter, asking("Hello"))
    asked = sent(adapter, asking("Hello", **{field: values[field]}))
    assert len(set(asked) - set(plain)) == 1
