"""Keys at work over HTTP: the next one takes over, a change of `.env` counts at once, and nobody's error marks another's key."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from melete.core.event import Reply, Retried
from melete.core.model import AuthError, ModelClient, ModelError
from melete.models.fallback import Falling, Health
from melete.models.keys import Key, KeyPool, KeyRotating
from melete.models.retry import Backoff, Retrying
from melete.testing import Fault, Say, ScriptedModel
from melete.testing.replies import Reply as Scripted
from tests.wire.adapters import Adapter, asking, collect, spec

ONE = Key(name="EXAMPLE_API_KEY", value="sk-first-0123456789")
TWO = Key(name="EXAMPLE_API_KEY_2", value="sk-second-0123456789")
QUICK = Backoff(base=0.001)


def keyed(adapter: Adapter, base_url: str, pool: KeyPool, *, model: str = "scripted-model") -> ModelClient:
    """A model that is asked with the keys of a pool, with retries round it."""

    def client(key: str) -> ModelClient:
        return adapter.open(spec(base_url, api_key=key, model=model))

    return Retrying(KeyRotating(client, pool), backoff=QUICK)


def keys_sent(server: ScriptedModel) -> list[str]:
    """Which key came with each request: 1, 2, or another's last letter."""
    known = {ONE.value: "1", TWO.value: "2"}
    sent: list[str] = []
    for request in server.requests:
        headers = str(request.headers)
        sent.append(next((name for value, name in known.items() if value in headers), "?"))
    return sent


def asked(
    adapter: Adapter,
    script: Sequence[Scripted],
    *,
    times: int = 1,
    keys: Callable[[], Sequence[Key]] = lambda: (ONE, TWO),
) -> tuple[list[str], list[str], KeyPool, list[str]]:
    """The texts of the answers, what was told, the pool, and the keys that were sent."""
    pool = KeyPool(keys)

    async def main(base_url: str) -> tuple[list[str], list[str]]:
        client = keyed(adapter, base_url, pool)
        try:
            items = [item for _ in range(times) for item in await collect(client.stream(asking("Go")))]
        finally:
            await client.aclose()
        texts = [item.message.text for item in items if isinstance(item, Reply)]
        return texts, [item.reason for item in items if isinstance(item, Retried)]

    with ScriptedModel(script) as server:
        texts, told = asyncio.run(main(server.base_url))
        return texts, told, pool, keys_sent(server)


