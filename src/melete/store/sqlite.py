"""SQLite for what can be remade: one connection a file and process, patient writes, damage told apart from trouble.

Part of the store; only the projections use it, and only they load it. The file is never opened but by SQLite.
"""

import random
import sqlite3
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from melete.core.errors import StorageError

TRIES = 15
WAIT_SECONDS = (0.02, 0.15)
SUFFIXES = ("", "-wal", "-shm")

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
    """The file is no sound database: it is to be set aside and remade."""


class Database:
    """A connection to the file at `path`, or to memory when there is none, with the tables of `schema` in it."""

    def __init__(self, path: Path | None, *, schema: str) -> None:
        self.path = path
        self._schema = schema
        self._lock = threading.RLock()
        self._inode = 0
        with self._told():
            if path is not None and not path.exists():
                path.touch(mode=0o600)  # never afterwards: closing a handle of ours would drop SQLite's locks
            self._connection = sqlite3.connect(
                path or ":memory:", timeout=0, isolation_level=None, check_same_thread=False
            )
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        with self._told():
            if self.path is not None:
                self._inode = self.path.stat().st_ino
                self._patiently("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
        if self._version() < self._newest():
            with self.write() as connection:
                self._migrate(connection)
        if self._version() > self._newest():
            raise StorageError(f"{self.path} was made by a newer version of Melete", kept="it was not touched")

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query; raises DamagedError, StorageError."""
        with self._lock, self._told():
            return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def write(self) -> Generator[sqlite3.Connection]:
        """A transaction that is kept when the block ends well; raises DamagedError, StorageError."""
        with self._lock, self._told():
            self._patiently("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.rollback()
                raise
            self._patiently("COMMIT")

    @property
    def replaced(self) -> bool:
        """Whether another process has put a new file in this one's place."""
        if self.path is None:
            return False
        try:
            return self.path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._connection.close()

    def _version(self) -> int:
        return int(self.read("PRAGMA user_version")[0][0])

    def _newest(self) -> int:
        return max(self._migrations())

    def _migrations(self) -> dict[int, str]:
        """The statements of each version of the schema."""
        folder = resources.files("melete.store").joinpath("schema")
        names = [entry.name for entry in folder.iterdir() if entry.name.startswith(f"{self._schema}_")]
        return {int(name[:-4].rpartition("_")[2]): folder.joinpath(name).read_text("utf-8") for name in names}

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Bring the tables up to date; another process may have done so while we waited for the lock."""
        for number, script in sorted(self._migrations().items()):
            if number > self._version():
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")

    def _patiently(self, sql: str) -> None:
        """Execute a statement that needs a lock; uneven waits keep processes from meeting again and again."""
        for _ in range(TRIES - 1):
            try:
                self._connection.execute(sql)
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY:
                    raise
                time.sleep(random.uniform(*WAIT_SECONDS))
            else:
                return
        self._connection.execute(sql)

    @contextmanager
    def _told(self) -> Generator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.Error as error:
            code = _code(error)
            short_read = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ
            if code in _TROUBLE and not short_read:
                raise StorageError(
                    f"{self.path or 'the tables in memory'}: {error}",
                    kept="the logs hold everything; only listings and search need this file",
                    next=_TROUBLE[code],
                ) from error
            raise DamagedError(str(error)) from error
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}", kept="the logs hold everything") from error


def set_aside(path: Path, stamp: str) -> Path:
    """Move a database out of the way, its companions with it, and return its new place; raises OSError."""
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    for suffix in SUFFIXES[1:]:
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            companion.rename(aside.with_name(aside.name + suffix))
    path.rename(aside)
    return aside


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
