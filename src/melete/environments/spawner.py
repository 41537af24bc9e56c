"""Talks to the program inside a sandbox: requests, answers, descriptors, and the commands that run there.

What comes from behind the walls is data from a stranger: messages are checked for shape, descriptors for what they are.
"""

import array
import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.errors import EnvironmentFailure
from melete.environments.child import Launched, Spec
from melete.environments.files import Described
from melete.environments.host import source_of

SHORT = 60_000
LONGEST = 64 << 20
MOST_DESCRIPTORS = 4
ENDED = -9


class Told(Struct, frozen=True, kw_only=True):
    """A message from inside; which fields matter depends on the request."""

    n: int = 0
    ready: int = 0
    ended: int = 0
    code: int = ENDED
    long: int = 0
    pid: int = 0
    port: int = 0
    size: int = 0
    alive: bool = False
    error: tuple[int, str] | None = None
    found: Described | None = None
    rows: list[tuple[str, str, int]] = []


Answer = tuple[Told, list[int]]


class Inside:
    """The connection to the program inside; `gone` is set once it cannot be used any more, with the reason in `why`."""

    def __init__(self, connection: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._commands: dict[int, InsideHandle] = {}
        self._count = 0
        self.ready: asyncio.Future[int] = self._loop.create_future()
        self.gone = False
        connection.setblocking(False)
        self._loop.add_reader(connection, self._readable)

    async def ask(self, do: str, /, descriptors: Sequence[int] = (), **fields: Any) -> Answer:
        """Send a request and wait for its answer; raises OSError as it happened inside, EnvironmentFailure when that is gone."""
        number = self._next()
        future = self._waiting[number] = self._loop.create_future()
        try:
            self._send({"do": do, "n": number, **fields}, descriptors)
            told, received = await future
        finally:
            self._waiting.pop(number, None)
        if told.error is not None:
            close_all(received)
            raise OSError(*told.error)
        return told, received

    def tell(self, do: str, **fields: Any) -> None:
        """Send a request whose answer nobody waits for; does nothing when the inside is gone."""
        if not self.gone:
            with contextlib.suppress(EnvironmentFailure):  # it went in this moment
                self._send({"do": do, "n": self._next(), **fields}, ())

    async def give(self, variables: Mapping[str, str]) -> None:
        """Set what commands see from now on."""
        given = {_latin(name): _latin(value) for name, value in variables.items()}
        await self.ask("variables", given=given)

    async def start(self, spec: Spec) -> Launched:
        """Start a command; raises EnvironmentFailure."""
        source, given = (-1, -1) if spec.pty else source_of(spec.stdin)
        mine, its = (-1, -1) if spec.pty else os.pipe()
        number = self._count + 1
        handle = self._commands[number] = InsideHandle(self, number)
        try:
            theirs = [fd for fd in (source, its) if fd >= 0]
            told, received = await self.ask(
                "start", argv=list(spec.argv), cwd=spec.cwd, pty=spec.pty, descriptors=theirs
            )
            handle.pid = told.pid
        except BaseException:
            self._commands.pop(number, None)
            close_all([fd for fd in (mine, given) if fd >= 0])
            raise
        finally:
            close_all([fd for fd in (source, its) if fd >= 0])
        if spec.pty:
            mine = given = received[0]
        return Launched(handle=handle, out=mine, stdin=given)

    def close(self) -> None:
        """Let go; what runs inside ends with the connection."""
        self._lost()

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _send(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        if self.gone:
            raise _over()
        data = msgspec.json.encode(message)
        spare = -1
        if len(data) > SHORT:
            spare = os.memfd_create("message", os.MFD_CLOEXEC)
            os.write(spare, data)
            data, descriptors = b'{"long":1}', [spare, *descriptors]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        try:
            self._connection.sendmsg([data], rights)
        except OSError as error:
            self._lost()
            raise _over() from error
        finally:
            if spare >= 0:
                os.close(spare)

    def _readable(self) -> None:
        try:
            told, received = self._receive()
        except BlockingIOError:
            return
        except (OSError, msgspec.MsgspecError):
            self._lost()
            return
        if told is None:
            self._lost()
        elif told.ready:
            if not self.ready.done():
                self.ready.set_result(told.ready)
        elif told.ended:
            if handle := self._commands.pop(told.ended, None):
                handle.end_with(told.code)
        elif (future := self._waiting.get(told.n)) and not future.done():
            future.set_result((told, received))
        else:
            close_all(received)

    def _receive(self) -> tuple[Told | None, list[int]]:
        room = array.array("i")
        space = socket.CMSG_SPACE(MOST_DESCRIPTORS * room.itemsize)
        data, extra, _, _ = self._connection.recvmsg(1 << 17, space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, block in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                room.frombytes(block[: len(block) - len(block) % room.itemsize])
        received = list(room)
        if not data:
            return None, received
        try:
            told = msgspec.json.decode(data, type=Told)
            if told.long:
                told = msgspec.json.decode(_whole(received.pop(0)), type=Told)
        except (msgspec.MsgspecError, OSError, IndexError) as error:
            close_all(received)
            raise OSError(0, "an unreadable message") from error
        return told, received

    def _lost(self) -> None:
        if self.gone:
            return
        self.gone = True
        self._loop.remove_reader(self._connection)
        self._connection.close()
        for future in [*self._waiting.values(), self.ready]:
            if not future.done():
                future.set_exception(_over())
                future.exception()  # nobody may be waiting for it
        for handle in list(self._commands.values()):
            handle.end_with(ENDED)
        self._commands.clear()


class InsideHandle:
    """A command that runs inside; see `child.Handle`."""

    def __init__(self, inside: Inside, number: int) -> None:
        self._inside = inside
        self._number = number
        self._told: Callable[[], None] | None = None
        self.code: int | None = None
        self.pid = 0

    def watch(self, ended: Callable[[], None]) -> Callable[[], None]:
        """Call `ended` once its end was told, also when that was before."""
        loop = asyncio.get_running_loop()
        if self.code is not None:
            loop.call_soon(ended)
        else:
            self._told = ended

        def stop() -> None:
            self._told = None

        return stop

    def end_with(self, code: int) -> None:
        """It has ended."""
        if self.code is None:
            self.code = code
            if self._told:
                self._told()

    def left_some(self) -> bool:
        """What it leaves behind ends with the sandbox."""
        return False

    async def end(self, grace: float) -> None:
        """Ask the whole tree to end, then force it."""
        loop = asyncio.get_running_loop()
        about: dict[str, Any] = {"of": self._number, "pid": self.pid}
        until, pause = loop.time() + grace, 0.002
        try:
            await self._inside.ask("end", force=False, **about)
            while (await self._inside.ask("alive", **about))[0].alive:
                if loop.time() > until:
                    await self._inside.ask("end", force=True, **about)
                    return
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.05)
        except EnvironmentFailure:
            pass  # the whole sandbox is gone, and this with it

    def kill(self) -> None:
        """Force its end; nobody waits."""
        self._inside.tell("end", force=True, of=self._number, pid=self.pid)
        self.end_with(ENDED)


def close_all(descriptors: list[int]) -> None:
    """Close them."""
    for descriptor in descriptors:
        os.close(descriptor)


def _latin(text: str) -> str:
    return os.fsencode(text).decode("latin-1")


def _whole(descriptor: int) -> bytes:
    """What a long message holds; only a regular file of bearable size is read."""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LONGEST:
            raise OSError(0, "an unreadable message")
        return os.pread(descriptor, found.st_size, 0)
    finally:
        os.close(descriptor)


def _over() -> EnvironmentFailure:
    return EnvironmentFailure(
        "the sandbox has ended, and all that ran in it", next="the next command starts a new one in the same folder"
    )
