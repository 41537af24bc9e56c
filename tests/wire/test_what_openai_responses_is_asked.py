"""Requests of the openai-responses wire: what is sent, and that it only grows."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from melete.core.message import Audio, File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult, Wire, user
from melete.core.model import Capabilities
from melete.models.spec import Quirks
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from tests.wire.adapters import KEY, TOOL, Adapter, adapter_of, answered, ask, asking, assistant, results, sent, spec

CALL = ToolCall(id="call_a", name="read_file", arguments='{"path":"a.txt"}')
OTHER = ToolCall(id="call_b", name="read_file", arguments='{"path":"b.txt"}')
RESULT = ToolResult(call="call_a", name="read_file", content='{"content":"A"}')
SCHEMA = msgspec.Raw(b'{"type":"object"}')
PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}
SERVER_SIDE = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}


@pytest.fixture
def adapter() -> Adapter:
    """This wire alone."""
    return adapter_of("openai-responses")


def said(*content: dict[str, Any] | str) -> dict[str, Any]:
    """A user's message as this wire has it."""
    items = [{"type": "input_text", "text": item} if isinstance(item, str) else item for item in content]
    return {"type": "message", "role": "user", "content": items}


def own(*items: dict[str, Any], provider: str = "127.0.0.1", parts: tuple[Part, ...] = ()) -> Message:
    """A model's message with these items of its own."""
    wire = Wire(name="openai-responses", body=msgspec.Raw(msgspec.json.encode(items)), provider=provider)
    return Message(role="assistant", parts=parts, wire=wire)


def test_tools_instructions_and_input_arrive(adapter: Adapter) -> None:
    body = sent(adapter, asking("Hello", system=("One.", "", "Two.")))
    assert body == {
        "model": "scripted-model",
        "tools": [
            {
                "type": "function",
                "name": "read_file",
                "description": "Read a file.",
                "parameters": json.loads(bytes(TOOL.parameters)),
                "strict": False,
            }
        ],
        "instructions": "One.\n\nTwo.",
        "input": [said("Hello")],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


def test_without_a_system_text_there_are_no_instructions(adapter: Adapter) -> None:
    assert "instructions" not in sent(adapter, asking("Hello", system=()))


def test_the_key_travels_in_the_header_only(adapter: Adapter) -> None:
    with ScriptedModel([Say("ok")]) as server:
        ask(adapter, server.base_url, asking("Hello"), headers={"X-Team": "blue"})
        request = server.requests[0]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-team"] == "blue"
    assert KEY.encode() not in request.body


def test_an_azure_address_keeps_its_query_and_its_key_header(adapter: Adapter) -> None:
    with ScriptedModel([Say("ok")]) as server:
        base = server.base_url.replace("/v1", "/openai/v1/?api-version=preview")
        ask(adapter, base, asking("Hello"), quirks=Quirks(key_header="api-key"))
        request = server.requests[0]
    assert request.target == "/openai/v1/responses?api-version=preview"
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers


def test_what_was_asked_for_is_sent_in_this_apis_words(adapter: Adapter) -> None:
    request = asking(
        "Hello",
        max_output=700,
        temperature=0.5,
        effort="low",
        answer_schema=SCHEMA,
        cache_key="k1",
        tool_choice="required",
    )
    body = sent(adapter, request, service_tier="flex", quirks=Quirks(cache_key=True))
    assert body["max_output_tokens"] == 700
    assert body["temperature"] == 0.5
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert body["text"] == {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}}
    assert body["prompt_cache_key"] == "k1"
    assert body["service_tier"] == "flex"
    assert body["tool_choice"] == "required"


def test_a_limit_that_the_api_refuses_as_too_small_is_raised_to_the_least(adapter: Adapter) -> None:
    assert sent(adapter, asking("Hello", max_output=5))["max_output_tokens"] == 16


@pytest.mark.parametrize("field", ["max_output", "temperature", "effort", "answer_schema"])
def test_what_was_not_asked_for_is_not_sent(adapter: Adapter, field: str) -> None:
    values = {"max_output": 70, "temperature": 0.5, "effort": "low", "answer_schema": SCHEMA}
    plain = sent(adapter, asking("Hello"))
    asked = sent(adapter, asking("Hello", **{field: values[field]}))
    assert len(set(asked) - set(plain)) == 1


def test_the_grace_call_keeps_the_tools(adapter: Adapter) -> None:
    body = sent(adapter, asking("Hello", tool_choice="none"))
    assert body["tool_choice"] == "none"
    assert len(body["tools"]) == 1


def test_prefill_and_ephemeral_text_are_added_at_call_time(adapter: Adapter) -> None:
    body = sent(adapter, asking("Now", prefill=(user("Earlier"), assistant("Indeed")), ephemeral="For now only."))
    assert body["instructions"] == "Be brief.\n\nFor now only."
    assert body["input"] == [
        said("Earlier"),
        {"type": "message", "role": "assistant", "content": "Indeed"},
        said("Now"),
    ]


