"""Answers: deltas, one reply, its parts, its reason to stop and its tokens."""

import asyncio

import pytest

from melete.core.event import CallDelta, Reply, TextDelta, ThinkingDelta
from melete.core.message import Thinking, Usage
from melete.testing import Call, Calls, Fault, Say, ScriptedModel
from tests.wire.adapters import Adapter, ask, asking, collect, results, spec


def test_text_and_thinking_stream_and_add_up(adapter: Adapter) -> None:
    async def main(base_url: str) -> list[object]:
        client = adapter.open(spec(base_url))
        items = await collect(client.stream(asking("Hello")))
        await client.aclose()
        return [*items]

    with ScriptedModel([Say("Hello, wörld.", thinking="Greet them.", pieces=3)]) as server:
        items = asyncio.run(main(server.base_url))
    reply = items[-1]
    assert isinstance(reply, Reply)
    assert "".join(i.text for i in items if isinstance(i, TextDelta)) == reply.message.text == "Hello, wörld."
    assert "".join(i.text for i in items if isinstance(i, ThinkingDelta)) == "Greet them."
    assert reply.message.parts[0] == Thinking(text="Greet them.")
    assert (reply.stop, reply.model, reply.request_id) == ("end", "scripted-model", "req_0")
    assert 0 < reply.first_token_seconds <= reply.seconds


def test_calls_arrive_whole_and_in_order(adapter: Adapter) -> None:
    calls = Calls([Call("read_file", {"path": "a" * 60}), Call("read_file", {"path": "b"})], text="Two files.")
    with ScriptedModel([calls]) as server:
        (reply,) = ask(adapter, server.base_url, asking("Go"))
    assert reply.stop == "tool_calls"
    written = ['{"path": "' + "a" * 60 + '"}', '{"path": "b"}']
    assert [c.arguments for c in reply.message.calls] == [adapter.as_read(text) for text in written]
    assert reply.message.text == "Two files."


def test_call_deltas_tell_calls_apart(adapter: Adapter) -> None:
    async def main(base_url: str) -> list[CallDelta]:
        client = adapter.open(spec(base_url))
        items = await collect(client.stream(asking("Go")))
        await client.aclose()
        return [i for i in items if isinstance(i, CallDelta)]

    with ScriptedModel([Calls([Call("a", {"x": 1}), Call("b", {"y": 2})])]) as server:
        deltas = asyncio.run(main(server.base_url))
    assert {d.index for d in deltas} == {0, 1}
    assert "".join(d.arguments for d in deltas if d.index == 1) == adapter.as_read('{"y": 2}')


def test_tokens_are_counted_in_five_classes(adapter: Adapter) -> None:
    usage = Usage(input=70, output=9, cache_read=30, reasoning=4)
    with ScriptedModel([Say("ok", usage=usage)]) as server:
        (reply,) = ask(adapter, server.base_url, asking("Go"))
    assert reply.usage == usage


def test_ids_are_unique_within_a_reply_and_within_the_conversation(adapter: Adapter) -> None:
    with ScriptedModel([Fault("duplicate_ids"), Fault("duplicate_ids")]) as server:
        (first,) = ask(adapter, server.base_url, asking("Go"))
        (second,) = ask(adapter, server.base_url, asking("Go", first.message, results()))
    ids = [call.id for reply in (first, second) for call in reply.message.calls]
    assert len(set(ids)) == 4
    assert first.message.wire is not None
    assert all(call.id.encode() in bytes(first.message.wire.body) for call in first.message.calls)


@pytest.mark.parametrize(
    ("reply", "stop"),
    [
        (Say("cut", stop="length"), "length"),
        (Call("read_file", '{"path": "a', stop="length"), "length"),
        (Say("partly", stop="content_filter"), "content_filter"),
        (Call("read_file", {}, stop="end"), "tool_calls"),
        (Fault("empty"), "end"),
        (Fault("content_type", reply=Say("ok")), "end"),
    ],
)
def test_the_reason_to_stop_is_kept(adapter: Adapter, reply: Say | Call | Fault, stop: str) -> None:
    with ScriptedModel([reply]) as server:
        assert ask(adapter, server.base_url, asking("Go"))[0].stop == stop
