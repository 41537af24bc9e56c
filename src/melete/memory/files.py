"""The files of memory on the disk: entries between lines that hold `§`. One is put in the place of another whole, and what an
editor saves in that very moment is handed back, never lost. Part of the memory.
"""

import asyncio
import errno
import fcntl
import hashlib
import os
import stat
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from melete.core.errors import StorageError
from melete.core.plugin import Lazy

MARK: Final = "§"
LARGEST: Final = 1 << 20
MOST: Final = 2_000
"""Entries that a file may hold, however large they are."""
PRIVATE: Final = 0o600
STEP, PATIENCE = 0.01, 10.0
"""Seconds between two looks at a lock that another process holds, and until it is given up."""
QUIET, LOOK, LOOKS = 0.1, 0.05, 20
"""Seconds for which nobody has written to a file that was edited, until it is read; and how often it is looked at meanwhile."""
_EXCHANGE: Final = {"linux": ("renameat2", (-100,), 2), "darwin": ("renamex_np", (), 2)}
"""The system call that lets two files change places: its name, what stands before each path, and the flag."""
_library: Lazy[Callable[..., Any]] = Lazy("ctypes:CDLL")
_error: Lazy[Callable[[], int]] = Lazy("ctypes:get_errno")
T = TypeVar("T")


class UnusableError(Exception):
    """A file that cannot be used as it is, and is left alone: `what` it is, and what to do `next`."""

    def __init__(self, what: str, next: str) -> None:
        super().__init__(f"{what}: {next}")
        self.what, self.next = what, next


def digest(data: bytes) -> str:
    """What stands for a content."""
    return hashlib.sha256(data).hexdigest()


# ---- texts -----------------------------------------------------------------------------------------------------------


def lines_of(text: str) -> str:
    """The text with the line ends of this product."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parted(text: str) -> list[str]:
    """The entries of a file, in their order; empty ones are none."""
    entries: list[list[str]] = [[]]
    for line in lines_of(text).split("\n"):
        if line.strip() == MARK:
            entries.append([])
        else:
            entries[-1].append(line)
    return [entry for rows in entries if (entry := "\n".join(rows).strip())]


def joined(texts: Sequence[str]) -> str:
    """The text of a file without its last line end; its length is what the limits count."""
    return f"\n{MARK}\n".join(texts)


def rendered(texts: Sequence[str], like: bytes) -> bytes:
    """The bytes of a file, with the line ends of the one that it replaces."""
    text = joined(texts) + "\n" if texts else ""
    return (text.replace("\n", "\r\n") if b"\r\n" in like else text).encode()


def texts_of(data: bytes) -> tuple[list[str], bool]:
    """The entries of these bytes, and whether every one of them is text; raises UnusableError for what is no memory at all."""
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in data and not wide:
        raise UnusableError("it is no text", "move it away, or put a text in its place")
    text, whole = data.decode("utf-16" if wide else "utf-8-sig", "replace"), not wide
    if whole and "\ufffd" in text:
        whole = text.removeprefix("\ufeff").encode() == data.removeprefix(b"\xef\xbb\xbf")
    if len(texts := parted(text)) > MOST:
        raise UnusableError(f"it holds more than {MOST:,} entries", "merge or remove some, or move it away")
    return texts, whole


# ---- files -----------------------------------------------------------------------------------------------------------


def read(path: Path) -> bytes:
    """What a file holds, nothing where there is none; raises UnusableError for one that cannot be read, or is no memory."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UnusableError(f"it cannot be read ({error.strerror})", "look at its permissions") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UnusableError("it is not a file", "move it away: a file belongs there")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    finally:
        os.close(handle)
    if len(data) > LARGEST:
        raise UnusableError(f"it is larger than {LARGEST:,} bytes", "shorten it, or move it away")
    return data


async def read_settled(path: Path, known: str) -> bytes:
    """As `read`, once nobody is about to write to the file: one that is half written, or just away, is not taken for an edit."""
    data = read(path)
    for _ in range(LOOKS):
        try:
            age = time.time() - path.stat().st_mtime
        except FileNotFoundError:
            age = 0.0
        if digest(data) == known or not 0 <= age < QUIET:
            break
        await asyncio.sleep(LOOK)
        before, data = data, read(path)
        if before == data == b"":
            break
    return data


