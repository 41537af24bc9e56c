"""A file that is remade from the logs: opened when first used, caught up before each use, set aside when it is damaged.

Part of the store. What can be answered is answered: while another process holds the file for longer than one waits, from what the
file holds; when it cannot be written at all (a full disk, a home that may only be read), from the logs, read into memory.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from melete.core.errors import StorageError, StoreError
from melete.core.ports import Clock
from melete.store.catchup import CatchUp, OnProgress, Projection, sources
from melete.store.disk import make_folder, open_regular, storage_error, sync_folder
from melete.store.door import door
from melete.store.sqlite import SUFFIXES, BusyError, DamagedError, Database, NewerError, move, remove
from melete.store.sqlite import TRIES as PATIENCE
from melete.store.watch import Folder

T = TypeVar("T")
TRIES = 3
TRIES_WHEN_LATE = 3
"""Who has waited for a file in vain once does not wait as long again, until it gets through."""
KEPT_ASIDE = 3
AGAIN_SECONDS = 300.0
AGAIN_SECONDS_IF_BUSY = 10.0
"""How long answers come from memory before the file is tried again."""


class Derived:
    """The file of one projection. `done` has a line for each repair; `late` tells that the last answer may lack news."""

    def __init__(self, projection: Projection, folder: Folder, state: Path, *, clock: Clock, live: set[str]) -> None:
        self.path = state / f"{projection.schema}.db"
        self.done: list[str] = []
        self.late = False
        self._projection = projection
        self._folder = folder
        self._clock = clock
        self._live = live
        self._touched: set[str] = set()
        self._opened: tuple[Database, CatchUp] | None = None
        self._again = 0.0
        self._to_empty = False
        self._turn = threading.RLock()

    def touch(self, session: str) -> None:
        """This process has changed the log of the session: the next use looks at it, whatever else it looks at."""
        self._touched.add(session)

    def use(self, act: Callable[[Database], T]) -> T:
        """Do `act` with the projection up to date; a damaged file is set aside, remade, and `act` done again.

        Raises StorageError when even that does not help.
        """
        with self._turn:
            why = ""
            for _ in range(TRIES):
                try:
                    database, catch_up = self._open()
                    self._catch_up(database, catch_up)
                    with database.snapshot():
                        return act(database)
                except (DamagedError, msgspec.ValidationError) as error:
                    why = str(error)
                    self._retire(error)
                except StorageError as error:
                    self._fall_back(error)
            raise StorageError(
                f"{self.path} is damaged again right after it was remade: {why}",
                kept="the logs hold everything",
                next="check the disk",
            )

    def forget(self, session: str) -> None:
        """Take a deleted session out of the file and out of its journal at once.

        Raises StorageError, the session's words still in the file, when another process holds it for too long.
        """
        self.touch(session)
        with self._turn:
            try:
                database, catch_up = self._open()
                self._learn(catch_up, everything=False)
                self._to_empty = not database.checkpoint("TRUNCATE")
            except (DamagedError, msgspec.ValidationError) as error:
                self._retire(error)
            except StorageError as error:
                busy = isinstance(error, BusyError)
                raise StorageError(
                    f"another process does not let go of {self.path}" if busy else error.what,
                    kept=f"the session {session} is deleted, but words of it stay in {self.path.name} for now",
                    next="end that process (`ps`); the next listing and search take them out" if busy else error.next,
                ) from error
            for name in set_aside(self.path):
                _remove(self.path.with_name(name), alone=True)

    def remake(self, told: OnProgress | None = None) -> None:
        """Make the file anew from the logs, beside the old one, and put it in its place; raises StoreError, StorageError."""
        folder = self.path.with_name(f".{self._projection.schema}.rebuild")
        new = folder / self.path.name
        with self._turn, _workshop(folder):
            self._check_not_newer()
            _remove(new, alone=True)
            try:
                self._make(new, told)
            except DamagedError as error:
                raise StorageError(
                    f"{new} cannot be made: {error}", kept="the logs hold everything", next="check the disk"
                ) from error
            self.close()
            try:
                with door(self.path.parent, alone=True):
                    if not _removed(self.path):
                        move(self.path, _free(self.path.with_name(self._aside())))
                    new.rename(self.path)
                sync_folder(self.path.parent)
            except OSError as error:
                raise storage_error(error, f"replacing {self.path}", kept="the logs hold everything") from error
        self.use(lambda _: None)

    def _make(self, new: Path, told: OnProgress | None) -> None:
        database = Database(new, schema=self._projection.schema)
        try:
            database.for_bulk()
            CatchUp(self._projection, self._folder, database).run((), bulk=True, told=told)
            database.checkpoint("TRUNCATE")
        finally:
            database.close()

    def _check_not_newer(self) -> None:
        """Raises NewerError for a file that is to stay as it is; any other is to be replaced, whatever it is."""
        try:
            if self.path.is_file():
                Database(self.path, schema=self._projection.schema, look=True).close()
        except NewerError:
            raise
        except (DamagedError, StorageError):
            return

    def count(self) -> int:
        """How many logs the file holds."""
        return self.use(lambda database: len(sources(database)))

    def close(self) -> None:
        """Close the file when nobody uses it any more; the next use opens it again."""
        with self._turn:
            if self._opened is not None:
                opened, self._opened = self._opened, None
                opened[0].close()

    # ---- inside

    def _open(self) -> tuple[Database, CatchUp]:
        if self._opened is not None and self._stale(self._opened[0]):
            self.close()
        if self._opened is None:
            make_folder(self.path.parent)
            return self._set(Database(self.path, schema=self._projection.schema))
        return self._opened

    def _stale(self, database: Database) -> bool:
        return time.monotonic() > self._again if database.path is None else database.replaced

    def _set(self, database: Database) -> tuple[Database, CatchUp]:
        self._opened = database, CatchUp(self._projection, self._folder, database)
        return self._opened

    def _catch_up(self, database: Database, catch_up: CatchUp) -> None:
        try:
            self._learn(catch_up)
        except BusyError:
            # What is there is sound, and old by as long as the other process holds on to it; the next use looks again.
            self.late = True
            database.tries = TRIES_WHEN_LATE
            return
        self.late = False
        database.tries = PATIENCE
        if self._to_empty:
            self._to_empty = not database.checkpoint("TRUNCATE")

    def _learn(self, catch_up: CatchUp, *, everything: bool = True) -> None:
        own = self._take_touched()
        try:
            catch_up.run({*own, *self._live}, everything=everything)
        except BaseException:
            self._touched |= own
            raise

    def _take_touched(self) -> set[str]:
        own: set[str] = set()
        while self._touched:  # a name that comes back meanwhile is looked at again next time
            own.add(self._touched.pop())
        return own

    def _fall_back(self, why: StorageError) -> None:
        """Read the logs into memory, which needs no file."""
        if self._opened is not None and self._opened[0].path is None:
            raise why
        self.close()
        self._again = time.monotonic() + (AGAIN_SECONDS_IF_BUSY if isinstance(why, BusyError) else AGAIN_SECONDS)
        self._set(Database(None, schema=self._projection.schema))
        self.done.append(f"{why.what}: read the logs into memory instead")

    def _aside(self) -> str:
        return f"{self.path.name}.damaged-{self._clock.now():%Y%m%d-%H%M%S-%f}"

    def _retire(self, why: Exception) -> None:
        """Set the damaged file aside, unless another process has done so."""
        inode = why.inode if isinstance(why, DamagedError) else 0
        if self._opened is not None:
            database = self._opened[0]
            elsewhere = database.path is None or database.replaced
            self.close()
            if elsewhere:
                return
        try:
            with door(self.path.parent, alone=True):
                if inode and self.path.exists() and self.path.stat().st_ino != inode:
                    return
                aside = _free(self.path.with_name(self._aside()))
                move(self.path, aside)
        except OSError as error:
            raise storage_error(error, f"setting aside {self.path}", kept="the logs hold everything") from error
        self.done.append(f"{self.path.name} was damaged ({why}) and remade; it was kept as {aside.name}")
        for old in set_aside(self.path)[:-KEPT_ASIDE]:
            _remove(self.path.with_name(old), alone=False)


def set_aside(path: Path) -> list[str]:
    """The names of the damaged files that were set aside in the place of `path`, the oldest first."""
    names = {
        entry.name.removesuffix("-wal").removesuffix("-shm") for entry in path.parent.glob(f"{path.name}.damaged-*")
    }
    return sorted(names)


def _free(path: Path) -> Path:
    """The path, or one with a number behind it that nothing stands at."""
    number = 1
    found = path
    while any(os.path.lexists(found.with_name(found.name + suffix)) for suffix in SUFFIXES):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def _removed(path: Path) -> bool:
    """Remove a database; False when something stands there that is none."""
    try:
        remove(path)
    except (IsADirectoryError, PermissionError):
        return False
    return True


def _remove(path: Path, *, alone: bool) -> None:
    """Remove a database that nobody uses; what cannot be removed is told of, unless it is one of several."""
    try:
        remove(path)
    except FileNotFoundError:
        return
    except OSError as error:
        if alone:
            raise storage_error(error, f"removing {path}", kept="the logs hold everything") from error


@contextmanager
def _workshop(folder: Path) -> Generator[None]:
    """A folder to make a new file in, alone; what a killed process left there is used up. Raises StoreError, StorageError."""
    make_folder(folder)
    lock = folder / "lock"
    try:
        handle = open_regular(lock, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise storage_error(error, f"opening {lock}", kept="nothing was changed") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield
        finally:
            with suppress(OSError):  # half a file would fill a full disk
                for left in folder.iterdir():
                    left.unlink()
                folder.rmdir()
    except BlockingIOError:
        raise StoreError(
            "another process remakes the same file", kept="nothing was changed", next="wait for it"
        ) from None
    finally:
        os.close(handle)
