"""Requests of the anthropic-messages wire: what is sent, what is cached, and that it only grows."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from melete.core.message import Audio, File, Image, Message, Text, Thinking, ToolCall, ToolResult, Wire, user
from melete.core.model import Capabilities
from melete.models.spec import Quirks
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from tests.wire.adapters import KEY, TOOL, Adapter, adapter_of, answered, ask, asking, assistant, results, sent, spec

CALL = ToolCall(id="toolu_a", name="read_file", arguments='{"path":"a.txt"}')
OTHER = ToolCall(id="toolu_b", name="read_file", arguments='{"path":"b.txt"}')
RESULT = ToolResult(call="toolu_a", name="read_file", content='{"content":"A"}')
MARK = {"type": "ephemeral"}
BUDGET = Quirks(effort="thinking_budget")


@pytest.fixture
def adapter() -> Adapter:
    """This wire alone."""
    return adapter_of("anthropic-messages")


def plain(value: Any) -> Any:
    """The value without cache markers."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k != "cache_control"}
    return [plain(v) for v in value] if isinstance(value, list) else value


def said(adapter: Adapter, *messages: Message | str, **changes: Any) -> list[dict[str, Any]]:
    """The messages of one request without markers."""
    return plain(sent(adapter, asking(*messages), **changes)["messages"])


def marks(value: Any) -> list[Any]:
    """Every cache marker in a body, in order."""
    if isinstance(value, dict):
        return [m for k, v in value.items() for m in ([v] if k == "cache_control" else marks(v))]
    return [m for v in value for m in marks(v)] if isinstance(value, list) else []


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


# ---- the frame -------------------------------------------------------------------------------------------------------


def test_tools_system_and_messages_arrive(adapter: Adapter) -> None:
    body = plain(sent(adapter, asking("Hello", system=("One.", " ", "Two."))))
    assert list(body)[:4] == ["model", "tools", "system", "messages"]
    assert body["tools"] == [
        {"name": "read_file", "description": "Read a file.", "input_schema": json.loads(bytes(TOOL.parameters))}
    ]
    assert body["system"] == [text("One."), text("Two.")]
    assert body["messages"] == [{"role": "user", "content": [text("Hello")]}]
    assert (body["model"], body["stream"]) == ("scripted-model", True)
    assert not {"tool_choice", "thinking", "temperature", "output_config"} & set(body)


def test_key_and_version_travel_in_headers(adapter: Adapter) -> None:
    with ScriptedModel([Say("ok"), Say("ok")]) as server:
        ask(adapter, server.base_url, asking("Hello"))
        ask(adapter, server.base_url, asking("Hello"), quirks=Quirks(key_header="authorization"))
        first, second = server.requests
    assert (first.headers["x-api-key"], first.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in first.headers
    assert second.headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in first.body


@pytest.mark.parametrize(("base", "path"), [("", "/v1/messages"), ("/v1", "/v1/messages"), ("/a", "/a/v1/messages")])
def test_a_base_url_needs_no_version(adapter: Adapter, base: str, path: str) -> None:
    with ScriptedModel([Say("ok")]) as server:
        ask(adapter, server.base_url.removesuffix("/v1") + base, asking("Hello"))
        assert server.requests[0].path == path


@pytest.mark.parametrize(("choice", "kind"), [("none", "none"), ("required", "any")])
def test_the_tools_stay_whatever_is_chosen(adapter: Adapter, choice: str, kind: str) -> None:
    body = sent(adapter, asking("Hello", tool_choice=choice))
    assert body["tool_choice"] == {"type": kind}
    assert len(body["tools"]) == 1


def test_prefill_and_ephemeral_text_are_added_at_call_time(adapter: Adapter) -> None:
    body = sent(adapter, asking("Now", prefill=(user("Earlier"), assistant("Indeed")), ephemeral="For now only."))
    assert body["system"] == [text("Be brief.") | {"cache_control": MARK}, text("For now only.")]
    assert [m["content"][0]["text"] for m in body["messages"]] == ["Earlier", "Indeed", "Now"]


def test_a_conversation_begins_and_ends_with_a_users_words(adapter: Adapter) -> None:
    roles = [m["role"] for m in said(adapter, assistant("Hi."), user("Hello"), assistant("And?"))]
    assert roles == ["user", "assistant", "user", "assistant", "user"]


# ---- how much ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "can", "limit", "expected"),
    [
        (None, Capabilities(), 0, 32_000),
        (None, Capabilities(context=200_000, max_output=64_000), 0, 50_000),
        (None, Capabilities(context=8_000), 0, 2_000),
        (900, Capabilities(max_output=64_000), 0, 900),
        (90_000, Capabilities(max_output=64_000), 0, 64_000),
        (90_000, Capabilities(), 4_096, 4_096),
    ],
)
def test_a_number_of_tokens_is_always_asked_for(
    adapter: Adapter, asked: int | None, can: Capabilities, limit: int, expected: int
) -> None:
    body = sent(adapter, asking("Go", max_output=asked), can=can, quirks=Quirks(most_output=limit))
    assert body["max_tokens"] == expected


