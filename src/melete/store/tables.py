"""The listing of sessions as tables: sessions, messages, usage, tools, runs, retries. Part of the store; a projection."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.event import Fact
from melete.core.message import Usage
from melete.core.session import ALL, RunInfo, SessionInfo, SessionRef, Which, WhichRuns
from melete.store.conditions import Conditions, marks, of_sessions
from melete.store.fold import LATEST, Fold, Row, Run, seconds
from melete.store.log import is_locked
from melete.store.sqlite import Database

SHOWN = (
    "id", "owner", "title", "source", "cwd", "model", "parent", "forked_from", "forked_at", "root", "started", "updated",
    "messages", "steps", "runs", "tool_calls", "cost_usd", "cost_status", "cost_source", "provider", "base_url", "stop",
    "compactions",
    "input", "output", "cache_read", "cache_write", "reasoning",
)  # fmt: skip
PARTS = ("messages", "usage", "tools", "runs", "retries")
_ROW = ", ".join(Row.__struct_fields__)
_SHOWN = ", ".join(SHOWN)
_USAGE = Usage.__struct_fields__
_FIRST_OF_USAGE = SHOWN.index(_USAGE[0])


class Tables:
    """What sessions there are, what they did and what each has cost."""

    schema = "sessions"

    def take(self, connection: sqlite3.Connection, session: str, facts: Sequence[Fact]) -> None:
        """Add facts that follow those added before; raises ValidationError for a row that makes no sense."""
        if not facts:
            return
        before = _stored(connection, session)
        at = seconds(facts[0].at)
        fold = Fold(before or Row(id=session, root=session, started=at, updated=at))
        fold.take(facts)
        connection.execute(_insert("sessions", len(fold.row)), tuple(fold.row.values()))
        for table, rows in (
            ("messages", fold.messages),
            ("usage", fold.usage),
            ("tools", fold.tools),
            ("runs", [_values(run) for run in fold.runs]),
            ("retries", fold.retries),
        ):
            if rows:
                connection.executemany(_insert(table, len(rows[0]) + 1), [(session, *row) for row in rows])
        if before is None or _link(before) != _link(fold.row):
            _relink(connection, session, _link(fold.row))

    def forget(self, connection: sqlite3.Connection, session: str) -> None:
        """Remove everything of a session."""
        for table in PARTS:
            connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608 - one of ours
        row = connection.execute("SELECT root FROM sessions WHERE id = ?", (session,)).fetchone()
        connection.execute("DELETE FROM sessions WHERE id = ?", (session,))
        if row is not None:
            _root_all(connection, (row[0],))


def _stored(connection: sqlite3.Connection, session: str) -> Row | None:
    found = connection.execute(f"SELECT {_ROW} FROM sessions WHERE id = ?", (session,)).fetchone()  # noqa: S608
    return None if found is None else msgspec.convert(dict(zip(Row.__struct_fields__, found, strict=True)), Row)


def _insert(table: str, columns: int) -> str:
    return f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * columns)})"  # noqa: S608 - one of ours


def _values(run: Run) -> tuple[Any, ...]:
    return msgspec.structs.astuple(run)


# ---- chains of parents and forks -------------------------------------------------------------------------------------


def _link(row: Row | dict[str, Any]) -> str:
    """The session that one came from."""
    if isinstance(row, Row):
        return row.forked_from or row.parent
    return row["forked_from"] or row["parent"]


def _relink(connection: sqlite3.Connection, session: str, link: str) -> None:
    """Put a session into its chain, and those that were waiting for it."""
    above = connection.execute("SELECT root FROM sessions WHERE id = ?", (link,)).fetchone() if link else None
    _root_all(connection, {session, link, *(above or ())} - {""})


def _root_all(connection: sqlite3.Connection, roots: Iterable[str]) -> None:
    """Find the first session of each chain that began with one of `roots` anew; the order of arrival does not matter."""
    for old in roots:
        rows = connection.execute(
            "SELECT id, coalesce(nullif(forked_from, ''), parent), root FROM sessions WHERE root = ?", (old,)
        ).fetchall()
        for session, _, root in rows:
            new = _root(connection, session)
            if new != root:
                connection.execute("UPDATE sessions SET root = ? WHERE id = ?", (new, session))


def _root(connection: sqlite3.Connection, session: str) -> str:
    """Where a session's chain begins: the id of its first session, also of one that is gone; in a circle the least id."""
    seen: list[str] = []
    here = session
    while here not in seen:
        seen.append(here)
        row = connection.execute(
            "SELECT coalesce(nullif(forked_from, ''), parent) FROM sessions WHERE id = ?", (here,)
        ).fetchone()
        if row is None or not row[0]:
            return here
        here = str(row[0])
    return min(seen[seen.index(here) :])


