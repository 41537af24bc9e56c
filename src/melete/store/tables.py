"""The listing of sessions as tables: sessions, messages, usage. Part of the store; a projection."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.event import Fact, Framed, Opened, Reply, RunEnded, RunStarted, Spent, Titled
from melete.core.message import Usage
from melete.core.session import ALL, SessionInfo, SessionRef, Which
from melete.store import lines
from melete.store.log import is_locked
from melete.store.sqlite import Database

COLUMNS = (
    "id, owner, title, source, cwd, model, parent, started, updated, messages, tool_calls, "
    "input, output, cache_read, cache_write, reasoning, cost_usd, stop"
)


class Tables:
    """What sessions there are and what each has cost."""

    schema = "sessions"

    def take(self, connection: sqlite3.Connection, session: str, facts: Sequence[Fact]) -> None:
        """Add facts that follow those added before."""
        if not facts:
            return
        connection.execute(
            "INSERT OR IGNORE INTO sessions (id, started, updated) VALUES (?, ?, ?)",
            (session, facts[0].at.timestamp(), facts[-1].at.timestamp()),
        )
        for fact in facts:
            self._describe(connection, session, fact)
            if (line := lines.of_fact(fact)) is not None:
                connection.execute(
                    "INSERT INTO messages VALUES (?, ?, ?, ?, ?)",
                    (session, fact.seq, line.role, len(line.text), fact.at.timestamp()),
                )
        self._count(connection, session, facts)

    def forget(self, connection: sqlite3.Connection, session: str) -> None:
        """Remove everything of a session."""
        connection.execute("DELETE FROM messages WHERE session = ?", (session,))
        connection.execute("DELETE FROM usage WHERE session = ?", (session,))
        connection.execute("DELETE FROM sessions WHERE id = ?", (session,))

    def _describe(self, connection: sqlite3.Connection, session: str, fact: Fact) -> None:
        changes: dict[str, str] = {}
        match fact:
            case Opened():
                names = ("owner", "title", "source", "cwd", "parent")
                changes = {name: getattr(fact, name) for name in names}
            case Titled():
                changes = {"title": fact.title}
            case RunStarted() | Framed() if fact.model:
                changes = {"model": fact.model}
            case RunEnded():
                changes = {"stop": fact.stop}
            case Spent():
                _spend(connection, session, fact)
            case _:
                pass
        if isinstance(fact, RunStarted):
            changes["stop"] = ""
        for column, value in changes.items():
            connection.execute(f"UPDATE sessions SET {column} = ? WHERE id = ?", (value, session))  # noqa: S608

    def _count(self, connection: sqlite3.Connection, session: str, facts: Sequence[Fact]) -> None:
        said = [line for line in map(lines.of_fact, facts) if line is not None]
        calls = sum(len(fact.message.calls) for fact in facts if isinstance(fact, Reply))
        connection.execute(
            "UPDATE sessions SET messages = messages + ?, tool_calls = tool_calls + ?, updated = ? WHERE id = ?",
            (len(said), calls, facts[-1].at.timestamp(), session),
        )


def _spend(connection: sqlite3.Connection, session: str, fact: Spent) -> None:
    tokens = msgspec.structs.astuple(fact.usage)
    connection.execute(
        "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (session, fact.seq, fact.role, fact.model, fact.provider, *tokens, fact.usd, fact.at.timestamp()),
    )
    connection.execute(
        "UPDATE sessions SET input = input + ?, output = output + ?, cache_read = cache_read + ?, "
        "cache_write = cache_write + ?, reasoning = reasoning + ?, "
        "cost_usd = CASE WHEN ? IS NULL THEN cost_usd ELSE coalesce(cost_usd, 0) + ? END WHERE id = ?",
        (*tokens, fact.usd, fact.usd, session),
    )


class Listing(Struct, frozen=True, kw_only=True):
    """What a listing is asked for."""

    owner: str = ""
    which: Which = ALL
    limit: int = 50
    offset: int = 0


def listing(database: Database, wanted: Listing, *, folder: Path) -> list[SessionInfo]:
    """Rows, the last changed first."""
    rows = database.read(
        f"SELECT {COLUMNS} FROM sessions WHERE ? IN ('', owner) ORDER BY updated DESC, id DESC LIMIT ? OFFSET ?",  # noqa: S608
        (wanted.owner, wanted.limit, wanted.offset),
    )
    return [_info(row, folder) for row in rows]


def one(database: Database, ref: SessionRef, *, folder: Path) -> SessionInfo | None:
    """The row of one session."""
    sql = f"SELECT {COLUMNS} FROM sessions WHERE id = ? AND ? IN ('', owner)"  # noqa: S608
    rows = database.read(sql, (ref.id, ref.owner))
    return _info(rows[0], folder) if rows else None


def titled(database: Database, title: str, *, owner: str) -> list[SessionRef]:
    """Sessions with this title, the last changed first."""
    rows = database.read(
        "SELECT id, owner FROM sessions WHERE title = ? AND ? IN ('', owner) ORDER BY updated DESC", (title, owner)
    )
    return [msgspec.convert({"id": row[0], "owner": row[1]}, SessionRef) for row in rows]


def titles(database: Database, sessions: Sequence[str]) -> dict[str, str]:
    """The titles of these sessions."""
    marks = ", ".join("?" * len(sessions))
    rows = database.read(f"SELECT id, title FROM sessions WHERE id IN ({marks})", sessions)  # noqa: S608
    return msgspec.convert(dict(rows), dict[str, str])


def _info(row: tuple[Any, ...], folder: Path) -> SessionInfo:
    """A row as a value; raises ValidationError for one that makes no sense."""
    values = dict(zip((name.strip() for name in COLUMNS.split(",")), row, strict=True))
    values["usage"] = {name: values.pop(name) for name in Usage.__struct_fields__}
    values["started"] = moment(values["started"])
    values["updated"] = moment(values["updated"])
    log = folder / f"{values['id']}.log"
    try:
        values["size"] = log.stat().st_size
    except OSError:
        values["size"] = 0  # deleted, or unreadable: the row still tells what was
    values["running"] = is_locked(log)
    return msgspec.convert(values, SessionInfo)


def moment(seconds: Any) -> datetime:
    """A time from a table; raises ValidationError for what is none."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise msgspec.ValidationError(f"{seconds!r} is no time") from error