def test_images_and_files_go_in_as_data_and_sounds_are_named(adapter: Adapter) -> None:
    parts = (
        Text(text="What is this?"),
        Image(data="aGk="),
        Image(url="https://example.org/a.png"),
        File(media_type="application/pdf", name="a.pdf", data="aGk="),
        Audio(media_type="audio/wav", data="aGk="),
    )
    content = sent(adapter, asking(Message(role="user", parts=parts)))["input"][0]["content"]
    assert content[0] == {"type": "input_text", "text": "What is this?"}
    assert content[1] == PICTURE
    assert content[2]["image_url"] == "https://example.org/a.png"
    assert content[3] == {
        "type": "input_file",
        "filename": "a.pdf",
        "file_data": "data:application/pdf;base64,aGk=",
    }
    assert "sound was left out" in content[4]["text"]


def test_a_model_without_eyes_is_told_that_there_was_an_image(adapter: Adapter) -> None:
    message = Message(role="user", parts=(Image(data="aGk="),))
    shown = ToolResult(call="call_a", name="look", content="{}", images=(Image(data="aGk="),))
    request = asking(message, assistant("", CALL), results(shown))
    body = sent(adapter, request, can=Capabilities(images=False))
    assert b"aGk=" not in msgspec.json.encode(body)
    assert "image was left out" in body["input"][0]["content"][0]["text"]
    assert body["input"][2]["output"] == "{}"
    assert "image was left out" in body["input"][3]["content"][1]["text"]


def test_images_of_a_result_stand_in_the_result(adapter: Adapter) -> None:
    shown = ToolResult(call="call_a", name="look", content='{"ok":1}', images=(Image(data="aGk="),))
    other = ToolResult(call="call_b", name="read_file", content="{}")
    items = sent(adapter, asking("Go", assistant("", CALL, OTHER), results(shown, other)))["input"][1:]
    assert [i["type"] for i in items] == ["function_call"] * 2 + ["function_call_output"] * 2
    assert items[2]["output"] == [{"type": "input_text", "text": '{"ok":1}'}, PICTURE]
    assert items[3]["output"] == "{}"


def test_a_conversation_from_another_provider_is_rebuilt(adapter: Adapter) -> None:
    thought = Message(role="assistant", parts=(Thinking(text="Hm."), Text(text="Let me see."), CALL))
    items = sent(adapter, asking("Go", thought, results(RESULT), assistant("A.")))["input"]
    assert items[1:] == [
        {"type": "message", "role": "assistant", "content": "Let me see."},
        {"type": "function_call", "call_id": "call_a", "name": "read_file", "arguments": '{"path":"a.txt"}'},
        {"type": "function_call_output", "call_id": "call_a", "output": '{"content":"A"}'},
        {"type": "message", "role": "assistant", "content": "A."},
    ]


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses"])
def test_bytes_of_another_wire_or_provider_are_not_replayed(adapter: Adapter, wire: str) -> None:
    foreign = Wire(name=wire, body=msgspec.Raw(b'[{"secret_block":1}]'), provider="elsewhere")
    message = Message(role="assistant", parts=(Text(text="Hi"), CALL), wire=foreign)
    items = sent(adapter, asking("Go", message))["input"]
    assert items[1] == {"type": "message", "role": "assistant", "content": "Hi"}
    assert b"secret_block" not in msgspec.json.encode(items)


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
    items = sent(adapter, asking(*history))["input"]
    kinds = ["function_call"] * 2 + ["function_call_output"] * 2
    assert [i["type"] for i in items] == ["message", *kinds, "message", "message", "message"]
    assert [i["call_id"] for i in items[1:5]] == ["call_a", "call_b"] * 2
    assert items[3]["output"] == '{"content":"A"}'
    assert "unknown" in items[4]["output"]
    assert [c["text"] for c in items[7]["content"]] == ["(result of a call that is not shown)", "lost and found"]


def test_ids_and_names_that_the_api_refuses_are_mapped_always_to_the_same(adapter: Adapter) -> None:
    long = ToolCall(id="toolu " + "x" * 90, name="functions.read file", arguments="{}")
    other = ToolCall(id="toolu " + "y" * 90, name="read_file", arguments="{}")
    done = [ToolResult(call=c.id, name=c.name, content="{}") for c in (long, other)]
    request = asking("Go", assistant("", long, other), results(*done))
    items = sent(adapter, request)["input"][1:]
    ids = [i["call_id"] for i in items]
    assert ids[:2] == ids[2:]
    assert len(set(ids)) == 2
    assert all(len(i) <= 64 and i.startswith("call_") for i in ids)
    assert items[0]["name"] == "functions_read_file"
    assert sent(adapter, request)["input"][1:] == items


def test_an_id_that_the_server_itself_gave_stays_as_it_is(adapter: Adapter) -> None:
    given = "call_" + "z" * 200
    with ScriptedModel([Call("read_file", {}, id=given), Say("ok")]) as server:
        (reply,) = ask(adapter, server.base_url, asking("Go"))
        done = results(ToolResult(call=given, name="read_file", content="{}"))
        ask(adapter, server.base_url, asking("Go", reply.message, done))
        assert [i["call_id"] for i in server.requests[1].json["input"][1:]] == [given, given]


