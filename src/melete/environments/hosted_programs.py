"""A program that was started in the sandbox of a service: its output is asked for piece by piece, its input sent line by line."""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from secrets import token_hex
from typing import Protocol

from melete.core.errors import EnvironmentFailure
from melete.environments import spool
from melete.environments.scripts import Greeting
from melete.environments.service import Gone, Terminal

HOLD = 15.0
"""Seconds that one request is held open: proxies on the way cut those that take a minute."""
QUICK = 30.0
PIECE = 4_000_000
BEHIND = 1 << 50  # more than any output
KILLED = -9
SIGNALS = 128
END_OF_FILE = b"\x04"


class Asked(Protocol):
    """An environment as far as its started programs need it."""

    async def ask(self, script: str, *, seconds: float) -> spool.Reply:
        """Run a script there that does no harm when it runs twice."""
        ...

    async def end(self, run: "Run") -> None:
        """End a program with all that it started."""
        ...

    def over(self, process: "HostedProcess") -> None:
        """Called once for each started program that has ended."""
        ...


class Run:
    """One program there: its folder, and who it is once it has said so."""

    def __init__(self, *, path: str, argv: Sequence[str], cwd: str, kind: str) -> None:
        self.path, self.argv, self.cwd, self.kind = path, argv, cwd, kind
        self.id = token_hex(6)
        self.who: Greeting | None = None

    def greet(self, first: bytes) -> None:
        """Take the first line of its output; raises EnvironmentFailure when it could not be started."""
        self.who = self.who or spool.begun(first, id=self.id, argv=self.argv, cwd=self.cwd)


class HostedProcess:
    """A program with its streams open; see `core.environment.RunningProcess`. One reader at a time waits for output."""

    def __init__(self, env: Asked, run: Run) -> None:
        self._env, self._run = env, run
        self._offset = 0
        self._sent = 0
        self._early = b""
        self._open = True
        self._code: int | None = None
        self._killed = False
        self._all_read = False
        self._reading = asyncio.Lock()
        self._writing = asyncio.Lock()

    @property
    def pid(self) -> int:
        """The process id there."""
        return self._run.who.pid if self._run.who else 0

    async def greeted(self) -> None:
        """Wait until it runs; raises EnvironmentFailure when it could not be started."""
        said = b""
        while b"\n" not in said and (piece := await self._receive()):
            said += piece
        first, _, self._early = said.partition(b"\n")
        self._run.greet(first)

    async def read(self) -> bytes:
        """What it has said since the last call; empty at the end."""
        async with self._reading:
            if self._early:
                data, self._early = self._early, b""
                return data
            return await self._receive()

    async def _receive(self) -> bytes:
        while not self._all_read:
            script = spool.follow(self._run.path, seconds=HOLD, offset=self._offset, most=PIECE)
            try:
                found = spool.followed(await self._env.ask(script, seconds=HOLD + patience(PIECE)))
            except (Gone, spool.Vanished):
                await self.let_go()
                break
            except EnvironmentFailure:
                if self._all_read:
                    break
                raise
            self._offset = found.offset
            if found.code is not None and not found.more:
                self._ended(found.code)
                await self._forget()
            if found.data:
                return found.data
        return b""

    async def _forget(self) -> None:
        self._all_read = True
        try:
            await self._env.ask(spool.forget(self._run.path), seconds=QUICK)
        except EnvironmentFailure:
            return  # the folder goes with the sandbox; the end of the program is known all the same

    def _ended(self, code: int) -> None:
        if self._code is None:
            self._code = SIGNALS - code if self._killed and code > SIGNALS else code
        self._open = False
        self._env.over(self)

    async def write(self, data: bytes) -> None:
        """Send all of `data`, waiting while the program does not take it."""
        async with self._writing:
            for start in range(0, len(data), spool.LINE):
                await self._feed(data[start : start + spool.LINE])

    async def _feed(self, data: bytes) -> None:
        while self._open:
            script = spool.feed(self._run.path, data, sent=self._sent, seconds=HOLD)
            said = (await self._env.ask(script, seconds=HOLD + QUICK)).output.strip()
            if said == b"sent":
                self._sent += 1
                return
            if said != b"busy":
                break
        raise EnvironmentFailure("its standard input is closed")

    async def close_stdin(self) -> None:
        """Close its standard input."""
        async with self._writing:
            if self._open:
                with contextlib.suppress(EnvironmentFailure):  # it is closed already, which is what was wanted
                    await self._feed(b"")
                self._open = False

    async def wait(self) -> int:
        """Its exit status, negative when it was killed; what it said can still be read."""
        while self._code is None:
            try:
                script = spool.follow(self._run.path, seconds=HOLD, offset=BEHIND, most=1)
                code = spool.followed(await self._env.ask(script, seconds=HOLD + QUICK)).code
            except (Gone, spool.Vanished):
                code = KILLED
            except EnvironmentFailure:
                if self._code is None:
                    raise
                break
            if code is not None:
                self._ended(code)
        return self._code

    async def kill(self) -> None:
        """End it and everything that it started."""
        if self._code is not None:
            return
        self._killed = True
        try:
            await self._env.end(self._run)
        except Gone:
            self._ended(KILLED)

    async def let_go(self) -> None:
        """The environment is closed: nothing of it runs any more."""
        self._ended(KILLED)
        self._all_read = True


class HostedTerminal(HostedProcess):
    """A program in a terminal there."""

    def __init__(self, env: Asked, run: Run, terminal: Terminal) -> None:
        super().__init__(env, run)
        self._terminal = terminal

    async def greeted(self) -> None:
        """Wait until it runs: what the terminal shows before the program's first line is no output of it."""
        said, mark = b"", self._run.id.encode() + b" "
        while not (found := re.search(rb"(?:\A|\n|\r)" + re.escape(mark) + rb"([^\n]*)\n", said)):
            piece = await self._terminal.receive()
            if not piece:
                raise EnvironmentFailure("the terminal ended before the program began", next="try again")
            said += piece
        self._early = said[found.end() :]
        self._run.greet(mark + found[1])

    async def _receive(self) -> bytes:
        if self._all_read:
            return b""
        data = await self._terminal.receive()
        if not data:
            await self._collect()
        return data

    async def _collect(self) -> None:
        """Its terminal has ended: ask what became of it."""
        code = KILLED
        try:
            reply = await self._env.ask(spool.follow(self._run.path, seconds=1, offset=0, most=1), seconds=QUICK)
            found = spool.followed(reply).code
            code = KILLED if found is None else found
        except EnvironmentFailure:
            pass  # nobody can tell how it ended any more
        self._ended(code)
        await self._terminal.close()
        await self._forget()

    async def _feed(self, data: bytes) -> None:
        if not self._open:
            raise EnvironmentFailure("its standard input is closed")
        await self._terminal.send(data or END_OF_FILE)

    async def let_go(self) -> None:
        """The environment is closed: let go of the terminal as well."""
        await super().let_go()
        await self._terminal.close()


def patience(size: int) -> float:
    """Seconds that a request with this many bytes may take before the service counts as away."""
    return QUICK + size / 250_000
