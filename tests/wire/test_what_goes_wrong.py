"""Faults: each cause is one class, whose line names URL and fix and never the key."""

import asyncio
import time
from email.utils import formatdate
from typing import Any

import pytest

from melete.core.model import (
    AuthError,
    BadRequestError,
    ConnectionFailedError,
    ContentFilterError,
    ContextOverflowError,
    MalformedReplyError,
    ModelError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    StalledError,
    TooLargeError,
    UnavailableError,
    UnknownModelError,
)
from melete.models.spec import Timeouts
from melete.testing import Fault, Say, ScriptedModel
from tests.wire.adapters import KEY, Adapter, answered, ask, asking, spec
from tests.wire.raw import head, sending, serving

FAULTS: tuple[tuple[Fault, type[ModelError], str], ...] = (
    (Fault("rate_limited"), RateLimitError, "limits"),
    (Fault("overloaded"), OverloadedError, "overloaded"),
    (Fault("status", status=529), OverloadedError, "overloaded"),
    (Fault("server_error"), UnavailableError, "HTTP 500"),
    (Fault("status", status=502, body="<html><head><title>Bad Gateway</title></head></html>"), UnavailableError, "Bad Gateway"),
    (Fault("bad_request"), BadRequestError, "did not accept"),
    (Fault("unauthorized"), AuthError, "MELETE_API_KEY"),
    (Fault("unauthorized", message=f"Incorrect API key provided: {KEY}."), AuthError, "[key]"),
    (Fault("unauthorized", message="Incorrect API key provided: sk-secre*****cdef."), AuthError, "[key]"),
    (Fault("status", status=403, message="not for you"), AuthError, "not for you"),
    (Fault("quota"), QuotaError, "credit"),
    (Fault("status", status=429, message="insufficient_quota"), QuotaError, "credit"),
    (Fault("unknown_model"), UnknownModelError, "melete doctor --online"),
    (Fault("status", status=404, message="page not found"), UnknownModelError, "nothing answers at"),
    (Fault("overflow"), ContextOverflowError, "does not fit"),
    (Fault("status", status=413, message="too big"), TooLargeError, "larger"),
    (Fault("status", status=400, message="flagged by our content management policy"), ContentFilterError, "refused"),
    (Fault("status", status=302, message="moved"), BadRequestError, "redirects"),
    (Fault("html"), MalformedReplyError, "Sign in"),
    (Fault("not_json"), MalformedReplyError, "it works!"),
    (Fault("other_json"), MalformedReplyError, "something else"),
    (Fault("reset"), ConnectionFailedError, "broke"),
    (Fault("reset_midway"), ConnectionFailedError, "broke"),
    (Fault("cut"), ConnectionFailedError, "broke"),
    (Fault("truncated"), ConnectionFailedError, "broke off"),
    (Fault("error_event"), UnavailableError, "while it was answering"),
)  # fmt: skip


@pytest.mark.parametrize(("fault", "kind", "words"), FAULTS, ids=lambda v: v.kind if isinstance(v, Fault) else "")
def test_each_cause_is_told_in_one_line(adapter: Adapter, fault: Fault, kind: type[ModelError], words: str) -> None:
    with ScriptedModel([fault]) as server, pytest.raises(ModelError) as caught:
        ask(adapter, server.base_url, asking("Go"), provider="")
    line = str(caught.value)
    assert type(caught.value) is kind, line
    assert words in line
    assert "127.0.0.1" in line or "scripted-model" in line
    assert KEY not in line
    assert "secre" not in line
    assert "\n" not in line
    assert caught.value.next


@pytest.mark.parametrize("fault", [Fault("no_end"), Fault("stall", after=99, seconds=5)])
def test_an_end_that_can_be_told_needs_no_end_marker(adapter: Adapter, fault: Fault) -> None:
    """A stream that never says why it stopped is a broken one; one that has said it is whole."""
    with ScriptedModel([fault]) as server:
        if fault.kind == "no_end":
            with pytest.raises(ConnectionFailedError, match="before its end"):
                ask(adapter, server.base_url, asking("Go"))
        else:
            assert ask(adapter, server.base_url, asking("Go"))[0].stop == "end"


