"""An environment round an environment that has no sight of the working folder: the folder is copied there and kept alike.

It is copied with the first use; what changes on either side goes over after each command, every few seconds while one runs,
and at the end.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from melete.core.environment import Completed, Entry, Environment, FileStat, RunningProcess
from melete.core.errors import EnvironmentFailure
from melete.core.places import MADE_AGAIN
from melete.environments.scripts import Runs
from melete.environments.sync import Sync

EVERY = 5.0
log = logging.getLogger("melete.sync")


class Synced:
    """`env` with the folder `here` of this machine copied to its working folder; `throwaway` removes that at the end.

    `memory` is a file that remembers how both were, for a copy that stays until another session, or that a killed one left.

    A round that fails does not fail the command: the note of the next result tells of it, and the next round tries again. When
    the last one fails `aclose` raises EnvironmentFailure.
    """

    def __init__(
        self, env: Environment, here: Path, *, cap_mb: int, skip: Sequence[str] = MADE_AGAIN, throwaway: bool = False,
        memory: Path | None = None,
    ) -> None:  # fmt: skip
        self.env = env
        self.sync: Sync | None = None
        self._here, self._cap, self._skip, self._throwaway = here, cap_mb, skip, throwaway
        self._memory = memory
        self._beginning = asyncio.Lock()
        self._last = 0.0
        self._notes: list[str] = []

    @property
    def name(self) -> str:
        """The name of the environment inside."""
        return self.env.name

    @property
    def cwd(self) -> str:
        """The working folder there."""
        return self.env.cwd

    @property
    def note(self) -> str:
        """One sentence for the model."""
        note: str = getattr(self.env, "note", "")
        return f"{note} The working folder is a copy that is kept like the one here." if note else ""

    async def about(self) -> Mapping[str, Sequence[str]]:
        """What a person should know about it."""
        about: Callable[[], Awaitable[Mapping[str, Sequence[str]]]] | None = getattr(self.env, "about", None)
        told: Mapping[str, Sequence[str]] = await about() if about else {}
        left = ", ".join(self._skip) or "nothing"
        return {**told, "copy": [f"of {self._here}, without {left}, at most {self._cap} MB at a time"]}

    async def temp(self) -> str:
        """A folder there for this session alone; it is not copied."""
        return await self.env.temp()

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str = "",
        timeout: float = 180.0,
        limit: int = 1_000_000,
    ) -> Completed:
        """Run a program there; both copies are alike when it returns, or a note says why they are not."""
        await self._begun()
        running = self.env.exec(argv, stdin=stdin, cwd=cwd, timeout=timeout, limit=limit)
        done = await self._meanwhile(running)
        await self._round()
        notes, self._notes = tuple(self._notes), []
        return structs.replace(done, notes=(*done.notes, *notes))

    async def start(self, argv: Sequence[str], *, cwd: str = "", pty: bool = False) -> RunningProcess:
        """Start a program there; what it changes comes with the next command, or at the end."""
        await self._begun()
        return await self.env.start(argv, cwd=cwd, pty=pty)

    async def read(self, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        """Bytes of a file there."""
        await self._begun()
        return await self.env.read(path, offset=offset, limit=limit)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file there; here it is replaced soon after."""
        await self._begun()
        await self.env.write(path, data)
        await self._soon()

    async def stat(self, path: str) -> FileStat | None:
        """What is there, or None."""
        await self._begun()
        return await self.env.stat(path)

    async def list(self, path: str) -> Sequence[Entry]:
        """The names in a folder there, sorted."""
        await self._begun()
        return await self.env.list(path)

    async def remove(self, path: str) -> None:
        """Remove a file there; here it is removed soon after."""
        await self._begun()
        await self.env.remove(path)
        await self._soon()

    async def rename(self, path: str, to: str) -> None:
        """Move a file there; here it is moved soon after."""
        await self._begun()
        await self.env.rename(path, to)
        await self._soon()

    async def aclose(self) -> None:
        """Take what changed, then end everything. Raises EnvironmentFailure when something could not be taken."""
        try:
            if self.sync is not None:
                await self._finish(self.sync)
        finally:
            await self.env.aclose()

    async def _finish(self, sync: Sync) -> None:
        try:
            report = await sync.finish()
        except EnvironmentFailure as error:
            raise EnvironmentFailure(
                f"what changed in {sync.far.folder} since the last round was not copied back: {error.what}",
                kept="what had come before is here",
                next=f"look into {sync.far.folder} there while it exists",
            ) from error
        self._remember(sync)
        for note in (*self._notes, *report.notes):
            log.warning("%s", note)
        if self._throwaway:
            await self.env.exec(["rm", "-rf", "--", sync.far.folder], cwd="/")
            if self._memory is not None:
                self._memory.unlink(missing_ok=True)

    def _remember(self, sync: Sync) -> None:
        """Write down how both are: a session that is killed writes nothing more."""
        try:
            if self._memory is not None:
                sync.remember(self._memory)
        except OSError as error:
            note = f"it could not be written down which files are on both sides: {error.strerror}"
            if note not in self._notes:
                self._notes.append(note)

    async def _begun(self) -> Sync:
        async with self._beginning:
            if self.sync is not None:
                return self.sync
            there = await self.env.exec(["pwd", "-P"])
            folder = there.output.decode("utf-8", "surrogateescape").removesuffix("\n")
            if there.code != 0 or not folder.startswith("/"):
                raise EnvironmentFailure("the working folder there could not be found out", next="check its settings")
            sync = Sync(self._way(), self._here, folder, cap_mb=self._cap, skip=self._skip)
            if self._memory is not None:
                sync.recall(self._memory)
            pulled, pushed = await sync.round()
            self._notes += [*pulled.notes, *pushed.notes]
            self._last = time.monotonic()
            self.sync = sync
            self._remember(sync)
            return sync

    def _way(self) -> Runs:
        """What the copying goes through."""
        return self.env

    async def _meanwhile(self, running: Awaitable[Completed]) -> Completed:
        """What `running` gives, with rounds while it runs."""
        failure: Exception | None = None
        done: Completed | None = None
        ended = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rounds(ended))
            try:
                done = await running
            except (EnvironmentFailure, OSError, ValueError) as error:
                failure = error
            finally:
                ended.set()
        if done is None:
            raise failure or EnvironmentFailure("the command did not end")
        return done

    async def _rounds(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await ended.wait()
            if not ended.is_set():
                await self._round()

    async def _soon(self) -> None:
        if time.monotonic() - self._last > EVERY:
            await self._round()

    async def _round(self) -> None:
        if self.sync is None:
            return
        try:
            pulled, pushed = await self.sync.round()
            self._notes += [*pulled.notes, *pushed.notes]
            self._remember(self.sync)
        except EnvironmentFailure as error:
            note = f"the working folder could not be kept alike: {error}"
            if note not in self._notes:
                self._notes.append(note)
        self._last = time.monotonic()
