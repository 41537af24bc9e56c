"""A model's outage is survived by the next model, over HTTP and in mid-answer; after a rest the first one is asked again."""

import asyncio
from typing import Any

import pytest

from melete.core.event import Reply, Retried, TextDelta
from melete.core.message import ToolResult
from melete.core.model import ContextOverflowError, ModelClient, RateLimitError
from melete.models.fallback import Falling, Health
from melete.models.retry import Backoff, Retrying
from melete.models.spec import Timeouts
from melete.testing import Call, Fault, Say, ScriptedModel
from tests.wire.adapters import ADAPTERS, Adapter, answered, asking, collect, results, spec

QUICK = Backoff(tries=1, base=0.001, longest_wait=10)


class Time:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def member(adapter: Adapter, base_url: str, **changes: Any) -> ModelClient:
    """One model with its retries."""
    return Retrying(adapter.open(spec(base_url, **changes)), backoff=QUICK)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("server_error"), Fault("status", status=529), Fault("rate_limited"), Fault("reset"), Fault("reset_midway"),
        Fault("stall", after=2), Fault("html"), Fault("truncated"), Fault("unauthorized"), Fault("quota"),
        Fault("unknown_model"), Fault("bad_request"), Fault("status", status=413),
        Fault("status", status=400, message="flagged by our content management policy"),
    ],
    ids=lambda fault: f"{fault.kind}{fault.status or ''}",
)  # fmt: skip
def test_an_outage_is_survived(adapter: Adapter, fault: Fault) -> None:
    async def main(one: str, two: str) -> None:
        timeouts = Timeouts(first_token=0.3, between_tokens=0.3, tail=0.2)
        client = Falling(
            [
                member(adapter, one, model="first", provider="a", timeouts=timeouts),
                member(adapter, two, model="second", provider="b"),
            ],
            health=Health(),
        )
        items = await collect(client.stream(asking("Go")))
        await client.aclose()
        last = [at for at, item in enumerate(items) if isinstance(item, Retried)][-1]
        change, reply = items[last], items[-1]
        assert isinstance(change, Retried)
        assert (change.model, change.provider) == ("second", "b")
        assert change.reason.startswith("b/second goes on in place of a/first: ")
        assert isinstance(reply, Reply)
        assert (reply.message.text, reply.provider) == ("From the second.", "b")
        shown = "".join(item.text for item in items[last:] if isinstance(item, TextDelta))
        assert shown == "From the second.", "what the first one began is void"

    with ScriptedModel([fault] * 2) as first, ScriptedModel([Say("From the second.")]) as second:
        asyncio.run(main(first.base_url, second.base_url))
        assert b'"first"' not in second.requests[0].body, "each model is asked for by its own name"


def test_a_dead_host_is_no_end(adapter: Adapter) -> None:
    gone = ScriptedModel()
    gone.close()

    async def main(two: str) -> str:
        client = Falling([member(adapter, gone.base_url, model="first"), member(adapter, two)], health=Health())
        try:
            return (await answered(client, asking("Go"))).message.text
        finally:
            await client.aclose()

    with ScriptedModel([Say("Here.")]) as server:
        assert asyncio.run(main(server.base_url)) == "Here."


def test_the_first_model_is_asked_again_after_its_rest(adapter: Adapter) -> None:
    async def main(one: str, two: str) -> list[str]:
        time = Time()
        client = Falling(
            [member(adapter, one, model="first"), member(adapter, two, model="second")],
            health=Health(now=time),
            cooldown=60,
        )
        said: list[str] = []
        for passed in (0, 30, 31, 0):
            time.now += passed
            said.append(client.name)
            said.append((await answered(client, asking("Go"))).message.text)
        await client.aclose()
        return said

    outage = [Fault("server_error")] * 2
    with ScriptedModel([*outage, Say("1a"), Say("1b")]) as first, ScriptedModel([Say("2a"), Say("2b")]) as second:
        said = asyncio.run(main(first.base_url, second.base_url))
    assert said == ["first", "2a", "second", "2b", "first", "1a", "first", "1b"]


def test_a_wait_longer_than_is_borne_goes_to_the_next_model_at_once(adapter: Adapter) -> None:
    async def main(one: str, two: str) -> list[Any]:
        client = Falling([member(adapter, one, model="first"), member(adapter, two)], health=Health())
        try:
            return await collect(client.stream(asking("Go")))
        finally:
            await client.aclose()

    with ScriptedModel([Fault("rate_limited", retry_after=600)]) as first, ScriptedModel([Say("Now.")]) as second:
        items = asyncio.run(main(first.base_url, second.base_url))
        assert len(first.requests) == 1
    assert [(i.cause, i.delay) for i in items if isinstance(i, Retried)] == [("RateLimitError", 0.0)]


def test_a_conversation_that_is_too_long_does_not_change_the_model(adapter: Adapter) -> None:
    async def main(one: str, two: str) -> None:
        client = Falling([member(adapter, one, model="first"), member(adapter, two)], health=Health())
        with pytest.raises(ContextOverflowError):
            await answered(client, asking("Go"))
        assert client.name == "first"
        await client.aclose()

    with ScriptedModel([Fault("overflow")]) as first, ScriptedModel() as second:
        asyncio.run(main(first.base_url, second.base_url))
        assert not second.requests


def test_when_all_fail_the_first_cause_is_told_with_the_others(adapter: Adapter) -> None:
    async def main(one: str, two: str) -> None:
        client = Falling([member(adapter, one, model="first"), member(adapter, two, model="second")], health=Health())
        with pytest.raises(RateLimitError) as caught:
            await answered(client, asking("Go"))
        await client.aclose()
        assert "the fallbacks failed as well" in str(caught.value)
        assert "no credit" in str(caught.value)

    with ScriptedModel([Fault("rate_limited")] * 2) as first, ScriptedModel([Fault("quota")]) as second:
        asyncio.run(main(first.base_url, second.base_url))


@pytest.mark.parametrize("other", ADAPTERS, ids=lambda other: f"to-{other.wire}")
def test_a_conversation_goes_over_to_any_wire_and_back(adapter: Adapter, other: Adapter) -> None:
    """A call that the first model made is answered to the second one, and the first one hears of both."""

    async def main(one: str, two: str) -> None:
        time = Time()
        client = Falling(
            [
                member(adapter, one, model="first", provider="a", wire=adapter.wire),
                member(other, two, model="second", provider="b", wire=other.wire),
            ],
            health=Health(now=time),
        )
        messages = list(asking("Go").messages)
        for passed in (0, 0, 61):
            time.now += passed
            reply = await answered(client, asking(*messages))
            messages.append(reply.message)
            messages.extend(
                results(ToolResult(call=call.id, name=call.name, content='{"success": true}'))
                for call in reply.message.calls
            )
        assert client.wire == adapter.wire
        await client.aclose()
        assert messages[-1].text == "Back again."

    call = Call("read_file", {"path": "a.txt"}, text="Let me look.", thinking="Where is it?")
    with (
        ScriptedModel([call, Fault("server_error"), Fault("server_error"), Say("Back again.")]) as first,
        ScriptedModel([Call("read_file", {"path": "b.txt"}, text="And there.")]) as second,
    ):
        asyncio.run(main(first.base_url, second.base_url))
        assert (len(first.requests), len(second.requests)) == (4, 1)
        assert b"Let me look." in second.requests[0].body
        last = first.requests[-1].body
        assert all(part in last for part in (b"Let me look.", b"And there.", b"a.txt", b"b.txt"))
