"""The lock of all that learn in a home: one process at a time. Part of the composition root, and cheap to load."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager

from melete.app.home import Home
from melete.core.errors import StorageError

NAME = "learn.lock"


@contextmanager
def locked(home: Home) -> Generator[bool]:
    """Hold the lock of all that learn in this home, unless another process does; raises StorageError."""
    path = home.folder(home.state) / NAME
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{path} cannot be opened: {error.strerror}", kept="nothing was changed") from error
    try:
        yield _taken(handle)
    finally:
        os.close(handle)


def is_locked(home: Home) -> bool:
    """Whether some process learns in this home at the moment."""
    try:
        handle = os.open(home.state / NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _taken(handle)
    finally:
        os.close(handle)


def wanted(home: Home) -> None:
    """Ask whoever learns to look once more before it ends; raises OSError."""
    (home.state / NAME).touch(mode=0o600)


def stamp(home: Home) -> int:
    """What changes with each `wanted`."""
    try:
        return (home.state / NAME).stat().st_mtime_ns
    except OSError:
        return 0


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