@pytest.mark.parametrize(
    ("fault", "reason", "seconds"),
    [
        (Fault("rate_limited"), "EXAMPLE_API_KEY is limited for 1 h; EXAMPLE_API_KEY_2 is used now", 3600),
        (
            Fault("rate_limited", retry_after=600),
            "EXAMPLE_API_KEY is limited for 10 min; EXAMPLE_API_KEY_2 is used now",
            600,
        ),
        (Fault("unauthorized"), "EXAMPLE_API_KEY was rejected; EXAMPLE_API_KEY_2 is used now", 300),
        (Fault("quota"), "EXAMPLE_API_KEY has no credit left; EXAMPLE_API_KEY_2 is used now", 3600),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)
def test_the_second_key_takes_over_and_stays(adapter: Adapter, fault: Fault, reason: str, seconds: float) -> None:
    texts, told, pool, sent = asked(adapter, [fault, Say("One."), Say("Two.")], times=2)
    assert texts == ["One.", "Two."]
    assert told == [reason]
    assert sent == ["1", "2", "2"]
    first, second = pool.statuses()
    assert first.status == "exhausted"
    assert seconds - 60 < first.seconds <= seconds
    assert second.status == "ok"


@pytest.mark.parametrize(
    "fault", [Fault("server_error"), Fault("status", status=529), Fault("reset_midway"), Fault("html")]
)
def test_what_the_server_or_the_network_did_is_tried_again_with_the_same_key(adapter: Adapter, fault: Fault) -> None:
    texts, _, pool, sent = asked(adapter, [fault, Say("Fine.")])
    assert texts == ["Fine."]
    assert sent == ["1", "1"]
    assert [status.status for status in pool.statuses()] == ["ok", "ok"]


def test_both_limited_keys_are_waited_for(adapter: Adapter) -> None:
    limited = Fault("rate_limited", retry_after=0.01)
    texts, told, _, sent = asked(adapter, [limited, limited, Say("Patience.")])
    assert texts == ["Patience."]
    assert len(told) == 2
    assert sent[:2] == ["1", "2"]


def test_keys_that_are_swapped_in_mid_run_are_read_anew(adapter: Adapter) -> None:
    """As when a person changes `.env` while a run goes on: both old keys are refused, the new ones are used."""
    old = Key(name=ONE.name, value="sk-stale-0123456789")
    keys = [old]

    def swap(_: object, __: int) -> Fault:
        keys[:] = [TWO, ONE]
        return Fault("unauthorized")

    script = [Say("Before."), swap, Say("After."), Fault("unauthorized"), Say("At the end.")]
    texts, told, pool, sent = asked(adapter, script, times=3, keys=lambda: tuple(keys))
    assert texts == ["Before.", "After.", "At the end."]
    assert sent == ["?", "?", "2", "2", "1"]
    assert told == [
        "EXAMPLE_API_KEY was rejected; EXAMPLE_API_KEY_2 is used now",
        "EXAMPLE_API_KEY_2 was rejected; EXAMPLE_API_KEY is used now",
    ]
    assert [(s.name, s.status) for s in pool.statuses()] == [(TWO.name, "exhausted"), (ONE.name, "ok")]


def test_when_no_key_is_left_all_variables_are_named_and_no_value(adapter: Adapter) -> None:
    with pytest.raises(AuthError) as caught:
        asked(adapter, [Fault("unauthorized"), Fault("unauthorized")])
    line = str(caught.value)
    assert "EXAMPLE_API_KEY was rejected, EXAMPLE_API_KEY_2 was rejected" in line
    assert "sk-" not in line


@pytest.mark.parametrize("fault", [Fault("unauthorized"), Fault("rate_limited", retry_after=999), Fault("quota")])
def test_the_error_of_a_fallback_never_marks_a_key_of_the_first_model(adapter: Adapter, fault: Fault) -> None:
    mine, other = KeyPool(lambda: (ONE,)), KeyPool(lambda: (TWO,))

    async def main(one: str, two: str) -> ModelError:
        members = [keyed(adapter, one, mine), keyed(adapter, two, other, model="stand-in")]
        client = Falling(members, health=Health())
        try:
            with pytest.raises(ModelError) as caught:
                await collect(client.stream(asking("Go")))
            return caught.value
        finally:
            await client.aclose()

    with ScriptedModel([Fault("server_error")] * 4) as first, ScriptedModel([fault]) as second:
        error = asyncio.run(main(first.base_url, second.base_url))
        assert set(keys_sent(first)) == {"1"}
        assert set(keys_sent(second)) == {"2"}
    assert error.status == 500
    assert "stand-in" in str(error)
    assert [status.status for status in mine.statuses()] == ["ok"]
    assert [status.status for status in other.statuses()] == ["exhausted"]


def test_children_share_the_keys_and_each_key_takes_one_call(adapter: Adapter) -> None:
    """Four conversations over two keys: never two requests under way with one key."""
    busy: list[str] = []
    most: list[int] = []

    async def main(base_url: str) -> list[str]:
        pool = KeyPool(lambda: (ONE, TWO))
        clients = [keyed(adapter, base_url, pool) for _ in range(4)]

        async def ask(client: ModelClient) -> str:
            reply = (await collect(client.stream(asking("Go"))))[-1]
            assert isinstance(reply, Reply)
            return reply.message.text

        async def watch() -> None:
            while True:
                under_way = [s for s, r in zip(keys_sent(server), server.replied_at, strict=False) if not r]
                most.append(len(under_way))
                busy.extend(key for key in under_way if under_way.count(key) > 1)
                await asyncio.sleep(0.002)

        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch())
            texts = await asyncio.gather(*map(ask, clients))
            watching.cancel()
        for client in clients:
            await client.aclose()
        return texts

    slow = Fault("slow", seconds=0.01, reply=Say("Shared.", pieces=2))
    with ScriptedModel([slow] * 4) as server:
        assert asyncio.run(main(server.base_url)) == ["Shared."] * 4
        assert sorted(keys_sent(server)) == ["1", "1", "2", "2"]
    assert not busy
    assert max(most) == 2
