"""One child process with its process group, its merged output and its certain end. Used by `local.py`.

A child is watched through its pidfd and its output pipe, both on the event loop: no thread and no polling for each
command. A daemon that inherited the pipe can hold it open for ever, so after the child's own end the pipe is given
`LINGER` seconds and no more.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
import termios
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from melete.core.errors import EnvironmentFailure

LINGER = 0.3
GRACE = 1.0
PIECE = 1 << 18
CONTINUATION = range(0x80, 0xC0)  # bytes within a UTF-8 character
LEADS = (0, 0xC0, 0xE0, 0xF0)  # from which first byte on it has one, two, three, four


class Spec(Struct, frozen=True, kw_only=True):
    """What to start: `stdin` None keeps standard input open as a pipe, bytes are all that it will ever hold."""

    argv: Sequence[str]
    cwd: str
    variables: Mapping[bytes, bytes]
    stdin: bytes | None = b""
    pty: bool = False


class Clipped:
    """Output with a bound: the head and the tail are kept, what was between them is counted and forgotten."""

    def __init__(self, limit: int) -> None:
        self._head_limit = max(limit, 2) // 2
        self._tail_limit = max(limit, 2) - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take the next piece; memory stays below three times the limit."""
        self._total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._tail_limit :]
            if len(self._tail) > 2 * self._tail_limit:
                del self._tail[: -self._tail_limit]

    def result(self) -> tuple[bytes, int]:
        """The bytes, with a line that says where how many are missing, and that number; no character is cut in two."""
        tail = self._tail[-self._tail_limit :]
        if self._total == len(self._head) + len(tail):
            return bytes(self._head + tail), 0
        head = self._head[: len(self._head) - _cut_off(self._head)]
        start = next((n for n, byte in enumerate(tail[:4]) if byte not in CONTINUATION), 0)
        del tail[:start]
        dropped = self._total - len(head) - len(tail)
        return b"%b\n[%d bytes left out here]\n%b" % (head, dropped, tail), dropped


def _cut_off(head: bytearray) -> int:
    """How many bytes at the end begin a UTF-8 character without finishing it."""
    for back, byte in enumerate(reversed(head[-3:]), 1):
        if byte not in CONTINUATION:
            length = sum(byte >= first for first in LEADS)
            return back if back < length else 0
    return 0


class Child:
    """A running program; `done` gets its exit status once it ended and its output is complete (or given up)."""

    def __init__(self, spec: Spec, take: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._timer: asyncio.TimerHandle | None = None
        self._reading = True
        self._pty = spec.pty
        self._others: dict[int, str] = {}
        self.done: asyncio.Future[int] = self._loop.create_future()
        self._popen, self._out, self.stdin = _start(spec)
        self.pid = self._popen.pid
        os.set_blocking(self._out, False)
        self._loop.add_reader(self._out, self._readable)
        self._unwatch = _watch(self._loop, self._popen, self._exited)

    @property
    def code(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._popen.returncode

    def pause(self, *, paused: bool) -> None:
        """Stop or go on reading its output; the program waits meanwhile."""
        if not self._reading:
            return
        if paused:
            self._loop.remove_reader(self._out)
        else:
            self._loop.add_reader(self._out, self._readable)

    def group_alive(self) -> bool:
        """Whether anything of its process group still runs; orphans that fell to this process are collected."""
        if self.code is None:
            return True
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # it runs under another user now
            return True
        return _group_breathes(self.pid)

    async def end(self, grace: float = GRACE) -> None:
        """Ask the whole tree to end, then force it after `grace` seconds; returns when it is gone."""
        self._others = _descendants(self.pid)
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # what is stopped hears nothing else
        until = self._loop.time() + grace
        pause = 0.002
        while self._tree_alive() and self._loop.time() < until:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.05)
        if self._tree_alive():
            self._others |= _descendants(self.pid)
            self._signal(signal.SIGKILL)
        await asyncio.wait([self.done], timeout=grace + LINGER)

    def close(self) -> None:
        """Give back what it holds; a program that still runs is killed."""
        if self.code is None:
            self._signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout=1)
        self._unwatch()
        self._finish()

    @property
    def terminal(self) -> bool:
        """Whether its input and output are one terminal."""
        return self.stdin >= 0 and self.stdin == self._out

    def close_stdin(self) -> None:
        """Close its standard input; a terminal's closes with its output."""
        if self.stdin >= 0 and not self.terminal:
            self._loop.remove_writer(self.stdin)
            os.close(self.stdin)
            self.stdin = -1

    def _tree_alive(self) -> bool:
        return self.group_alive() or any(_born(pid) == born for pid, born in self._others.items())

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        for pid, born in self._others.items():
            if _born(pid) == born:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    def _readable(self) -> None:
        try:
            data = os.read(self._out, PIECE)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose other side is closed says EIO, not end of file
            data = b""
        if data:
            self._take(data)
            return
        self._stop_reading()
        if self.code is not None:
            self._finish()

    def _exited(self) -> None:
        self._popen.poll()
        if self._reading:
            self._timer = self._loop.call_later(LINGER, self._finish)
        else:
            self._finish()

    def _stop_reading(self) -> None:
        """Read no more. A terminal stays open while its program runs: closing it would kill one that let go of it first."""
        if not self._reading:
            return
        self._reading = False
        self._loop.remove_reader(self._out)
        if self.terminal:
            self._loop.remove_writer(self._out)
            self.stdin = -1
        if self.code is not None or not self._pty:
            self._close_output()

    def _close_output(self) -> None:
        if self._out >= 0:
            os.close(self._out)
            self._out = -1

    def _finish(self) -> None:
        self._stop_reading()
        self._close_output()
        self.close_stdin()
        if self._timer is not None:
            self._timer.cancel()
        if not self.done.done() and self.code is not None:
            self.done.set_result(self.code)


