"""Files of the machine that this runs on, step by step. Standard library alone, and little of it: `local` does the steps itself,
the program inside a sandbox does them there and hands the open descriptors out.

Everything raises OSError as the system says it.
"""

import errno
import os
import stat

_HOLD = getattr(os, "O_PATH", os.O_RDONLY)
Described = tuple[str, int, float, int]
"""(kind, size, time of the last change, mode)"""


class Writing:
    """A file that is being replaced: bytes go to `descriptor`, `commit` puts them in place, `discard` forgets them.

    Its folder is held open, so that no link that is changed meanwhile leads elsewhere.
    """

    def __init__(self, path: str) -> None:
        target = os.path.realpath(path)
        try:
            self._folder = opened_folder(os.path.dirname(target))
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            self._folder = opened_folder(os.path.dirname(target))
        self._name = os.path.basename(target) or "."
        self.descriptor = -1
        try:
            self._before = self._found(path)
            self._beside = f".{os.urandom(6).hex()}.new"
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            self.descriptor = os.open(self._beside, flags, 0o666, dir_fd=self._folder)
        except BaseException:
            self._close()
            raise

    @property
    def place(self) -> str:
        """Where it really is, empty where the system does not tell."""
        folder = place_of(self._folder)
        return folder and os.path.join(folder, self._name)

    def _found(self, path: str) -> "os.stat_result | None":
        try:
            found = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):  # since the links were followed
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        only_regular(found.st_mode, path)
        if not os.access(self._name, os.W_OK, dir_fd=self._folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return found

    def commit(self) -> None:
        """Put it in place with the owner and mode of what was there."""
        try:
            if self._before is not None:
                _keep_owner(self.descriptor, self._before)
            os.replace(self._beside, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            self.discard()
            raise
        self._close()

    def discard(self) -> None:
        """Leave everything as it was."""
        try:
            os.unlink(self._beside, dir_fd=self._folder)
        except FileNotFoundError:
            pass
        self._close()

    def _close(self) -> None:
        for descriptor in (self.descriptor, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self.descriptor = self._folder = -1


def opened_folder(path: str) -> int:
    """A descriptor of a folder, the last name no link."""
    return os.open(path, _HOLD | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def place_of(descriptor: int) -> str:
    """The path, without links, of what is open; empty where the system does not tell, which Linux does."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")
    except FileNotFoundError:
        return ""


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


class Held:
    """The folder of a path, open, and the last name in it, which is not followed."""

    def __init__(self, path: str) -> None:
        self.name = os.path.basename(path)
        self.descriptor = opened_folder(os.path.realpath(os.path.dirname(path) or "."))

    @property
    def place(self) -> str:
        """Where the path really leads, empty where the system does not tell."""
        folder = place_of(self.descriptor)
        return folder and os.path.join(folder, self.name)

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


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
