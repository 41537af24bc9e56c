"""The few system calls that the store's promises rest on, with errors that say what happened. Part of the store."""

import asyncio
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from melete.core.errors import StorageError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

_ADVICE = {
    errno.ENOSPC: "free some space on this disk and try again",
    errno.EDQUOT: "free some space within your quota and try again",
    errno.EFBIG: "this file system or account allows no larger files: raise the limit (`ulimit -f`)",
    errno.EROFS: "the file system is read-only: make it writable or choose another home",
    errno.EACCES: "check who owns the file and its permissions",
    errno.EPERM: "check who owns the file and its permissions",
    errno.EISDIR: "move it away: a file belongs there",
    errno.EINVAL: "move it away: a file belongs there",
    errno.EIO: "the disk reported an error: check it before anything else",
}


def storage_error(error: OSError, doing: str, *, kept: str) -> StorageError:
    """A StorageError that names the path, the cause and what to do."""
    cause = error.strerror or str(error)
    advice = _ADVICE.get(error.errno or 0, "check the path and try again")
    return StorageError(f"{doing} failed: {cause}", kept=kept, next=advice)


def make_folder(path: Path) -> None:
    """Make a private folder and those above it; raises StorageError."""
    if path.is_dir():
        return
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    except OSError as error:
        raise storage_error(error, f"making the folder {path}", kept="nothing was changed") from error


def sync_folder(path: Path) -> None:
    """Put the names in a folder on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file, made for its owner alone; raises OSError for a folder, a pipe or a device, without waiting."""
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, PRIVATE_FILE)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_regular(path: Path) -> bytes:
    """All that a regular file holds; raises OSError."""
    handle = open_regular(path, os.O_RDONLY)
    try:
        return read_from(handle, 0)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    """Write every byte; raises OSError, after which any part may have been written."""
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, data[written:])


def read_from(handle: int, offset: int, *, limit: int | None = None) -> bytes:
    """Everything behind `offset`, or the first `limit` bytes of it."""
    size = os.fstat(handle).st_size
    if limit is not None:
        size = min(size, offset + limit)
    pieces: list[bytes] = []
    while offset < size:
        piece = os.pread(handle, size - offset, offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_new(path: Path, data: bytes) -> None:
    """Put a file in place whole and durable, or not at all; raises OSError with nothing left behind."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        try:
            write_all(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


async def wait_for(act: Callable[[], None]) -> asyncio.CancelledError | None:
    """Do `act` in a worker thread and wait for its end even when cancelled; return that cancellation, raise its error.

    What is on its way to the disk cannot be called back, so nobody may go on as if it were not.
    """
    cancelled: asyncio.CancelledError | None = None
    job = asyncio.get_running_loop().run_in_executor(None, act)
    while not job.done():
        try:
            await asyncio.wait((job,))
        except asyncio.CancelledError as error:
            cancelled = error
    job.result()
    return cancelled
