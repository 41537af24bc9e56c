"""A file of lines that grows to a size, then makes room for a new one. Part of the composition root.

Any process may add lines and make room; the others follow to the new file with their next line.
"""

import fcntl
import os
from pathlib import Path

LARGEST = 5 << 20
KEPT = 3


class LogFile:
    """The file at `path`, for its owner alone, of `largest` bytes at most; `kept` older ones stay behind it, `NAME.1` the latest.

    Nothing is opened before the first line.
    """

    def __init__(self, path: Path, *, largest: int = LARGEST, kept: int = KEPT) -> None:
        self.path = path
        self._largest = largest
        self._kept = kept
        self._descriptor = -1

    def append(self, line: bytes) -> None:
        """Add a line, whole; raises OSError."""
        status = self._opened()
        if status.st_size and status.st_size + len(line) > self._largest:
            self._make_room()
            self._opened()
        os.write(self._descriptor, line)

    def close(self) -> None:
        """Give the file back; the next line opens it anew."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _opened(self) -> os.stat_result:
        if self._descriptor >= 0 and not self._current():
            self.close()
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe is not waited for
            self._descriptor = os.open(self.path, flags, 0o600)
        return os.fstat(self._descriptor)

    def _current(self) -> bool:
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._descriptor))

    def _make_room(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        if self._current():
            for number in range(self._kept - 1, 0, -1):
                older = self._numbered(number)
                if older.exists():
                    older.replace(self._numbered(number + 1))
            self.path.replace(self._numbered(1))
        self.close()

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