def drafts(path: Path) -> dict[str, Path]:
    """What killed processes have left beside a file, by the changes that it was made for."""
    return {found.name.split(".")[-2]: found for found in path.parent.glob(f".{path.name}.????????????.new")}


def write_draft(path: Path, change: str, data: bytes) -> Path:
    """Put what a file is to hold beside it, durably; raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{change}.new")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else PRIVATE
    _write_new(draft, data, mode)
    _sync(path.parent)
    return draft


def keep_damaged(path: Path, data: bytes) -> Path:
    """Keep these bytes in a copy beside the file; raises OSError."""
    number = 1
    while (copy := path.with_name(f"{path.name}.damaged-{number}")).exists():
        if copy.is_file() and copy.read_bytes() == data:
            return copy
        number += 1
    _write_new(copy, data, PRIVATE)
    _sync(path.parent)
    return copy


def place(draft: Path, path: Path, expected: bytes) -> bytes | None:
    """Put a draft in the place of a file that holds what is `expected`; returns what somebody else has put there meanwhile.

    Then the draft stays: it holds either what was to be placed, or what it has taken the place of. Raises OSError, UnusableError.
    """
    found = read(path)
    if found != expected:
        return found
    found = _swap(draft, path)
    if found not in (None, expected):
        return found
    draft.unlink(missing_ok=True)
    _sync(path.parent)
    return None


def _swap(draft: Path, path: Path) -> bytes | None:
    """Let the two files change places and return what the draft holds then; nothing where there was no file."""
    before = read(path)
    try:
        _exchange(draft, path)
    except OSError as error:
        if not path.exists():
            return _link(draft, path)
        if error.errno not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
            raise
        draft.replace(path)  # the disk cannot do it: then what was just compared counts
        return before
    return read(draft)


def _link(draft: Path, path: Path) -> bytes | None:
    """Give a draft its name, unless somebody has made a file of this name meanwhile: then return what that holds."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return read(path)
    except OSError:  # the disk knows no second names
        draft.replace(path)
    return None


def _exchange(one: Path, two: Path) -> None:
    name, at, flag = _EXCHANGE.get(sys.platform, ("", (), 0))
    call: Any = getattr(_library.load()(None, use_errno=True), name, None) if name else None
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if call(*at, os.fsencode(one), *at, os.fsencode(two), flag) != 0:
        code = _error.load()()
        raise OSError(code, os.strerror(code), str(one))


def _write_new(path: Path, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- anchors ---------------------------------------------------------------------------------------------------------


def anchored(anchor: str) -> str:
    """What stands for the content of an anchor's file; empty where there is none, or for an address."""
    path = Path(anchor).expanduser()
    try:
        status = path.stat()
        if not path.is_absolute() or not stat.S_ISREG(status.st_mode):
            return ""
        large = status.st_size > LARGEST
        return f"{status.st_size}:{status.st_mtime_ns}" if large else digest(path.read_bytes())
    except (OSError, RuntimeError, ValueError):
        return ""


# ---- one at a time ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def alone(lock: Path, *, seconds: float = PATIENCE) -> AsyncGenerator[None]:
    """Keep every other process and task from changing memory meanwhile; raises StorageError."""
    try:
        lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        raise StorageError(f"{lock} cannot be opened: {error.strerror}", kept="nothing was changed") from error
    try:
        for _ in range(round(seconds / STEP)):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(STEP)
        else:
            raise StorageError(f"{lock} stayed locked", kept="nothing was changed", next="end the other process")
        yield
    finally:
        os.close(handle)


async def surely(act: Callable[[], T]) -> T:
    """Do `act` in a thread and wait for its end also when cancelled: the lock must not be given up meanwhile."""
    job = asyncio.get_running_loop().run_in_executor(None, act)
    cancelled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.wait((job,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled
    return job.result()
