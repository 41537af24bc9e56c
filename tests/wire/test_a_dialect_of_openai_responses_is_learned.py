"""A server of the openai-responses wire that refuses a field is asked again without it, and not bothered with it twice."""

from typing import Any

import pytest

from melete.core.message import Image, Message, ToolResult
from melete.core.model import BadRequestError, UnknownModelError
from melete.models.spec import Quirks
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.wire.adapters import Adapter, adapter_of, ask, asking, results

VERIFIED = "Your organization must be verified to generate reasoning summaries. Please go to the settings."
SEALED = "The encrypted content gAAA...c90= could not be verified."
SEALED_ELSEWHERE = f"{SEALED} Reason: Encrypted content organization_id did not match the target organization."
NOT_KEPT = (
    "Item with id 'rs_0de7178170' not found. Items are not persisted when `store` is set to false."
    " Try again with `store` set to true, or remove this item from your input."
)


@pytest.fixture
def adapter() -> Adapter:
    """This wire alone."""
    return adapter_of("openai-responses")


def refused(adapter: Adapter, *complaints: str, status: int = 400, **fields: Any) -> list[dict[str, Any]]:
    """The bodies of a request that is refused with each complaint, then taken, then made again."""
    request = asking("Go", **fields)
    faults = [Fault("bad_request", status=status, message=complaint) for complaint in complaints]
    with ScriptedModel([*faults, Say("ok"), Say("ok")]) as server:
        ask(adapter, server.base_url, request, request, quirks=Quirks(cache_key=True))
        assert len(server.requests) == len(complaints) + 2
        return [r.json for r in server.requests]


@pytest.mark.parametrize(
    ("complaint", "gone"),
    [
        ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning"),
        ("Unsupported value: 'reasoning.effort' does not support 'minimal' with this model.", "reasoning"),
        ("Unknown parameter: 'reasoning'.", "reasoning"),
        ("Model grok-4 does not support parameter reasoningEffort.", "reasoning"),
        ("tool_choice is not supported", "tool_choice"),
        ("Encrypted content is not supported with this model.", "include"),
        ("Unknown parameter: 'include'.", "include"),
        ("Unsupported parameter: max_output_tokens", "max_output_tokens"),
        ("prompt_cache_key: extra fields not permitted", "prompt_cache_key"),
    ],
)
def test_a_field_that_is_refused_is_left_out_from_then_on(adapter: Adapter, complaint: str, gone: str) -> None:
    fields = {"max_output": 99, "temperature": 0.5, "effort": "low", "tool_choice": "none", "cache_key": "k"}
    first, *others = refused(adapter, complaint, **fields)
    assert gone in first
    for body in others:
        assert set(first) - {gone} == set(body)


@pytest.mark.parametrize("complaint", [VERIFIED, "Unsupported parameter: 'reasoning.summary' is not supported."])
def test_a_summary_that_is_refused_leaves_the_effort(adapter: Adapter, complaint: str) -> None:
    first, *others = refused(adapter, complaint, effort="low")
    assert first["reasoning"] == {"effort": "low", "summary": "auto"}
    assert [body["reasoning"] for body in others] == [{"effort": "low"}] * 2


@pytest.mark.parametrize(
    "complaint",
    [
        "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 128000, but got 900000 instead.",
        "max_output_tokens is too large: 900000. This model supports at most 128,000 completion tokens, whereas you"
        " provided 900000.",
    ],
)
def test_the_most_that_a_model_may_write_is_learned(adapter: Adapter, complaint: str) -> None:
    bodies = refused(adapter, complaint, max_output=900_000)
    assert [body["max_output_tokens"] for body in bodies] == [900_000, 128_000, 128_000]


def test_several_complaints_are_heeded_one_after_the_other(adapter: Adapter) -> None:
    complaints = ("'temperature' is not supported", VERIFIED, "Encrypted content is not supported with this model.")
    last = refused(adapter, *complaints, temperature=0.5, effort="low")[-1]
    assert last["reasoning"] == {"effort": "low"}
    assert not {"temperature", "include"} & set(last)


