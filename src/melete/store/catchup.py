"""Catching up: how what is remade from the logs learns what is new in them. Part of the store.

A projection remembers for every log how far it has read. Only what is new is read; a log that became shorter or another is read
again from its beginning, and what it lost is written down beside it. Many logs go into one transaction, a long log into several,
so that none holds the file for long; a process that is killed between two of them is gone on from by the next.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from contextvars import ContextVar
from typing import Protocol

import msgspec
from msgspec import Struct

from melete.core.errors import SessionNotFoundError, StorageError
from melete.core.event import Fact
from melete.store.aside import Finding, keep_aside
from melete.store.disk import storage_error
from melete.store.log import LogReader
from melete.store.sqlite import Database
from melete.store.watch import Folder, State

MARK_BYTES = 64
PIECE_BYTES = 256 << 10
"""How much of a log is read at once."""
SHORT_SECONDS = 0.1
"""How long a transaction takes in logs while others may wait for the file."""
PAUSE_SECONDS = 0.03
"""How long the file is free between two transactions; who waits for it tries every 20 to 150 milliseconds."""
BULK_SECONDS = 1.0
ROUNDS = 20

OnProgress = Callable[[int, int], None]

given_up: ContextVar[threading.Event | None] = ContextVar("given_up", default=None)
"""Set when nobody waits for the answer any more: catching up then ends after the transaction that it is in."""


class AbandonedError(Exception):
    """Nobody waits for the answer any more; what was taken in is kept."""


class Source(Struct, frozen=True, kw_only=True):
    """How far a projection has read a log; `mark` is a checksum of the bytes before."""

    session: str
    inode: int = 0
    offset: int = 0
    seq: int = 0
    mark: int = 0


class Piece(Struct, frozen=True, kw_only=True):
    """A part of a log that is to be taken in: it follows `before`; `anew` if the projection must forget the session first.

    Without `now`, the log is gone.
    """

    session: str
    before: Source | None
    now: Source | None = None
    facts: Sequence[Fact] = ()
    anew: bool = False


class Projection(Protocol):
    """What a projection makes of the facts."""

    @property
    def schema(self) -> str:
        """The name of its tables' definition, and of its file without `.db`."""
        ...

    def take(self, connection: sqlite3.Connection, session: str, facts: Sequence[Fact]) -> None:
        """Add facts that follow those added before."""
        ...

    def forget(self, connection: sqlite3.Connection, session: str) -> None:
        """Remove everything of a session."""
        ...


class CatchUp:
    """What one open database knows of the logs in a folder, and how it learns the rest."""

    def __init__(self, projection: Projection, folder: Folder, database: Database) -> None:
        self._projection = projection
        self._folder = folder
        self._database = database
        self._known: dict[str, State] = {}
        self._nothing_in: dict[str, State] = {}
        self._round = 0

    def run(
        self,
        own: Collection[str],
        *,
        everything: bool = True,
        bulk: bool = False,
        told: OnProgress | None = None,
    ) -> None:
        """Take in what is new in the logs named `own`, and in `everything` that is worth a look now.

        In `bulk`, which is for a file that nobody else has, transactions are long and nobody is let in between.
        Raises BusyError when another process holds the database for too long, DamagedError, ValidationError, StorageError,
        AbandonedError; what was taken in before is kept.
        """
        new = self._new(own, everything=everything)
        told = told or _nobody
        total = len(new)
        try:
            for _ in range(ROUNDS):  # each further one because another process was faster with a part of it
                if not new:
                    break
                new = self._take_in(new, bulk=bulk, told=told)
        except BaseException:
            self._round = 0  # look at everything again: part of it was not taken in
            raise
        told(total, total)

    # ---- what is new

    def _new(self, own: Collection[str], *, everything: bool) -> dict[str, State | None]:
        """The logs that are not what they were when they were read, with their state, None for those that are gone."""
        new: dict[str, State | None] = {}
        if everything:
            number = self._folder.look(anyway=not self._round)
            if number != self._round:
                there = self._folder.logs
                if self._database.changed or not self._round:
                    self._known = _known(self._database)
                known = self._known.get
                new |= {name: state for name, state in there.items() if known(name) != state}
                new |= {name: None for name in self._known.keys() - there.keys() if self._folder.one(name) is None}
                self._round = number
        for name in own:
            state = self._folder.one(name)
            if state != self._known.get(name) or not self._round:
                new[name] = state
        return {name: state for name, state in new.items() if state is None or self._nothing_in.get(name) != state}

    # ---- taking it in

    def _take_in(self, new: dict[str, State | None], *, bulk: bool, told: OnProgress) -> dict[str, State | None]:
        """Take in these logs; return those of which another process took in a part meanwhile."""
        longest = BULK_SECONDS if bulk else SHORT_SECONDS
        done: set[str] = set()
        late: dict[str, State | None] = {}
        pieces = self._pieces(new)
        piece = next(pieces, None)
        while piece is not None:
            read: dict[str, State | None] = {}
            with self._database.write() as connection:
                until = time.monotonic() + longest
                while piece is not None:
                    read[piece.session], whole = self._put(connection, piece)
                    if not whole:
                        late[piece.session] = new[piece.session]
                    piece = next(pieces, None)
                    if time.monotonic() >= until:
                        break
            for name, state in read.items():
                self._learn(name, state)
            done |= read.keys()
            told(len(done), len(new))
            _let_others(bulk=bulk or piece is None)
        return late

    def _learn(self, name: str, state: State | None) -> None:
        self._nothing_in.pop(name, None)
        if state is None:
            self._known.pop(name, None)
        else:
            self._known[name] = state

    def _put(self, connection: sqlite3.Connection, piece: Piece) -> tuple[State | None, bool]:
        """Take in a piece, unless another process did so with a part of it meanwhile.

        Returns what is known of the log now, and whether that is all that the piece has.
        """
        there = _source(connection, piece.session)
        if there != piece.before:
            return (None if there is None else (there.inode, there.offset)), there == piece.now
        if piece.anew or piece.now is None:
            self._projection.forget(connection, piece.session)
        if piece.now is None:
            connection.execute("DELETE FROM sources WHERE session = ?", (piece.session,))
            return None, True
        self._projection.take(connection, piece.session, piece.facts)
        connection.execute(
            "INSERT OR REPLACE INTO sources (session, inode, offset, seq, mark) VALUES (?, ?, ?, ?, ?)",
            msgspec.structs.astuple(piece.now),
        )
        return (piece.now.inode, piece.now.offset), True

    # ---- reading the logs

    def _pieces(self, new: dict[str, State | None]) -> Iterator[Piece]:
        """What is to be taken in of these logs; those that hold nothing new are remembered as such."""
        for name, state in new.items():
            found = False
            for piece in self._read(name):
                found = True
                yield piece
            if not found and state is not None:
                self._nothing_in[name] = state

    def _read(self, name: str) -> Iterator[Piece]:
        """The new pieces of one log; none of one that cannot be read, which `verify` tells of."""
        rows = self._database.read("SELECT session, inode, offset, seq, mark FROM sources WHERE session = ?", (name,))
        before = _row(rows[0]) if rows else None
        try:
            reader = LogReader(self._folder.log(name))
        except (SessionNotFoundError, StorageError):
            if before is not None and self._folder.one(name) is None:
                yield Piece(session=name, before=before)
            return
        with closing(reader):
            yield from _pieces_of(reader, before)