def test_effort_is_adaptive_thinking_that_is_shown(adapter: Adapter) -> None:
    body = sent(adapter, asking("Go", effort="high", temperature=0.5))
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": "high"}
    assert "temperature" not in body, "not allowed beside thinking"
    assert sent(adapter, asking("Go", temperature=0.5))["temperature"] == 0.5


@pytest.mark.parametrize(
    ("effort", "most", "budget"), [("low", 20_000, 4096), ("high", 20_000, 10_000), ("xhigh", 2000, None)]
)
def test_older_models_get_a_budget_below_the_limit(
    adapter: Adapter, effort: str, most: int, budget: int | None
) -> None:
    body = sent(adapter, asking("Go", effort=effort, max_output=most), quirks=BUDGET)
    assert body.get("thinking") == (budget and {"type": "enabled", "budget_tokens": budget})
    assert "output_config" not in body


def test_thinking_is_left_out_where_a_tool_is_forced(adapter: Adapter) -> None:
    body = sent(adapter, asking("Go", effort="high", tool_choice="required", temperature=0.5))
    assert "thinking" not in body
    assert body["temperature"] == 0.5


def test_a_turn_that_began_without_thinking_gets_no_budget(adapter: Adapter) -> None:
    begun = asking("Go", assistant("", CALL), results(RESULT), effort="low")
    assert "thinking" not in sent(adapter, begun, quirks=BUDGET)
    assert "thinking" in sent(adapter, begun)
    later = asking("Go", assistant("", CALL), results(RESULT), assistant("Done."), "More", effort="low")
    assert "thinking" in sent(adapter, later, quirks=BUDGET)


def test_no_effort_at_all_is_said_as_such(adapter: Adapter) -> None:
    body = sent(adapter, asking("Go", effort="none"))
    assert body["thinking"] == {"type": "disabled"}
    assert "output_config" not in body


def test_an_answers_schema_goes_beside_the_effort(adapter: Adapter) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    body = sent(adapter, asking("Go", effort="low", answer_schema=msgspec.Raw(json.dumps(schema).encode())))
    assert body["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": schema}}


def test_service_tier_and_own_fields_are_passed_on(adapter: Adapter) -> None:
    body = sent(adapter, asking("Go"), service_tier="auto", quirks=Quirks(extra={"metadata": {"user_id": "u"}}))
    assert (body["service_tier"], body["metadata"]) == ("auto", {"user_id": "u"})


# ---- the cache ---------------------------------------------------------------------------------------------------------


