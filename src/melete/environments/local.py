"""The machine itself: commands as child processes, files as they are. No isolation."""

import asyncio
import errno
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from melete.core.environment import Entry, FileStat, Place
from melete.core.policy import Verdict
from melete.environments import files
from melete.environments.child import Child, Launched, Spec
from melete.environments.content import entry, file_stat, read_from, write_to
from melete.environments.host import launch
from melete.environments.running import CANCEL_GRACE, Programs
from melete.environments.shared import SharedFiles


class LocalEnvironment(SharedFiles, Programs):
    """An `Environment` on this machine. `place.variables` is all that commands see of the environment.

    A program that a command leaves behind on purpose (`server &`) outlives the command and ends with the environment; one
    that made itself a session of its own (`setsid`, a real daemon) is left alone, unless its command runs into its deadline.
    """

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._home = place.variables.get("HOME", "")
        cwd = place.cwd
        self._cwd = self._resolve_from("/", cwd) if cwd.startswith(("/", "~")) else str(Path(cwd).absolute())
        self.share(place, self._cwd)
        self._variables = {os.fsencode(name): os.fsencode(value) for name, value in place.variables.items()}
        self._left: set[int] = set()
        self._temp = ""

    @property
    def name(self) -> str:
        """`local`."""
        return "local"

    @property
    def cwd(self) -> str:
        """The working folder, absolute."""
        return self._cwd

    async def give(self, variables: Mapping[str, str]) -> None:
        """Let commands see these variables as well from now on."""
        self._variables |= {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}

    async def temp(self) -> str:
        """A folder of the system's temporary ones, for the owner alone."""
        if not self._temp:
            self._temp = tempfile.mkdtemp(prefix="melete-")
        return self._temp

    async def about(self) -> Mapping[str, Sequence[str]]:
        """What commands may do here, for people."""
        return {"walls": ["none: commands can do all that you can do on this machine"]}

    async def _launch(self, spec: Spec) -> Launched:
        return launch(structs.replace(spec, cwd=self._path(spec.cwd)), self._variables)

    def _over(self, child: Child) -> None:
        if child.handle.left_some():
            self._left.add(child.pid)

    async def read(self, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        """Bytes of a regular file; raises OSError, for a folder, a FIFO or a device as well."""
        descriptor, size = files.opened(self._path(path))
        try:
            self._need(files.place_of(descriptor), write=False)
            return await read_from(descriptor, size, offset=offset, limit=limit)
        finally:
            os.close(descriptor)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file atomically; its mode and the links that lead to it stay, folders on the way are made."""
        writing = files.Writing(self._path(path))
        try:
            self._need(writing.place, write=True)
            await write_to(writing.descriptor, data)
        except BaseException:
            writing.discard()
            raise
        writing.commit()

    async def stat(self, path: str) -> FileStat | None:
        """What is there, links followed, or None."""
        found = files.described(self._path(path))
        return file_stat(found) if found else None

    async def list(self, path: str) -> Sequence[Entry]:
        """The names in a folder, sorted."""
        return [entry(*row) for row in files.listed(self._path(path))]

    async def remove(self, path: str) -> None:
        """Remove a file, or a link."""
        with files.Held(self._path(path)) as at:
            self._need(at.place, write=True)
            os.unlink(at.name, dir_fd=at.descriptor)

    async def rename(self, path: str, to: str) -> None:
        """Move a file, replacing what is there; folders on the way are made."""
        to = self._path(to)
        Path(to).parent.mkdir(parents=True, exist_ok=True)
        with files.Held(self._path(path)) as old, files.Held(to) as new:
            self._need(old.place, write=True)
            self._need(new.place, write=True)
            os.replace(old.name, new.name, src_dir_fd=old.descriptor, dst_dir_fd=new.descriptor)

    async def aclose(self) -> None:
        """End every program that still runs, those that commands left behind included."""
        await self.end_all()
        self._end_left(signal.SIGTERM)
        until = time.monotonic() + CANCEL_GRACE
        while self._left_alive() and time.monotonic() < until:  # noqa: ASYNC110 - the kernel sets no Event
            await asyncio.sleep(0.01)
        self._end_left(signal.SIGKILL)
        self._left.clear()
        if self._temp:
            await asyncio.to_thread(shutil.rmtree, self._temp, ignore_errors=True)

    def _need(self, place: str, *, write: bool) -> None:
        """Raise PermissionError for what no tool may touch; asked of what is open, a link has no say any more."""
        verdict = self.judge_place(place, write=write) if place else Verdict()
        if verdict.verdict != "allow":
            raise PermissionError(errno.EACCES, verdict.reason, place)

    def on_host(self, path: str) -> str:
        """The absolute path."""
        return self._path(path)

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
