"""Files of the machine that this runs on, step by step. Standard library alone, and little of it: `local` does the steps itself,
the program inside a sandbox does them there and hands the open descriptors out.

Everything raises OSError as the system says it.
"""

import errno
import os
import stat

Described = tuple[str, int, float, int]
"""(kind, size, time of the last change, mode)"""


class Writing:
    """A file that is being replaced: bytes go to `descriptor`, `commit` puts them in place, `discard` forgets them."""

    def __init__(self, path: str) -> None:
        self._target = os.path.realpath(path)
        try:
            self._before: os.stat_result | None = os.stat(self._target)
        except FileNotFoundError:
            self._before = None
            os.makedirs(os.path.dirname(self._target), exist_ok=True)
        if self._before is not None:
            only_regular(self._before.st_mode, path)
            if not os.access(self._target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        folder = os.path.dirname(self._target)
        self._beside = f"{folder}/.{os.urandom(6).hex()}.new"
        self.descriptor = os.open(self._beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)

    def commit(self) -> None:
        """Put it in place with the owner and mode of what was there."""
        try:
            if self._before is not None:
                _keep_owner(self.descriptor, self._before)
            os.replace(self._beside, self._target)
        except BaseException:
            self.discard()
            raise
        self._close()

    def discard(self) -> None:
        """Leave everything as it was."""
        self._close()
        try:
            os.unlink(self._beside)
        except FileNotFoundError:
            pass

    def _close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def opened(path: str) -> tuple[int, int]:
    """(descriptor, size) of a regular file; never waits for a FIFO or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        only_regular(found.st_mode, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, found.st_size


def described(path: str) -> Described | None:
    """What is there, links followed, or None."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    kind = "file" if stat.S_ISREG(found.st_mode) else "folder" if stat.S_ISDIR(found.st_mode) else "other"
    return kind, found.st_size, found.st_mtime, stat.S_IMODE(found.st_mode)


def listed(path: str) -> list[tuple[str, str, int]]:
    """(name, kind, size of a file) for everything in a folder, sorted by name."""
    with os.scandir(path) as entries:
        return sorted(_entry(entry) for entry in entries)


def moved(path: str, to: str) -> None:
    """Move a file, replacing what is there; folders on the way are made."""
    os.makedirs(os.path.dirname(to), exist_ok=True)
    os.replace(path, to)


def only_regular(mode: int, path: str) -> None:
    """Raise OSError for what is no regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def _entry(entry: "os.DirEntry[str]") -> tuple[str, str, int]:
    try:
        if entry.is_symlink():
            return entry.name, "link", 0
        if entry.is_dir():
            return entry.name, "folder", 0
        if entry.is_file():
            return entry.name, "file", entry.stat().st_size
    except FileNotFoundError:  # it went away while we looked
        pass
    return entry.name, "other", 0


def _keep_owner(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(descriptor, before.st_uid, before.st_gid)
        except PermissionError:
            pass  # only an administrator may give files away; the content matters
    os.fchmod(descriptor, before.st_mode & 0o777)  # whoever writes into a file takes the other bits from it, as always