def test_four_marks_cache_the_system_and_the_last_three_messages(adapter: Adapter) -> None:
    history = [
        m
        for n in range(6)
        for m in (assistant("", msgspec.structs.replace(CALL, id=f"t{n}")), done(f"t{n}"), user("Go on"))
    ]
    body = sent(adapter, asking("Begin", *history))
    assert body["system"][-1]["cache_control"] == MARK
    assert marks(body) == [MARK] * 4
    assert [len(marks(m)) for m in body["messages"][-5:]] == [0, 1, 0, 1, 1]
    assert all("cache_control" in m["content"][-1] for m in body["messages"] if marks(m))


def done(call: str) -> Message:
    """The result of one call."""
    return results(ToolResult(call=call, name="read_file", content="{}"))


def test_without_a_system_the_tools_are_marked(adapter: Adapter) -> None:
    body = sent(adapter, asking("Go", system=(), ephemeral="Now."))
    assert body["tools"][-1]["cache_control"] == MARK
    assert body["system"] == [text("Now.")]


def test_an_hour_is_asked_for_only_when_set(adapter: Adapter) -> None:
    assert marks(sent(adapter, asking("Go"), cache_ttl="1h")) == [MARK | {"ttl": "1h"}] * 2
    assert marks(sent(adapter, asking("Go"), cache_ttl="5m")) == [MARK] * 2


# ---- messages ----------------------------------------------------------------------------------------------------------


def test_results_of_one_turn_go_first_and_in_one_message(adapter: Adapter) -> None:
    failed = ToolResult(call="toolu_b", name="read_file", content="gone", error=True)
    beside = Message(role="tool", parts=(Text(text="a note"), failed, RESULT))
    messages = said(adapter, "Go", assistant("", CALL, OTHER), beside)
    assert messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_a", "content": '{"content":"A"}'},
        {"type": "tool_result", "tool_use_id": "toolu_b", "content": "gone", "is_error": True},
    ]
    assert messages[3]["content"] == [text("a note")]


def test_images_go_in_as_data_also_in_results(adapter: Adapter) -> None:
    picture = Image(media_type="image/png", data="aGk=")
    shown = ToolResult(call="toolu_a", name="look", content="{}", images=(picture,))
    linked = Message(role="user", parts=(Text(text="See"), picture, Image(url="https://example.com/a.png")))
    messages = said(adapter, linked, assistant("", CALL), results(shown))
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    link = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    assert messages[0]["content"] == [text("See"), block, link]
    assert messages[2]["content"][0]["content"] == [text("{}"), block]
    blind = said(adapter, linked, assistant("", CALL), results(shown), can=Capabilities(images=False))
    assert '"image"' not in json.dumps(blind)
    assert json.dumps(blind).count("left out") == 3


