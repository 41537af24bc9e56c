"""Decides which hosts the commands of a sandbox reach, makes the connections, and remembers what it refused."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from melete.core.environment import Dialer
from melete.core.errors import EnvironmentFailure
from melete.core.policy import Verdict
from melete.environments.allowlist import WEB, AllowList, Entry, is_address, plain
from melete.environments.relay import Connection
from melete.security.urls import LAST_PORT, Network, judge_address

MOST_TOLD: Final = 20
MOST_NAMED: Final = 6
SETTING: Final = "melete config set sandbox.allow"
SHUT: Final = (
    "text from outside was read, and what it asks for must not get out; the same command once more asks a person"
)
OWN: Final = "it is this machine itself; ports of its loopback that commands may reach are named in sandbox.loopback"


class Refused(Exception):
    """A connection that is not made: `host` as it may be shown, and `why`."""

    def __init__(self, host: str, port: int, why: str, *, listed: bool = True) -> None:
        super().__init__(f"the sandbox refused {shown(host, port)}: {why}")
        self.host = host
        self.port = port
        self.why = why
        self.listed = listed


class Gate:
    """The allow-list of one sandbox in use: `given` are the person's own entries, `derive` finds the rest when first needed."""

    def __init__(
        self,
        given: Sequence[str],
        dial: Dialer | None,
        *,
        derive: Callable[[], Sequence[Entry]],
        later: Callable[[], Sequence[Entry]],
        trusted: Sequence[Network] = (),
    ) -> None:
        self._trusted = trusted
        self.allowed = AllowList(given, why="sandbox.allow")
        self._given = tuple(given)
        self._dial = dial
        self._derive: Callable[[], Sequence[Entry]] | None = derive
        self._later = later
        self._refused: dict[tuple[str, int], Refused] = {}
        self._more = 0
        self._turn = threading.Lock()
        self.shut = False
        """Whether every new connection is refused, whatever the list says."""
        self.turned_away = 0
        """How many were, for that alone."""

    def entries(self) -> list[Entry]:
        """All that is allowed, in order: the person's own first."""
        with self._turn:
            if self._derive is not None:
                self.allowed.add(self._derive())
                self._derive = None
        return self.allowed.entries

    async def reach(self, host: str, port: int) -> Connection:
        """A connection to a host that is allowed; raises Refused, which is remembered, and OSError for one that does not answer."""
        try:
            return await self._reach(host, port)
        except Refused as refused:
            self._remember(refused)
            raise

    async def _reach(self, host: str, port: int) -> Connection:
        name = plain(host)
        if name is None or not 0 < port <= LAST_PORT:
            raise Refused("a host that cannot be read", 0, "a name, or an address in its usual spelling, is needed")
        self._judge(name, port)
        if self._dial is None:
            raise Refused(name, port, "there is nothing here to connect through")
        try:
            return await self._dial(name, port)
        except EnvironmentFailure as failure:
            why = failure.what.removeprefix(f"{name} may not be reached: ")
            raise Refused(name, port, "; ".join(part for part in (why, failure.next) if part)) from failure

    def _judge(self, name: str, port: int) -> None:
        """Raise Refused for what is private by its spelling, and for what is not on the list."""
        if name == "localhost" or name.endswith(".localhost"):
            raise Refused(name, port, OWN)
        verdict = judge_address(name, self._trusted) if is_address(name) else Verdict()
        if verdict.verdict == "forbid":
            raise Refused(name, port, OWN if name in ("127.0.0.1", "::1") else verdict.reason)
        if not self.allowed.covers(name, port):
            self.entries()
            if not self.allowed.covers(name, port):
                raise self._unlisted(name, port)
        if self.shut:
            self.turned_away += 1
            raise Refused(name, port, SHUT)

    def _unlisted(self, host: str, port: int) -> Refused:
        if any(entry.covers(host, other) for entry in self.allowed.entries for other in entry.ports):
            return Refused(host, port, "the allow-list has this host with other ports only", listed=False)
        if any(entry.covers(host, port) for entry in self._later()):
            why = "the git remote was added after this folder was first worked in, and so is not on the allow-list"
            return Refused(host, port, why, listed=False)
        return Refused(host, port, "it is not on the allow-list", listed=False)

    def how_to_allow(self, refused: Sequence[Refused]) -> str:
        """What a person can type to allow hosts that are not on the list."""
        wanted = [one.host if one.port in WEB else shown(one.host, one.port) for one in refused]
        value = ",".join(dict.fromkeys([*self._given, *wanted]))
        return f"{SETTING} '{value}'" if set(value) & set("*[]' ") else f"{SETTING} {value}"

    def remarks(self) -> tuple[str, ...]:
        """A sentence for each kind of refusal since the last call."""
        with self._turn:
            refused, more = list(self._refused.values()), self._more
            self._refused, self._more = {}, 0
        told = [str(one) for one in refused if one.listed]
        unlisted = [one for one in refused if not one.listed]
        for why in dict.fromkeys(one.why for one in unlisted):
            group = [one for one in unlisted if one.why == why]
            names = ", ".join(shown(one.host, one.port) for one in group[:MOST_NAMED])
            rest = f" and {len(group) - MOST_NAMED} more" if len(group) > MOST_NAMED else ""
            advice = self.how_to_allow(group[:MOST_NAMED])
            told.append(f"the sandbox refused {names}{rest}: {why}; a person can allow it: {advice}")
        if more:
            told.append(f"the sandbox refused {more} more connections")
        return tuple(told)

    def _remember(self, refused: Refused) -> None:
        with self._turn:
            key = (refused.host, refused.port)
            if key in self._refused or len(self._refused) < MOST_TOLD:
                self._refused.setdefault(key, refused)
            else:
                self._more += 1


def shown(host: str, port: int) -> str:
    """A host and port for people; without the port where that is not known."""
    if not port:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
