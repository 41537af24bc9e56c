"""Reading and replacing the small text files of the home. They are a person's: every failure names file, place and fix."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from melete.core.errors import ConfigError

LARGEST = 1 << 20


def read_text(path: Path, *, shown: str) -> str | None:
    """The text of `path`, None when there is no such file; raises ConfigError, calling the file `shown`.

    At most 1 MiB of UTF-8, a byte order mark left out; folders, pipes and devices are refused without being opened.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror}", next="check its permissions") from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise ConfigError(f"{shown} is {kind}", next="move it away; a file belongs there")
    if status.st_size > LARGEST:
        raise ConfigError(f"{shown} has {status.st_size:,} bytes; at most {LARGEST:,} are read", next="shorten it")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror}", next="check its permissions") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{shown}:{line}: not UTF-8 text", next="save the file as UTF-8") from error


@contextmanager
def replacing(path: Path) -> Generator[int, None, None]:
    """Give a file descriptor to write to; at the block's end it becomes `path` at once, on the disk, or nothing changes.

    A new file is for its owner alone; an old one keeps its mode, and a link stays a link. Raises OSError, also for a device or
    pipe: a file in its place would be the end of it.
    """
    target = path.resolve()
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise OSError(errno.EINVAL, "it is no regular file", str(target))
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
    draft = target.with_name(f".{target.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        os.fchmod(descriptor, mode)
        yield descriptor
        os.fsync(descriptor)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