@pytest.mark.parametrize("message", [assistant(""), own(), own({"id": "rs_1", "type": "reasoning", "summary": []})])
def test_an_empty_answer_is_sent_back_as_empty(adapter: Adapter, message: Message) -> None:
    items = sent(adapter, asking("Go", message, "Again"))["input"]
    assert items[1] == {"type": "message", "role": "assistant", "content": "(empty)"}
    assert items[2] == said("Again")


def test_an_empty_question_is_sent_as_empty(adapter: Adapter) -> None:
    assert sent(adapter, asking(""))["input"] == [said("(empty)")]


@pytest.mark.parametrize("arguments", ['{"path": ', "[1]", '{"path": ' + "[" * 9000 + "]" * 9000 + "}"])
def test_arguments_that_are_no_object_are_not_sent_back(adapter: Adapter, arguments: str) -> None:
    broken = ToolCall(id="call_a", name="read_file", arguments=arguments)
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_a", "name": "read_file", "arguments": arguments}
    for message in (assistant("", broken), own(item, parts=(broken,))):
        items = sent(adapter, asking("Go", message, results(RESULT)))["input"]
        assert items[1]["arguments"] == "{}"


def test_reasoning_that_nothing_follows_is_not_sent_back(adapter: Adapter) -> None:
    """The API refuses it; it is what an answer that ran into its limit ends with."""
    thought = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gA"}
    words = {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    message = own(thought, words, {**thought, "id": "rs_2"}, parts=(Text(text="Hi"),))
    assert sent(adapter, asking("Go", message, "On"))["input"][1:3] == [thought, words]


def test_lone_surrogates_are_stripped_and_pairs_joined(adapter: Adapter) -> None:
    body = sent(adapter, asking("a\udc80b \ud83d\ude00", system=("s\ud800",)))
    assert (body["instructions"], body["input"]) == ("s", [said("ab 😀")])


def test_a_server_that_dislikes_the_text_gets_ascii(adapter: Adapter) -> None:
    refusal = Fault("bad_request", message="unsupported Unicode escape sequence in the input")
    with ScriptedModel([Say("ä"), refusal, Say("ok")]) as server:
        (reply,) = ask(adapter, server.base_url, asking("é"))
        ask(adapter, server.base_url, asking("é\x00😀", reply.message, "On"))
        assert [r.body.isascii() for r in server.requests] == [False, False, True]
        assert server.requests[2].json["input"][0] == said("é😀")
        assert server.requests[2].json["input"][1]["content"][0]["text"] == "ä"


def test_the_models_own_items_go_back_byte_for_byte(adapter: Adapter) -> None:
    extra = {"items": [SERVER_SIDE], "phase": "commentary", "vendor": {"x": [1]}}
    script = [Call("read_file", {"path": "ä"}, text="Let me see.", thinking="Hm.", extra=extra), Say("ok")]
    with ScriptedModel(script) as server:
        (reply,) = ask(adapter, server.base_url, asking("Hello"))
        (call,) = reply.message.calls
        done = results(ToolResult(call=call.id, name=call.name, content="{}"))
        ask(adapter, server.base_url, asking("Hello", reply.message, done))
        request = server.requests[1]
    assert reply.message.wire is not None
    assert bytes(reply.message.wire.body)[1:-1] in request.body
    thought, searched, words, called, output = request.json["input"][1:]
    assert thought["encrypted_content"] == "gAAAAAB0_scripted=="
    assert thought["id"] == "rs_0"
    assert searched == SERVER_SIDE
    assert (words["phase"], words["vendor"], words["status"]) == ("commentary", {"x": [1]}, "completed")
    assert called["call_id"] == output["call_id"] == call.id


def test_the_prefix_only_grows(adapter: Adapter) -> None:
    async def main(base_url: str) -> None:
        client: Any = adapter.open(spec(base_url))
        request, before = asking("Begin"), b""
        for turn in range(7):
            grace = msgspec.structs.replace(request, tool_choice="none" if turn == 3 else "auto")
            prefix = client.prefix_bytes(grace)
            assert prefix.startswith(before)
            reply = await answered(client, grace)
            before = prefix
            done = (results(*(ToolResult(call=c.id, name=c.name, content="{}") for c in reply.message.calls)),)
            more = (reply.message, *(done if reply.message.calls else (user("Go on"),)))
            request = msgspec.structs.replace(request, messages=request.messages + more)
        await client.aclose()

    script = [
        Call("read_file", {"path": "ä"}, thinking="Hm."),
        Say("one"),
        Calls([Call("a"), Call("b")]),
        Fault("empty"),
        Fault("malformed_arguments"),
        Say("two", thinking="So.", stop="length"),
        Say(""),
    ]
    with ScriptedModel(script) as server:
        asyncio.run(main(server.base_url))
        bodies = [r.body for r in server.requests]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier[: earlier.index(b'],"stream"')])
