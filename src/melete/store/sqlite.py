"""SQLite for what can be remade: one connection a file and process, patient, damage told apart from trouble.

Part of the store; only the projections use it, and only they load it. The file is never opened but by SQLite, and its place
changes hands only behind a door (`store.door`), so that no journal ever meets a file that it does not belong to.
"""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from melete.core.errors import StorageError
from melete.store.door import door

TRIES = 15
WAIT_SECONDS = (0.02, 0.15)
CHECKPOINT_EVERY = 50
JOURNAL_BYTES = 4 << 20
SUFFIXES = ("", "-wal", "-shm")
SCHEMAS = Path(__file__).with_name("schema")

_TROUBLE = {
    sqlite3.SQLITE_FULL: "free some space on this disk and try again",
    sqlite3.SQLITE_READONLY: "make the home writable and try again",
    sqlite3.SQLITE_CANTOPEN: "check the permissions of the home",
    sqlite3.SQLITE_PERM: "check the permissions of the home",
    sqlite3.SQLITE_AUTH: "check the permissions of the home",
    sqlite3.SQLITE_BUSY: "end the process that holds it (`ps`) and try again",
    sqlite3.SQLITE_LOCKED: "end the process that holds it (`ps`) and try again",
    sqlite3.SQLITE_NOMEM: "free some memory and try again",
    sqlite3.SQLITE_IOERR: "the disk reported an error: check it before anything else",
}
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class DamagedError(Exception):
    """The file is no sound database, or not the one that was made here: it is to be set aside and remade."""

    def __init__(self, what: str, *, inode: int = 0) -> None:
        super().__init__(what)
        self.inode = inode


class BusyError(StorageError):
    """Another process has held the file for longer than one may wait."""


class NewerError(StorageError):
    """A newer version of Melete made the file: it is not to be touched."""


