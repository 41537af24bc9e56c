"""Connections that are judged: the address that is dialled is one that was judged, whatever a name server says later."""

import asyncio
import base64
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from melete.core.errors import ConfigError, EnvironmentFailure
from melete.net import dial
from melete.net.dial import PinnedDialer, ThroughProxy, Upstream, dialer_for, in_turn, system_resolve, upstream_of
from melete.security.urls import networks

PUBLIC = "93.184.215.14"
Handler = Callable[[StreamReader, StreamWriter], Awaitable[None]]


def run(work: Awaitable[Any]) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(30):
            return await work

    return asyncio.run(main())


class Answers:
    """A name server that gives one answer after the other, and counts."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "answer",
    (["127.0.0.1"], ["10.0.0.5"], ["169.254.169.254"], ["fd00:ec2::254"], ["::ffff:127.0.0.1"],
     [PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], []),
)  # fmt: skip
def test_a_name_that_stands_for_anything_private_is_refused_whole(answer: list[str]) -> None:
    with pytest.raises(EnvironmentFailure, match=r"host\.example"):
        run(PinnedDialer(resolve=Answers(answer))("host.example", 443))


class Roads:
    """Connections to addresses of the world, each led to a server on this machine or into nothing; what was dialled is kept."""

    def __init__(self, port: int, *, blocked: Sequence[str] = (), silent: Sequence[str] = ()) -> None:
        self.port = port
        self.blocked = blocked
        self.silent = silent
        self.dialled: list[str] = []

    async def __call__(self, address: str, port: int) -> tuple[StreamReader, StreamWriter]:
        self.dialled.append(address)
        if address in self.silent:
            await asyncio.sleep(60)
        return await asyncio.open_connection("127.0.0.1", 1 if address in self.blocked else self.port)


async def greet(reader: StreamReader, writer: StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()


def test_a_name_is_asked_for_once_so_that_a_second_answer_helps_nobody() -> None:
    async def main() -> None:
        async with serving(greet) as port:
            answers, roads = Answers([PUBLIC], ["127.0.0.1"]), Roads(port)
            reader, writer = await PinnedDialer(resolve=answers, connect=roads)("host.example", 443)
            assert await reader.read() == b"hello"
            writer.close()
            assert (answers.asked, roads.dialled) == (1, [PUBLIC])

    run(main())


def test_an_address_that_does_not_answer_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "CONNECTING", 0.4)

    async def main() -> None:
        async with serving(greet) as port:
            roads = Roads(port, silent=[PUBLIC], blocked=["2606:4700::1111"])
            answers = Answers([PUBLIC, "1.0.0.1", "2606:4700::1111"])
            _, writer = await PinnedDialer(resolve=answers, connect=roads)("host.example", 443)
            writer.close()
            assert roads.dialled == [PUBLIC, "2606:4700::1111", "1.0.0.1"]
            roads.blocked, roads.silent = [PUBLIC, "1.0.0.1", "2606:4700::1111"], []
            with pytest.raises(OSError, match=r"."):
                await PinnedDialer(resolve=answers, connect=roads)("host.example", 443)

    run(main())


def test_families_take_turns() -> None:
    assert in_turn(["a::1", "a::2", "1.0.0.1"]) == ["a::1", "1.0.0.1", "a::2"]
    assert in_turn(["1.0.0.1"]) == ["1.0.0.1"]


def test_the_systems_resolver_is_asked_by_default() -> None:
    assert run(system_resolve("127.0.0.1", 80)) == ["127.0.0.1"]
    with pytest.raises(EnvironmentFailure, match="this machine"):
        run(PinnedDialer()("localhost", 80))
    with pytest.raises(OSError, match=r"."):
        run(PinnedDialer()("no-such-name.invalid", 80))


def test_a_name_server_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "RESOLVING", 0.05)

    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(60)
        return []

    with pytest.raises(OSError, match="no answer"):
        run(PinnedDialer(resolve=never)("host.example", 80))


def test_a_label_that_is_too_long_is_no_name() -> None:
    with pytest.raises(OSError, match="no name"):
        run(PinnedDialer()("a" * 70 + ".example", 80))


# ---- through the machine's own proxy ---------------------------------------------------------------------------------


def test_connections_go_through_the_machines_proxy_with_its_password() -> None:
    heads: list[bytes] = []

    async def proxy(reader: StreamReader, writer: StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 Yes\r\nVia: me\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async def main() -> None:
        async with serving(proxy) as port:
            through = dialer_for({"HTTPS_PROXY": f"http://me:s%40t@127.0.0.1:{port}"})
            reader, writer = await through("host.example", 443)
            assert await reader.read() == b"hello"
            writer.close()

    run(main())
    assert heads[0].startswith(b"CONNECT host.example:443 HTTP/1.1\r\n")
    assert b"Basic " + base64.b64encode(b"me:s@t") in heads[0]


@pytest.mark.parametrize("host", ("127.0.0.1", "localhost", "169.254.169.254", "::1", "db.internal"))
def test_what_is_private_is_refused_there_too(host: str) -> None:
    with pytest.raises(EnvironmentFailure, match="may not be reached"):
        run(dialer_for({"https_proxy": "http://127.0.0.1:1"})(host, 80))


@pytest.mark.parametrize(
    "answer", (b"HTTP/1.1 407 No\r\n\r\n", b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200" + b"x" * 100_000)
)
def test_a_proxy_that_refuses_or_talks_nonsense_is_an_error(answer: bytes) -> None:
    async def proxy(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def main() -> None:
        async with serving(proxy) as port:
            with pytest.raises(OSError, match="proxy of this machine"):
                await ThroughProxy(Upstream(host="127.0.0.1", port=port), PinnedDialer())("host.example", 80)

    run(main())


def test_hosts_that_the_proxy_is_not_meant_for_are_dialled() -> None:
    async def main() -> None:
        upstream = Upstream(host="127.0.0.1", port=1, beside=("inner.example",))
        with pytest.raises(EnvironmentFailure, match=r"10\.0\.0\.1"):
            await ThroughProxy(upstream, PinnedDialer(resolve=Answers(["10.0.0.1"])))("a.inner.example", 80)

    run(main())


def test_the_variables_say_which_proxy() -> None:
    assert upstream_of({}) is None
    found = upstream_of({"http_proxy": "proxy.example:3128", "NO_PROXY": ".a.example, *.b.example,c.example"})
    assert found is not None
    assert (found.host, found.port, found.tls, found.header) == ("proxy.example", 3128, False, "")
    assert [found.serves(host) for host in ("x.a.example", "B.example", "c.example", "xc.example")] == [
        False, False, False, True,
    ]  # fmt: skip
    everything = upstream_of({"ALL_PROXY": "https://proxy.example", "no_proxy": "*"})
    assert everything is not None
    assert (everything.port, everything.tls, everything.serves("a.example")) == (443, True, False)


@pytest.mark.parametrize(
    "value", ("socks5://proxy.example:1080", "http://proxy.example:99999", "http://", "http://[::1")
)
def test_a_proxy_that_cannot_be_used_is_said_for_each_connection(value: str) -> None:
    with pytest.raises(ConfigError, match="HTTPS_PROXY"):
        upstream_of({"HTTPS_PROXY": value})
    with pytest.raises(EnvironmentFailure, match="HTTPS_PROXY") as failure:
        run(dialer_for({"HTTPS_PROXY": value})("host.example", 80))
    assert "proxy.example" not in str(failure.value)


def test_hosts_in_a_private_network_that_is_trusted_are_reached() -> None:
    async def main() -> None:
        async with serving(greet) as port:
            roads, answers = Roads(port), Answers(["10.1.2.3"])
            with pytest.raises(EnvironmentFailure, match=r"sandbox\.private_networks"):
                await PinnedDialer(resolve=answers, connect=roads)("host.example", 443)
            trusted = networks(["10.1.0.0/16"])[0]
            _, writer = await PinnedDialer(trusted=trusted, resolve=answers, connect=roads)("host.example", 443)
            writer.close()
            assert roads.dialled == ["10.1.2.3"]
            with pytest.raises(EnvironmentFailure) as failure:
                await PinnedDialer(trusted=trusted, resolve=Answers(["169.254.169.254"]))("host.example", 443)
            assert failure.value.next == ""

    run(main())
