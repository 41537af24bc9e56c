"""One running program as seen from the event loop: its merged output, its input and its certain end.

How it runs is its `Handle`'s business: a child of this process, or one behind the walls of a sandbox. Output is read from a
pipe on the loop: no thread and no polling for each command. A daemon that inherited the pipe can hold it open for ever, so
after the program's own end the pipe is given `LINGER` seconds and no more.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

LINGER = 0.3
GRACE = 1.0
PIECE = 1 << 18


class Spec(Struct, frozen=True, kw_only=True):
    """What to start: `stdin` None keeps standard input open as a pipe, bytes are all that it will ever hold."""

    argv: Sequence[str]
    cwd: str
    stdin: bytes | None = b""
    pty: bool = False


class Handle(Protocol):
    """A program that was started, wherever it runs."""

    @property
    def pid(self) -> int:
        """Its number where it runs, for display."""
        ...

    @property
    def code(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        ...

    def watch(self, ended: Callable[[], None]) -> Callable[[], None]:
        """Call `ended` on the loop once `code` is known; the result stops the watch."""
        ...

    def left_some(self) -> bool:
        """Whether something of it runs on after its end that `end` would still reach; asked once it has ended."""
        ...

    async def end(self, grace: float) -> None:
        """Ask everything that it started to end, force it after `grace` seconds, and return when it is gone."""
        ...

    def kill(self) -> None:
        """Force its end now, without waiting for more than a moment."""
        ...


class Launched(Struct, frozen=True, kw_only=True):
    """A program that runs, and our ends of its streams: `stdin` is -1 where it has none, and `out` where both are a terminal.

    `trailing` is for programs elsewhere, whose output may still be on its way when their end is known: it is read until
    nothing has come for so many seconds.
    """

    handle: Handle
    out: int
    stdin: int = -1
    trailing: float = 0.0


class Child:
    """A running program; `done` gets its exit status once it ended and its output is complete (or given up)."""

    def __init__(self, launched: Launched, take: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._timer: asyncio.TimerHandle | None = None
        self._reading = True
        self._out, self.stdin, self.handle = launched.out, launched.stdin, launched.handle
        self._trailing = launched.trailing
        self._pty = self.terminal
        self.done: asyncio.Future[int] = self._loop.create_future()
        os.set_blocking(self._out, False)
        self._loop.add_reader(self._out, self._readable)
        self._unwatch = self.handle.watch(self._exited)

    @property
    def pid(self) -> int:
        """Its number where it runs."""
        return self.handle.pid

    @property
    def code(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self.handle.code

    def pause(self, *, paused: bool) -> None:
        """Stop or go on reading its output; the program waits meanwhile."""
        if not self._reading:
            return
        if paused:
            self._loop.remove_reader(self._out)
        else:
            self._loop.add_reader(self._out, self._readable)

    async def end(self, grace: float = GRACE) -> None:
        """End the whole tree; returns when it is gone and its output is complete, or given up."""
        await self.handle.end(grace)
        await asyncio.wait([self.done], timeout=grace + LINGER)

    def close(self) -> None:
        """Give back what it holds; a program that still runs is killed."""
        if self.code is None:
            self.handle.kill()
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

    def _readable(self) -> None:
        try:
            data = os.read(self._out, PIECE)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose other side is closed says EIO, not end of file
            data = b""
        if data:
            self._take(data)
            if self._timer is not None and self._trailing:
                self._exited()
            return
        self._stop_reading()
        if self.code is not None:
            self._finish()

    def _exited(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._reading:
            self._timer = self._loop.call_later(self._trailing or LINGER, self._finish)
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
