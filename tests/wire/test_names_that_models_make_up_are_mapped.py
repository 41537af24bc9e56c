"""A model that calls a tool by a name of letters that no API takes must not make its conversation one that is refused for good."""

import re
from typing import Any

import pytest

from melete.core.message import Message, ToolCall, ToolResult
from melete.testing import Call, Say, ScriptedModel
from tests.wire.adapters import ADAPTERS, Adapter, adapter_of, ask, asking, assistant, results

NAMES = {"functions.read_file", "a b/ç", "", "x" * 200}
ALLOWED = {"gemini": r"[A-Za-z0-9_.:-]{1,128}", "anthropic-messages": r"[A-Za-z0-9_-]{1,128}"}
USUAL = r"[A-Za-z0-9_-]{1,64}"


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.wire)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """Each wire of our own."""
    return request.param


def names_in(value: Any) -> set[str]:
    """The name of every call and result in a body."""
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    if not isinstance(value, dict):
        return set()
    named = {value["name"]} if {"arguments", "input", "args", "response"} & value.keys() and "name" in value else set()
    return named.union(*map(names_in, value.values()))


def conversation(wire: str, name: str, *, own: bool) -> list[Message]:
    """A call of this name with its result: the model's own words as they came, or another provider's."""
    said = assistant("", ToolCall(id="call_1", name=name, arguments="{}"))
    if own:
        with ScriptedModel([Call(name, {})]) as server:
            said = ask(adapter_of(wire), server.base_url, asking("Go"))[0].message
    assert said.calls[0].name == name
    return [said, results(ToolResult(call=said.calls[0].id, name=name, content="{}"))]


@pytest.mark.parametrize("own", [True, False], ids=["own", "foreign"])
@pytest.mark.parametrize("name", sorted(NAMES), ids=lambda name: name[:20] or "empty")
def test_names_are_sent_back_in_the_alphabet_of_the_api(adapter: Adapter, name: str, own: bool) -> None:
    messages = conversation(adapter.wire, name, own=own)
    with ScriptedModel([Say("Ok.")]) as server:
        ask(adapter, server.base_url, asking("Go", *messages, tools=()))
        (sent,) = names_in(server.requests[0].json)
    assert re.fullmatch(ALLOWED.get(adapter.wire, USUAL), sent), sent


def test_a_name_that_the_api_takes_stays(adapter: Adapter) -> None:
    messages = conversation(adapter.wire, "open_pod-bay_doors", own=True)
    with ScriptedModel([Say("Ok.")]) as server:
        ask(adapter, server.base_url, asking("Go", *messages, tools=()))
        assert names_in(server.requests[0].json) == {"open_pod-bay_doors"}


def test_a_gemini_conversation_begins_with_a_users_words() -> None:
    with ScriptedModel([Say("Ok."), Say("Ok.")]) as server:
        requests = asking(assistant("I was here."), "Go"), asking("Go", prefill=(assistant("Before."),))
        ask(adapter_of("gemini"), server.base_url, *requests)
        roles = [[content["role"] for content in request.json["contents"]] for request in server.requests]
    assert roles == [["user", "model", "user"], ["user", "model", "user"]]


def test_an_id_that_looks_like_ours_is_not_sent_to_gemini() -> None:
    adapter = adapter_of("gemini")
    with ScriptedModel([Call("read_file", {"path": "x"}, id="unnamed_call_1"), Say("Ok.")]) as server:
        said = ask(adapter, server.base_url, asking("Go"))[0].message
        told = results(ToolResult(call=said.calls[0].id, name="read_file", content="{}"))
        ask(adapter, server.base_url, asking("Go", said, told))
        _, call, result = server.requests[1].json["contents"]
    assert call["parts"][0]["functionCall"].get("id") == result["parts"][0]["functionResponse"].get("id")