class Database:
    """A connection to the file at `path`, or to memory when there is none, with the tables of `schema` in it.

    With `look`, the file is only read, and stays as it is.
    """

    def __init__(self, path: Path | None, *, schema: str, look: bool = False) -> None:
        self.path = path
        self.tries = TRIES
        self._schema = schema
        self._lock = threading.RLock()
        self._inode = 0
        self._writes = 0
        self._seen = -1
        with self._told():
            self._connection = self._connect(look)
        try:
            if not look:
                self._prepare()
            self._not_too_new()
        except BaseException:
            self._connection.close()
            raise

    # ---- opening

    def _connect(self, look: bool) -> sqlite3.Connection:
        path = self.path
        if path is None:
            return _connection(":memory:")
        with door(path.parent, alone=False):
            if look or _filled(path):
                return self._first(path, look=look)
        with door(path.parent, alone=True):
            if not _filled(path):
                for suffix in SUFFIXES:
                    _regular(path.with_name(path.name + suffix))
                remove(path)
                path.touch(mode=0o600)  # never afterwards: closing a handle of ours would drop SQLite's locks
            return self._first(path, look=False)

    def _first(self, path: Path, *, look: bool) -> sqlite3.Connection:
        """A connection that has opened all three files."""
        for suffix in SUFFIXES:
            _regular(path.with_name(path.name + suffix))
        found = path.stat()
        self._inode = found.st_ino
        mine = self._inode & 0x7FFFFFFF or 1
        connection = _connection(f"{path.absolute().as_uri()}?mode={'ro' if look else 'rw'}")
        try:
            if not found.st_size:
                self._patiently(lambda: connection.execute(f"PRAGMA application_id = {mine}"))
            if not look:
                self._patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"))
            made_as = self._patiently(lambda: connection.execute("PRAGMA application_id").fetchone())[0]
        except BaseException:
            connection.close()
            raise
        if made_as not in (0, mine):
            connection.close()
            raise DamagedError("another file was put in its place", inode=self._inode)
        return connection

    def _prepare(self) -> None:
        with self._told():
            for setting in (
                "synchronous = NORMAL",
                "secure_delete = ON",
                "cell_size_check = ON",
                f"journal_size_limit = {JOURNAL_BYTES}",
            ):
                self._connection.execute(f"PRAGMA {setting}")
        if self.version < newest(self._schema):
            with self.write() as connection:
                self._migrate(connection)

    def _not_too_new(self) -> None:
        if self.version > newest(self._schema):
            raise NewerError(f"{self.path} was made by a newer version of Melete", kept="it was not touched")

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Bring the tables up to date; another process may have done so while we waited for the lock."""
        for number, script in sorted(_scripts(self._schema).items()):
            if number > self.version:
                for statement in _statements(script.read_text("utf-8")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")

    @property
    def version(self) -> int:
        """The version of the tables in the file."""
        return int(self.read("PRAGMA user_version")[0][0])

    # ---- using

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query; raises DamagedError, StorageError."""
        with self._lock, self._told():
            return self._patiently(lambda: self._connection.execute(sql, values).fetchall())

    @contextmanager
    def write(self) -> Generator[sqlite3.Connection]:
        """A transaction that is kept when the block ends well; raises DamagedError, StorageError, BusyError."""
        with self._lock, self._told():
            self._patiently(lambda: self._connection.execute("BEGIN IMMEDIATE"))
            try:
                yield self._connection
            except BaseException:
                self._connection.rollback()
                raise
            self._patiently(lambda: self._connection.execute("COMMIT"))
            self._writes += 1
        if self._writes % CHECKPOINT_EVERY == 0:
            self.checkpoint("PASSIVE")

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """All reads of the block see one state, whatever other processes write meanwhile; nobody waits for it."""
        with self._lock, self._told():
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.rollback()

    def checkpoint(self, how: str) -> bool:
        """Move what the journal holds into the file, as far as nobody is in the way; whether all went. Never waits."""
        try:
            busy, there, moved = self.read(f"PRAGMA wal_checkpoint({how})")[0]
        except BusyError:
            return False
        return not busy and there == moved

    def for_bulk(self) -> None:
        """Use more memory, for a while in which much is written."""
        self.read("PRAGMA cache_size = -65536")
        self.read("PRAGMA wal_autocheckpoint = 8000")

    @property
    def changed(self) -> bool:
        """Whether another process has written since this was last asked; True the first time."""
        seen = int(self.read("PRAGMA data_version")[0][0])
        before, self._seen = self._seen, seen
        return before != seen

    @property
    def replaced(self) -> bool:
        """Whether another process has put a new file in this one's place, or emptied it."""
        if self.path is None:
            return False
        try:
            found = self.path.stat()
        except OSError:
            return True
        return found.st_ino != self._inode or not found.st_size

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        with suppress(sqlite3.Error):  # what it could not write stays in the journal
            self._connection.close()

    def _patiently(self, act: Callable[[], Any]) -> Any:
        """Do what needs a lock; uneven waits keep processes from meeting again and again."""
        for _ in range(self.tries - 1):
            try:
                return act()
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY:
                    raise
                time.sleep(uneven(*WAIT_SECONDS))
        return act()

    @contextmanager
    def _told(self) -> Generator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.Error as error:
            code = _code(error)
            short_read = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ
            if code not in _TROUBLE or short_read:
                raise DamagedError(str(error), inode=self._inode) from error
            kind = BusyError if code in _BUSY else StorageError
            raise kind(
                f"{self.path or 'the tables in memory'}: {error}",
                kept="the logs hold everything; only listings and search need this file",
                next=_TROUBLE[code],
            ) from error
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}", kept="the logs hold everything") from error


def uneven(least: float, most: float) -> float:
    """A random number of seconds between the two."""
    return least + (most - least) * int.from_bytes(os.urandom(2)) / 0xFFFF


def newest(schema: str) -> int:
    """The version of the tables that this version of Melete makes."""
    return max(_scripts(schema))


def remove(path: Path) -> None:
    """Remove a database, its companions first; to be done behind the door, alone. Raises OSError."""
    for suffix in reversed(SUFFIXES):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def move(path: Path, target: Path) -> None:
    """Move a database with its companions, whatever they are; to be done behind the door, alone. Raises OSError."""
    for suffix in reversed(SUFFIXES):
        part = path.with_name(path.name + suffix)
        if os.path.lexists(part):
            part.rename(target.with_name(target.name + suffix))


def _connection(place: str) -> sqlite3.Connection:
    return sqlite3.connect(place, timeout=0, isolation_level=None, check_same_thread=False, uri=place != ":memory:")


def _filled(path: Path) -> bool:
    """Whether there is a file that is not empty; an empty one was cut off, or its maker was killed."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        if path.is_symlink():
            raise DamagedError("it is a link that leads nowhere") from None
        return False


def _regular(path: Path) -> None:
    """Raises DamagedError for what cannot be a part of a database."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise DamagedError(f"{path.name} is not a regular file")


def _scripts(schema: str) -> dict[int, Path]:
    """The statements of each version of the schema."""
    return {int(path.stem.rpartition("_")[2]): path for path in SCHEMAS.glob(f"{schema}_*.sql")}


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _statements(script: str) -> Iterator[str]:
    """Single statements: a script of the sqlite3 module would end the transaction that it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