# ---- reading ---------------------------------------------------------------------------------------------------------


class Listing(Struct, frozen=True, kw_only=True):
    """What a listing is asked for."""

    owner: str = ""
    which: Which = ALL
    limit: int = 50
    offset: int = 0


def chosen(owner: str, which: Which) -> tuple[str, list[Any]]:
    """A condition on rows of `sessions`, with its values, for everything but times."""
    found = of_sessions(owner, which)
    if which.models:
        each = marks(which.models)
        asked = "SELECT 1 FROM usage WHERE usage.session = id"
        found.need(f"({model_in(each)} OR EXISTS ({asked} AND {model_in(each, 'usage.')}))", *which.models * 4)
    root = "coalesce((SELECT root FROM sessions WHERE id = ?), ?)"
    if which.chain:
        found.need(f"root = {root}", which.chain, which.chain)
    if which.without:
        found.need(f"root <> {root}", which.without, which.without)
    return " AND ".join(found.parts) or "1", found.values


def model_in(names: str, table: str = "") -> str:
    """A condition for rows whose model is one of some names, each with or without its provider; it takes them twice."""
    return f"({table}model IN ({names}) OR {table}provider || '/' || {table}model IN ({names}))"


def listing(database: Database, wanted: Listing, *, folder: Path) -> list[SessionInfo]:
    """Rows, the last changed first."""
    condition, values = chosen(wanted.owner, wanted.which)
    if wanted.which.since is not None:
        condition, values = f"{condition} AND updated >= ?", [*values, wanted.which.since.timestamp()]
    if wanted.which.until is not None:
        condition, values = f"{condition} AND updated < ?", [*values, wanted.which.until.timestamp()]
    rows = database.read(
        f"SELECT {_SHOWN} FROM sessions WHERE {condition} ORDER BY updated DESC, id DESC LIMIT ? OFFSET ?",  # noqa: S608
        (*values, wanted.limit, wanted.offset),
    )
    return _own(database, [_info(row, folder) for row in rows], wanted.owner)


def one(database: Database, ref: SessionRef, *, folder: Path) -> SessionInfo | None:
    """The row of one session."""
    sql = f"SELECT {_SHOWN} FROM sessions WHERE id = ? AND ? IN ('', owner)"  # noqa: S608
    rows = database.read(sql, (ref.id, ref.owner))
    return next(iter(_own(database, [_info(row, folder) for row in rows], ref.owner)), None)


def _own(database: Database, rows: list[SessionInfo], owner: str) -> list[SessionInfo]:
    """The rows without the ids of sessions that belong to somebody else: a chain begins where its owner's part does."""
    linked = {name for row in rows for name in (row.root, row.parent, row.forked_from) if name and name != row.id}
    if not owner or not linked:
        return rows
    sql = "SELECT id FROM sessions WHERE owner <> ? AND id IN (SELECT value FROM json_each(?))"
    foreign = {row[0] for row in database.read(sql, (owner, json.dumps(sorted(linked))))}
    return [_without(row, foreign) for row in rows]


def _without(row: SessionInfo, foreign: set[str]) -> SessionInfo:
    changes: dict[str, Any] = {}
    if row.root in foreign:
        changes["root"] = row.id
    if row.parent in foreign:
        changes["parent"] = ""
    if row.forked_from in foreign:
        changes |= {"forked_from": "", "forked_at": 0}
    return msgspec.structs.replace(row, **changes) if changes else row


def several(database: Database, sessions: Sequence[str], *, folder: Path) -> dict[str, SessionInfo]:
    """The rows of these sessions by id."""
    sql = f"SELECT {_SHOWN} FROM sessions WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608
    return {row[0]: _info(row, folder) for row in database.read(sql, (json.dumps(list(sessions)),))}


def titled(database: Database, title: str, *, owner: str) -> list[SessionRef]:
    """Sessions with this title, the last changed first."""
    rows = database.read(
        "SELECT id, owner FROM sessions WHERE title = ? AND ? IN ('', owner) ORDER BY updated DESC, id DESC",
        (title, owner),
    )
    return [msgspec.convert({"id": row[0], "owner": row[1]}, SessionRef) for row in rows]