def _start(spec: Spec) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start it and return (process, descriptor of its output, descriptor of its input or -1)."""
    mine, its = os.openpty() if spec.pty else os.pipe()
    given = -1
    opened = [its]
    try:
        if spec.pty:
            source, given = its, mine
        elif spec.stdin is None:
            source, given = os.pipe()
            opened.append(source)
        elif spec.stdin:
            with tempfile.TemporaryFile() as file:  # a file never makes anybody wait, however little of it is read
                file.write(spec.stdin)
                file.seek(0)
                source = os.dup(file.fileno())
            opened.append(source)
        else:
            source = subprocess.DEVNULL
        process = subprocess.Popen(  # noqa: S603 - running programs is what it is for
            list(spec.argv), stdin=source, stdout=its, stderr=its, cwd=spec.cwd, env=spec.variables,
            start_new_session=True, preexec_fn=_take_terminal if spec.pty else None,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        for descriptor in {mine, given} - {-1}:
            os.close(descriptor)
        raise _failure(spec, error) from error
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return process, mine, given


def _take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C and job control work in the child."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _failure(spec: Spec, error: Exception) -> EnvironmentFailure:
    if not Path(spec.cwd).is_dir():
        return EnvironmentFailure(f"the working folder {spec.cwd} does not exist", next="name a folder that exists")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    program = spec.argv[0] if spec.argv else "an empty command"
    return EnvironmentFailure(f"{program} could not be started: {reason}")


def _watch(
    loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes], ended: Callable[[], None]
) -> Callable[[], None]:
    """Call `ended` on the loop when the process has ended; the result stops the watch."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # no pidfd on this system
        return watch_by_thread(loop, process, ended)
    watching = True

    def stop() -> None:
        nonlocal watching
        if watching:
            watching = False
            loop.remove_reader(descriptor)
            os.close(descriptor)

    def fire() -> None:
        stop()
        ended()

    loop.add_reader(descriptor, fire)
    return stop


def watch_by_thread(
    loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes], ended: Callable[[], None]
) -> Callable[[], None]:
    """The same for systems without pidfd: a thread waits for the process."""
    stopped = False

    def fire() -> None:
        if not stopped:
            ended()

    def wait() -> None:
        process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            loop.call_soon_threadsafe(fire)

    def stop() -> None:
        nonlocal stopped
        stopped = True

    threading.Thread(target=wait, name=f"wait-{process.pid}", daemon=True).start()
    return stop


def _descendants(root: int) -> dict[int, str]:
    """What descends from `root` or is in its session but not in its process group: pid → time of birth. Linux only."""
    parents: dict[int, int] = {}
    groups: dict[int, tuple[int, int, str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(folder.name))
        if fields:
            parents[int(folder.name)] = int(fields[1])
            groups[int(folder.name)] = (int(fields[2]), int(fields[3]), fields[19])
    found: dict[int, str] = {}
    for pid, (group, session, born) in groups.items():
        if group != root and (session == root or _descends(pid, root, parents)):
            found[pid] = born
    return found


def _group_breathes(group: int) -> bool:
    """Whether a group that exists holds more than dead processes that nobody has collected."""
    seen = False
    for folder in Path("/proc").glob("[0-9]*"):
        seen = True
        fields = _stat(int(folder.name))
        if fields and int(fields[2]) == group:
            return True
    return not seen


def _descends(pid: int, root: int, parents: Mapping[int, int]) -> bool:
    seen: set[int] = set()
    while pid > 1 and pid not in seen:
        seen.add(pid)
        pid = parents.get(pid, 0)
        if pid == root:
            return True
    return False


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty for a process that is gone or dead."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    fields = text.rpartition(")")[2].split()
    return [] if fields[0] == "Z" else fields


def _born(pid: int) -> str:
    fields = _stat(pid)
    return fields[19] if fields else ""