def test_a_missing_key_is_named(adapter: Adapter) -> None:
    with (
        ScriptedModel([Fault("unauthorized")]) as server,
        pytest.raises(AuthError, match=r"none is set.*EXAMPLE_API_KEY"),
    ):
        ask(adapter, server.base_url, asking("Go"), api_key="", key_variable="EXAMPLE_API_KEY")


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [("2", 2, 2), ("0.25", 0.25, 0.25), ("a date", 20, 50), ("soon", None, None)],
)
def test_the_servers_wish_to_wait_is_read(
    adapter: Adapter, value: str, least: float | None, most: float | None
) -> None:
    value = formatdate(time.time() + 50, usegmt=True) if value == "a date" else value
    with ScriptedModel([Fault("rate_limited", retry_after=value)]) as server, pytest.raises(RateLimitError) as caught:
        ask(adapter, server.base_url, asking("Go"))
    found = caught.value.retry_after
    if least is None or most is None:
        assert found is None
    else:
        assert found is not None
        assert least <= found <= most


def failing(adapter: Adapter, base_url: str, **changes: Any) -> ModelError:
    """The error of one request."""
    with pytest.raises(ModelError) as caught:
        ask(adapter, base_url, asking("Go"), **changes)
    return caught.value


def test_a_refused_connection_asks_whether_the_server_runs(adapter: Adapter) -> None:
    server = ScriptedModel()
    server.close()
    for host in ("127.0.0.1", "localhost"):
        error = failing(adapter, server.base_url.replace("127.0.0.1", host))
        assert "refused the connection" in str(error)
        assert "is the server running" in str(error)
        assert error.retryable


def test_a_host_that_does_not_exist_is_named(adapter: Adapter) -> None:
    error = failing(adapter, "http://no-such-host.invalid/v1")
    assert isinstance(error, ConnectionFailedError)
    assert "the host no-such-host.invalid" in str(error)


def test_a_server_that_speaks_no_http_is_told(adapter: Adapter) -> None:
    async def main() -> None:
        async with serving(sending(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")) as port:
            client = adapter.open(spec(f"http://127.0.0.1:{port}/v1"))
            with pytest.raises(MalformedReplyError, match="does not speak HTTP"):
                await answered(client, asking("Go"))
            await client.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("after", [None, 0, 3])
def test_silence_is_ended_by_a_watchdog(adapter: Adapter, after: int | None) -> None:
    timeouts = Timeouts(first_token=0.15, between_tokens=0.15)
    with ScriptedModel([Fault("stall", after=after, seconds=30)]) as server:
        error = failing(adapter, server.base_url, timeouts=timeouts)
    assert isinstance(error, StalledError)
    assert "0.15 s" in str(error)


def test_slow_tokens_are_no_silence(adapter: Adapter) -> None:
    timeouts = Timeouts(first_token=2, between_tokens=2)
    with ScriptedModel([Fault("slow", seconds=0.02, reply=Say("slow but sure", pieces=2))]) as server:
        assert ask(adapter, server.base_url, asking("Go"), timeouts=timeouts)[0].message.text == "slow but sure"


def test_keep_alives_are_borne_until_patience_ends(adapter: Adapter) -> None:
    async def main() -> None:
        async with serving(sending(head(), *[b": alive\n\n"] * 200, pause=0.02)) as port:
            timeouts = Timeouts(first_token=0.2, patience=0.5)
            client = adapter.open(spec(f"http://127.0.0.1:{port}/v1", timeouts=timeouts))
            with pytest.raises(StalledError):
                await answered(client, asking("Go"))
            await client.aclose()

    asyncio.run(main())


def test_leaving_a_stream_ends_the_request(adapter: Adapter) -> None:
    async def main(server: ScriptedModel) -> None:
        client = adapter.open(spec(server.base_url))
        got = asyncio.Event()

        async def run() -> None:
            async for _ in client.stream(asking("Go")):
                got.set()

        task = asyncio.create_task(run())
        await got.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await answered(client, asking("Again"))).message.text == "second"
        await client.aclose()
        await client.aclose()

    with ScriptedModel([Fault("stall", after=6, seconds=30), Say("second")]) as server:
        asyncio.run(main(server))