def named(database: Database, sessions: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The title of each of these sessions, and the name that an import gave it, empty where none did."""
    rows = database.read(
        "SELECT id, title, coalesce(json_extract(about, '$.imported'), '') FROM sessions "
        "WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(sessions)),),
    )
    return msgspec.convert({id: (title, name) for id, title, name in rows}, dict[str, tuple[str, str]])


def _info(row: tuple[Any, ...], folder: Path) -> SessionInfo:
    """A row as a value; raises ValidationError for one that makes no sense."""
    values: dict[str, Any] = dict(zip(SHOWN, row[:_FIRST_OF_USAGE], strict=False))
    values["usage"] = dict(zip(_USAGE, row[_FIRST_OF_USAGE:], strict=True))
    values["started"] = moment(values["started"])
    values["updated"] = moment(values["updated"])
    log = folder / f"{row[0]}.log"
    try:
        values["size"] = log.stat().st_size
    except OSError:
        values["size"] = 0  # deleted, or unreadable: the row still tells what was
    values["running"] = is_locked(log)
    return msgspec.convert(values, SessionInfo)


def moment(stored: Any) -> datetime:
    """A time from a table; raises ValidationError for what is none."""
    try:
        return datetime.fromtimestamp(LATEST if LATEST < stored <= LATEST + 1 else stored, UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise msgspec.ValidationError(f"{stored!r} is no time") from error


def of_run(database: Database, run: str, *, owner: str) -> SessionRef | None:
    """The session of a run, where the owner may see it."""
    asked = "SELECT s.id, s.owner FROM runs r JOIN sessions s ON s.id = r.session WHERE r.run = ? AND (? = '' OR s.owner = ?)"
    found = database.read(asked, (run, owner, owner))
    return SessionRef(id=found[0][0], owner=found[0][1]) if found else None


RUN = ("run", "session", "owner", "seq", "started", "ended", "stop", "steps", "seconds", "surface", "provider", "model")


def runs(database: Database, which: WhichRuns, *, folder: Path, limit: int, offset: int) -> list[RunInfo]:
    """Runs, the last begun first."""
    columns = ", ".join(f"{'s' if name == 'owner' else 'r'}.{name}" for name in RUN)
    last = "r.ended IS NULL AND r.seq = (SELECT max(seq) FROM runs WHERE session = r.session)"
    need = Conditions()
    if which.owner:
        need.need("s.owner = ?", which.owner)
    if which.session:
        need.need("r.session = ?", which.session)
    if which.stops:
        need.need(f"r.stop IN ({marks(which.stops)})", *which.stops)
    rows = database.read(
        f"SELECT {columns}, {last} FROM runs r JOIN sessions s ON s.id = r.session "  # noqa: S608 - all of it ours
        f"WHERE {' AND '.join(need.parts) or '1'} ORDER BY r.started DESC, r.session DESC, r.seq DESC LIMIT ? OFFSET ?",
        (*need.values, limit, offset),
    )
    return [_run(row, folder) for row in rows]


def _run(row: tuple[Any, ...], folder: Path) -> RunInfo:
    """A row as a value; raises ValidationError for one that makes no sense."""
    values: dict[str, Any] = dict(zip(RUN, row, strict=False))
    values["id"] = values.pop("run")
    values["started"] = moment(values["started"])
    values["ended"] = None if values["ended"] is None else moment(values["ended"])
    values["running"] = bool(row[-1]) and is_locked(folder / f"{values['session']}.log")
    return msgspec.convert(values, RunInfo)


def unfinished(database: Database, surfaces: Sequence[str]) -> list[tuple[SessionRef, str]]:
    """Sessions whose last run was begun on one of the surfaces and has no end, with its id."""
    asked = (
        "SELECT s.id, s.owner, r.run FROM runs r JOIN sessions s ON s.id = r.session "
        "WHERE r.ended IS NULL AND r.surface IN (SELECT value FROM json_each(?)) "
        "AND r.seq = (SELECT max(seq) FROM runs WHERE session = s.id) ORDER BY r.started"
    )
    return [
        (SessionRef(id=id, owner=owner), run) for id, owner, run in database.read(asked, (json.dumps(list(surfaces)),))
    ]