def test_documents_go_in_and_what_the_api_does_not_take_is_named(adapter: Adapter) -> None:
    parts = (
        File(media_type="application/pdf", name="a.pdf", data="JVBERg=="),
        File(media_type="text/csv", name="a.csv", data="MSwy"),
        File(media_type="application/zip", name="a.zip", data="UEs="),
        File(media_type="text/plain", name="bad", data="???"),
        Audio(media_type="audio/wav", data="UklGRg=="),
        Image(media_type="image/bmp", data="Qk0="),
    )
    pdf, csv, *named = said(adapter, Message(role="user", parts=parts))[0]["content"]
    assert pdf["source"] == {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    assert csv["source"] == {"type": "text", "media_type": "text/plain", "data": "1,2"}
    assert (pdf["title"], csv["title"]) == ("a.pdf", "a.csv")
    assert [("left out" in block["text"]) for block in named] == [True] * 4


def test_a_conversation_from_another_provider_is_rebuilt(adapter: Adapter) -> None:
    foreign = Wire(name="openai-chat", body=msgspec.Raw(b'{"secret_block": 1}'))
    parts = (Thinking(text="Hm."), Text(text="Let me see."), CALL)
    messages = said(
        adapter, "Go", Message(role="assistant", parts=parts, wire=foreign), results(RESULT), assistant("A."), "More"
    )
    assert messages[1]["content"] == [
        text("Let me see."),
        {"type": "tool_use", "id": "toolu_a", "name": "read_file", "input": {"path": "a.txt"}},
    ]
    assert messages[3] == {"role": "assistant", "content": [text("A.")]}
    other = Wire(name="anthropic-messages", body=msgspec.Raw(b'{"secret_block": 1}'), provider="elsewhere")
    assert "secret" not in json.dumps(said(adapter, "Go", Message(role="assistant", parts=parts, wire=other)))


def test_strange_ids_and_names_are_mapped_the_same_way_everywhere(adapter: Adapter) -> None:
    odd = [ToolCall(id=call, name="a.b", arguments="{}") for call in ("functions.x:0", "functions.x/0", "")]
    answers = [ToolResult(call=call.id, name=call.name, content=str(n)) for n, call in enumerate(odd)]
    messages = said(adapter, "Go", assistant("", *odd), results(*answers))
    ids = [block["id"] for block in messages[1]["content"]]
    assert len(set(ids)) == 3
    assert all(i.replace("_", "").isalnum() for i in ids)
    assert [(b["tool_use_id"], b["content"]) for b in messages[2]["content"]] == [
        (i, str(n)) for n, i in enumerate(ids)
    ]
    assert {block["name"] for block in messages[1]["content"]} == {"a_b"}


def test_a_strange_id_of_the_models_own_is_mapped_in_its_message_too(adapter: Adapter) -> None:
    with ScriptedModel([Call("read_file", {}, id="functions.x:0"), Say("ok")]) as server:
        (reply,) = ask(adapter, server.base_url, asking("Go"))
        assert reply.message.calls[0].id == "functions.x:0"
        ask(adapter, server.base_url, asking("Go", reply.message, done("functions.x:0")))
        called, answer = (m["content"][0] for m in server.requests[1].json["messages"][1:])
    assert called["id"] == answer["tool_use_id"] != "functions.x:0"


def test_calls_and_results_are_sent_as_pairs_whatever_the_history(adapter: Adapter) -> None:
    picture = Image(data="aGk=")
    orphan = ToolResult(call="gone", name="read_file", content="lost and found", images=(picture,))
    history = ("Go", assistant("", CALL, OTHER), "Wait", results(RESULT), assistant("Done"), results(orphan))
    messages = said(adapter, *history)
    assert [m["role"] for m in messages] == ["user", "assistant", "user", "user", "assistant", "user"]
    first, second = messages[2]["content"]
    assert (first["tool_use_id"], second["tool_use_id"]) == ("toolu_a", "toolu_b")
    assert second["is_error"]
    assert "unknown" in second["content"]
    assert "lost and found" in messages[5]["content"][0]["text"]
    assert messages[5]["content"][1]["type"] == "image"


@pytest.mark.parametrize("words", ["", " \n"])
def test_nothing_is_sent_empty(adapter: Adapter, words: str) -> None:
    empty = ToolResult(call="toolu_a", name="read_file", content=words)
    messages = said(adapter, words, assistant(words), words, assistant(words, CALL), results(empty))
    assert [m["content"] for m in messages[:3]] == [[text("(empty)")]] * 3
    assert [b["type"] for b in messages[3]["content"]] == ["tool_use"]
    assert messages[4]["content"][0]["content"] == "(empty)"


@pytest.mark.parametrize("arguments", ["", "[1]", '{"path": ', '{"path": ' + "[" * 9000 + "]" * 9000 + "}"])
def test_arguments_that_are_no_object_are_not_sent_back(adapter: Adapter, arguments: str) -> None:
    broken = ToolCall(id="toolu_a", name="read_file", arguments=arguments)
    assert said(adapter, "Go", assistant("", broken), results(RESULT))[1]["content"][0]["input"] == {}


def test_lone_surrogates_are_stripped_and_pairs_joined(adapter: Adapter) -> None:
    body = sent(adapter, asking("a\udc80b \ud83d\ude00", system=("s\ud800",)))
    assert (body["system"][0]["text"], body["messages"][0]["content"][0]["text"]) == ("s", "ab 😀")


# ---- the model's own words ----------------------------------------------------------------------------------------------


def test_the_models_own_blocks_go_back_as_they_came(adapter: Adapter) -> None:
    blocks = [
        {"type": "redacted_thinking", "data": "QUJD"},
        {"type": "server_thing", "id": "x", "nested": {"deep": [1, 2.0, None]}},
    ]
    extra = {"blocks": blocks, "signature": "c2lnbmVk", "caller": {"type": "direct"}}
    reply = Call("read_file", '{"path" :  "ä", "n": 1.0}', text="See:", thinking="Hm.", extra=extra, pieces=4)
    with ScriptedModel([reply, Say("ok")]) as server:
        (first,) = ask(adapter, server.base_url, asking("Hello"))
        (call,) = first.message.calls
        ask(adapter, server.base_url, asking("Hello", first.message, done(call.id)))
        later = server.requests[1]
    assert later.json["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
        *blocks,
        text("See:"),
        {
            "type": "tool_use",
            "id": call.id,
            "name": "read_file",
            "input": {"path": "ä", "n": 1.0},
            "caller": {"type": "direct"},
        },
    ]
    assert first.message.wire is not None
    assert bytes(first.message.wire.body) in later.body, "byte for byte"
    assert b'"input":{"path" :  "\xc3\xa4", "n": 1.0}' in later.body


def test_thinking_that_broke_off_before_its_signature_is_not_sent_back(adapter: Adapter) -> None:
    cut = Say("", thinking="I should", stop="length", extra={"signature": ""})
    with ScriptedModel([cut, Say("ok")]) as server:
        (first,) = ask(adapter, server.base_url, asking("Hello"))
        ask(adapter, server.base_url, asking("Hello", first.message, "Go on"))
        back = server.requests[1].json["messages"][1]
    assert first.message.parts == (Thinking(text="I should"),)
    assert back == {"role": "assistant", "content": [text("(empty)")]}


def test_nothing_but_thinking_is_followed_by_a_text(adapter: Adapter) -> None:
    with ScriptedModel([Say("", thinking="Only this."), Say("ok")]) as server:
        (first,) = ask(adapter, server.base_url, asking("Hello"))
        ask(adapter, server.base_url, asking("Hello", first.message, "And?"))
        back = server.requests[1].json["messages"][1]["content"]
    assert [block["type"] for block in back] == ["thinking", "text"]


def test_the_prefix_only_grows(adapter: Adapter) -> None:
    async def main(base_url: str) -> None:
        client: Any = adapter.open(spec(base_url))
        request, before = asking("Begin", effort="high"), b""
        for step in range(7):
            prefix = client.prefix_bytes(request)
            assert prefix.startswith(before)
            assert b"cache_control" not in prefix
            choice = "none" if step == 6 else "auto"  # the grace call
            asked = msgspec.structs.replace(request, tool_choice=choice, max_output=9000 + step)
            assert client.prefix_bytes(asked) == prefix
            reply = await answered(client, asked)
            before = prefix
            more = (results(*(ToolResult(call=c.id, name=c.name, content="{}") for c in reply.message.calls)),)
            added = (reply.message, *(more if reply.message.calls else (user("Go on"),)))
            request = msgspec.structs.replace(request, messages=request.messages + added)
        await client.aclose()

    script = [
        Call("read_file", {"path": "ä"}, thinking="First."),
        Say("one", extra={"blocks": [{"type": "redacted_thinking", "data": "QUJD"}]}),
        Calls([Call("a"), Call("b")]),
        Fault("empty"),
        Fault("malformed_arguments"),
        Say("two"),
        Say(""),
    ]
    with ScriptedModel(script) as server:
        asyncio.run(main(server.base_url))
        bodies = [json.dumps(plain(r.json)) for r in server.requests]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier[: earlier.index('], "max_tokens"')])
