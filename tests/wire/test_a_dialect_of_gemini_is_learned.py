"""A server of the gemini wire that refuses a field is asked again in another way, and is not bothered with it a second time."""

from typing import Any

import msgspec
import pytest

from melete.core.event import ToolSchema
from melete.core.message import Message, ToolCall, ToolResult
from melete.core.model import BadRequestError
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.wire.adapters import Adapter, adapter_of, ask, asking, assistant, results

Json = dict[str, Any]
SCHEMA = msgspec.Raw(
    b'{"type":"object","additionalProperties":false,"properties":{"to":{"$ref":"#/$defs/to"},"n":{"type":["integer","null"]}},'
    b'"required":["to"],"$defs":{"to":{"const":"x"}}}'
)
REDUCED = {
    "type": "OBJECT",
    "properties": {"to": {"type": "STRING", "enum": ["x"]}, "n": {"type": "INTEGER", "nullable": True}},
    "required": ["to"],
}
TOOLS = (
    ToolSchema(name="send", about="Send it.", parameters=SCHEMA),
    ToolSchema(name="wait", about="Wait.", parameters=msgspec.Raw(b'{"type":"object","properties":{}}')),
)


@pytest.fixture
def adapter() -> Adapter:
    """This wire alone."""
    return adapter_of("gemini")


def bodies(adapter: Adapter, *refusals: str, **fields: Any) -> list[Json]:
    """The JSON of a request that is refused with each of these words, and of the next one."""
    request = asking("Go", **({"tools": TOOLS} | fields))
    script = [*(Fault("bad_request", message=words) for words in refusals), Say("ok"), Say("ok")]
    with ScriptedModel(script) as server:
        ask(adapter, server.base_url, request, request)
        found = [r.json for r in server.requests]
    assert len(found) == len(refusals) + 2
    assert found[-1] == found[-2], "what was learned is kept"
    return found


def thinking(body: Json) -> Json:
    return body["generationConfig"].get("thinkingConfig", {})


@pytest.mark.parametrize(
    ("complaint", "before", "after"),
    [
        (
            "Thinking level is not supported for this model.",
            {"includeThoughts": True, "thinkingLevel": "low"},
            {"includeThoughts": True, "thinkingBudget": 1024},
        ),
        ("Thinking is not enabled for models/gemma-3-27b-it", {"includeThoughts": True, "thinkingLevel": "low"}, {}),
    ],
)
def test_effort_is_said_in_another_way(adapter: Adapter, complaint: str, before: Json, after: Json) -> None:
    first, second, _ = bodies(adapter, complaint, effort="low", temperature=1.0)
    assert (thinking(first), thinking(second)) == (before, after)


def test_a_temperature_that_is_refused_is_left_out(adapter: Adapter) -> None:
    first, second, _ = bodies(adapter, "temperature is fixed for this model", temperature=0.5)
    assert first["generationConfig"].pop("temperature") == 0.5
    assert first == second


def test_a_choice_of_tools_that_is_refused_is_left_out(adapter: Adapter) -> None:
    first, second, _ = bodies(
        adapter, "Function calling mode ANY is not supported by this model.", tool_choice="required"
    )
    del first["toolConfig"]
    assert first == second


def test_the_most_output_is_what_the_server_names(adapter: Adapter) -> None:
    complaint = (
        "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 "
        "(inclusive) to 65537 (exclusive). Update the value and try again."
    )
    assert [b["generationConfig"]["maxOutputTokens"] for b in bodies(adapter, complaint, max_output=100_000)] == [
        100_000,
        65_536,
        65_536,
    ]


def unknown(name: str, place: str) -> str:
    """How Google tells of a field that it does not know."""
    return f"Invalid JSON payload received. Unknown name \"{name}\" at '{place}': Cannot find field."


@pytest.mark.parametrize(
    "complaint",
    [
        unknown("parametersJsonSchema", "tools[0].function_declarations[0]"),
        unknown("responseJsonSchema", "generation_config"),
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters_json_schema: $ref is not supported",
    ],
)
def test_schemas_are_cut_down_for_a_server_that_knows_no_json_schema(adapter: Adapter, complaint: str) -> None:
    first, second, _ = bodies(adapter, complaint, answer_schema=SCHEMA)
    whole = msgspec.json.decode(SCHEMA)
    assert first["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == whole
    assert first["generationConfig"]["responseJsonSchema"] == whole
    assert second["tools"][0]["functionDeclarations"] == [
        {"name": "send", "description": "Send it.", "parameters": REDUCED},
        {"name": "wait", "description": "Wait."},
    ]
    assert second["generationConfig"]["responseSchema"] == REDUCED
    assert "responseJsonSchema" not in second["generationConfig"]


def test_an_answers_schema_is_told_in_words_where_tools_forbid_its_field(adapter: Adapter) -> None:
    complaint = "Function calling with a response mime type: 'application/json' is unsupported"
    first, second, _ = bodies(adapter, complaint, answer_schema=SCHEMA, ephemeral="Now.")
    assert first["generationConfig"]["responseMimeType"] == "application/json"
    assert not {"responseMimeType", "responseJsonSchema"} & set(second["generationConfig"])
    told = [part["text"] for part in second["systemInstruction"]["parts"]]
    assert bytes(SCHEMA).decode() in told[1]
    assert told[2] == "Now."
    assert first["tools"] == second["tools"]


CALL = ToolCall(id="call_a", name="send", arguments='{"to":"x"}')
MISSING = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and "
    "missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:send`."
)


