"""An environment that exists in memory only. Part `testing`: the twin of the machine.

Files are bytes in a dictionary. Programs are plain functions; a few that tests need (`echo`, `cat`, `sleep` …) are there from
the start, and `bash -c` runs one of them. Time is not spent: a program says how many seconds it takes, and a deadline before
that has passed at once.
"""

import asyncio
import errno
import os
import posixpath
import shlex
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from melete.core.errors import EnvironmentFailure
from melete.core.ports import Completed, Entry, FileStat

SIGTERM = 15
UNKNOWN_COMMAND = 127


class Invocation(Struct, frozen=True, kw_only=True):
    """What a program is given."""

    argv: Sequence[str]
    stdin: bytes = b""
    cwd: str = "/"


class Ended(Struct, frozen=True, kw_only=True):
    """What a program did: its exit status, its output, and how many seconds it took."""

    code: int = 0
    output: bytes = b""
    seconds: float = 0.0


Program = Callable[[Invocation], Ended]


class MemoryProcess:
    """A program that was started: it runs when its output or its end is asked for, with what it was sent until then."""

    def __init__(self, program: Program, invocation: Invocation, *, pid: int) -> None:
        self._program = program
        self._invocation = invocation
        self._pid = pid
        self._stdin = bytearray()
        self._open = True
        self._planned: Ended | None = None
        self._ended: Ended | None = None
        self._read = False
        self._killed = asyncio.Event()

    @property
    def pid(self) -> int:
        """A number that no other program of the environment has."""
        return self._pid

    async def read(self) -> bytes:
        """All of its output at once, then nothing."""
        if self._read:
            return b""
        ended = await self._run()
        self._read = True
        return ended.output

    async def write(self, data: bytes) -> None:
        """Keep for the program; raises EnvironmentFailure once its input is closed or it has run."""
        if not self._open or self._planned:
            raise EnvironmentFailure("its standard input is closed")
        self._stdin += data

    async def close_stdin(self) -> None:
        """Close its input."""
        self._open = False

    async def wait(self) -> int:
        """Its exit status, negative when it was killed."""
        return (await self._run()).code

    async def kill(self) -> None:
        """End it."""
        self._killed.set()

    async def _run(self) -> Ended:
        if self._planned is None:  # read and wait may come at the same time: the program runs once
            given = Invocation(argv=self._invocation.argv, stdin=bytes(self._stdin), cwd=self._invocation.cwd)
            self._planned = self._program(given)
        if self._ended is None:
            try:
                await asyncio.wait_for(self._killed.wait(), self._planned.seconds)
                self._ended = Ended(code=-SIGTERM)
            except TimeoutError:
                self._ended = self._ended or self._planned
        return self._ended


