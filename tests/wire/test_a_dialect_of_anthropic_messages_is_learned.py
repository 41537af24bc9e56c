"""A server of the anthropic-messages wire that refuses something is asked otherwise, and is not bothered with it a second time."""

from typing import Any

import msgspec
import pytest

from melete.core.message import Message, ToolResult
from melete.core.model import BadRequestError
from melete.models.spec import Quirks
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.wire.adapters import Adapter, adapter_of, ask, asking, results

BUDGET = Quirks(effort="thinking_budget")
LIMIT = "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens for m"
DISPLAY = "thinking.adaptive.display: Extra inputs are not permitted"


@pytest.fixture
def adapter() -> Adapter:
    """This wire alone."""
    return adapter_of("anthropic-messages")


def done(call: str) -> Message:
    """The result of one call."""
    return results(ToolResult(call=call, name="read_file", content="{}"))


ENABLED = (
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to '
    "control thinking behavior."
)
ASKED = {"max_output": 9000, "temperature": 0.5, "tool_choice": "none"}


@pytest.mark.parametrize(
    ("complaint", "fields", "quirks", "path", "value"),
    [
        ("temperature is deprecated for this model.", ASKED, Quirks(), "temperature", None),
        ("`temperature` may only be set to 1 when thinking is enabled.", ASKED, Quirks(), "temperature", None),
        ("tool_choice: Extra inputs are not permitted", ASKED, Quirks(), "tool_choice", None),
        (LIMIT, ASKED, Quirks(), "max_tokens", 8192),
        ("max_tokens must be at most 4,096 for this model", ASKED, Quirks(), "max_tokens", 4096),
        ("adaptive thinking is not supported on this model", {"effort": "low"}, Quirks(), "thinking.type", "enabled"),
        ("adaptive thinking is not supported on this model", {"effort": "low"}, Quirks(), "output_config", None),
        (ENABLED, {"effort": "low"}, BUDGET, "thinking.type", "adaptive"),
        (ENABLED, {"effort": "low"}, BUDGET, "output_config.effort", "low"),
        ("This model does not support the effort parameter.", {"effort": "low"}, Quirks(), "output_config", None),
        ("This model does not support the effort parameter.", {"effort": "low"}, Quirks(), "thinking", {"type": "adaptive"}),
        (DISPLAY, {"effort": "low"}, Quirks(), "thinking", {"type": "adaptive"}),
        ("system.0.cache_control: Extra inputs are not permitted", {}, Quirks(), "system.0.cache_control", None),
    ],
)  # fmt: skip
def test_a_field_that_is_refused_is_sent_otherwise_from_then_on(
    adapter: Adapter, complaint: str, fields: dict[str, Any], quirks: Quirks, path: str, value: Any
) -> None:
    request = asking("Go", **fields)
    with ScriptedModel([Fault("bad_request", message=complaint), Say("ok"), Say("ok")]) as server:
        ask(adapter, server.base_url, request, request, quirks=quirks)
        bodies = [r.json for r in server.requests]
    assert at(bodies[0], path) != value
    assert [at(body, path) for body in bodies[1:]] == [value, value]


def at(value: Any, path: str) -> Any:
    """What stands at a path such as `a.0.b`; None where it leads nowhere."""
    for name in path.split("."):
        value = value[int(name)] if isinstance(value, list) else (value or {}).get(name)
    return value


def test_a_model_without_thinking_is_found_out_in_one_request(adapter: Adapter) -> None:
    refusals = [
        Fault("bad_request", message="adaptive thinking is not supported on this model"),
        Fault("bad_request", message="'scripted-model' does not support thinking"),
    ]
    with ScriptedModel([*refusals, Say("ok"), Say("ok")]) as server:
        ask(adapter, server.base_url, asking("Go", effort="high"), asking("Go", effort="high"))
        kinds = [r.json.get("thinking", {}).get("type") for r in server.requests]
    assert kinds == ["adaptive", "enabled", None, None]


def test_a_refused_schema_is_asked_for_in_words(adapter: Adapter) -> None:
    refusal = Fault("bad_request", message="output_config.format: Extra inputs are not permitted")
    with ScriptedModel([refusal, Say("{}")]) as server:
        ask(adapter, server.base_url, asking("Go", answer_schema=msgspec.Raw(b'{"type":"object"}')))
        body = server.requests[1].json
    assert "output_config" not in body
    assert '{"type":"object"}' in body["system"][-1]["text"]


def test_refused_signatures_are_not_replayed(adapter: Adapter) -> None:
    refusal = Fault("bad_request", message="messages.1.content.0: Invalid `signature` in `thinking` block")
    with ScriptedModel([Call("read_file", {}, thinking="Hm."), refusal, Say("ok")]) as server:
        (first,) = ask(adapter, server.base_url, asking("Go"))
        ask(adapter, server.base_url, asking("Go", first.message, done(first.message.calls[0].id)))
        kinds = [[b["type"] for b in r.json["messages"][1]["content"]] for r in server.requests[1:]]
    assert kinds == [["thinking", "tool_use"], ["tool_use"]]


def test_a_server_that_dislikes_the_text_gets_ascii(adapter: Adapter) -> None:
    refusal = Fault("bad_request", message="The request body is not valid JSON: invalid unicode")
    with ScriptedModel([Say("é", thinking="ü"), refusal, Say("ok")]) as server:
        (first,) = ask(adapter, server.base_url, asking("Go"))
        ask(adapter, server.base_url, asking("ä\x00😀", first.message, "Go on"))
        before, after = server.requests[1:]
    assert (before.body.isascii(), after.body.isascii()) == (False, True)
    assert after.json["messages"][0]["content"][0]["text"] == "ä😀"
    assert after.json["messages"][1] == before.json["messages"][1]


def test_the_same_complaint_twice_is_an_error(adapter: Adapter) -> None:
    refusal = Fault("bad_request", message="thinking: I never like it")
    with ScriptedModel([refusal] * 9) as server:
        with pytest.raises(BadRequestError, match="I never like it"):
            ask(adapter, server.base_url, asking("Go", effort="low"))
        assert len(server.requests) == 3
