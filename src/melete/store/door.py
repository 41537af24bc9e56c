"""The door of a folder that holds databases: many may open files at once, whoever moves or removes one is alone meanwhile.

Part of the store. SQLite finds a database's journal by its name; were the file exchanged while somebody is about to open it, a
journal could meet a file that it does not belong to.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

STEP = 0.01
PATIENCE = 3.0


@contextmanager
def door(folder: Path, *, alone: bool) -> Generator[None]:
    """Be at the door, with others or alone; raises OSError when there is no such folder.

    Who stays there for seconds has been stopped half-way and changes nothing meanwhile: one goes past.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + PATIENCE
        while not _taken(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH) and time.monotonic() < until:
            time.sleep(STEP)
        yield
    finally:
        os.close(handle)


def _taken(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system that knows no such locks: the door stands open
        return True
    return True
