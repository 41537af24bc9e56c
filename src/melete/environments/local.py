"""The machine itself: commands as child processes, files as they are. No isolation."""

import asyncio
import contextlib
import errno
import os
import secrets
import signal
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from melete.core.errors import EnvironmentFailure
from melete.core.ports import Completed, Entry, FileStat
from melete.environments.child import Child, Clipped, Spec

SMALL = 1 << 20
QUEUED = 1 << 20
CANCEL_GRACE = 0.3
END_OF_FILE = b"\x04"


class LocalProcess:
    """A program with its streams open; see `core.ports.RunningProcess`."""

    def __init__(self, spec: Spec) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._more = asyncio.Event()
        self.child = Child(spec, self._take)
        if self.child.stdin >= 0:
            os.set_blocking(self.child.stdin, False)
        self.child.done.add_done_callback(lambda _: self._more.set())

    @property
    def pid(self) -> int:
        """The process id."""
        return self.child.pid

    def _take(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        self._more.set()
        if self._size >= QUEUED:
            self.child.pause(paused=True)

    async def read(self) -> bytes:
        """What has come since the last call; empty at the end. The program waits once a megabyte is unread."""
        await self._more.wait()
        data = b"".join(self._pieces)
        if self._size >= QUEUED:
            self.child.pause(paused=False)
        self._pieces.clear()
        self._size = 0
        if not self.child.done.done():
            self._more.clear()
        return data

    async def write(self, data: bytes) -> None:
        """Send all of `data`, waiting while the program does not read."""
        loop = asyncio.get_running_loop()
        view = memoryview(data)
        while view:
            descriptor = self.child.stdin
            if descriptor < 0:
                raise EnvironmentFailure("its standard input is closed")
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                await self._writable(loop, descriptor)
            except OSError as error:
                raise EnvironmentFailure(f"its standard input is closed: {error.strerror}") from error

    async def _writable(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        ready: asyncio.Future[int] = loop.create_future()
        loop.add_writer(descriptor, lambda: ready.done() or ready.set_result(0))
        try:
            await asyncio.wait([ready, self.child.done], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self.child.stdin == descriptor:
                loop.remove_writer(descriptor)

    async def close_stdin(self) -> None:
        """Close its standard input; a terminal gets the end-of-file character instead."""
        if self.child.terminal:
            await self.write(END_OF_FILE)
        else:
            self.child.close_stdin()

    async def wait(self) -> int:
        """Its exit status, negative for a signal, when its output is complete as well."""
        await asyncio.wait([self.child.done])
        return self.child.done.result()

    async def kill(self) -> None:
        """End it and everything that it started."""
        await self.child.end()
        self.child.close()


class LocalEnvironment:
    """An `Environment` on this machine. `variables` is the whole environment that commands see.

    A program that a command leaves behind on purpose (`server &`) outlives the command and ends with the environment; one
    that made itself a session of its own (`setsid`, a real daemon) is left alone, unless its command runs into its deadline.
    """

    def __init__(self, cwd: str, *, variables: Mapping[str, str]) -> None:
        self._home = variables.get("HOME", "")
        self._cwd = self._resolve_from("/", cwd) if cwd.startswith(("/", "~")) else str(Path(cwd).absolute())
        self._variables = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
        self._running: set[Child] = set()
        self._left: set[int] = set()
        self._closed = False

    @property
    def name(self) -> str:
        """`local`."""
        return "local"

    @property
    def cwd(self) -> str:
        """The working folder, absolute."""
        return self._cwd

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str = "",
        timeout: float = 180.0,
        limit: int = 1_000_000,
    ) -> Completed:
        """Run a program to its end or its deadline; an inherited pipe that a daemon holds is not waited for."""
        kept = Clipped(limit)
        begun = time.monotonic()
        child = self._child(Spec(argv=argv, cwd=self._path(cwd), variables=self._variables, stdin=stdin), kept)
        timed_out = False
        try:
            await asyncio.wait([child.done], timeout=max(timeout, 0))
            if child.code is None:
                timed_out = True
                await child.end()
        except asyncio.CancelledError:
            await child.end(CANCEL_GRACE)
            raise
        finally:
            child.close()
            self._running.discard(child)
            if child.group_alive():
                self._left.add(child.pid)
        output, dropped = kept.result()
        return Completed(
            code=None if timed_out else child.code,
            output=output,
            seconds=time.monotonic() - begun,
            timed_out=timed_out,
            dropped=dropped,
        )

    async def start(self, argv: Sequence[str], *, cwd: str = "", pty: bool = False) -> LocalProcess:
        """Start a program with its streams open; it ends with the environment at the latest."""
        self._check_open()
        spec = Spec(argv=argv, cwd=self._path(cwd), variables=self._variables, stdin=None, pty=pty)
        process = LocalProcess(spec)
        self._running.add(process.child)
        process.child.done.add_done_callback(lambda _: self._ended(process.child))
        return process

    def _child(self, spec: Spec, kept: Clipped) -> Child:
        self._check_open()
        child = Child(spec, kept.add)
        self._running.add(child)
        return child

    def _ended(self, child: Child) -> None:
        self._running.discard(child)
        if child.group_alive():
            self._left.add(child.pid)

    def _check_open(self) -> None:
        if self._closed:
            raise EnvironmentFailure("the environment is closed")

    async def read(self, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        """Bytes of a regular file; raises OSError, for a folder, a FIFO or a device as well."""
        file = self._path(path)
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            _only_regular(found.st_mode, file)
            wanted = max(found.st_size - offset, SMALL // 16) if limit < 0 else limit
            if wanted <= SMALL:
                return _read(descriptor, offset, limit)
            return await asyncio.to_thread(_read, descriptor, offset, limit)
        finally:
            os.close(descriptor)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file atomically; its mode and the links that lead to it stay, folders on the way are made."""
        if len(data) <= SMALL:
            _write(self._path(path), data)
        else:
            await asyncio.to_thread(_write, self._path(path), data)

    async def stat(self, path: str) -> FileStat | None:
        """What is there, links followed, or None."""
        try:
            found = os.stat(self._path(path))  # noqa: PTH116 - pathlib loses undecodable names on some systems
        except (FileNotFoundError, NotADirectoryError):
            return None
        kind = "file" if stat.S_ISREG(found.st_mode) else "folder" if stat.S_ISDIR(found.st_mode) else "other"
        return FileStat(kind=kind, size=found.st_size, mtime=found.st_mtime, mode=stat.S_IMODE(found.st_mode))

    async def list(self, path: str) -> Sequence[Entry]:
        """The names in a folder, sorted."""
        with os.scandir(self._path(path)) as entries:
            return sorted((_entry(entry) for entry in entries), key=lambda entry: entry.name)

    async def remove(self, path: str) -> None:
        """Remove a file, or a link."""
        Path(self._path(path)).unlink()

    async def rename(self, path: str, to: str) -> None:
        """Move a file, replacing what is there; folders on the way are made."""
        target = Path(self._path(to))
        target.parent.mkdir(parents=True, exist_ok=True)
        Path(self._path(path)).replace(target)

    async def aclose(self) -> None:
        """End every program that still runs, those that commands left behind included."""
        self._closed = True
        async with asyncio.TaskGroup() as group:
            for child in list(self._running):
                group.create_task(child.end())
        for child in list(self._running):
            child.close()
        self._running.clear()
        self._end_left(signal.SIGTERM)
        until = time.monotonic() + CANCEL_GRACE
        while self._left_alive() and time.monotonic() < until:  # noqa: ASYNC110 - the kernel sets no Event
            await asyncio.sleep(0.01)
        self._end_left(signal.SIGKILL)
        self._left.clear()

    def _left_alive(self) -> bool:
        self._left = {group for group in self._left if _still_ours(group)}
        return bool(self._left)

    def _end_left(self, number: int) -> None:
        for group in self._left:
            if _still_ours(group):
                os.killpg(group, number)

    def _path(self, path: str) -> str:
        return self._resolve_from(self._cwd, path)

    def _resolve_from(self, base: str, path: str) -> str:
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        return os.path.normpath(os.path.join(base, path))  # noqa: PTH118 - pathlib is five times slower


def _still_ours(group: int) -> bool:
    """Whether the group of a program that has ended still lives; its number cannot be given anew before it is empty."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    try:
        os.kill(group, 0)
    except ProcessLookupError:
        return True
    return False


def _only_regular(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def _read(descriptor: int, offset: int, limit: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    pieces: list[bytes] = []
    left = limit
    while left != 0:
        piece = os.read(descriptor, SMALL if left < 0 else min(left, SMALL))
        if not piece:
            break
        pieces.append(piece)
        left = left - len(piece) if left > 0 else left
    return b"".join(pieces)


def _write(path: str, data: bytes) -> None:
    target = Path(os.path.realpath(path))
    try:
        before: os.stat_result | None = target.stat()
    except FileNotFoundError:
        before = None
        target.parent.mkdir(parents=True, exist_ok=True)
    if before is not None:
        _only_regular(before.st_mode, path)
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    beside = target.with_name(f".{secrets.token_hex(6)}.new")
    descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                _keep_owner(file.fileno(), before)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _keep_owner(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with contextlib.suppress(PermissionError):  # only an administrator may give files away; the content matters
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _entry(entry: "os.DirEntry[str]") -> Entry:
    try:
        if entry.is_symlink():
            return Entry(name=entry.name, kind="link")
        if entry.is_dir():
            return Entry(name=entry.name, kind="folder")
        if entry.is_file():
            return Entry(name=entry.name, kind="file", size=entry.stat().st_size)
    except FileNotFoundError:  # it went away while we looked
        pass
    return Entry(name=entry.name, kind="other")
