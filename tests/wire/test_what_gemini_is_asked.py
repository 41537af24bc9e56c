"""Requests of the gemini wire: what is sent, and that it only grows."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from melete.core.message import Audio, File, Image, Message, Text, Thinking, ToolCall, ToolResult, Wire, user
from melete.core.model import Capabilities
from melete.models.gemini import url
from melete.models.spec import Quirks
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from tests.wire.adapters import KEY, TOOL, Adapter, adapter_of, answered, ask, asking, assistant, results, sent, spec

CALL = ToolCall(id="call_a", name="read_file", arguments='{"path":"a.txt"}')
OTHER = ToolCall(id="call_b", name="read_file", arguments='{"path":"b.txt"}')
RESULT = ToolResult(call="call_a", name="read_file", content='{"content":"A"}')


@pytest.fixture
def adapter() -> Adapter:
    """This wire alone."""
    return adapter_of("gemini")


def own(*parts: dict[str, Any], calls: tuple[ToolCall, ...] = (), provider: str = "127.0.0.1") -> Message:
    """A message that came over this wire."""
    body = msgspec.Raw(msgspec.json.encode({"role": "model", "parts": parts}))
    said = tuple(Text(text=part["text"]) for part in parts if part.get("text") and not part.get("thought"))
    return Message(role="assistant", parts=said + calls, wire=Wire(name="gemini", body=body, provider=provider))


@pytest.mark.parametrize(
    ("base", "model", "expected"),
    [
        ("https://a.example", "gemini-3", "https://a.example/v1beta/models/gemini-3:streamGenerateContent?alt=sse"),
        ("https://a.example/v1/", "gemini-3", "https://a.example/v1/models/gemini-3:streamGenerateContent?alt=sse"),
        ("https://a.example/v1beta?k=v", "models/x", "https://a.example/v1beta/models/x:streamGenerateContent?k=v&alt=sse"),
        (
            "https://a.example/v1/projects/p",
            "publishers/g/models/x",
            "https://a.example/v1/projects/p/publishers/g/models/x:streamGenerateContent?alt=sse",
        ),
        ("https://a.example/v1beta", "a b?c", "https://a.example/v1beta/models/a%20b%3Fc:streamGenerateContent?alt=sse"),
    ],
)  # fmt: skip
def test_the_model_stands_in_the_path(base: str, model: str, expected: str) -> None:
    assert url(spec(base, model=model)) == expected


def test_tools_system_and_contents_arrive(adapter: Adapter) -> None:
    body = sent(adapter, asking("Hello", system=("One.", "", "Two.")))
    assert body == {
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read_file",
                        "description": "Read a file.",
                        "parametersJsonSchema": json.loads(bytes(TOOL.parameters)),
                    }
                ]
            }
        ],
        "systemInstruction": {"parts": [{"text": "One."}, {"text": "Two."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
    }


def test_a_request_of_nothing_but_words_is_whole(adapter: Adapter) -> None:
    body = sent(adapter, asking("Hello", system=(), tools=()), quirks=Quirks(effort="none"))
    assert body == {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


def test_the_key_travels_in_the_header_only(adapter: Adapter) -> None:
    with ScriptedModel([Say("ok")]) as server:
        ask(adapter, server.base_url, asking("Hello"), headers={"X-Team": "blue"})
        request = server.requests[0]
    assert request.headers["x-goog-api-key"] == KEY
    assert "authorization" not in request.headers
    assert request.headers["x-team"] == "blue"
    assert KEY.encode() not in request.body + request.target.encode()


@pytest.mark.parametrize(("choice", "mode"), [("none", "NONE"), ("required", "ANY")])
def test_the_choice_of_tools_keeps_the_tools(adapter: Adapter, choice: str, mode: str) -> None:
    plain, asked = sent(adapter, asking("Hello")), sent(adapter, asking("Hello", tool_choice=choice))
    assert asked == plain | {"toolConfig": {"functionCallingConfig": {"mode": mode}}}


def test_what_is_set_arrives(adapter: Adapter) -> None:
    request = asking(
        "Hello", max_output=7, temperature=0.5, effort="low", answer_schema=msgspec.Raw(b'{"type":"object"}')
    )
    extra = {"safetySettings": [], "generationConfig": {"topK": 3}}
    body = sent(adapter, request, service_tier="flex", quirks=Quirks(extra=extra))
    assert body["serviceTier"] == "flex"
    assert body["safetySettings"] == []
    assert body["generationConfig"] == {
        "maxOutputTokens": 7,
        "temperature": 0.5,
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "low"},
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
        "topK": 3,
    }


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("gemini-3-pro", "", {"includeThoughts": True}),
        ("gemini-3-pro", "none", {"includeThoughts": True, "thinkingLevel": "minimal"}),
        ("gemini-3-pro", "high", {"includeThoughts": True, "thinkingLevel": "high"}),
        ("gemini-2.5-flash", "", {"includeThoughts": True}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-flash", "medium", {"includeThoughts": True, "thinkingBudget": 8192}),
    ],
)
def test_effort_is_said_as_the_models_generation_takes_it(
    adapter: Adapter, model: str, effort: str, thinking: dict[str, Any]
) -> None:
    body = sent(adapter, asking("Hello", effort=effort), model=model)
    assert body["generationConfig"]["thinkingConfig"] == thinking


def test_prefill_and_ephemeral_text_are_added_at_call_time(adapter: Adapter) -> None:
    body = sent(adapter, asking("Now", prefill=(user("Earlier"), assistant("Indeed")), ephemeral="For now only."))
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}, {"text": "For now only."}]
    assert [(c["role"], c["parts"][0]["text"]) for c in body["contents"]] == [
        ("user", "Earlier"),
        ("model", "Indeed"),
        ("user", "Now"),
    ]


def test_pictures_sounds_and_files_go_in_as_data(adapter: Adapter) -> None:
    parts = (
        Text(text="Look."),
        Image(data="aGk=", media_type="image/webp"),
        Image(url="https://a.example/b.png"),
        Audio(data="aGk=", media_type="audio/wav"),
        File(data="aGk=", media_type="application/pdf", name="a.pdf"),
    )
    (content,) = sent(adapter, asking(Message(role="user", parts=parts)))["contents"]
    assert content["parts"] == [
        {"text": "Look."},
        {"inlineData": {"mimeType": "image/webp", "data": "aGk="}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://a.example/b.png"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "aGk="}},
        {"text": "The file a.pdf:"},
        {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
    ]


def test_a_model_without_eyes_is_told_of_the_image(adapter: Adapter) -> None:
    message = Message(role="user", parts=(Image(data="aGk="),))
    (content,) = sent(adapter, asking(message), can=Capabilities(images=False))["contents"]
    assert content["parts"] == [{"text": "(an image was left out: this model takes none)"}]


def test_results_of_one_message_are_one_content_with_their_images(adapter: Adapter) -> None:
    seen = ToolResult(call="call_a", name="look", content="a cat", images=(Image(data="aGk="),))
    other = ToolResult(call="call_b", name="read_file", content="gone", error=True)
    contents = sent(adapter, asking("Go", assistant("", CALL, OTHER), results(other, seen)))["contents"]
    assert contents[2:] == [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "call_a", "name": "look", "response": {"result": "a cat"}}},
                {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                {"functionResponse": {"id": "call_b", "name": "read_file", "response": {"error": "gone"}}},
            ],
        }
    ]


def test_a_conversation_from_another_provider_is_rebuilt_without_its_thoughts(adapter: Adapter) -> None:
    foreign = Message(role="assistant", parts=(Thinking(text="Hm."), Text(text="Let me see."), CALL))
    contents = sent(adapter, asking("Go", foreign, results(RESULT), assistant("A.")))["contents"]
    call = {"functionCall": {"id": "call_a", "name": "read_file", "args": {"path": "a.txt"}}}
    assert contents[1] == {"role": "model", "parts": [{"text": "Let me see."}, call]}
    answer = {"functionResponse": {"id": "call_a", "name": "read_file", "response": {"content": "A"}}}
    assert contents[2] == {"role": "user", "parts": [answer]}
    assert contents[3] == {"role": "model", "parts": [{"text": "A."}]}


def test_another_providers_bytes_of_this_wire_are_not_replayed(adapter: Adapter) -> None:
    signed = {"text": "Hi", "thoughtSignature": "c2Vj"}
    back = sent(adapter, asking("Go", own(signed), own(signed, provider="another"), "On"))["contents"]
    assert [c["parts"] for c in back[1:3]] == [[signed], [{"text": "Hi"}]]


def test_calls_and_results_are_sent_as_pairs_whatever_the_history(adapter: Adapter) -> None:
    orphan = ToolResult(call="gone", name="read_file", content="lost and found", images=(Image(data="aGk="),))
    history = (
        user("Go"),
        assistant("", CALL, OTHER),
        user("Wait"),
        results(RESULT),
        assistant("Done"),
        results(orphan),
    )
    contents = sent(adapter, asking(*history))["contents"]
    assert [c["role"] for c in contents] == ["user", "model", "user", "user", "model", "user"]
    first, second = (part["functionResponse"] for part in contents[2]["parts"])
    assert (first["id"], first["response"]) == ("call_a", {"content": "A"})
    assert second["id"] == "call_b"
    assert "unknown" in second["response"]["error"]
    assert "lost and found" in contents[5]["parts"][0]["text"]
    assert contents[5]["parts"][1]["inlineData"]["data"] == "aGk="


def test_nothing_is_sent_empty(adapter: Adapter) -> None:
    thought = own({"text": "Hm.", "thought": True})
    history = (user(""), assistant(""), user("Again"), own(), user("Again"), thought, user("Again"))
    contents = sent(adapter, asking(*history))["contents"]
    assert [c["parts"] for c in contents[:2]] == [[{"text": "(empty)"}]] * 2
    assert contents[3] == {"role": "model", "parts": [{"text": "(empty)"}]}
    assert contents[5]["parts"] == [{"text": "Hm.", "thought": True}, {"text": "(empty)"}]


@pytest.mark.parametrize("arguments", ['{"path": ', "[1]", '{"path": ' + "[" * 9000 + "]" * 9000 + "}"])
def test_arguments_that_are_no_object_are_not_sent_back(adapter: Adapter, arguments: str) -> None:
    broken = ToolCall(id="call_a", name="read_file", arguments=arguments)
    came = own({"functionCall": {"name": "read_file", "args": 7}}, calls=(broken,))
    for message in (assistant("", broken), came):
        contents = sent(adapter, asking("Go", message, results(RESULT)))["contents"]
        assert contents[1]["parts"][0]["functionCall"]["args"] == {}


def test_lone_surrogates_are_stripped_and_pairs_joined(adapter: Adapter) -> None:
    odd = ToolResult(call="call_a", name="read_file", content='{"x":"c\udc80"}')
    body = sent(adapter, asking("a\udc80b \ud83d\ude00", assistant("", CALL), results(odd), system=("s\ud800",)))
    assert body["systemInstruction"]["parts"] == [{"text": "s"}]
    assert body["contents"][0]["parts"] == [{"text": "ab 😀"}]
    assert "\udc80" not in json.dumps(body["contents"][2], ensure_ascii=False)


def test_a_server_that_dislikes_the_text_gets_ascii(adapter: Adapter) -> None:
    refusal = Fault("bad_request", message="unsupported Unicode escape sequence in the input")
    with ScriptedModel([refusal, Say("ok"), Say("ok")]) as server:
        first = asking("é\x00😀")
        ask(adapter, server.base_url, first, first)
        assert [r.body.isascii() for r in server.requests] == [False, True, True]
        assert server.requests[1].json["contents"][0]["parts"] == [{"text": "é😀"}]


def test_the_models_own_message_goes_back_with_every_part_and_signature(adapter: Adapter) -> None:
    extra = {"parts": [{"executableCode": {"code": "1"}, "vendor": 1}], "unknown": {"x": [1]}}
    two = Calls(
        [Call("read_file", {"path": "a"}), Call("read_file", {"path": "b"})], text="So.", thinking="Hm.", extra=extra
    )
    with ScriptedModel([two, Say("ok", thinking="Well.", extra={"unknown": 2}), Say("bye")]) as server:
        (first,) = ask(adapter, server.base_url, asking("Hello"))
        done = results(*(ToolResult(call=c.id, name=c.name, content="{}") for c in first.message.calls))
        (second,) = ask(adapter, server.base_url, asking("Hello", first.message, done))
        ask(adapter, server.base_url, asking("Hello", first.message, done, second.message, "On"))
        back = server.requests[2].json["contents"]
    assert first.message.wire is not None
    assert back[1] == msgspec.json.decode(first.message.wire.body)
    assert [sorted(part) for part in back[1]["parts"]] == [
        ["text", "thought"],
        ["text"],
        ["executableCode", "vendor"],
        ["functionCall", "thoughtSignature"],
        ["functionCall", "unknown"],
    ]
    assert back[3]["parts"] == [
        {"text": "Well.", "thought": True},
        {"text": "ok"},
        {"text": "", "thoughtSignature": "c2lnbmF0dXJlIA==", "unknown": 2},
    ]


def test_a_call_that_came_without_an_id_is_answered_without_one(adapter: Adapter) -> None:
    def nameless(body: dict[str, Any], index: int) -> Say:
        del body, index
        return Say(
            "", extra={"parts": [{"functionCall": {"name": "read_file"}}, {"functionCall": {"name": "read_file"}}]}
        )

    with ScriptedModel([nameless, nameless, Say("ok")]) as server:
        request = asking("Go")
        for _ in range(2):
            (reply,) = ask(adapter, server.base_url, request)
            done = results(*(ToolResult(call=c.id, name=c.name, content="{}") for c in reply.message.calls))
            request = msgspec.structs.replace(request, messages=(*request.messages, reply.message, done))
        ask(adapter, server.base_url, request)
        contents = server.requests[2].json["contents"]
    ids = [call.id for message in request.messages for call in message.calls]
    assert len(set(ids)) == 4
    assert all(call.arguments == "{}" for message in request.messages for call in message.calls)
    assert b'"id"' not in server.requests[2].body
    assert [len(c["parts"]) for c in contents] == [1, 2, 2, 2, 2]


def test_the_prefix_only_grows(adapter: Adapter) -> None:
    async def main(base_url: str) -> None:
        client: Any = adapter.open(spec(base_url))
        request, before = asking("Begin"), b""
        for step in range(7):
            prefix = client.prefix_bytes(request)
            assert prefix.startswith(before)
            reply = await answered(client, request)
            before = prefix
            done = (results(*(ToolResult(call=c.id, name=c.name, content="{}") for c in reply.message.calls)),)
            more = (reply.message, *(done if reply.message.calls else (user("Go on"),)))
            choice = "none" if step == 5 else "auto"  # the grace call
            request = msgspec.structs.replace(request, messages=request.messages + more, tool_choice=choice)
        await client.aclose()

    script = [
        Call("read_file", {"path": "ä"}, thinking="Hm."),
        Say("one", thinking="Hm."),
        Calls([Call("a"), Call("b")]),
        Fault("empty"),
        Fault("malformed_arguments"),
        Say("two"),
        Say(""),
    ]
    with ScriptedModel(script) as server:
        asyncio.run(main(server.base_url))
        bodies = [r.body for r in server.requests]
    assert len(bodies) == 7
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier[: earlier.rindex(b'],"')])


def test_what_came_is_the_same_whole_or_in_pieces(adapter: Adapter) -> None:
    """An answer that was cut up is put together to the bytes that it would have come in."""
    long = Say("Hello, wörld. " * 9, thinking="Greet them. " * 9, pieces=5)
    with ScriptedModel([long, msgspec.structs.replace(long, pieces=10_000)]) as server:
        one, other = ask(adapter, server.base_url, asking("Go"), asking("Go"))
    assert one.message == other.message
