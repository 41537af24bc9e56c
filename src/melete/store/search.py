"""The search index over all messages. Part of the store; a projection."""

import re
import sqlite3
from collections.abc import Sequence

import msgspec

from melete.core.event import Fact, Opened
from melete.core.session import Hit, Query
from melete.store import lines
from melete.store.sqlite import Database
from melete.store.tables import moment
from melete.store.words import LONGEST_QUERY, terms

LONGEST_ENTRY = 20_000
"""Characters of one message that are indexed; the log holds all of it."""
SNIPPET_WORDS = 24
SNIPPET_CHARACTERS = 160

SELECT = (
    "SELECT entries.session, entries.seq, entries.role, {snippet}, entries.at, {score} FROM entries {join}"
    "JOIN owners ON owners.session = entries.session WHERE {match} AND ? IN ('', owners.owner) "
    "ORDER BY {order} LIMIT ?"
)


class SearchIndex:
    """Every message's words."""

    schema = "search"

    def take(self, connection: sqlite3.Connection, session: str, facts: Sequence[Fact]) -> None:
        """Add facts that follow those added before."""
        connection.execute("INSERT OR IGNORE INTO owners VALUES (?, '')", (session,))
        for fact in facts:
            if isinstance(fact, Opened):
                connection.execute("UPDATE owners SET owner = ? WHERE session = ?", (fact.owner, session))
            line = lines.of_fact(fact)
            if line is not None and line.text:
                connection.execute(
                    "INSERT INTO entries (session, seq, role, at, text) VALUES (?, ?, ?, ?, ?)",
                    (session, fact.seq, line.role, fact.at.timestamp(), line.text[:LONGEST_ENTRY]),
                )

    def forget(self, connection: sqlite3.Connection, session: str) -> None:
        """Remove everything of a session."""
        connection.execute("DELETE FROM entries WHERE session = ?", (session,))
        connection.execute("DELETE FROM owners WHERE session = ?", (session,))


def find(database: Database, query: Query) -> list[Hit]:
    """Messages with any of the query's words, the best first; without any, those that hold the query as it stands."""
    found: list[Hit] = []
    owner, limit = query.owner, query.limit
    if words := terms(query.text):
        sql = SELECT.format(
            snippet=f"snippet(words, 0, '', '', '…', {SNIPPET_WORDS})",
            score="-bm25(words)",
            join="JOIN words ON words.rowid = entries.id ",
            match="words MATCH ?",
            order="bm25(words), entries.at DESC",
        )
        found = _hits(database, sql, (" OR ".join(f'"{word}"' for word in words), owner, limit))
    text = query.text.strip()[:LONGEST_QUERY]
    if found or not text:
        return found
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"
    sql = SELECT.format(
        snippet=f"substr(entries.text, 1, {SNIPPET_CHARACTERS})",
        score="0.0",
        join="",
        match="entries.text LIKE ? ESCAPE '\\'",
        order="entries.at DESC",
    )
    return _hits(database, sql, (pattern, owner, limit))


def _hits(database: Database, sql: str, values: Sequence[str | int]) -> list[Hit]:
    names = ("session", "seq", "role", "snippet", "at", "score")
    return [
        msgspec.convert({**dict(zip(names, row, strict=True)), "at": moment(row[4])}, Hit)
        for row in database.read(sql, values)
    ]
