"""Connections for those who may not reach the network themselves: resolved once, judged, and dialled by the judged address."""

import asyncio
import base64
import re
import socket
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from melete.core.environment import Dialer
from melete.core.errors import ConfigError, EnvironmentFailure
from melete.security.urls import Network, judge_addresses, judge_host, networks

RESOLVING = 10.0
CONNECTING = 10.0
ANSWERING = 20.0
STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")
MOST_ADDRESSES = 8

Connection = tuple[StreamReader, StreamWriter]
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Connect = Callable[[str, int], Awaitable[Connection]]


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """The addresses that this machine's resolver gives for a name, each once; raises OSError."""
    rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


class PinnedDialer:
    """A `Dialer` that asks for a name's addresses once, judges each and dials one of those: no later answer can change it.

    A name of which one address is refused is refused whole. Networks that are `trusted` count as public; `setting` is where a
    person names them.
    """

    def __init__(
        self,
        *,
        trusted: Sequence[Network] = (),
        setting: str = "sandbox.private_networks",
        resolve: Resolve = system_resolve,
        connect: Connect = asyncio.open_connection,
    ) -> None:
        self._trusted = trusted
        self._setting = setting
        self._resolve = resolve
        self._connect = connect

    async def __call__(self, host: str, port: int) -> Connection:
        """A connection to an address that was judged; raises EnvironmentFailure, OSError."""
        try:
            async with asyncio.timeout(RESOLVING):
                addresses = await self._resolve(host, port)
        except TimeoutError as error:
            raise OSError(0, f"the name server gave no answer within {RESOLVING:g} s") from error
        except UnicodeError as error:
            raise OSError(0, "it is no name of a host") from error
        verdict = judge_addresses(addresses, self._trusted)
        if verdict.verdict == "forbid":
            fix = f"a network that is private and trusted can be named in {self._setting}"
            raise EnvironmentFailure(
                f"{host} may not be reached: {verdict.reason}", next=fix if verdict.rule == "private" else ""
            )
        return await self._first_of(in_turn(addresses)[:MOST_ADDRESSES], port)

    async def _first_of(self, addresses: Sequence[str], port: int) -> Connection:
        """A connection to the first address that answers; each but the last gets a short while."""
        failure: OSError = OSError(0, "the name has no address")
        for index, address in enumerate(addresses, 1):
            try:
                async with asyncio.timeout(CONNECTING if index == len(addresses) else CONNECTING / 4):
                    return await self._connect(address, port)
            except TimeoutError:
                failure = OSError(0, "no answer")
            except OSError as error:
                failure = error
        raise failure


class Upstream(Struct, frozen=True, kw_only=True):
    """A proxy that this machine goes through, and the hosts that it does not go through it for; `header` is its authorisation."""

    host: str
    port: int
    tls: bool = False
    header: str = ""
    beside: tuple[str, ...] = ()

    def serves(self, host: str) -> bool:
        """Whether connections to a host go through it."""
        name = host.lower()
        return not any(rule in ("*", name) or name.endswith("." + rule) for rule in self.beside)


class ThroughProxy:
    """A `Dialer` for a machine that reaches the network through a proxy, which resolves names itself; they are judged as names."""

    def __init__(self, upstream: Upstream, direct: Dialer) -> None:
        self._upstream = upstream
        self._direct = direct

    async def __call__(self, host: str, port: int) -> Connection:
        """A connection through the proxy, or beside it where it is not meant for the host; raises EnvironmentFailure, OSError."""
        if not self._upstream.serves(host):
            return await self._direct(host, port)
        bracketed = f"[{host}]" if ":" in host else host
        verdict = judge_host(bracketed)
        if verdict.verdict == "forbid":
            raise EnvironmentFailure(f"{host} may not be reached: {verdict.reason}")
        upstream = self._upstream
        async with asyncio.timeout(ANSWERING):
            reader, writer = await asyncio.open_connection(
                upstream.host, upstream.port, ssl=ssl.create_default_context() if upstream.tls else None
            )
            try:
                await _ask(reader, writer, f"{bracketed}:{port}", upstream.header)
            except BaseException:
                writer.close()
                raise
        return reader, writer


def dialer_for(
    variables: Mapping[str, str], private_networks: Sequence[str] = (), *, setting: str = "sandbox.private_networks"
) -> Dialer:
    """How this machine reaches the network: through the proxy that its variables name, or by itself.

    Hosts in `private_networks`, which a person names in `setting`, are reached as public ones are.

    Where they name one that cannot be used, the dialer says so for each connection.
    """
    try:
        upstream = upstream_of(variables)
    except ConfigError as error:
        return _Unusable(str(error))
    direct = PinnedDialer(trusted=networks(private_networks)[0], setting=setting)
    return ThroughProxy(upstream, direct) if upstream else direct


class _Unusable:
    """A `Dialer` that reaches nothing and says why."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def __call__(self, host: str, port: int) -> Connection:  # noqa: ARG002 - as every Dialer
        raise EnvironmentFailure(self._why)


def upstream_of(variables: Mapping[str, str]) -> Upstream | None:
    """The proxy that HTTPS_PROXY, ALL_PROXY or HTTP_PROXY names, in either case; raises ConfigError for one that cannot be used."""
    names = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "http_proxy", "HTTP_PROXY")
    name = next((name for name in names if variables.get(name)), "")
    if not name:
        return None
    given = variables[name]
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        parts, port, host = urlsplit(""), None, ""
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(
            f"the variable {name} does not hold the address of a proxy that can be used here",
            next="http://HOST:PORT and https://HOST:PORT are understood",
        )
    header = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        header = "Basic " + base64.b64encode(pair.encode()).decode()
    rules = (variables.get("no_proxy") or variables.get("NO_PROXY") or "").replace(",", " ").split()
    return Upstream(
        host=host,
        port=port or (443 if parts.scheme == "https" else 80),
        tls=parts.scheme == "https",
        header=header,
        beside=tuple(rule.lower().removeprefix("*").lstrip(".") or "*" for rule in rules),
    )


def in_turn(addresses: Sequence[str]) -> list[str]:
    """Addresses of both families in turn, so that one that leads nowhere costs one wait."""
    first = [address for address in addresses if (":" in address) == (":" in addresses[0])]
    others = [address for address in addresses if address not in first]
    mixed: list[str] = []
    for index in range(max(len(first), len(others))):
        mixed += first[index : index + 1] + others[index : index + 1]
    return mixed


async def _ask(reader: StreamReader, writer: StreamWriter, target: str, header: str) -> None:
    """Ask a proxy for a connection; raises OSError with its answer when it gives none."""
    asked = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
    if header:
        asked += f"Proxy-Authorization: {header}\r\n"
    writer.write(asked.encode() + b"\r\n")
    await writer.drain()
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise OSError(0, "the proxy of this machine gave no answer that can be read") from error
    status = STATUS.match(head)
    if status is None or status[1] != b"200":
        said = status[1].decode() if status else "an unreadable answer"
        raise OSError(0, f"the proxy of this machine refused the connection ({said})")
