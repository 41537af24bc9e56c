"""Talks to the program inside a sandbox: requests, answers, descriptors, and the commands that run there.

What comes from behind the walls is data from a stranger: messages are checked for shape, descriptors for what they are.
"""

import array
import asyncio
import contextlib
import errno
import json
import marshal
import os
import socket
import stat
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.errors import EnvironmentFailure
from melete.environments.child import Launched, Spec
from melete.environments.files import Described
from melete.environments.host import source_of

SHORT = 60_000
LONGEST = 16 << 20
MOST_DESCRIPTORS = 4
UNASKED = 1000
"""So many messages that belong to nothing are borne; then whoever sends them is no longer listened to."""
CROWDED = {errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS}
PAUSE = 0.01
MARSHAL = 4
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
    swept: bool = False
    error: tuple[int, str] | None = None
    found: Described | None = None
    rows: list[tuple[str, str, int]] = []


Answer = tuple[Told, list[int]]
Undo = Callable[[Told], None]


class Inside:
    """The connection to the program inside; `gone` is set once it cannot be used any more, with the reason in `why`."""

    def __init__(self, connection: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._undo: dict[int, Undo] = {}
        self._commands: dict[int, InsideHandle] = {}
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._unasked = 0
        self._count = 0
        self.ready: asyncio.Future[int] = self._loop.create_future()
        self.gone = False
        self.swept = False
        """Whether processes that earlier commands left had to make room."""
        self.terminals_outside = False
        """Whether terminals are made out here: behind walls that show no others."""
        connection.setblocking(False)
        self._loop.add_reader(connection, self._readable)

    async def ask(
        self, do: str, /, descriptors: Sequence[int] = (), *, undo: Undo | None = None, **fields: Any
    ) -> Answer:
        """Send a request and wait for its answer; raises OSError as it happened inside, EnvironmentFailure when that is gone.

        When nobody waits any more, `undo` gets the answer that comes all the same. `fields` go with the request.
        """
        number = self._next()
        future = self._waiting[number] = self._loop.create_future()
        try:
            self._send({"do": do, "n": number, **fields}, descriptors)
            told, received = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and not future.exception():
                close_all(future.result()[1])
                if undo:
                    undo(future.result()[0])
            elif undo:
                self._undo[number] = undo
            raise
        finally:
            self._waiting.pop(number, None)
        if told.error is not None:
            close_all(received)
            raise OSError(*told.error)
        return told, received

    async def descriptor(self, do: str, /, *, undo: Undo | None = None, **fields: Any) -> tuple[Told, int]:
        """The same for a request that is answered with one descriptor; raises OSError when none came."""
        told, received = await self.ask(do, undo=undo, **fields)
        if len(received) != 1:
            close_all(received)
            raise OSError(errno.EIO, "the sandbox gave no answer that can be used")
        return told, received[0]

    def tell(self, do: str, **fields: Any) -> None:
        """Send a request whose answer nobody waits for; does nothing when the inside is gone."""
        if not self.gone:
            with contextlib.suppress(EnvironmentFailure):  # it went in this moment
                self._send({"do": do, "n": self._next(), **fields}, ())

    async def begin(self, variables: Mapping[str, str], **limits: int) -> None:
        """Set what commands see from now on, and what bounds them."""
        await self.ask("begin", given=_given(variables), limits=limits)

    async def give(self, variables: Mapping[str, str]) -> None:
        """Let commands see these as well from now on."""
        await self.ask("give", given=_given(variables))

    async def start(self, spec: Spec) -> Launched:
        """Start a command; raises OSError as it happened inside, EnvironmentFailure when that is gone."""
        opened: list[int] = []
        mine = given = -1
        number = self._count + 1
        handle = self._commands[number] = InsideHandle(self, number)
        try:
            if not spec.pty:
                source, given = source_of(spec.stdin)
                opened = [source] if source >= 0 else []
                mine, its = os.pipe()
                opened.append(its)
            elif self.terminals_outside:
                mine, its = os.openpty()
                opened.append(its)
            told, received = await self.ask(
                "start",
                opened,
                undo=lambda told: self.tell("end", force=True, of=number, pid=told.pid),
                argv=list(spec.argv),
                cwd=spec.cwd,
                pty=spec.pty,
            )
            handle.pid = told.pid
            self.swept = self.swept or told.swept
            if not spec.pty:
                close_all(received)
            elif not self.terminals_outside:
                mine = _terminal(received)
        except BaseException:
            self._commands.pop(number, None)
            close_all([fd for fd in (mine, given) if fd >= 0])
            raise
        finally:
            close_all(opened)
        return Launched(handle=handle, out=mine, stdin=mine if spec.pty else given)

    def close(self) -> None:
        """Let go; what runs inside ends with the connection."""
        self._lost()

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _send(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        if self.gone:
            raise over()
        data = marshal.dumps(message, MARSHAL)  # the same interpreter reads it
        sent = [os.dup(one) for one in descriptors]  # their owner may have closed them before it is their turn
        if len(data) > SHORT:
            spare = os.memfd_create("message", os.MFD_CLOEXEC)
            with open(spare, "wb", closefd=False) as file:
                file.write(data)
            data, sent = marshal.dumps({"long": 1}, MARSHAL), [spare, *sent]
        self._unsent.append((data, sent))
        if len(self._unsent) == 1:
            self._push()
        if self.gone:
            raise over()

    def _push(self) -> None:
        """Send what waits, as much as the connection takes now."""
        while self._unsent and not self.gone:
            data, sent = self._unsent[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", sent))] if sent else []
            try:
                self._connection.sendmsg([data], rights)
            except OSError as error:
                if error.errno in CROWDED:
                    self._loop.call_later(PAUSE, self._push)
                else:
                    self._lost()
                return
            self._unsent.popleft()
            close_all(sent)

    def _readable(self) -> None:
        try:
            told, received = self._receive()
        except BlockingIOError:
            return
        except OSError:
            self._lost()
            return
        if told is None:
            close_all(received)
            self._lost()
        elif (future := self._waiting.get(told.n)) and not future.done():
            future.set_result((told, received))
        else:
            close_all(received)
            self._note(told)

    def _note(self, told: Told) -> None:
        """A message that nobody waits for."""
        if told.ready:
            if not self.ready.done():
                self.ready.set_result(told.ready)
        elif told.ended and (handle := self._commands.pop(told.ended, None)):
            handle.end_with(told.code)
        elif undo := self._undo.pop(told.n, None):
            if told.error is None:
                undo(told)
        else:
            self._unasked += 1
            if self._unasked > UNASKED:
                self._lost()

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
            told = _read(data)
            if told.long:
                told = _read(_whole(received.pop(0)) if self._waiting else b"")
        except (ValueError, RecursionError, OSError, IndexError) as error:
            close_all(received)
            raise OSError(0, "an unreadable message") from error
        return told, received

    def _lost(self) -> None:
        if self.gone:
            return
        self.gone = True
        self._loop.remove_reader(self._connection)
        self._connection.close()
        for _, sent in self._unsent:
            close_all(sent)
        self._unsent.clear()
        for future in [*self._waiting.values(), self.ready]:
            if not future.done():
                future.set_exception(over())
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
        self.told = False

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
        self.told = self.told or not self._inside.gone
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

    @property
    def lost(self) -> bool:
        """Whether it ended because all of the inside did."""
        return self._inside.gone and not self.told

    def kill(self) -> None:
        """Force its end; nobody waits."""
        self._inside.tell("end", force=True, of=self._number, pid=self.pid)
        self.end_with(ENDED)


def close_all(descriptors: list[int]) -> None:
    """Close them."""
    for descriptor in descriptors:
        os.close(descriptor)


def _read(data: bytes) -> Told:
    return msgspec.convert(
        json.loads(data), Told
    )  # names that are no UTF-8 are halves of pairs, which msgspec's reader refuses


def _terminal(received: list[int]) -> int:
    """The terminal among what came; raises OSError when there is none."""
    if len(received) == 1 and os.isatty(received[0]):
        return received[0]
    close_all(received)
    raise OSError(errno.EIO, "the sandbox gave no terminal")


def _given(variables: Mapping[str, str]) -> dict[str, str]:
    return {_latin(name): _latin(value) for name, value in variables.items()}


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


def over() -> EnvironmentFailure:
    """What to say once all that ran inside is gone."""
    return EnvironmentFailure(
        "the sandbox has ended, and all that ran in it", next="the next command starts a new one in the same folder"
    )