class MemoryEnvironment:
    """An `Environment` without a machine: `files` by path, `programs` by name beside the ones that are built in.

    `commands` lists every argv that was run or started.
    """

    def __init__(
        self, cwd: str = "/project", *, files: Mapping[str, str | bytes] | None = None,
        programs: Mapping[str, Program] | None = None,
    ) -> None:  # fmt: skip
        self._cwd = posixpath.normpath(cwd)
        self._files: dict[str, bytes] = {}
        self._modes: dict[str, int] = {}
        self._changed: dict[str, float] = {}
        self._folders: set[str] = {"/"}
        self._ticks = 0
        self._programs: dict[str, Program] = {**BUILT_IN, "bash": self._shell, "sh": self._shell, **(programs or {})}
        self._processes: list[MemoryProcess] = []
        self._closed = False
        self.commands: list[tuple[str, ...]] = []
        self._make_folder(self._cwd)
        for path, data in (files or {}).items():
            self._put(self._path(path), data.encode() if isinstance(data, str) else data)

    @property
    def name(self) -> str:
        """`memory`."""
        return "memory"

    @property
    def cwd(self) -> str:
        """The working folder, absolute."""
        return self._cwd

    # ---- programs ------------------------------------------------------------------------------------------------

    async def temp(self) -> str:
        """`/tmp`."""
        return "/tmp"  # noqa: S108 - a name in memory

    async def exec(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str = "", timeout: float = 180.0, limit: int = 1_000_000
    ) -> Completed:
        """Run a program; one that would take longer than `timeout` is reported as killed, at once."""
        program, invocation = self._look_up(argv, stdin=stdin, cwd=cwd)
        ended = program(invocation)
        if ended.seconds > timeout:
            return Completed(code=None, output=b"", seconds=timeout, timed_out=True)
        output, dropped = _clip(ended.output, limit)
        return Completed(code=ended.code, output=output, seconds=ended.seconds, dropped=dropped)

    async def start(self, argv: Sequence[str], *, cwd: str = "", pty: bool = False) -> MemoryProcess:  # noqa: ARG002
        """Start a program; a terminal makes no difference here."""
        program, invocation = self._look_up(argv, stdin=b"", cwd=cwd)
        process = MemoryProcess(program, invocation, pid=len(self._processes) + 1)
        self._processes.append(process)
        return process

    def _look_up(self, argv: Sequence[str], *, stdin: bytes, cwd: str) -> tuple[Program, Invocation]:
        if self._closed:
            raise EnvironmentFailure("the environment is closed")
        folder = self._path(cwd)
        if folder not in self._folders:
            raise EnvironmentFailure(f"{folder} is no folder")
        if argv[0] not in self._programs:
            raise EnvironmentFailure(f"{argv[0]} is not a program of this environment")
        self.commands.append(tuple(argv))
        return self._programs[argv[0]], Invocation(argv=argv, stdin=stdin, cwd=folder)

    def _shell(self, given: Invocation) -> Ended:
        """`bash -c`: one command with its words, nothing else."""
        command = given.argv[2] if len(given.argv) > len(("bash", "-c")) else given.argv[-1]
        words = shlex.split(command)
        program = self._programs.get(words[0]) if words else None
        if program is None:
            return Ended(code=UNKNOWN_COMMAND, output=f"{command}: not found\n".encode())
        return program(Invocation(argv=words, stdin=given.stdin, cwd=given.cwd))

    # ---- files ---------------------------------------------------------------------------------------------------

    async def read(self, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        """Bytes of a file; raises OSError."""
        data = self._files[self._existing_file(path)]
        return data[offset:] if limit < 0 else data[offset : offset + limit]

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file, keeping its mode; folders on the way are made."""
        self._put(self._path(path), data)

    async def stat(self, path: str) -> FileStat | None:
        """What is there, or None; `mtime` counts changes, one second each."""
        at = self._path(path)
        if at in self._folders:
            return FileStat(kind="folder", size=0, mtime=0.0, mode=0o755)
        if at not in self._files:
            return None
        return FileStat(kind="file", size=len(self._files[at]), mtime=self._changed[at], mode=self._modes[at])

    async def list(self, path: str) -> Sequence[Entry]:
        """The names in a folder, sorted."""
        at = self._path(path)
        if at not in self._folders:
            raise _os_error(errno.ENOTDIR if at in self._files else errno.ENOENT, at)
        folders = [Entry(name=posixpath.basename(f), kind="folder") for f in self._folders if _inside(f, at)]
        files = [
            Entry(name=posixpath.basename(f), kind="file", size=len(data))
            for f, data in self._files.items()
            if _inside(f, at)
        ]
        return sorted([*folders, *files], key=lambda entry: entry.name)

    async def remove(self, path: str) -> None:
        """Remove a file."""
        at = self._existing_file(path)
        for known in (self._files, self._modes, self._changed):
            del known[at]

    async def rename(self, path: str, to: str) -> None:
        """Move a file, replacing what is there."""
        at = self._existing_file(path)
        data, mode = self._files[at], self._modes[at]
        self._put(self._path(to), data)
        self._modes[self._path(to)] = mode
        if self._path(to) != at:
            await self.remove(path)

    async def aclose(self) -> None:
        """End what runs; nothing can be run after it."""
        self._closed = True
        for process in self._processes:
            await process.kill()

    def _path(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._cwd, path))

    def _existing_file(self, path: str) -> str:
        at = self._path(path)
        if at in self._folders:
            raise _os_error(errno.EISDIR, at)
        if at not in self._files:
            raise _os_error(errno.ENOTDIR if self._below_a_file(at) else errno.ENOENT, at)
        return at

    def _below_a_file(self, at: str) -> bool:
        return any(at.startswith(f"{file}/") for file in self._files)

    def _put(self, at: str, data: bytes) -> None:
        if at in self._folders:
            raise _os_error(errno.EISDIR, at)
        if self._below_a_file(at):
            raise _os_error(errno.ENOTDIR, at)
        self._make_folder(posixpath.dirname(at))
        self._ticks += 1
        self._files[at] = data
        self._changed[at] = float(self._ticks)
        self._modes.setdefault(at, 0o644)

    def _make_folder(self, at: str) -> None:
        while at not in self._folders:
            self._folders.add(at)
            at = posixpath.dirname(at)


def _inside(path: str, folder: str) -> bool:
    return path != "/" and posixpath.dirname(path) == folder


def _os_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _clip(output: bytes, limit: int) -> tuple[bytes, int]:
    if len(output) <= limit:
        return output, 0
    dropped = len(output) - limit
    head = limit // 2
    return b"%b\n[%d bytes left out here]\n%b" % (output[:head], dropped, output[head + dropped :]), dropped


BUILT_IN: Mapping[str, Program] = {
    "true": lambda _: Ended(),
    "false": lambda _: Ended(code=1),
    "echo": lambda given: Ended(output=" ".join(given.argv[1:]).encode() + b"\n"),
    "cat": lambda given: Ended(output=given.stdin),
    "pwd": lambda given: Ended(output=given.cwd.encode() + b"\n"),
    "sleep": lambda given: Ended(seconds=float(given.argv[1])),
}
