"""The bridge: what is asked through pydantic-ai, what comes back and goes back, and what keeps a vendor from being reached."""

import asyncio
import json
from importlib.util import find_spec
from typing import Any

import msgspec
import pytest

from melete.core.errors import ConfigError
from melete.core.message import Image, Message, Text, ToolCall, ToolResult
from melete.core.model import ConnectionFailedError, MalformedReplyError, ModelRequest
from melete.models.bridge import open_model
from melete.models.spec import Timeouts
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.wire.adapters import KEY, Adapter, ask, asking, assistant, results, spec
from tests.wire.bridges import BRIDGES, Bridge, shown
from tests.wire.raw import head, sending, serving
from tests.wire.recordings import ANSWERS
from tests.wire.test_a_stream_may_be_cut_anywhere import check, first_message

CHAT, _, ANTHROPIC = BRIDGES
CALL = ToolCall(id="call_a", name="read_file", arguments='{"path":"a.txt"}')
OTHER = ToolCall(id="call_b", name="read_file", arguments='{"path":"b.txt"}')
RESULT = ToolResult(call="call_a", name="read_file", content='{"content":"A"}')


@pytest.fixture(params=BRIDGES, ids=shown)
def adapter(request: pytest.FixtureRequest) -> Bridge:
    """Every row of the bridge."""
    return request.param


def sent(request: ModelRequest, *, by: Adapter = CHAT, **changes: Any) -> dict[str, Any]:
    """The JSON of one request as the server received it."""
    with ScriptedModel([Say("ok")]) as server:
        ask(by, server.base_url, request, **changes)
        return server.requests[0].json


def test_tools_system_and_messages_arrive() -> None:
    body = sent(asking("Hello", system=("One.", "", "Two."), ephemeral="For now."))
    assert body["model"] == "scripted-model"
    assert body["messages"][-1] == {"role": "user", "content": "Hello"}
    assert "".join(json.dumps(m["content"]) for m in body["messages"][:-1]).count("One.") == 1
    assert all(word in json.dumps(body["messages"][:-1]) for word in ("One.", "Two.", "For now."))
    function = body["tools"][0]["function"]
    assert (function["name"], function["description"]) == ("read_file", "Read a file.")
    assert function["parameters"] == {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    }


def test_what_is_wished_for_is_sent() -> None:
    body = sent(
        asking("Hello", max_output=7, temperature=0.5, tool_choice="none"),
        headers={"x-team": "blue"},
        service_tier="flex",
    )
    assert (body["temperature"], body["tool_choice"], body["service_tier"]) == (0.5, "none", "flex")
    assert 7 in body.values()
    assert len(body["tools"]) == 1


def test_an_answer_can_be_asked_for_by_its_schema() -> None:
    schema = msgspec.Raw(b'{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}')
    body = sent(asking("Hello", tools=(), answer_schema=schema))
    assert body["response_format"]["json_schema"]["schema"]["properties"] == {"n": {"type": "integer"}}


def test_images_go_in_as_data() -> None:
    message = Message(role="user", parts=(Text(text="What is this?"), Image(media_type="image/png", data="aGk=")))
    content = sent(asking(message))["messages"][-1]["content"]
    assert content[0]["text"] == "What is this?"
    assert content[1]["image_url"]["url"] == "data:image/png;base64,aGk="


def test_calls_and_results_are_sent_as_pairs_whatever_the_history() -> None:
    orphan = ToolResult(call="gone", name="read_file", content="lost and found")
    history = ("Go", assistant("", CALL, OTHER), "Wait", results(RESULT), assistant("Done"), results(orphan))
    messages = sent(asking(*history))["messages"][1:]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "user", "assistant", "user"]
    assert [m.get("tool_call_id") for m in messages[2:4]] == ["call_a", "call_b"]
    assert messages[2]["content"] == '{"content":"A"}'
    assert "unknown" in messages[3]["content"]
    assert "lost and found" in messages[6]["content"]


def test_images_of_a_result_follow_it() -> None:
    seen = ToolResult(call="call_a", name="look", content="{}", images=(Image(data="aGk="),))
    messages = sent(asking("Go", assistant("", CALL), results(seen)))["messages"][1:]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "user"]
    assert messages[-1]["content"][-1]["image_url"]["url"].endswith("base64,aGk=")


