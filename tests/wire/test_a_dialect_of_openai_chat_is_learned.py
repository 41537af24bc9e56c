"""A server that refuses a field is asked again without it, and is not bothered with it a second time."""

import pytest

from melete.core.message import Message, Text, ToolCall, Wire
from melete.core.model import BadRequestError
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.wire.adapters import Adapter, adapter_of, ask, asking


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
