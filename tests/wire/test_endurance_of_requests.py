"""Every fault, once and twice in a row, through keys and retries: the answer comes whole, or the error that the loop acts on."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec import Struct

from melete.core.event import Reply, Retried
from melete.core.message import Usage
from melete.core.model import ContextOverflowError, ModelClient
from melete.models.keys import Key, KeyPool, KeyRotating
from melete.models.retry import Backoff, Retrying
from melete.models.spec import Timeouts
from melete.testing import Call, Fault, Say, ScriptedModel
from melete.testing.replies import Reply as Scripted
from tests.wire.adapters import KEY, Adapter, asking, collect, spec

SOON = Timeouts(first_token=0.3, between_tokens=0.3, tail=0.2)
CALL = Call("read_file", {"path": "a.txt"}, text="Let me look.")


class Run(Struct, frozen=True, kw_only=True):
    """One request: what was told of failures, the answer, and the waits that were asked for."""

    told: list[Retried]
    reply: Reply
    waits: list[float]


def enduring(adapter: Adapter, base_url: str, *, waits: list[float], timeouts: Timeouts = SOON) -> ModelClient:
    """The model as the program opens it, except that waits are noted and not waited for."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def client(key: str) -> ModelClient:
        return adapter.open(spec(base_url, api_key=key, timeouts=timeouts))

    pool = KeyPool(lambda: [Key(name="EXAMPLE_API_KEY", value=KEY)])
    return Retrying(KeyRotating(client, pool), backoff=Backoff(), sleep=sleep)


def endure(adapter: Adapter, script: Sequence[Scripted], *, requests: int) -> Run:
    """Ask once; the server must have been asked `requests` times."""

    async def main(base_url: str) -> Run:
        waits: list[float] = []
        client = enduring(adapter, base_url, waits=waits)
        try:
            items = await collect(client.stream(asking("Go")))
        finally:
            await client.aclose()
        replies = [item for item in items if isinstance(item, Reply)]
        assert replies == items[-1:]
        return Run(told=[i for i in items if isinstance(i, Retried)], reply=replies[0], waits=waits)

    with ScriptedModel(script) as server:
        run = asyncio.run(main(server.base_url))
        assert len(server.requests) == requests
        assert len({request.body for request in server.requests}) == 1, "the same request is made again"
    assert KEY not in str(run.told)
    return run


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (Fault("rate_limited"), "RateLimitError"),
        (Fault("rate_limited", retry_after=3), "RateLimitError"),
        (Fault("server_error"), "UnavailableError"),
        (Fault("status", status=529), "OverloadedError"),
        (Fault("reset"), "ConnectionFailedError"),
        (Fault("reset_midway", reply=CALL), "ConnectionFailedError"),
        (Fault("empty"), "EmptyReplyError"),
        (Fault("stall"), "StalledError"),
        (Fault("stall", after=2, reply=CALL), "StalledError"),
        (Fault("html"), "MalformedReplyError"),
        (Fault("truncated", reply=CALL), "ConnectionFailedError"),
        (Fault("error_event", reply=CALL), "UnavailableError"),
        (Fault("no_end", reply=CALL), "ConnectionFailedError"),
    ],
    ids=lambda value: f"{value.kind}-{value.after}" if isinstance(value, Fault) else "",
)
def test_what_may_go_well_next_time_is_tried_again(adapter: Adapter, fault: Fault, cause: str, times: int) -> None:
    run = endure(adapter, [*[fault] * times, Say("All is well.")], requests=times + 1)
    assert run.reply.message.text == "All is well."
    assert not run.reply.message.calls, "nothing of a broken answer is left"
    assert [told.cause for told in run.told] == [cause] * times
    assert [told.attempt for told in run.told] == list(range(1, times + 1))
    assert [told.delay for told in run.told] == [round(wait, 3) for wait in run.waits]
    if fault.retry_after:
        assert run.waits == [3.0] * times
    elif fault.kind != "rate_limited":
        assert run.waits[0] <= 0.25


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    ("fault", "calls", "text"),
    [
        (Fault("unknown_tool"), [("open_pod_bay_doors", '{"now": true}')], ""),
        (Fault("duplicate_ids"), [("read_file", '{"path": "a.txt"}'), ("read_file", '{"path": "b.txt"}')], ""),
        (Fault("slow", seconds=0.01, reply=Say("Slow but sure.")), [], "Slow but sure."),
        (Fault("content_type", reply=Say("Wrongly labelled.")), [], "Wrongly labelled."),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)