@pytest.mark.parametrize("arguments", ['{"path": ', "[1]", ""])
def test_arguments_that_are_no_object_are_not_sent_back(adapter: Adapter, arguments: str) -> None:
    broken = ToolCall(id="call_a", name="read_file", arguments=arguments)
    body = sent(asking("Go", assistant("", broken), results(RESULT), assistant("")), by=adapter)
    assert "read_file" in json.dumps(body)
    assert arguments == "" or json.dumps(arguments)[1:-1] not in json.dumps(body)


def test_lone_surrogates_are_stripped_and_pairs_joined(adapter: Adapter) -> None:
    body = sent(asking("a\udc80b \ud83d\ude00", system=("s\ud800.",)), by=adapter)
    assert "ab 😀" in json.dumps(body, ensure_ascii=False)
    assert "s." in json.dumps(body)


def test_a_signature_goes_back_as_it_came_and_to_its_own_vendor_only() -> None:
    with ScriptedModel([Call("read_file", {"path": "a"}, thinking="Hm."), Say("ok"), Say("ok")]) as server:
        (reply,) = ask(ANTHROPIC, server.base_url, asking("Go"))
        (call,) = reply.message.calls
        done = results(ToolResult(call=call.id, name=call.name, content="{}"))
        ask(ANTHROPIC, server.base_url, asking("Go", reply.message, done))
        ask(CHAT, server.base_url, asking("Go", reply.message, done))
        _, same, other = (r.json for r in server.requests)
    thought = same["messages"][1]["content"][0]
    assert (thought["type"], thought["thinking"]) == ("thinking", "Hm.")
    assert thought["signature"]
    assert "Hm." not in json.dumps(other)
    assert other["messages"][2]["tool_calls"][0]["function"]["name"] == "read_file"


@pytest.mark.parametrize("fault", [Fault("rate_limited", retry_after=1), Fault("server_error"), Fault("reset")])
def test_the_vendors_library_does_not_try_again(adapter: Adapter, fault: Fault) -> None:
    with ScriptedModel([fault, Say("ok")]) as server:
        with pytest.raises(Exception, match=r"127\.0\.0\.1"):
            ask(adapter, server.base_url, asking("Go"))
        assert len(server.requests) == 1


def test_cut_anywhere_an_answer_is_whole_or_none(adapter: Bridge) -> None:
    answer = ANSWERS[adapter.to]
    ends = [at + 1 for at in range(len(answer)) if answer[at : at + 1] == b"\n"]
    sizes = sorted({0, len(answer), *ends, *range(0, len(answer), max(1, len(answer) // 40))})

    async def main() -> list[bool]:
        whole: list[bool] = []
        for size in sizes:
            async with serving(sending(head(), answer[:size])) as port:
                client = adapter.open(spec(f"http://127.0.0.1:{port}/v1", timeouts=Timeouts(first_token=20)))
                try:
                    check(await first_message(client))
                    whole.append(True)
                except (ConnectionFailedError, MalformedReplyError):  # the library cannot tell nothing from nonsense
                    whole.append(False)
                finally:
                    await client.aclose()
        return whole

    whole = asyncio.run(main())
    assert whole[-1]
    assert not whole[0]
    assert whole == sorted(whole), "an answer that is whole stays whole with more bytes"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpt-5", "does not say which vendor the bridge shall reach; write bridge/VENDOR:MODEL"),
        ("nobody:gpt-5", "pydantic-ai knows no vendor 'nobody'"),
        ("google-cloud:gemini", 'pip install "pydantic-ai-slim['),
    ],
)
def test_a_model_that_cannot_be_opened_is_told_at_once(name: str, words: str) -> None:
    if name.startswith("google") and find_spec("google") is not None:
        pytest.skip("the vendor's package is installed")
    with pytest.raises(ConfigError) as caught:
        open_model(spec("", model=name))
    assert words in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_missing_key_is_told_before_anything_is_sent() -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY") as caught:
        open_model(spec("", model="anthropic:claude", api_key=""))
    assert "test model" not in str(caught.value)


def test_the_window_is_the_one_that_pydantic_ai_knows() -> None:
    client = open_model(spec("", model="anthropic:claude-sonnet-4-5"))
    assert client.can.known
    assert client.can.context >= 200_000
    assert (client.name, client.wire) == ("anthropic:claude-sonnet-4-5", "bridge")