def sources(database: Database) -> list[Source]:
    """How far each log was read; raises ValidationError for rows that make no sense."""
    return [_row(row) for row in database.read("SELECT session, inode, offset, seq, mark FROM sources")]


def _pieces_of(reader: LogReader, before: Source | None) -> Iterator[Piece]:
    """What is new in one log, piece by piece; nothing when there is nothing."""
    other = before if before is not None and not _continues(reader, before) else None
    if before is not None and other is None:
        reader.offset, reader.last = before.offset, before.seq
    end = reader.size
    anew = other is not None
    while True:
        stood = reader.offset
        facts = reader.new(PIECE_BYTES)
        now = Source(
            session=reader.session,
            inode=reader.inode,
            offset=reader.offset,
            seq=max(reader.last, *(entry.seq for entry in reader.unknown), 0),
            mark=reader.mark(reader.offset, MARK_BYTES),
        )
        if now == before:
            break
        if facts or before is not None:
            yield Piece(session=reader.session, before=before, now=now, facts=facts, anew=anew)
            before, anew = now, False
        if reader.offset >= end or reader.offset == stood:
            break
    if other is not None and now.seq < other.seq:
        _tell_loss(reader, other, now)


def _known(database: Database) -> dict[str, State]:
    return {
        name: (inode, offset) for name, inode, offset in database.read("SELECT session, inode, offset FROM sources")
    }


def _source(connection: sqlite3.Connection, session: str) -> Source | None:
    sql = "SELECT session, inode, offset, seq, mark FROM sources WHERE session = ?"
    row = connection.execute(sql, (session,)).fetchone()
    return None if row is None else _row(row)


def _row(row: tuple[object, ...]) -> Source:
    return msgspec.convert(dict(zip(Source.__struct_fields__, row, strict=True)), Source)


def _continues(reader: LogReader, source: Source) -> bool:
    """Whether the log still is the one that was read, and at least as long."""
    return (
        reader.inode == source.inode
        and reader.size >= source.offset
        and reader.mark(source.offset, MARK_BYTES) == source.mark
    )


def _tell_loss(reader: LogReader, before: Source, now: Source) -> None:
    what = f"an end too early: facts {now.seq + 1} to {before.seq} had been read and are gone"
    try:
        keep_aside(reader.path, [Finding(what=what, offset=now.offset, harmless=False)])
    except OSError as error:
        raise storage_error(error, f"writing beside {reader.path}", kept="what the log holds is untouched") from error


def _let_others(*, bulk: bool) -> None:
    """Between two transactions: end when nobody waits for this one, and let those in who wait for the file."""
    if (event := given_up.get()) is not None and event.is_set():
        raise AbandonedError
    if not bulk:
        time.sleep(PAUSE_SECONDS)


def _nobody(done: int, total: int) -> None:
    """Nobody wants to know."""
