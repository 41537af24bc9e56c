"""What environments share whose programs have their streams on this machine: `exec`, `start` and the end of everything.

`local`, `sandbox`, `docker`, `ssh` and `apptainer` are each a `Programs` that launches in its own way.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence

from melete.core.environment import Completed
from melete.core.errors import EnvironmentFailure
from melete.environments.child import Child, Launched, Spec
from melete.environments.clipped import Clipped

QUEUED = 1 << 20
CANCEL_GRACE = 0.3
END_OF_FILE = b"\x04"


class Started:
    """A program with its streams open; see `core.environment.RunningProcess`."""

    def __init__(self, launched: Launched) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._more = asyncio.Event()
        self.child = Child(launched, self._take)
        if self.child.stdin >= 0:
            os.set_blocking(self.child.stdin, False)
        self.child.done.add_done_callback(lambda _: self._more.set())

    @property
    def pid(self) -> int:
        """The process id where it runs."""
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


class Programs:
    """Runs programs through `_launch`, which a subclass gives, and ends what still runs when it is closed."""

    def __init__(self) -> None:
        self.running: set[Child] = set()
        self.closed = False

    async def _launch(self, spec: Spec) -> Launched:
        """Start a program; `spec.cwd` is as the caller gave it. Raises EnvironmentFailure."""
        raise NotImplementedError

    def _over(self, child: Child) -> None:
        """Called once for each program that has ended."""

    async def _lost(self, child: Child) -> EnvironmentFailure | None:  # noqa: ARG002
        """Why a program that has ended did not end by itself: the place it ran in went away; None when it did."""
        return None

    def _remarks(self) -> tuple[str, ...]:
        """What there is to say about the command that has just ended."""
        return ()

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
        child = await self._child(Spec(argv=argv, cwd=cwd, stdin=stdin), kept.add)
        timed_out = False
        try:
            await asyncio.wait([child.done], timeout=max(timeout, 0))
            if child.code is None:
                timed_out = True
                await child.end()
            elif failure := await self._lost(child):
                raise failure
        except asyncio.CancelledError:
            await child.end(CANCEL_GRACE)
            raise
        finally:
            child.close()
            self._ended(child)
        output, dropped = kept.result()
        return Completed(
            code=None if timed_out else child.code,
            output=output,
            seconds=time.monotonic() - begun,
            timed_out=timed_out,
            dropped=dropped,
            notes=self._remarks(),
        )

    async def start(self, argv: Sequence[str], *, cwd: str = "", pty: bool = False) -> Started:
        """Start a program with its streams open; it ends with the environment at the latest."""
        process = Started(await self._open(Spec(argv=argv, cwd=cwd, stdin=None, pty=pty)))
        self.running.add(process.child)
        process.child.done.add_done_callback(lambda _: self._ended(process.child))
        return process

    async def _child(self, spec: Spec, take: Callable[[bytes], None]) -> Child:
        child = Child(await self._open(spec), take)
        self.running.add(child)
        return child

    async def _open(self, spec: Spec) -> Launched:
        if self.closed:
            raise EnvironmentFailure("the environment is closed")
        if not spec.argv:
            raise EnvironmentFailure("an empty command could not be started", next="name a program")
        return await self._launch(spec)

    def _ended(self, child: Child) -> None:
        if child in self.running:
            self.running.discard(child)
            self._over(child)

    async def end_all(self) -> None:
        """End every program that still runs; nothing starts any more."""
        self.closed = True
        async with asyncio.TaskGroup() as group:
            for child in list(self.running):
                group.create_task(child.end())
        for child in list(self.running):
            child.close()
        self.running.clear()
