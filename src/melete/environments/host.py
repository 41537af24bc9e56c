"""Programs of this machine: a child process in a session of its own, watched through its pidfd. Used by every environment that
starts programs here, if only the ones that reach elsewhere.
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
from collections.abc import Callable, Mapping
from pathlib import Path

from melete.core.errors import EnvironmentFailure
from melete.environments import tree
from melete.environments.child import Launched, Spec

CLOSING = 1.0
"""Seconds that a killed program is waited for when there is no time to wait."""


class HostHandle:
    """A child of this process; see `child.Handle`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._others: dict[int, str] = {}
        self.pid = process.pid

    @property
    def code(self) -> int | None:
        """Its exit status."""
        return self._process.returncode

    def watch(self, ended: Callable[[], None]) -> Callable[[], None]:
        """Call `ended` once it has ended and was collected."""

        def fire() -> None:
            self._process.poll()
            ended()

        return _watch(asyncio.get_running_loop(), self._process, fire)

    def left_some(self) -> bool:
        """Whether its process group still runs; orphans that fell to this process are collected."""
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
        return tree.group_breathes(self.pid)

    async def end(self, grace: float) -> None:
        """End its group, its session and all that descends from it."""
        loop = asyncio.get_running_loop()
        self._others = tree.descendants(self.pid)
        tree.ask_to_end(self.pid, self._others)
        until = loop.time() + grace
        pause = 0.002
        while self._alive() and loop.time() < until:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.05)
        if self._alive():
            self._others |= tree.descendants(self.pid)
            tree.send(self.pid, self._others, signal.SIGKILL)

    def _alive(self) -> bool:
        return self.left_some() or any(tree.born(pid) == born for pid, born in self._others.items())

    def kill(self) -> None:
        """SIGKILL for its group."""
        tree.send(self.pid, self._others, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=CLOSING)


def launch(spec: Spec, variables: Mapping[bytes, bytes], *, hand_over: tuple[int, ...] = ()) -> Launched:
    """Start a program here; raises EnvironmentFailure. Descriptors in `hand_over` stay open in it under their numbers."""
    mine, its = os.openpty() if spec.pty else os.pipe()
    opened = [its]
    given = -1
    try:
        source, given = (its, mine) if spec.pty else source_of(spec.stdin)
        if not spec.pty and source >= 0:
            opened.append(source)
        process = subprocess.Popen(  # noqa: S603 - running programs is what it is for
            list(spec.argv), stdin=source if source >= 0 else subprocess.DEVNULL, stdout=its, stderr=its, cwd=spec.cwd,
            env=variables, start_new_session=True, pass_fds=hand_over, preexec_fn=take_terminal if spec.pty else None,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        for descriptor in {mine, given} - {-1}:
            os.close(descriptor)
        raise _failure(spec, error) from error
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return Launched(handle=HostHandle(process), out=mine, stdin=given)


def source_of(stdin: bytes | None) -> tuple[int, int]:
    """(descriptor that a program reads from, our end of it): a pipe for None, a file that holds the bytes, -1 for nothing."""
    if stdin is None:
        return os.pipe()
    if not stdin:
        return -1, -1
    with tempfile.TemporaryFile() as file:  # a file never makes anybody wait, however little of it is read
        file.write(stdin)
        file.seek(0)
        return os.dup(file.fileno()), -1


def take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C and job control work in the child."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _failure(spec: Spec, error: Exception) -> EnvironmentFailure:
    if not Path(spec.cwd).is_dir():
        return EnvironmentFailure(f"the working folder {spec.cwd} does not exist", next="name a folder that exists")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    program = spec.argv[0] if spec.argv else "an empty command"
    return EnvironmentFailure(f"{program} could not be started: {reason}")


def _watch(
    loop: asyncio.AbstractEventLoop, process: "subprocess.Popen[bytes]", ended: Callable[[], None]
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
    loop: asyncio.AbstractEventLoop, process: "subprocess.Popen[bytes]", ended: Callable[[], None]
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
