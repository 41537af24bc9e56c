"""Commands behind walls on this machine: the working folder and a private /tmp can be written, the rest is read-only or hidden.

One sandbox lives as long as the session: bubblewrap builds the walls (`walls.py`) round a small program (`inner.py`) that
starts commands and opens files inside and hands the descriptors out (`spawner.py`). So a command costs a message, not a sandbox,
and no path is ever looked up out here that was meant for in there.
"""

import asyncio
import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from melete.core.environment import Completed, Entry, FileStat, Missing, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import SandboxOptions
from melete.environments import enclosure, files, hiding
from melete.environments.child import Child, Launched, Spec
from melete.environments.content import entry, file_stat, read_from, write_to
from melete.environments.limits import Disk
from melete.environments.network import Network, without_proxies
from melete.environments.rules import Rules
from melete.environments.running import Programs
from melete.environments.shared import SharedFiles
from melete.environments.spawner import Answer, Inside, InsideHandle, Told, close_all, over
from melete.environments.walls import program

TOO_LONG = {-25, 153}
"""How a program ends whose file became too long, by itself and in a shell."""
BIGGEST = 1 << 30
LOOKED_INTO = tuple(f"{top.rstrip('/')}/" for top, depth in hiding.LOOKED_THROUGH if depth > 1)
WEAKER = (
    "Landlock keeps commands in here, and that is less: they have no network and no services, see which processes run and"
    " which names there are, and must use $TMPDIR in place of /tmp"
)


