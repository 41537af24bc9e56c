"""The search index over all messages, as a projection of the logs. Part of the store."""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice

from melete.core.event import Fact, Framed, Opened, Reply, RunStarted, Said, Steered, ToolEnded
from melete.store import lines, words
from melete.store.block import (
    SIZE,
    Entry,
    pack_entries,
    pack_texts,
    role_term,
    signs,
    tool_term,
    unpack_entries,
    unpack_texts,
)

LONGEST_ENTRY = 20_000
"""Characters of one message that are indexed; the log holds all of it."""
LONGEST_MODELS = 2_000

Message = tuple[Entry, str]


class SearchIndex:
    """Every message's words, in blocks of neighbours."""

    schema = "search"

    def take(self, connection: sqlite3.Connection, session: str, facts: Sequence[Fact]) -> None:
        """Add facts that follow those added before; raises ValidationError for a row that makes no sense."""
        connection.execute("INSERT OR IGNORE INTO sessions (id) VALUES (?)", (session,))
        number, models, there = connection.execute(
            "SELECT number, models, messages FROM sessions WHERE id = ?", (session,)
        ).fetchone()
        for fact in facts:
            if isinstance(fact, Opened):
                _open(connection, number, fact)
        if (now := _models(models, facts)) != models:
            connection.execute("UPDATE sessions SET models = ? WHERE number = ?", (now, number))
        found = [message for fact in facts if (message := _message(fact)) is not None]
        if found:
            _add(connection, number, there, found)
            count = there + len(found)
            connection.execute("UPDATE sessions SET messages = ? WHERE number = ?", (count, number))

    def forget(self, connection: sqlite3.Connection, session: str) -> None:
        """Remove everything of a session."""
        row = connection.execute("SELECT number FROM sessions WHERE id = ?", (session,)).fetchone()
        if row is None:
            return
        blocks = connection.execute("SELECT id FROM blocks WHERE session = ?", row).fetchall()
        for (block,) in blocks:
            _remove(connection, block, _stored(connection, block))
        connection.execute("DELETE FROM sessions WHERE number = ?", row)


def _open(connection: sqlite3.Connection, number: int, opened: Opened) -> None:
    connection.execute(
        "UPDATE sessions SET owner = ?, source = ?, cwd = ?, origin = ?, copied = ?, name = ? WHERE number = ?",
        (
            opened.owner,
            opened.source,
            opened.cwd,
            opened.forked_from or opened.parent,
            opened.copied,
            opened.about.get("imported", ""),
            number,
        ),
    )


def _models(before: str, facts: Sequence[Fact]) -> str:
    """The models that were used, as the table holds them."""
    now = before or "\n"
    for fact in facts:
        if isinstance(fact, RunStarted | Framed | Reply) and fact.model:
            provider = "" if isinstance(fact, Framed) else fact.provider
            for name in (fact.model, f"{provider}/{fact.model}" if provider else fact.model):
                if f"\n{name}\n" not in now and len(now) < LONGEST_MODELS:
                    now += f"{name}\n"
    return now


def _message(fact: Fact) -> Message | None:
    """The fact's message with what is known of it, if it has one with a text."""
    line = lines.of_fact(fact)
    if line is None or not line.text:
        return None
    match fact:
        case ToolEnded():
            tools = (fact.result.name,)
        case Reply() | Said() | Steered():
            tools = tuple(dict.fromkeys(call.name for call in fact.message.calls))
        case _:
            tools = ()
    entry = Entry(
        seq=fact.seq,
        at=fact.at.timestamp(),
        role=line.role,
        tools=tools,
        ref=fact.ref if isinstance(fact, Said | Reply) else "",
        size=len(line.text),
    )
    return entry, line.text[:LONGEST_ENTRY]


def _add(connection: sqlite3.Connection, number: int, there: int, found: Sequence[Message]) -> None:
    """Add messages behind the `there` that the session has; its last block is filled up first."""
    place, rest = divmod(there, SIZE)
    messages = iter(found)
    if rest:
        (block,) = connection.execute(
            "SELECT id FROM blocks WHERE session = ? AND place = ?", (number, place)
        ).fetchone() or (0,)
        before = _stored(connection, block)
        _remove(connection, block, before)
        _write(connection, number, place, [*before, *islice(messages, SIZE - rest)])
        place += 1
    while batch := list(islice(messages, SIZE)):
        _write(connection, number, place, batch)
        place += 1


def _write(connection: sqlite3.Connection, number: int, place: int, messages: Sequence[Message]) -> None:
    times = [entry.at for entry, _ in messages]
    block = connection.execute(
        "INSERT INTO blocks (session, place, first, last) VALUES (?, ?, ?, ?)",
        (number, place, min(times), max(times)),
    ).lastrowid
    packed, terms = signs(map(_terms, messages))
    entries = pack_entries([entry for entry, _ in messages])
    connection.execute("INSERT INTO heads VALUES (?, ?, ?)", (block, packed, entries))
    connection.execute("INSERT INTO texts VALUES (?, ?)", (block, pack_texts([text for _, text in messages])))
    connection.execute("INSERT INTO words (rowid, terms) VALUES (?, ?)", (block, terms))


def _remove(connection: sqlite3.Connection, block: int, messages: Sequence[Message]) -> None:
    """Remove a block that holds these messages."""
    _, terms = signs(map(_terms, messages))
    sql = "INSERT INTO words (words, rowid, terms) VALUES ('delete', ?, ?)"
    connection.execute(sql, (block, terms))
    for table, key in (("texts", "block"), ("heads", "block"), ("blocks", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {key} = ?", (block,))  # noqa: S608 - ours


def _stored(connection: sqlite3.Connection, block: int) -> list[Message]:
    sql = "SELECT entries, body FROM heads JOIN texts USING (block) WHERE block = ?"
    entries, body = connection.execute(sql, (block,)).fetchone() or (b"", b"")
    return list(zip(unpack_entries(entries), unpack_texts(body), strict=False))


def _terms(message: Message) -> Iterator[str]:
    """What a message is indexed under: its words, its role, its tools."""
    entry, text = message
    yield from words.terms(text)
    yield role_term(entry.role)
    for tool in entry.tools:
        yield tool_term(tool)
