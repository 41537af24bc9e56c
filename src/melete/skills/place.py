"""A whole skill put in place of another: never half of it, and after a crash the old one or the new one."""

import asyncio
import fcntl
import os
import shutil
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from melete.core.errors import StorageError
from melete.skills.versions import Tree

OLD, NEW = ".old", ".new"
"""How the names of folders end that are going and coming; a point before them hides them from every reader."""
STEP, PATIENCE = 0.01, 10.0
"""Seconds between two looks at a lock that another process holds, and until it is given up."""
RUNS, READS = 0o700, 0o600


@contextmanager
def held(lock: Path, *, seconds: float) -> Generator[None]:
    """Keep every other process from changing skills meanwhile, and wait for them in this thread; raises StorageError."""
    handle = _opened(lock)
    try:
        for _ in range(round(seconds / STEP)):
            if _taken(handle):
                break
            time.sleep(STEP)
        else:
            raise _stayed(lock)
        yield
    finally:
        os.close(handle)


@asynccontextmanager
async def alone(lock: Path, *, seconds: float = PATIENCE) -> AsyncGenerator[None]:
    """As `held`, without keeping other tasks waiting."""
    handle = _opened(lock)
    try:
        for _ in range(round(seconds / STEP)):
            if _taken(handle):
                break
            await asyncio.sleep(STEP)
        else:
            raise _stayed(lock)
        yield
    finally:
        os.close(handle)


def _opened(lock: Path) -> int:
    try:
        lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{lock} cannot be opened: {error.strerror}", kept="nothing was changed") from error


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stayed(lock: Path) -> StorageError:
    return StorageError(f"{lock} stayed locked", kept="nothing was changed", next="end the other process")


def put_tree(folder: Path, tree: Tree, *, durable: bool = False) -> None:
    """Make the folder hold these files and no others; raises OSError with the folder as it was. Call it while the lock is held."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    coming, going = (folder.with_name(f".{folder.name}{end}") for end in (NEW, OLD))
    shutil.rmtree(coming, ignore_errors=True)
    try:
        for path, data in tree.items():
            place = coming / path
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = RUNS if data.startswith(b"#!") else READS
            with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
        if folder.exists():
            folder.rename(going)
        coming.rename(folder)
    except BaseException:
        shutil.rmtree(coming, ignore_errors=True)
        _back(going, folder)
        raise
    shutil.rmtree(going, ignore_errors=True)


def recover(shelf: Path) -> None:
    """Finish or take back what a process left half done when it was killed; raises OSError. Call it while the lock is held."""
    for here, folders, _ in os.walk(shelf):
        for name in [one for one in folders if one.startswith(".")]:
            folders.remove(name)
            left = Path(here, name)
            if name.endswith(NEW):
                shutil.rmtree(left)
            elif name.endswith(OLD):
                _back(left, left.with_name(name[1 : -len(OLD)]))


def mend(skills: Path, lock: Path) -> None:
    """Recover what is left in a home; no more than a look where nothing is. Raises OSError, StorageError."""
    found = (path for pattern in ("hub/.*", "bundled/.*", "bundled/*/.*") for path in skills.glob(pattern))
    if any(path.name.endswith((OLD, NEW)) for path in found):
        with held(lock, seconds=PATIENCE):
            recover(skills / "hub")
            recover(skills / "bundled")


def _back(going: Path, folder: Path) -> None:
    if going.exists() and not folder.exists():
        going.rename(folder)
    shutil.rmtree(going, ignore_errors=True)