def contents(adapter: Adapter, message: Message, *refusals: str) -> list[Json]:
    """A model's message as it is sent when a request with it is refused with each of these words."""
    done = results(*(ToolResult(call=call.id, name=call.name, content="{}") for call in message.calls))
    with ScriptedModel([*(Fault("bad_request", message=words) for words in refusals), Say("ok")]) as server:
        ask(adapter, server.base_url, asking("Go", message, done, tools=TOOLS), provider="google")
        return [r.json["contents"][1] for r in server.requests]


def signatures(content: Json) -> list[str]:
    return [part.get("thoughtSignature", "") for part in content["parts"]]


def came(adapter: Adapter, reply: Call) -> Message:
    """A message that this wire brought."""
    with ScriptedModel([reply]) as server:
        return ask(adapter, server.base_url, asking("Go"), provider="google")[0].message


def test_a_call_of_another_model_gets_a_signature_that_stands_for_none(adapter: Adapter) -> None:
    foreign = assistant("So.", CALL, msgspec.structs.replace(CALL, id="call_b"))
    first, second = contents(adapter, foreign, MISSING)
    assert signatures(first) == ["", "", ""]
    assert signatures(second) == ["", "skip_thought_signature_validator", ""]


def test_a_missing_signature_may_be_told_as_a_reason_to_stop(adapter: Adapter) -> None:
    stopped = '{"candidates":[{"finishReason":"MISSING_THOUGHT_SIGNATURE"}]}'
    with ScriptedModel([Fault("status", status=200, body=stopped), Say("ok")]) as server:
        (reply,) = ask(adapter, server.base_url, asking("Go", assistant("", CALL), "On", tools=TOOLS))
        sent = [r.json["contents"][1] for r in server.requests]
    assert reply.message.text == "ok"
    assert [signatures(content) for content in sent] == [[""], ["skip_thought_signature_validator"]]


@pytest.mark.parametrize(("thinking", "left"), [("", "skip_thought_signature_validator"), ("Hm.", "c2lnbmF0dXJlIA==")])
def test_only_a_call_that_came_without_a_signature_gets_that(adapter: Adapter, thinking: str, left: str) -> None:
    _, second = contents(adapter, came(adapter, Call("send", {"to": "x"}, thinking=thinking)), MISSING)
    assert signatures(second)[-1] == left


@pytest.mark.parametrize(
    "complaint", ["Corrupted thought signature.", unknown("thoughtSignature", "contents[1].parts[0]"), unknown("id", "contents[1]")]
)  # fmt: skip
def test_a_message_that_is_refused_as_it_came_is_rebuilt(adapter: Adapter, complaint: str) -> None:
    first, second = contents(adapter, came(adapter, Call("send", {"to": "x"}, thinking="Hm.")), complaint)
    assert signatures(first) == ["", "c2lnbmF0dXJlIA=="]
    assert second == {"role": "model", "parts": [{"functionCall": {"name": "send", "args": {"to": "x"}}}]}


def test_one_lesson_may_lead_to_the_next(adapter: Adapter) -> None:
    message = came(adapter, Call("send", {"to": "x"}, thinking="Hm."))
    *_, last = contents(adapter, message, "Corrupted thought signature.", MISSING)
    assert signatures(last) == ["skip_thought_signature_validator"]


@pytest.mark.parametrize(
    ("complaint", "fields"),
    [("temperature must be 1", {"temperature": 0.5}), (MISSING, {}), ("no such thing as $ref in tools", {})],
)
def test_the_same_complaint_again_is_an_error(adapter: Adapter, complaint: str, fields: Json) -> None:
    with ScriptedModel([Fault("bad_request", message=complaint)] * 5) as server:
        with pytest.raises(BadRequestError):
            ask(adapter, server.base_url, asking("Go", **fields))
        assert len(server.requests) <= 3
