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
from melete.core.tool import ToolError
from melete.skills.versions import PRIVATE, Tree, tree_of

OLD, NEW = ".melete-old", ".melete-new"
"""How the names of folders end that are going and coming; a point before them hides them from every reader."""
STEP, PATIENCE = 0.01, 10.0
"""Seconds between two looks at a lock that another process holds, and until it is given up."""
RUNS = 0o700


class ConflictError(ToolError):
    """Somebody else edited what was to be changed; theirs is in place."""


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


def put_tree(folder: Path, tree: Tree, *, before: Tree | None = None, durable: bool = False) -> None:
    """Make the folder hold these files and no others, but for hidden ones and links, which stay.

    Raises OSError, and ConflictError where it is no longer as it was `before`, with the folder as it was. Call it while the lock
    is held.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    settle(folder)
    coming, going = _beside(folder)
    try:
        for path, data in tree.items():
            place = coming / path
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = _mode(folder / path, data)
            with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
        _same(folder, before)
        if folder.exists():
            folder.rename(going)
            _same(going, before)  # somebody may have saved between the look and the exchange
        coming.rename(folder)
    except BaseException:
        shutil.rmtree(coming, ignore_errors=True)
        if going.exists() and not folder.exists():
            going.rename(folder)
        raise
    settle(folder)


def _same(folder: Path, before: Tree | None) -> None:
    if before is not None and tree_of(folder) != before:
        raise ConflictError(f"{folder.name} was edited in this moment, and that is in place: look at it again")


def settle(folder: Path) -> None:
    """Finish or take back what a process left half done with one skill when it was killed. Raises OSError."""
    coming, going = _beside(folder)
    if coming.exists():
        shutil.rmtree(coming)
    if going.exists() and not folder.exists():
        going.rename(folder)
    elif going.exists():
        _carry(going, folder)
        shutil.rmtree(going)


def _carry(going: Path, folder: Path) -> None:
    """Move what is no part of a skill, hidden files and links, into the folder that has taken its place."""
    for here, folders, names in os.walk(going):
        for name in [*folders, *names]:
            path = Path(here, name)
            if not name.startswith(".") and not path.is_symlink():
                continue
            target = folder / path.relative_to(going)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.path.lexists(target):
                path.rename(target)
        folders[:] = [name for name in folders if not name.startswith(".")]


def _beside(folder: Path) -> tuple[Path, Path]:
    coming, going = (folder.with_name(f".{folder.name}{end}") for end in (NEW, OLD))
    return coming, going


def _mode(path: Path, data: bytes) -> int:
    if path.is_file():
        return path.stat().st_mode & 0o777
    return RUNS if data.startswith(b"#!") else PRIVATE


def recover(shelf: Path) -> None:
    """Do as `settle` for every skill on a shelf; raises OSError. Call it while the lock is held."""
    for here, folders, _ in os.walk(shelf):
        for name in [one for one in folders if one.startswith(".")]:
            folders.remove(name)
            if name.endswith((NEW, OLD)):
                settle(Path(here, name[1 : name.rindex(".")]))


def mend(skills: Path, lock: Path) -> None:
    """Recover what is left in a home; no more than a look where nothing is. Raises OSError, StorageError."""
    found = (path for pattern in ("hub/.*", "bundled/.*", "bundled/*/.*") for path in skills.glob(pattern))
    if any(path.name.endswith((OLD, NEW)) for path in found):
        with held(lock, seconds=PATIENCE):
            recover(skills / "hub")
            recover(skills / "bundled")
