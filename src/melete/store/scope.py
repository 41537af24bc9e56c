"""In which sessions and blocks a search may look: the owner and the filters of a query as SQL. Part of the store."""

from typing import Any

import msgspec

from melete.core.session import Query, Which
from melete.store.asked import Sought, sought
from melete.store.block import FULL, role_term, tool_term
from melete.store.conditions import of_sessions
from melete.store.sqlite import Database

NARROW = 1_500
"""So few blocks are looked at one by one."""

_CHAIN = (
    "WITH RECURSIVE up (id) AS (SELECT ? UNION SELECT origin FROM sessions JOIN up USING (id) WHERE origin <> ''), "
    "down (id) AS (SELECT id FROM up UNION SELECT s.id FROM sessions s JOIN down ON s.origin = down.id) "
    "SELECT id FROM down"
)


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What a search may look at.

    `sessions` is a condition on rows of `sessions s`, `blocks` one on both `s` and `blocks b`, each with its values and empty for
    all. `few` are the blocks where these are few, else None. `kinds` are groups of terms, one of each must be in a message.
    """

    sessions: str = ""
    of_sessions: tuple[Any, ...] = ()
    blocks: str = ""
    of_blocks: tuple[Any, ...] = ()
    few: tuple[int, ...] | None = None
    kinds: tuple[Sought, ...] = ()
    since: float | None = None
    until: float | None = None

    @property
    def match(self) -> str:
        """What finds blocks with messages of the right kinds."""
        return " AND ".join(kind.match for kind in self.kinds)

    def mask(self, signs: bytes) -> int:
        """Which messages of a block are of the right kinds."""
        found = FULL
        for kind in self.kinds:
            found &= kind.mask(signs)
        return found

    def in_time(self, at: float) -> bool:
        """Whether a message of that time may be found."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


def scope_of(database: Database, query: Query) -> Scope:
    """What the query may look at."""
    which = query.which
    sessions, of_sessions = _sessions(query.owner, which)
    blocks, of_blocks = list(sessions), list(of_sessions)
    since = which.since.timestamp() if which.since else None
    until = which.until.timestamp() if which.until else None
    if since is not None:
        blocks.append("b.last >= ?")
        of_blocks.append(since)
    if until is not None:
        blocks.append("b.first < ?")
        of_blocks.append(until)
    kinds = (tuple(map(role_term, query.roles)), tuple(map(tool_term, query.tools)))
    scope = Scope(
        sessions=" AND ".join(sessions),
        of_sessions=tuple(of_sessions),
        blocks=" AND ".join(blocks),
        of_blocks=tuple(of_blocks),
        kinds=tuple(sought(terms, most=len(terms)) for terms in kinds if terms),
        since=since,
        until=until,
    )
    return msgspec.structs.replace(scope, few=_few(database, scope)) if blocks else scope


def chain(database: Database, session: str) -> list[str]:
    """The session and all others of its chain of parents and forks."""
    return [row[0] for row in database.read(_CHAIN, (session,))]


def _few(database: Database, scope: Scope) -> tuple[int, ...] | None:
    sql = f"SELECT b.id FROM sessions s JOIN blocks b ON b.session = s.number WHERE {scope.blocks} LIMIT ?"  # noqa: S608
    rows = database.read(sql, (*scope.of_blocks, NARROW + 1))
    return tuple(row[0] for row in rows) if len(rows) <= NARROW else None


def _sessions(owner: str, which: Which) -> tuple[list[str], list[Any]]:
    """Conditions on sessions, all of which must hold, with their values."""
    found = of_sessions(owner, which, table="s.")
    if which.models:
        held = " OR ".join(["instr(s.models, ?)"] * len(which.models))
        found.need(f"({held})", *(f"\n{name}\n" for name in which.models))
    if which.chain:
        found.need(f"s.id IN ({_CHAIN})", which.chain)
    if which.without:
        found.need(f"s.id NOT IN ({_CHAIN})", which.without)
    return found.parts, found.values