def replayed(adapter: Adapter, *refusals: Fault) -> list[list[dict[str, Any]]]:
    """What each request replays of an answer that thought, spoke and called, while the server refuses it."""
    call = Call("read_file", {"path": "x"}, thinking="Hm.", text="Look.", extra={"phase": "commentary"})
    with ScriptedModel([call, *refusals, Say("ok")]) as server:
        (reply,) = ask(adapter, server.base_url, asking("Go"))
        done = results(ToolResult(call=reply.message.calls[0].id, name="read_file", content="{}"))
        ask(adapter, server.base_url, asking("Go", reply.message, done))
        return [r.json["input"][1:-1] for r in server.requests[1:]]


@pytest.mark.parametrize("status", [400, 404])
def test_ids_that_the_server_does_not_know_are_left_out(adapter: Adapter, status: int) -> None:
    first, second = replayed(adapter, Fault("bad_request", status=status, message=NOT_KEPT))
    assert [i["id"] for i in first] == ["rs_0", "msg_0", "fc_0_0"]
    assert second == [{name: value for name, value in item.items() if name != "id"} for item in first]
    assert second[0]["encrypted_content"]


@pytest.mark.parametrize("complaint", [SEALED, SEALED_ELSEWHERE, "input[1].phase: Extra inputs are not permitted"])
def test_reasoning_and_fields_that_are_refused_are_not_replayed(adapter: Adapter, complaint: str) -> None:
    first, second = replayed(adapter, Fault("bad_request", message=complaint))
    assert first[0]["type"] == "reasoning"
    assert second == [
        {"type": "message", "role": "assistant", "content": "Look."},
        {"type": "function_call", "call_id": "call_0_0", "name": "read_file", "arguments": '{"path": "x"}'},
    ]


def test_items_that_are_refused_without_their_ids_too_are_rebuilt(adapter: Adapter) -> None:
    missing = "Item 'msg_0' of type 'message' was provided without its required 'reasoning' item: 'rs_0'."
    refusals = [Fault("bad_request", message=m) for m in (missing, missing)]
    first, second, third = replayed(adapter, *refusals)
    assert [len(first), len(second), len(third)] == [3, 3, 2]
    assert "id" not in second[0]


def test_reasoning_without_its_sealed_form_goes_with_its_id(adapter: Adapter) -> None:
    refusals = [
        Fault("bad_request", message="Encrypted content is not supported with this model."),
        Call("read_file", {}, thinking="Hm."),
        Fault("bad_request", status=404, message=NOT_KEPT),
        Say("ok"),
    ]
    with ScriptedModel(refusals) as server:
        (reply,) = ask(adapter, server.base_url, asking("Go"))
        ask(adapter, server.base_url, asking("Go", reply.message), quirks=Quirks(encrypted=False))
        kinds = [[i["type"] for i in r.json["input"]] for r in server.requests[2:]]
    assert kinds == [
        ["message", "reasoning", "function_call", "function_call_output"],
        ["message", "function_call", "function_call_output"],
    ]


@pytest.mark.parametrize("complaint", ["Output of tool call should be 'Input text'", "Invalid type for 'input'."])
def test_images_that_are_refused_in_a_result_follow_it(adapter: Adapter, complaint: str) -> None:
    with ScriptedModel([Call("look", {}), Fault("bad_request", message=complaint), Say("ok")]) as server:
        (reply,) = ask(adapter, server.base_url, asking("Go"))
        shown = ToolResult(call=reply.message.calls[0].id, name="look", content="{}", images=(Image(data="aGk="),))
        ask(adapter, server.base_url, asking("Go", reply.message, results(shown)))
        items = server.requests[2].json["input"]
    assert items[2]["output"] == "{}"
    assert items[3]["role"] == "user"
    assert items[3]["content"][1]["image_url"] == "data:image/png;base64,aGk="


def test_the_same_complaint_twice_is_an_error(adapter: Adapter) -> None:
    refusal = Fault("bad_request", message="temperature must be 1")
    with ScriptedModel([refusal, refusal, refusal]) as server:
        with pytest.raises(BadRequestError, match="temperature must be 1"):
            ask(adapter, server.base_url, asking("Go", temperature=0.5))
        assert len(server.requests) == 2


def test_a_model_that_does_not_exist_teaches_nothing(adapter: Adapter) -> None:
    refusal = Fault("unknown_model", message="The requested model 'x' does not exist.")
    with ScriptedModel([refusal, refusal]) as server:
        with pytest.raises(UnknownModelError):
            ask(adapter, server.base_url, asking("Go", Message(role="assistant", parts=()), effort="low"))
        assert len(server.requests) == 1
