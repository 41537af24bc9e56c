"""Projections: how what is remade from the logs catches up with them, and what happens to a damaged file. Part of the store.

A projection remembers for every log how far it has read. Catching up reads only what is new; a log that became shorter
or another is read again from its beginning, and what it lost is written down beside it.
"""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from melete.core.errors import SessionNotFoundError, StorageError
from melete.core.event import Fact
from melete.core.ports import Clock
from melete.store.aside import Finding, keep_aside
from melete.store.disk import make_folder, storage_error
from melete.store.log import LogReader, logs
from melete.store.sqlite import DamagedError, Database, set_aside

T = TypeVar("T")
MARK_BYTES = 64


class Source(Struct, frozen=True, kw_only=True):
    """How far a projection has read a log; `mark` is a checksum of the bytes before."""

    session: str
    inode: int = 0
    offset: int = 0
    seq: int = 0
    mark: int = 0


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


class CaughtUp:
    """A projection's file, opened when first used, caught up before each use, remade when it is damaged."""

    def __init__(self, projection: Projection, state: Path, *, clock: Clock) -> None:
        self.path = state / f"{projection.schema}.db"
        self.done: list[str] = []
        self._projection = projection
        self._logs = state / "sessions"
        self._clock = clock
        self._database: Database | None = None
        self._turn = threading.RLock()

    def use(self, act: Callable[[Database], T]) -> T:
        """Do `act` with the projection up to date; a damaged file is set aside, remade, and `act` done again.

        Raises StorageError when even that does not help.
        """
        with self._turn:
            for _ in range(2):
                try:
                    database = self._open()
                    self._catch_up(database)
                    return act(database)
                except (DamagedError, msgspec.ValidationError) as error:
                    self._retire(str(error))
            raise StorageError(
                f"{self.path} is damaged again right after it was remade",
                kept="the logs hold everything",
                next="check the disk",
            )

    def remake(self) -> None:
        """Throw the file away and make it anew from the logs; raises StorageError."""
        with self._turn:
            self.close()
            try:
                for suffix in ("-wal", "-shm", ""):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            except OSError as error:
                raise storage_error(error, f"removing {self.path}", kept="the logs hold everything") from error
            self.use(lambda _: None)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self) -> Database:
        if self._database is not None and self._database.replaced:
            self.close()
        if self._database is None:
            try:
                make_folder(self.path.parent)
                self._database = Database(self.path, schema=self._projection.schema)
            except StorageError as error:
                # A home that cannot be written can still be listed and searched, at the price of reading all of it.
                self._database = Database(None, schema=self._projection.schema)
                self.done.append(f"{error.what}: read the logs into memory instead")
        return self._database

    def _retire(self, why: str) -> None:
        """Set the damaged file aside, unless another process has done so."""
        database, self._database = self._database, None
        if database is not None:
            replaced = database.replaced
            with suppress(DamagedError):
                database.close()
            if replaced:
                return
        try:
            aside = set_aside(self.path, f"{self._clock.now():%Y%m%d-%H%M%S}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(error, f"setting aside {self.path}", kept="the logs hold everything") from error
        self.done.append(f"{self.path.name} was damaged ({why}) and remade; it was kept as {aside.name}")

    # ---- catching up

    def _catch_up(self, database: Database) -> None:
        known = {source.session: source for source in sources(database)}
        there: set[str] = set()
        for path in logs(self._logs):
            there.add(path.stem)
            source = known.get(path.stem)
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            if source is None or (stat.st_ino, stat.st_size) != (source.inode, source.offset):
                self._read(database, path, source)
        for session in known.keys() - there:
            with database.write() as connection:
                self._forget(connection, session)

    def _read(self, database: Database, path: Path, source: Source | None) -> None:
        """Take in what is new in one log; under SQLite's write lock, so that two processes do not take it in twice."""
        with database.write() as connection:
            source = _source(connection, path.stem)
            try:
                reader = LogReader(path)
            except SessionNotFoundError:
                return
            try:
                same = source is not None and _continues(reader, source)
                if source is not None and same:
                    reader.offset, reader.last = source.offset, source.seq
                elif source is not None:
                    self._forget(connection, path.stem)
                facts = reader.new()
                now = Source(
                    session=path.stem,
                    inode=reader.inode,
                    offset=reader.offset,
                    seq=max(reader.last, *(entry.seq for entry in reader.unknown), 0),
                    mark=reader.mark(reader.offset, MARK_BYTES),
                )
            finally:
                reader.close()
            if source is not None and not same and now.seq < source.seq:
                _tell_loss(path, source, now)
            if now == source:
                return
            if facts or source is not None:
                self._projection.take(connection, path.stem, facts)
                connection.execute(
                    "INSERT OR REPLACE INTO sources (session, inode, offset, seq, mark) VALUES (?, ?, ?, ?, ?)",
                    msgspec.structs.astuple(now),
                )

    def _forget(self, connection: sqlite3.Connection, session: str) -> None:
        self._projection.forget(connection, session)
        connection.execute("DELETE FROM sources WHERE session = ?", (session,))


def sources(database: Database) -> list[Source]:
    """How far each log was read; raises ValidationError for rows that make no sense."""
    return [_row(row) for row in database.read("SELECT session, inode, offset, seq, mark FROM sources")]


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


def _tell_loss(path: Path, before: Source, now: Source) -> None:
    what = f"an end too early: facts {now.seq + 1} to {before.seq} had been read and are gone"
    try:
        keep_aside(path, [Finding(what=what, offset=now.offset, harmless=False)])
    except OSError as error:
        raise storage_error(error, f"writing beside {path}", kept="what the log holds is untouched") from error
