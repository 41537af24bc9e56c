"""Limits round a sandbox that its walls do not give: how many processes, and how much of the disk."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import ClassVar

GROUPS = Path("/sys/fs/cgroup")
CLEARING = 2.0
EVERY, SELDOM = 0.25, 2.0
INODES = 10_000
MEGABYTE = 1 << 20


class Group:
    """A control group that bounds the number of processes, for an administrator's sandbox: the usual limit does not bind one."""

    _kept: ClassVar[set[Path]] = set()
    """Groups that were still in use when they were given up."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def made(cls, processes: int) -> "Group | None":
        """A new one, or None where this machine does not let us. What was left by agents and starts that were killed is removed."""
        for path in tuple(cls._kept):
            if _removed(path):
                cls._kept.discard(path)
        for top in (GROUPS / "pids", GROUPS):
            _tidy(top)
            path = top / f"melete-{os.getpid()}-{token_hex(4)}"
            try:
                path.mkdir()
            except OSError:  # not this version of control groups, or read-only here
                continue
            try:
                (path / "pids.max").write_text(str(processes))
            except OSError:
                path.rmdir()
                continue
            return cls(path)
        return None

    def add(self, pid: int) -> bool:
        """Put a process into it, and so all that it will start; whether that was allowed."""
        try:
            (self._path / "cgroup.procs").write_text(str(pid))
        except OSError:
            return False
        return True

    async def aclose(self) -> None:
        """Remove it once what was in it is gone; what takes the kernel long is left for later."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CLEARING
        while not _removed(self._path):
            if loop.time() > until:
                self._kept.add(self._path)
                return
            await asyncio.sleep(0.005)


def _removed(path: Path) -> bool:
    """Whether a group is gone; it stays while a process is in it."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _tidy(top: Path) -> None:
    """Remove the groups whose agents are gone; one that something still runs in stays."""
    for path in top.glob("melete-*"):
        if not Path("/proc", path.name.split("-")[1]).exists():
            _removed(path)


class Disk:
    """Looks at the free space below a folder, often while it is `busy`, and calls `full` once, with a sentence, when it runs out.

    Below `keep_free` megabytes is too little; on a disk that has no more to begin with, half of what there is.
    """

    def __init__(self, folder: str, keep_free: int, *, full: Callable[[str], None], busy: Callable[[], bool]) -> None:
        self._folder = folder
        self._keep = keep_free * MEGABYTE
        self._full = full
        self._busy = busy
        self._timer: asyncio.TimerHandle | None = None
        self._bytes_floor = self._inodes_floor = 0

    def watch(self) -> None:
        """Begin, unless it has begun."""
        if self._timer is None and self._keep and (found := self._look()):
            self._bytes_floor = min(self._keep, found[0] // 2)
            self._inodes_floor = min(INODES, found[1] // 2)
            self._again()

    def hurry(self) -> None:
        """Something begins to run: look often from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._check)

    def rest(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY if self._busy() else SELDOM, self._check)

    def _check(self) -> None:
        self._timer = None
        found = self._look()
        if found is None:
            return
        if found[0] < self._bytes_floor:
            self._full(
                f"the disk had only {found[0] // MEGABYTE} MB left: what ran in the sandbox was ended; free some space"
            )
        elif found[1] < self._inodes_floor:
            self._full(
                f"the disk had room for only {found[1]} more files: what ran in the sandbox was ended; remove some"
            )
        else:
            self._again()

    def _look(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):  # the folder is gone: what needs it will say so
            found = os.statvfs(self._folder)
            return found.f_bavail * found.f_frsize, found.f_favail
        return None