class Sandbox(SharedFiles, Programs):
    """An `Environment` behind walls; it starts with its first use and ends with `aclose`."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.options: SandboxOptions = place.options or SandboxOptions()
        self._home = place.variables.get("HOME", "")
        self._cwd = os.path.realpath(Path(place.cwd).expanduser() if place.cwd else Path.cwd())
        if not Path(self._cwd).is_dir():
            raise FileNotFoundError(self._cwd)
        self.share(place, self._cwd)
        if missing := self.missing(place):
            raise EnvironmentFailure(f"there is no sandbox here: {missing.why}", next=missing.fix)
        self._bwrap = (
            "" if self.options.walls == "landlock" else program(place.variables.get("PATH", ""), cwd=self._cwd)
        )
        self.network = Network(place, self.options, cwd=self._cwd)
        self._enclosure: enclosure.Enclosure | None = None
        self._disk = Disk(self._cwd, self.options.keep_free_mb, full=self._full, busy=lambda: bool(self.running))
        self._notes: list[str] = []
        self._said: set[str] = set()
        self._starting = asyncio.Lock()
        self._given: dict[str, str] = {}

    @property
    def name(self) -> str:
        """`sandbox`."""
        return "sandbox"

    @property
    def cwd(self) -> str:
        """The working folder, absolute; the same path inside and outside."""
        return self._cwd

    @property
    def contained(self) -> bool:
        """Always."""
        return True

    @property
    def offline(self) -> bool:
        """Whether commands have no network."""
        return not self._bwrap or self.options.network == "off"

    def shut(self, *, closed: bool) -> int | None:
        """Refuse every new connection of commands, or no longer; how many were refused so, None where it cannot be done."""
        if not self._bwrap or self.options.network != "allow":
            return None
        self.network.gate.shut = closed
        return self.network.gate.turned_away

    async def give(self, variables: Mapping[str, str]) -> None:
        """Let commands see these variables as well from now on."""
        self._given |= variables
        if self._enclosure is not None:
            await self._enclosure.inside.give(variables)

    @property
    def note(self) -> str:
        """What the model should know."""
        if not self._bwrap:
            return f"Commands run in a sandbox: they may write {self._cwd} and $TMPDIR only and have no network and no /tmp."
        network = {"allow": "reach allowed hosts only", "off": "have no network", "on": "have the network"}
        return (
            f"Commands run in a sandbox: they may write {self._cwd} and /tmp only, and {network[self.options.network]}."
        )

    @staticmethod
    def missing(place: Place) -> Missing | None:
        """Why no walls can be built here, as far as can be told without trying."""
        options: SandboxOptions = place.options or SandboxOptions()
        cwd = place.cwd or str(Path.cwd())
        if options.walls != "landlock" and program(place.variables.get("PATH", ""), cwd=cwd):
            return None
        if options.walls == "bwrap":
            return Missing(why="bubblewrap (bwrap) is not installed", fix="install bubblewrap, or use --env local")
        if enclosure.landlock_abi.load()() >= enclosure.landlock_needed.load():
            return None
        why = "bubblewrap (bwrap) is not installed, and the kernel has no Landlock that would do"
        return Missing(why=why, fix="install bubblewrap, or use --env local")

    async def about(self) -> Mapping[str, Sequence[str]]:
        """What a person should know: what is hidden, shown and writable, and the limits."""
        rules = Rules(self.place, self.options, cwd=self._cwd)
        rows: dict[str, list[str]] = {
            "writable": [],
            "private, and gone at the end": [],
            "hidden": [],
            "shown of it": [],
        }
        headings = {
            "write": "writable",
            "private": "private, and gone at the end",
            "hide": "hidden",
            "read": "shown of it",
        }
        for path, access in (rules.kept if self._bwrap else rules.rows).items():
            rows[headings[access]].append(path)
        options = self.options
        rows["limits"] = [
            f"{options.processes} processes",
            f"{options.file_mb} MB a file",
            f"{options.temp_mb} MB in each private folder",
            f"what runs is ended when the disk has less than {options.keep_free_mb} MB left",
        ]
        rows["network"] = [options.network, *(f"{one} ({one.why})" for one in self._hosts())]
        rows["remarks"] = rules.remarks
        return {heading: lines for heading, lines in rows.items() if lines}

    def _hosts(self) -> Sequence[Any]:
        return self.network.hosts() if self.options.network == "allow" else ()

    async def temp(self) -> str:
        """The private folder for temporary files."""
        return (await self._running()).temp

    async def inside(self) -> Inside:
        """The connection to the program inside, started now if need be; raises EnvironmentFailure."""
        return (await self._running()).inside

    async def _running(self) -> enclosure.Enclosure:
        async with self._starting:
            if self.closed:
                raise EnvironmentFailure("the environment is closed")
            here, found = self._enclosure, enclosure.identity(self._cwd)
            if found is None:
                raise EnvironmentFailure(f"the working folder {self._cwd} does not exist", next="make it again")
            if here and here.folder != found and not here.inside.gone:
                self._notes.append(
                    "the working folder was replaced by another one: the sandbox was started anew, and what ran in it has ended"
                )
            if here is None or here.inside.gone or here.folder != found:
                await self._end()
                here = self._enclosure = await self._start()
            return here

    async def _start(self) -> enclosure.Enclosure:
        if (real := os.path.realpath(self._cwd)) != self._cwd:  # a command of another session may have put a link there
            fix = "start in the folder that you mean"
            raise EnvironmentFailure(f"the working folder {self._cwd} has become a link to {real}", next=fix)
        started = await self._walled()
        try:
            limits = enclosure.limits(self.options, grouped=started.group is not None, apart=not started.own_temp)
            await started.inside.begin(await self._variables(started), **limits)
        except BaseException:
            await started.aclose()
            raise
        self._remark(*started.rules.remarks)
        self._disk.watch()
        return started

    async def _walled(self) -> enclosure.Enclosure:
        if not self._bwrap:
            return await self._start_weaker(enclosure.Refused("bubblewrap (bwrap) is not installed"))
        try:
            return await enclosure.with_bubblewrap(self._bwrap, self.place, self.options, cwd=self._cwd)
        except enclosure.Refused as error:
            if self.options.walls == "bwrap":
                raise
            return await self._start_weaker(error)

    async def _start_weaker(self, first: EnvironmentFailure) -> enclosure.Enclosure:
        """Landlock in place of bubblewrap; where that is refused as well, the first reason is the one to tell."""
        try:
            started = await enclosure.with_landlock(self.place, self.options, cwd=self._cwd)
        except enclosure.Refused:
            if self.options.walls == "landlock":
                raise
            raise first from None
        self._remark(WEAKER if self.options.walls == "landlock" else f"{WEAKER} ({first})")
        return started

    async def _variables(self, started: enclosure.Enclosure) -> dict[str, str]:
        if started.own_temp:
            found = without_proxies(self.place.variables)
            found |= {"TMPDIR": started.temp, "XDG_CACHE_HOME": f"{started.temp}/cache"}
        else:
            found = dict(await self.network.mount(started.inside))
        found |= dict.fromkeys([name for name in hiding.TEMP_VARIABLES if name in found], started.temp)
        return {name: value for name, value in found.items() if name not in hiding.SOCKET_VARIABLES} | self._given

    def _remark(self, *notes: str) -> None:
        """Say something once."""
        self._notes += [note for note in notes if note not in self._said]
        self._said.update(notes)

    def _remarks(self) -> tuple[str, ...]:
        notes, self._notes = self._notes, []
        if self._enclosure and self._enclosure.inside.swept:
            self._enclosure.inside.swept = False
            notes.append(
                f"too many processes ran in the sandbox (at most {self.options.processes}): what earlier commands left was ended"
            )
        return (*notes, *self.network.remarks())

    def _full(self, why: str) -> None:
        """The disk is full: end what runs."""
        self._notes.append(why)
        if self._enclosure:
            self._enclosure.inside.tell("sweep", all=True)
            self._disk.watch()

    async def _lost(self, child: Child) -> EnvironmentFailure | None:
        return over() if isinstance(child.handle, InsideHandle) and child.handle.lost else None

    async def exec(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str = "", timeout: float = 180.0, limit: int = 1_000_000
    ) -> Completed:
        """Run a program to its end or its deadline; `notes` tell of limits that it met."""
        done = await super().exec(argv, stdin=stdin, cwd=cwd, timeout=timeout, limit=limit)
        if done.code not in TOO_LONG:
            return done
        note = f"a program was ended because a file became larger than {self.options.file_mb} MB (sandbox.file_mb)"
        return structs.replace(done, notes=(*done.notes, note))

    async def _launch(self, spec: Spec) -> Launched:
        if any("\0" in argument for argument in spec.argv) or "\0" in spec.cwd:
            raise EnvironmentFailure("a command cannot be started that holds a null byte", next="write it another way")
        inside = await self.inside()
        if not self.running:
            self._disk.hurry()
        spec = structs.replace(spec, cwd=self._path(spec.cwd))
        try:
            return await self._launched(inside, spec)
        except OSError as error:
            found = await self.stat(spec.cwd)
            if found is None or found.kind != "folder":
                what, fix = f"the working folder {spec.cwd} does not exist", "name a folder that exists in the sandbox"
                raise EnvironmentFailure(what, next=fix) from error
            raise EnvironmentFailure(f"{spec.argv[0]} could not be started: {error.strerror}") from error

    async def _launched(self, inside: Inside, spec: Spec) -> Launched:
        try:
            return await inside.start(spec)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
        await inside.ask("sweep", all=False)
        inside.swept = True
        return await inside.start(spec)

    async def read(self, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        """Bytes of a regular file as commands see it."""
        early = self._early(path)
        descriptor = files.opened(early)[0] if early else (await self._descriptor("open", path))[1]
        try:
            found = os.fstat(descriptor)
            files.only_regular(found.st_mode, path)
            if early and os.path.realpath(f"/proc/self/fd/{descriptor}") != early:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)
            if limit < 0 and found.st_size - offset > BIGGEST:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
            return await read_from(descriptor, found.st_size, offset=offset, limit=limit)
        finally:
            os.close(descriptor)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file atomically where commands may write."""
        inside = await self.inside()

        def undo(told: Told) -> None:
            inside.tell("discard", of=told.n)

        told, descriptor = await self._descriptor("write", path, undo=undo)
        try:
            files.only_regular(os.fstat(descriptor).st_mode, path)
            await write_to(descriptor, data)
        except BaseException:
            inside.tell("discard", of=told.n)
            raise
        finally:
            os.close(descriptor)
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
            await self._end()

    async def _end(self) -> None:
        self._disk.rest()
        ended, self._enclosure = self._enclosure, None
        if ended:
            await ended.aclose()
        await self.network.unmount()

    async def _ask(self, do: str, path: str, **fields: Any) -> Answer:
        inside = await self._inside_for(path)
        try:
            told, received = await inside.ask(do, path=self._path(path), **fields)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error  # so that it is of the right kind
        close_all(received)
        return told, []

    async def _descriptor(self, do: str, path: str, **fields: Any) -> tuple[Any, int]:
        inside = await self._inside_for(path)
        try:
            return await inside.descriptor(do, path=self._path(path), **fields)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error

    async def _inside_for(self, path: str) -> Inside:
        if "\0" in path:
            raise ValueError("embedded null byte")
        return await self.inside()

    def _early(self, path: str) -> str:
        """A path in the working folder that can be looked at from out here while nothing runs inside yet; else empty."""
        if self._enclosure is not None or "\0" in path:
            return ""
        real = os.path.realpath(self._path(path))
        if os.getuid() == 0 and real.startswith(
            LOOKED_INTO
        ):  # what is closed there is known after a thorough look alone
            return ""
        if real != self._cwd and not real.startswith(self._cwd.rstrip("/") + "/"):
            return ""
        rules = Rules(self.place, self.options, cwd=self._cwd, thorough=False)
        return real if rules.rows.get(self._cwd) == "write" and rules.access(real) in {"read", "write"} else ""

    def on_host(self, path: str) -> str:
        """The absolute path, the same inside and outside."""
        return self._path(path)

    def _path(self, path: str) -> str:
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        return os.path.normpath(os.path.join(self._cwd, path))  # noqa: PTH118 - pathlib is five times slower
