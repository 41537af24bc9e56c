"""Commands behind walls on this machine: the working folder and a private /tmp can be written, the rest is read-only or hidden.

One sandbox lives as long as the session: bubblewrap builds the walls (`walls.py`) round a small program (`inner.py`) that
starts commands and opens files inside and hands the descriptors out (`spawner.py`). So a command costs a message, not a sandbox,
and no path is ever looked up out here that was meant for in there.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from melete.core.environment import Entry, FileStat, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import SandboxOptions
from melete.environments import files
from melete.environments.child import Launched, Spec
from melete.environments.content import entry, file_stat, read_from, write_to
from melete.environments.running import Programs
from melete.environments.spawner import Answer, Inside, close_all
from melete.environments.walls import CODE, TEMP, Walls, program

STARTING = 10.0


class Sandbox(Programs):
    """An `Environment` behind walls; it starts with its first use and ends with `aclose`."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.options: SandboxOptions = place.options or SandboxOptions()
        self._home = place.variables.get("HOME", "")
        self._cwd = os.path.realpath(Path(place.cwd).expanduser() if place.cwd else Path.cwd())
        if not Path(self._cwd).is_dir():
            raise FileNotFoundError(self._cwd)
        self._bwrap = program(place.variables.get("PATH", ""))
        self._inside: Inside | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()

    @property
    def name(self) -> str:
        """`sandbox`."""
        return "sandbox"

    @property
    def cwd(self) -> str:
        """The working folder, absolute; the same path inside and outside."""
        return self._cwd

    async def temp(self) -> str:
        """The private /tmp."""
        await self.inside()
        return TEMP

    async def inside(self) -> Inside:
        """The connection to the program inside, started now if need be; raises EnvironmentFailure."""
        async with self._starting:
            if self.closed:
                raise EnvironmentFailure("the environment is closed")
            if self._inside is None or self._inside.gone:
                self._end_process()
                self._inside = await self._start()
            return self._inside

    async def _start(self) -> Inside:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        complaints, said = os.pipe()
        try:
            argv = Walls(self.place, self.options, cwd=self._cwd).argv(self._bwrap)
            argv += [os.path.realpath(sys.executable), "-S", "-E", "-s", "-B", f"{CODE}/inner.py", str(theirs.fileno())]
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - it returns at once
                argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", pass_fds=(theirs.fileno(),),
                env={"PATH": self.place.variables.get("PATH", os.defpath)}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            os.close(complaints)
            raise EnvironmentFailure(f"{self._bwrap} could not be started: {error.strerror}") from error
        finally:
            theirs.close()
            os.close(said)
        inside = Inside(ours)
        try:
            async with asyncio.timeout(STARTING):
                await inside.ready
                await inside.give(self.place.variables)
        except (EnvironmentFailure, TimeoutError) as error:
            inside.close()
            self._end_process()
            raise EnvironmentFailure(
                f"the sandbox could not be started: {_said(complaints) or 'no reason was given'}",
                next="melete env check sandbox shows more; --env local runs without walls",
            ) from error
        finally:
            os.close(complaints)
        return inside

    async def _launch(self, spec: Spec) -> Launched:
        inside = await self.inside()
        cwd = self._path(spec.cwd)
        try:
            return await inside.start(structs.replace(spec, cwd=cwd))
        except OSError as error:
            found = await self.stat(cwd)
            if found is None or found.kind != "folder":
                what, fix = f"the working folder {cwd} does not exist", "name a folder that exists in the sandbox"
                raise EnvironmentFailure(what, next=fix) from error
            named = spec.argv[0] if spec.argv else "an empty command"
            raise EnvironmentFailure(f"{named} could not be started: {error.strerror}") from error

    async def read(self, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        """Bytes of a regular file as commands see it."""
        if early := self._early(path):
            descriptor, size = files.opened(early)
            received = [descriptor]
        else:
            told, received = await self._ask("open", path)
            descriptor, size = received[0], told.size
            files.only_regular(os.fstat(descriptor).st_mode, path)
        try:
            return await read_from(descriptor, size, offset=offset, limit=limit)
        finally:
            close_all(received)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file atomically where commands may write."""
        inside = await self.inside()
        told, received = await self._ask("write", path)
        try:
            files.only_regular(os.fstat(received[0]).st_mode, path)
            await write_to(received[0], data)
        except BaseException:
            inside.tell("discard", of=told.n)
            raise
        finally:
            close_all(received)
        await inside.ask("commit", of=told.n)

    async def stat(self, path: str) -> FileStat | None:
        """What is there as commands see it, or None."""
        early = self._early(path)
        found = files.described(early) if early else (await self._ask("describe", path))[0].found
        return file_stat(found) if found else None

    async def list(self, path: str) -> Sequence[Entry]:
        """The names in a folder, sorted."""
        told, _ = await self._ask("list", path)
        return [entry(*row) for row in told.rows]

    async def remove(self, path: str) -> None:
        """Remove a file, or a link."""
        await self._ask("remove", path)

    async def rename(self, path: str, to: str) -> None:
        """Move a file, replacing what is there."""
        await self._ask("move", path, to=self._path(to))

    async def aclose(self) -> None:
        """End everything that runs inside, and the sandbox."""
        await self.end_all()
        async with self._starting:
            if self._inside:
                self._inside.close()
            self._end_process()

    async def _ask(self, do: str, path: str, **fields: Any) -> Answer:
        inside = await self.inside()
        if "\0" in path:
            raise ValueError("embedded null byte")
        try:
            return await inside.ask(do, path=self._path(path), **fields)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error  # so that it is of the right kind

    def _early(self, path: str) -> str:
        """A path in the working folder that can be looked at from out here while nothing runs inside yet; else empty."""
        if self._inside is not None or "\0" in path:
            return ""
        real = os.path.realpath(self._path(path))
        return real if real == self._cwd or real.startswith(self._cwd.rstrip("/") + "/") else ""

    def _path(self, path: str) -> str:
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        return os.path.normpath(os.path.join(self._cwd, path))  # noqa: PTH118 - pathlib is five times slower

    def _end_process(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None


def _said(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    try:
        text = os.read(descriptor, 4_000).decode("utf-8", "replace").strip()
    except BlockingIOError:
        return ""
    return text.splitlines()[-1] if text else ""
