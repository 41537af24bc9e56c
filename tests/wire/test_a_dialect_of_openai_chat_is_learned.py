"""A server that refuses a field is asked again without it, and is not bothered with it a second time."""

import pytest

from melete.core.message import Message, Text, Thinking, ToolCall, ToolResult, Wire, user
from melete.core.model import BadRequestError
from melete.models.spec import Quirks
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.wire.adapters import Adapter, adapter_of, ask, asking, assistant, results


@pytest.fixture
def adapter() -> Adapter:
    """This wire alone."""
    return adapter_of("openai-chat")


@pytest.mark.parametrize(
    ("complaint", "gone"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
        ),
        ("Unsupported value: 'temperature' does not support 0.5 with this model.", "temperature"),
        ("stream_options: extra fields not permitted", "stream_options"),
        ("tool_choice is not supported", "tool_choice"),
        ("Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
        ("Model grok-4 does not support parameter reasoningEffort.", "reasoning_effort"),
    ],
)
def test_a_field_that_is_refused_is_left_out_from_then_on(adapter: Adapter, complaint: str, gone: str) -> None:
    request = asking("Go", max_output=9, temperature=0.5, effort="low", tool_choice="none")
    with ScriptedModel([Fault("bad_request", message=complaint), Say("ok"), Say("ok")]) as server:
        ask(adapter, server.base_url, request, request)
        bodies = [r.json for r in server.requests]
    assert gone in bodies[0]
    assert all(gone not in body for body in bodies[1:])
    assert all(set(bodies[0]) - {gone} <= set(body) for body in bodies[1:])


def test_own_fields_that_are_refused_are_not_replayed(adapter: Adapter) -> None:
    complaint = "messages.1.vendor: Extra inputs are not permitted"
    with ScriptedModel(
        [Call("read_file", {}, extra={"vendor": 1}), Fault("bad_request", message=complaint), Say("ok")]
    ) as server:
        (reply,) = ask(adapter, server.base_url, asking("Go"))
        ask(adapter, server.base_url, asking("Go", reply.message))
        assert ["vendor" in r.json["messages"][2] for r in server.requests[1:]] == [True, False]


def test_the_same_complaint_twice_is_an_error(adapter: Adapter) -> None:
    refusal = Fault("bad_request", message="temperature must be 1")
    with ScriptedModel([refusal, refusal, refusal]) as server:
        with pytest.raises(BadRequestError, match="temperature must be 1"):
            ask(adapter, server.base_url, asking("Go", temperature=0.5))
        assert len(server.requests) == 2


def test_bytes_of_another_wire_are_not_replayed(adapter: Adapter) -> None:
    foreign = Wire(name="another", body=b'{"secret_block": 1}')  # pyright: ignore[reportArgumentType]
    call = ToolCall(id="a", name="read_file", arguments="{}")
    message = Message(role="assistant", parts=(Text(text="Hi"), call), wire=foreign)
    with ScriptedModel([Say("ok")]) as server:
        ask(adapter, server.base_url, asking("Go", message))
        assert b"secret_block" not in server.requests[0].body
        assert server.requests[0].json["messages"][2]["content"] == "Hi"


CALL = ToolCall(id="call_a_of_another_vendor", name="read_file", arguments="{}")
RESULT = ToolResult(call=CALL.id, name=CALL.name, content="A")


@pytest.mark.parametrize(
    "complaint",
    [
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "Missing `reasoning_content` field in the assistant message at message index 2",
    ],
)
def test_a_server_that_wants_thoughts_back_gets_those_there_are(adapter: Adapter, complaint: str) -> None:
    thought = Message(role="assistant", parts=(Thinking(text="Hm."), CALL))
    history = (thought, results(RESULT), assistant("Done"), user("More"))
    with ScriptedModel([Fault("bad_request", message=complaint), Say("ok"), Call("read_file", {})]) as server:
        ask(adapter, server.base_url, asking("Go", *history), asking("Go", *history))
        first, second, third = (
            [m.get("reasoning_content") for m in r.json["messages"] if m["role"] == "assistant"]
            for r in server.requests
        )
    assert first == [None, None]
    assert second == third == ["Hm.", " "]


def test_a_server_that_wants_thoughts_back_gets_its_own_as_they_were(adapter: Adapter) -> None:
    with ScriptedModel([Call("read_file", {}, thinking="Well."), Say("ok")]) as server:
        changes = {"quirks": Quirks(reasoning_back=True)}
        (reply,) = ask(adapter, server.base_url, asking("Go"), **changes)
        answer = ToolResult(call=reply.message.calls[0].id, name="read_file", content="A")
        ask(adapter, server.base_url, asking("Go", reply.message, results(answer)), **changes)
        body = next(m for m in server.requests[1].json["messages"] if m["role"] == "assistant")
    assert body["reasoning_content"] == "Well."


def test_a_server_that_wants_short_ids_gets_the_same_for_a_call_and_its_result(adapter: Adapter) -> None:
    complaint = "Tool call id was call_a_of_another_vendor but must be a-z, A-Z, 0-9, with a length of 9."
    history = (assistant("", CALL), results(RESULT))
    with ScriptedModel([Fault("bad_request", message=complaint), Say("ok")]) as server:
        ask(adapter, server.base_url, asking("Go", *history))
        messages = server.requests[1].json["messages"]
    (call,), given = messages[-2]["tool_calls"], messages[-1]["tool_call_id"]
    assert call["id"] == given
    assert len(given) == 9
    assert given.isalnum()


def test_a_server_that_refuses_a_user_after_a_result_gets_a_message_in_between(adapter: Adapter) -> None:
    complaint = "Unexpected role 'user' after role 'tool'"
    history = (assistant("", CALL), results(RESULT))
    with ScriptedModel([Say("ok"), Fault("bad_request", message=complaint), Say("ok"), Say("ok")]) as server:
        requests = [asking("Go", *history), asking("Go", *history, user("And?")), asking("Go", *history, user("And?"))]
        ask(adapter, server.base_url, *requests)
        roles = [[m["role"] for m in r.json["messages"]][-3:] for r in server.requests]
    assert roles == [
        ["user", "assistant", "tool"],
        ["assistant", "tool", "user"],
        ["tool", "assistant", "user"],
        ["tool", "assistant", "user"],
    ]
