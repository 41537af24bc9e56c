"""Facts as spans, read from what a collector gets over the network."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.talking import talk
from tests.unit.app.collector import Sent, TraceCollector

from melete import __version__
from melete.app.spans import Spans
from melete.app.telemetry import Collector, tracing
from melete.core.event import (
    Answered,
    Asked,
    CancelAsked,
    Compacted,
    Fact,
    Question,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Steered,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Image, Message, Text, Thinking, ToolCall, ToolResult, Usage, user
from melete.core.session import SessionRef
from melete.testing import Call, Calls, Say, ScriptedModel

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
AGENT = "invoke_agent melete"


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def sent(facts: Sequence[Fact], *, content: bool = False, session: str = "s1", secret: str = "") -> TraceCollector:
    """What a collector has got when all these facts were listened to."""

    async def main() -> None:
        to = Collector(endpoint=f"{collector.url}/v1/traces", where="here", content=content)
        spans = Spans(to, redact=lambda text: text.replace(secret, "[redacted]") if secret else text)
        for fact in facts:
            spans.listen(SessionRef(id=session), fact)
        await spans.aclose(seconds=20)

    with TraceCollector() as collector:
        asyncio.run(main())
    return collector


def started(**fields: Any) -> RunStarted:
    given = {"model": "m", "provider": "openai", "base_url": "https://api.example:8443/v1", "surface": "api"}
    return RunStarted(**{"run": "r1", "at": NOON, **given, **fields})


def ended(**fields: Any) -> RunEnded:
    return RunEnded(**{"run": "r1", "at": at(100), "stop": "done", "text": "All done.", **fields})


def reply(moment: float, *parts: Any, **fields: Any) -> Reply:
    message = Message(role="assistant", parts=parts or (Text(text="words of the model"),))
    return Reply(**{"message": message, "at": at(moment), "seconds": 2.0, "model": "m-1", **fields})


def begun(seconds: float, id: str, name: str = "terminal", arguments: str = '{"command":"ls"}') -> ToolStarted:
    return ToolStarted(call=ToolCall(id=id, name=name, arguments=arguments), effect="write", at=at(seconds))


def over(moment: float, id: str, name: str = "terminal", **fields: Any) -> ToolEnded:
    result = ToolResult(call=id, name=name, content='{"output":"files"}')
    return ToolEnded(**{"result": result, "at": at(moment), **fields})


def nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


def test_a_real_conversation_is_one_trace(tmp_path: Path, own_home: Path) -> None:
    warned: list[str] = []

    async def main() -> tuple[str, str]:
        settings = {"telemetry.otlp_endpoint": collector.url}
        async with talk(model, tmp_path / "here", settings=settings, surface="api") as one:
            async with tracing(one.app, warn=warned.append):
                await one.say("a very private question")
            run = (await one.facts(RunStarted))[0].run
            return one.conversation.ref.id, run

    steps = [Calls([Call("terminal", {"command": "echo mine"}), Call("read_file", {"path": "a"})]), Say("private too")]
    with TraceCollector() as collector, ScriptedModel(steps) as model:
        session, run = asyncio.run(main())
    agent, (first, second) = collector.one(AGENT), collector.named("chat scripted")
    terminal, read = collector.one("execute_tool terminal"), collector.one("execute_tool read_file")
    assert len(collector.spans) == 5
    assert not warned
    assert collector.paths == ["/v1/traces"] * len(collector.paths)
    assert agent.parent == ""
    assert {span.trace for span in collector.spans} == {agent.trace}
    assert {span.parent for span in (first, second, terminal, read)} == {agent.id}
    assert {span.about["gen_ai.conversation.id"] for span in collector.spans} == {session}
    assert agent.about["melete.run"] == run
    assert agent.about["melete.surface"] == "api"
    assert agent.about["melete.stop"] == "done"
    assert agent.begun <= first.begun <= first.ended <= terminal.begun <= terminal.ended <= second.ended <= agent.ended
    assert first.about["gen_ai.response.finish_reasons"] == ["tool_call"]
    assert second.about["gen_ai.response.finish_reasons"] == ["stop"]
    assert (
        first.about["gen_ai.usage.input_tokens"] + second.about["gen_ai.usage.input_tokens"]
        == (agent.about["gen_ai.usage.input_tokens"])
    )
    assert terminal.error == ""
    assert read.about["error.type"] == read.error == "error"
    assert agent.resource["service.name"] == "melete"
    assert agent.resource["service.version"] == __version__
    raw = b"".join(collector.bodies)
    assert b"private" not in raw
    assert b"mine" not in raw


def test_the_run_says_what_it_is_and_what_it_took() -> None:
    usage = Usage(input=10, output=20, cache_read=300, cache_write=4000, reasoning=5)
    got = sent([started(about={"job": "j1", "resumes": "r0"}), ended(usage=usage, cost_usd=0.5, steps=3)])
    agent = got.one(AGENT)
    assert agent.kind == "INTERNAL"
    assert (agent.begun, agent.ended) == (nanoseconds(NOON), nanoseconds(at(100)))
    assert agent.about == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "melete",
        "gen_ai.agent.version": __version__,
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "s1",
        "gen_ai.usage.input_tokens": 4310,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 300,
        "gen_ai.usage.cache_write.input_tokens": 4000,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "melete.run": "r1",
        "melete.surface": "api",
        "melete.job": "j1",
        "melete.resumes": "r0",
        "melete.stop": "done",
        "melete.steps": 3,
        "melete.cost_usd": 0.5,
    }


def test_a_reply_says_who_answered_and_how() -> None:
    usage = Usage(input=10, output=20)
    answer = reply(5, usage=usage, provider="openai", request_id="req_7", first_token_seconds=0.5)
    chat = sent([started(), answer, ended()]).one("chat m")
    assert chat.kind == "CLIENT"
    assert (chat.begun, chat.ended) == (nanoseconds(at(3)), nanoseconds(at(5)))
    assert chat.about == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": "s1",
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 0.5,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 20,
        "server.address": "api.example",
        "server.port": 8443,
        "melete.request_id": "req_7",
    }


def test_providers_have_the_names_of_the_conventions() -> None:
    for ours, theirs in (("google", "gcp.gemini"), ("xai", "x_ai"), ("my.host", "my.host"), ("", "_OTHER")):
        assert sent([started(provider=ours), ended()]).one(AGENT).about["gen_ai.provider.name"] == theirs


def test_an_incoming_trace_goes_on() -> None:
    got = sent([started(about={"traceparent": PARENT, "tracestate": "a=b"}), reply(5), ended()])
    agent, chat = got.one(AGENT), got.one("chat m")
    assert agent.trace == chat.trace == PARENT.split("-")[1]
    assert agent.parent == PARENT.split("-")[2]
    assert chat.parent == agent.id


def test_a_caller_who_does_not_sample_gets_no_spans() -> None:
    assert not sent([started(about={"traceparent": PARENT[:-1] + "0"}), reply(5), ended()]).spans


@pytest.mark.parametrize(
    "odd", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff" + PARENT[2:], PARENT * 9]
)
def test_an_odd_traceparent_begins_a_trace_of_its_own(odd: str) -> None:
    agent = sent([started(about={"traceparent": odd}), ended()]).one(AGENT)
    assert agent.parent == ""
    assert len(agent.trace) == 32


def test_tries_are_part_of_the_request_that_they_repeat() -> None:
    facts = (
        started(),
        Said(message=user("go"), at=at(1)),
        Retried(attempt=1, cause="OverloadedError", reason="busy: secret", delay=1.0, at=at(2)),
        Retried(
            attempt=1, cause="OverloadedError", reason="x", delay=0.0, model="other", provider="anthropic", at=at(4)
        ),
        reply(9, provider="anthropic", seconds=1.0),
        reply(20, provider="anthropic"),
        ended(),
    )
    got = sent(facts)
    first, second = got.named("chat other")
    assert (first.begun, first.ended) == (nanoseconds(at(1)), nanoseconds(at(9)))
    assert first.events == [
        ("retried", {"error.type": "OverloadedError", "attempt": 1, "delay": 1.0}),
        ("retried", {"error.type": "OverloadedError", "attempt": 1, "delay": 0.0}),
    ]
    assert first.about["gen_ai.provider.name"] == "anthropic"
    assert "server.address" not in first.about  # the address is that of the model that failed
    assert first.error == ""
    assert not second.events
    assert b"secret" not in b"".join(got.bodies)


def test_a_request_that_failed_for_good_is_a_span_that_failed() -> None:
    got = sent(
        [
            started(),
            Retried(attempt=1, cause="OverloadedError", reason="busy", delay=1.0, at=at(2)),
            ended(stop="failed", error="the server is busy; it said: secret"),
        ]
    )
    chat, agent = got.one("chat m"), got.one(AGENT)
    assert chat.about["error.type"] == chat.error == "OverloadedError"
    assert chat.ended == nanoseconds(at(100))
    assert agent.about["error.type"] == agent.error == "failed"
    assert b"secret" not in b"".join(got.bodies)


@pytest.mark.parametrize(("stop", "fails"), [("done", False), ("cancelled", False), ("out_of_budget", True)])
def test_limits_are_errors_and_a_cancelled_run_is_none(stop: str, fails: bool) -> None:
    agent = sent([started(), ended(stop=stop)]).one(AGENT)
    assert agent.error == (stop if fails else "")
    assert agent.about["melete.stop"] == stop


def test_calls_have_their_own_spans_below_whoever_made_them() -> None:
    got = sent(
        [
            started(),
            reply(1),
            begun(2, "c1"),
            begun(2, "c2", "execute_code"),
            begun(3, "c2/1", "read_file"),
            over(4, "c2/1", "read_file", outcome="timeout"),
            over(5, "c2", "execute_code"),
            over(6, "c1"),
            over(9, "c3", "patch", outcome="denied", seconds=2.0),
            ended(),
        ]
    )
    agent, outer, inner = got.one(AGENT), got.one("execute_tool execute_code"), got.one("execute_tool read_file")
    assert inner.parent == outer.id
    assert outer.parent == agent.id
    assert outer.kind == "INTERNAL"
    assert inner.about["error.type"] == inner.about["melete.tool.outcome"] == "timeout"
    assert outer.about == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "execute_code",
        "gen_ai.tool.call.id": "c2",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "s1",
        "melete.tool.effect": "write",
        "melete.tool.outcome": "ok",
    }
    terminal, denied = got.one("execute_tool terminal"), got.one("execute_tool patch")
    assert (terminal.begun, terminal.ended) == (nanoseconds(at(2)), nanoseconds(at(6)))
    assert (denied.begun, denied.ended, denied.error) == (nanoseconds(at(7)), nanoseconds(at(9)), "denied")


def test_people_and_compaction_are_events_of_the_run() -> None:
    got = sent(
        [
            started(),
            Asked(question=Question(id="q", kind="approval", text="may I? secret"), at=at(1)),
            Answered(question="q", value="secret", at=at(2)),
            Compacted(segment="b", parent="a", messages=(), tokens_before=90, tokens_after=9, at=at(3)),
            Steered(message=user("secret"), at=at(4)),
            reply(5),
            CancelAsked(at=at(6)),
            ended(stop="cancelled"),
        ]
    )
    assert got.one(AGENT).events == [
        ("asked", {"kind": "approval"}),
        ("answered", {"kind": "approval", "status": "accepted"}),
        ("compacted", {"tokens_before": 90, "tokens_after": 9}),
        ("cancel", {}),
    ]
    assert got.one("chat m").about["gen_ai.conversation.compacted"] is True
    assert b"secret" not in b"".join(got.bodies)


def test_content_is_sent_where_it_is_asked_for_without_secrets_and_bounded() -> None:
    call = ToolCall(id="c1", name="terminal", arguments='{"command":"echo hunter2"}')
    picture = Image(media_type="image/png", data="AAAA")
    got = sent(
        [
            started(),
            Said(message=Message(role="user", parts=(Text(text="my key is hunter2"), picture))),
            reply(3, Thinking(text="hm"), call, stop="tool_calls"),
            begun(4, "c1", arguments=call.arguments),
            over(5, "c1"),
            reply(8, Text(text="x" * 20_000)),
            ended(text="It is hunter2.", error="hunter2", stop="failed"),
        ],
        content=True,
        secret="hunter2",
    )
    first, second = got.named("chat m")
    agent, tool = got.one(AGENT), got.one("execute_tool terminal")
    prompt = {"role": "user", "parts": [{"type": "text", "content": "my key is [redacted]"}]}
    prompt["parts"].append({"type": "image", "mime_type": "image/png"})
    assert msgspec.json.decode(agent.about["gen_ai.input.messages"]) == [prompt]
    assert msgspec.json.decode(first.about["gen_ai.input.messages"]) == [prompt]
    assert msgspec.json.decode(first.about["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "c1", "name": "terminal", "arguments": {"command": "echo [redacted]"}},
            ],
            "finish_reason": "tool_call",
        }
    ]
    assert tool.about["gen_ai.tool.call.arguments"] == '{"command":"echo [redacted]"}'
    assert tool.about["gen_ai.tool.call.result"] == '{"output":"files"}'
    assert msgspec.json.decode(second.about["gen_ai.input.messages"]) == [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"output": "files"}}]}
    ]
    long = msgspec.json.decode(second.about["gen_ai.output.messages"])[0]["parts"][0]["content"]
    assert len(long) < 9_000
    assert "12,000 more characters" in long
    assert msgspec.json.decode(agent.about["gen_ai.output.messages"])[0]["parts"][0]["content"] == "It is [redacted]."
    assert agent.error == "[redacted]"
    assert b"hunter2" not in b"".join(got.bodies)
    assert b"AAAA" not in b"".join(got.bodies)


@pytest.mark.parametrize("content", [False, True])
def test_text_that_cannot_be_encoded_costs_no_span(content: bool) -> None:
    odd = "half \ud800 of a pair"
    got = sent(
        [
            started(model=odd, provider=odd, surface=odd, base_url="http://[odd"),
            Said(message=user(odd)),
            reply(3, Text(text=odd), model=odd, request_id=odd),
            begun(4, odd, odd, arguments=odd),
            over(5, odd, odd),
            ended(text=odd, error=odd, stop="failed"),
        ],
        content=content,
    )
    assert len(got.spans) == 3


def test_what_a_run_leaves_open_ends_with_the_server() -> None:
    got = sent([started(), reply(1), begun(2, "c1")])
    agent, tool = got.one(AGENT), got.one("execute_tool terminal")
    assert agent.error == tool.error == agent.about["error.type"] == "interrupted"


def test_a_run_without_an_end_ends_when_the_session_begins_another() -> None:
    got = sent([started(), started(run="r2", at=at(50)), ended(run="r2")])
    first, second = got.named(AGENT)
    assert (first.error, first.about["melete.run"]) == ("interrupted", "r1")
    assert (second.error, second.about["melete.run"]) == ("", "r2")


def test_facts_outside_a_run_that_began_here_make_no_spans() -> None:
    assert not sent([reply(1), begun(2, "c1"), over(3, "c1"), ended()]).spans


def test_a_mistake_ends_the_traces_and_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    got = sent([started(), ended(), started(at="never"), ended(), started(), ended()])
    assert [span.error for span in got.named(AGENT)] == [""]
    assert [record.message for record in caplog.records] == [
        "no more traces are sent, because making a span failed; runs are not affected"
    ]


def test_sessions_have_traces_of_their_own() -> None:
    async def main() -> None:
        spans = Spans(Collector(endpoint=f"{collector.url}/v1/traces", where="here"), redact=str)
        facts: list[tuple[str, Fact]] = [("a", started()), ("b", started()), ("a", reply(5)), ("b", ended())]
        for session, fact in [*facts, ("a", ended())]:
            spans.listen(SessionRef(id=session), fact)
        await spans.aclose(seconds=20)

    with TraceCollector() as collector:
        asyncio.run(main())
    by_session: dict[str, Sent] = {span.about["gen_ai.conversation.id"]: span for span in collector.named(AGENT)}
    assert by_session["a"].trace != by_session["b"].trace
    assert collector.one("chat m").trace == by_session["a"].trace