def test_what_is_an_answer_goes_to_the_loop_at_once(
    adapter: Adapter, fault: Fault, calls: list[tuple[str, str]], text: str, times: int
) -> None:
    """The loop tells the model what is wrong with its calls; no request is made for nothing."""

    async def main(base_url: str) -> None:
        client = enduring(adapter, base_url, waits=[])
        try:
            for _ in range(times):
                items = await collect(client.stream(asking("Go")))
                reply = items[-1]
                assert isinstance(reply, Reply)
                assert not any(isinstance(item, Retried) for item in items)
                wanted = [(name, adapter.as_read(arguments)) for name, arguments in calls]
                assert [(call.name, call.arguments) for call in reply.message.calls] == wanted
                assert len({call.id for call in reply.message.calls}) == len(calls)
                assert reply.message.text == text
        finally:
            await client.aclose()

    with ScriptedModel([fault] * times) as server:
        asyncio.run(main(server.base_url))
        assert len(server.requests) == times


@pytest.mark.parametrize("times", [1, 2])
def test_malformed_arguments_go_to_the_loop_where_the_wire_can_carry_them(adapter: Adapter, times: int) -> None:
    """A wire whose arguments are objects gives no call then: the answer is empty, and is asked for again."""
    script = [*[Fault("malformed_arguments")] * times, Say("Better.")]
    run = endure(adapter, script, requests=times + 1 if adapter.compact else 1)
    if adapter.compact:
        assert [told.cause for told in run.told] == ["EmptyReplyError"] * times
        assert run.reply.message.text == "Better."
    else:
        assert [call.arguments for call in run.reply.message.calls] == ['{"path": "README.md", "offset": ']


@pytest.mark.parametrize("times", [1, 2])
def test_a_conversation_that_is_too_long_is_told_at_once(adapter: Adapter, times: int) -> None:
    async def main(base_url: str) -> None:
        client = enduring(adapter, base_url, waits=[])
        try:
            for _ in range(times):
                with pytest.raises(ContextOverflowError):
                    await collect(client.stream(asking("Go")))
            reply = (await collect(client.stream(asking("Less"))))[-1]
            assert isinstance(reply, Reply)
            assert reply.message.text == "It fits."
        finally:
            await client.aclose()

    with ScriptedModel([*[Fault("overflow")] * times, Say("It fits.")]) as server:
        asyncio.run(main(server.base_url))
        assert len(server.requests) == times + 1


def test_different_faults_in_a_row_are_borne(adapter: Adapter) -> None:
    script = [Fault("html"), Fault("empty"), Fault("reset_midway"), Say("At last.")]
    run = endure(adapter, script, requests=4)
    assert [told.cause for told in run.told] == ["MalformedReplyError", "EmptyReplyError", "ConnectionFailedError"]
    assert run.reply.message.text == "At last."


def test_an_answer_of_reasoning_alone_is_asked_for_again_and_its_cost_is_told(adapter: Adapter) -> None:
    thought = Say(text="", thinking="Hm.", usage=Usage(input=40, output=300, reasoning=290))
    run = endure(adapter, [thought, Say("Now in words.")], requests=2)
    assert [told.usage.output for told in run.told] == [300]
    assert [told.provider for told in run.told] == [run.reply.provider]
    assert run.reply.message.text == "Now in words."


def test_a_model_that_has_nothing_to_say_is_believed_in_the_end(adapter: Adapter) -> None:
    run = endure(adapter, [Fault("empty")] * 4, requests=3)
    assert run.reply.message.text == ""
    assert len(run.told) == 2
