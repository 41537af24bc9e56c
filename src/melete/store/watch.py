"""The folder of logs as others change it: which there are, and how long each is. Part of the store.

Looking at ten thousand files takes tens of milliseconds, so a large folder is looked at again only when twenty times as long has
gone by: at most a twentieth of the time goes into it, and what another process wrote is seen that much later. What this process
itself wrote is looked at by name, each time.
"""

import os
import re
import stat
import threading
import time
from pathlib import Path

from melete.store.disk import storage_error
from melete.store.names import SESSION

State = tuple[int, int]
"""A log's inode and size."""

FEW = 200
"""So many logs are looked at each time."""
SHARE = 20
LONGEST_PAUSE = 2.0
SUFFIX = ".log"
_is_log = re.compile(SESSION.pattern + re.escape(SUFFIX)).fullmatch


class Folder:
    """What was last seen of a folder of logs; `round` counts the looks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs: dict[str, State] = {}
        self.round = 0
        self._again = 0.0
        self._turn = threading.Lock()

    def look(self, *, anyway: bool = False) -> int:
        """Look at all logs, unless that was done a moment ago; return the number of the last look. Raises StorageError."""
        with self._turn:
            now = time.monotonic()
            if now < self._again and not anyway:
                return self.round
            self.logs = states(self.path)
            self.round += 1
            took = time.monotonic() - now
            self._again = now + min(took * SHARE, LONGEST_PAUSE) if len(self.logs) > FEW else 0.0
            return self.round

    def one(self, session: str) -> State | None:
        """One log as it is now, None when it is gone or no regular file."""
        try:
            found = self.log(session).stat()
        except OSError:
            return None
        return (found.st_ino, found.st_size) if stat.S_ISREG(found.st_mode) else None

    def log(self, session: str) -> Path:
        """Where the log of a session stands."""
        return self.path / f"{session}{SUFFIX}"


def states(folder: Path) -> dict[str, State]:
    """Every log in the folder; raises StorageError."""
    return {name: (seen[stat.ST_INO], seen[stat.ST_SIZE]) for name, seen in _logs(folder)}


def latest_first(folder: Path) -> list[str]:
    """The sessions whose logs are in the folder, the last changed first; raises StorageError."""
    found = [(seen.st_mtime_ns, name) for name, seen in _logs(folder)]
    return [name for _, name in sorted(found, reverse=True)]


def beginning(folder: Path, prefix: str) -> list[str]:
    """The sessions whose ids begin with `prefix`, in order, by the names of their logs alone; raises StorageError."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(prefix)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(error, f"reading the folder {folder}", kept="what it holds is untouched") from error
    return sorted(name[: -len(SUFFIX)] for name in names if _is_log(name))


def _logs(folder: Path) -> list[tuple[str, os.stat_result]]:
    """Each log's session, with what the system tells of the file.

    Ten thousand of them take little more than the system calls do: a loop without calls, and fields by number.
    """
    found: list[tuple[str, os.stat_result]] = []
    mode, kind, regular, end = stat.ST_MODE, 0o170000, stat.S_IFREG, -len(SUFFIX)
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return found
    except OSError as error:
        raise storage_error(error, f"reading the folder {folder}", kept="what it holds is untouched") from error
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                name = entry.name
                if _is_log(name):
                    try:
                        seen = entry.stat()
                    except OSError:
                        continue  # gone since, or a link that leads nowhere
                    if seen[mode] & kind == regular:
                        found.append((name[:end], seen))
    except OSError as error:
        raise storage_error(error, f"reading the folder {folder}", kept="what it holds is untouched") from error
    finally:
        os.close(handle)
    return found
