"""Commands on another machine, through the system's own OpenSSH: its config, its keys, its agent, its jump hosts.

One connection lives as long as the session (`keeper.py`) and every command goes through it. Host keys are checked, always:
a machine that is not known, or not the one that was known, is refused with the words that say what to do about it.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex

from msgspec import structs

from melete.core.environment import Entry, Environment, FileStat, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import SshOptions
from melete.environments import scripts
from melete.environments.child import Child, Launched, Spec
from melete.environments.errands import Errands
from melete.environments.host import HostHandle, launch
from melete.environments.keeper import (
    FarHandle,
    Keeper,
    Opened,
    control_folder,
    far_command,
    first_line,
    keep_argv,
    run_command,
)
from melete.environments.parcels import digest_of
from melete.environments.rules import trusted
from melete.environments.running import Programs
from melete.environments.ssh_words import address, why_not
from melete.environments.synced import Synced

HOME = "~"
SHELF = "~/.cache/melete"
"""Where copies of working folders are put on the other machine."""
LONGEST = 120_000
OWN_FAILURE = 255
TRAILING = 1.0
STARTING = 60.0
ALIVE = (15, 3)
"""Seconds of silence after which a connection is asked for a sign of life, and how often before it is given up."""


def open_ssh(place: Place) -> Environment:
    """An environment on another machine, with the working folder copied there when `ssh.sync` says so."""
    given: SshOptions = place.options or SshOptions()
    if not given.sync:
        return Ssh(place)
    here = Path(place.cwd or Path.cwd()).expanduser().resolve()
    if not here.is_dir():
        raise FileNotFoundError(str(here))
    there = given.cwd or f"{SHELF}/{place.key or token_hex(6)}"
    far = Ssh(structs.replace(place, options=structs.replace(given, cwd=there)))
    pair = os.fsencode(f"{address(given)} {there} {here}")
    memory = Path(place.scratch) / "sync" / f"{digest_of([pair])}.json" if place.scratch else None
    skip = (*given.sync_skip, *place.hidden)
    return Synced(far, here, cap_mb=given.sync_mb, skip=skip, throwaway=not given.cwd, memory=memory)


class Ssh(scripts.ScriptedFiles, Programs):
    """An `Environment` on another machine; it connects with its first use.

    `place.variables` are those of ssh itself, whose PATH leads to nothing in the working folder; commands there see their own,
    and those of `ssh.variables`.
    """

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.options: SshOptions = place.options or SshOptions()
        _judge(self.options)
        self._place = place
        variables = trusted(place)
        self._client = shutil.which("ssh", path=variables["PATH"]) or ""
        if not self._client:
            raise EnvironmentFailure("ssh is not installed here", next="install the client of OpenSSH")
        self._variables = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
        self._cwd = self.options.cwd or HOME
        self._folder: Path | None = None
        self._keeper: Keeper | None = None
        self._opened: Opened | None = None
        self._connecting = asyncio.Lock()
        self.errands = Errands(lambda argv: self.start(argv, cwd="/"), scripts.FILE_STEPS)

    @property
    def name(self) -> str:
        """`ssh`."""
        return "ssh"

    @property
    def cwd(self) -> str:
        """The working folder there: `~` for the home until there is a connection."""
        return self._cwd

    @property
    def note(self) -> str:
        """One sentence for the model, the same before and after there is a connection."""
        given = self.options
        folder = given.cwd or "its home folder"
        user = f"{given.user}@" if given.user else ""
        return f"Commands run on another machine, {user}{given.host}, in {folder}; files of this machine are not there."

    async def about(self) -> Mapping[str, Sequence[str]]:
        """What a person should know about it."""
        opened = await self.connected()
        given = self.options
        return {
            "machine": [address(given)],
            "writable": [f"all that the user there can write; the working folder is {opened.cwd}"],
            "network": ["that machine's own"],
            "variables": list(given.variables) or ["none of here"],
        }

    # ---- the connection ----------------------------------------------------------------------------------------------

    async def connected(self) -> Opened:
        """The connection, made now if need be; raises EnvironmentFailure that says why there is none."""
        async with self._connecting:
            if self.closed:
                raise EnvironmentFailure("the environment is closed")
            if self._keeper is None or self._keeper.ended or self._opened is None:
                before, self._opened = self._opened, await self._connect()
                if before is not None and self._keeper is not None:
                    self._keeper.clear(before.folder)
            return self._opened

    async def _connect(self) -> Opened:
        self._drop()
        self._folder = control_folder(tempfile.gettempdir())
        token = token_hex(8)
        command = far_command(keep_argv(token, self.options.cwd, make=self.options.sync))
        argv = [*self._argv("connection"), "-M", "-T", "-o", "ControlPersist=no", "--", self.options.host, command]
        keeper = self._keeper = Keeper(launch(Spec(argv=argv, cwd="/", stdin=None), self._variables), token)
        try:
            opened = await keeper.opened(self.options.connect_seconds + STARTING)
        except BaseException as error:
            self._drop()
            if isinstance(error, TimeoutError):
                raise why_not("no answer in time", self.options) from error
            raise
        if opened is None:
            said = self._said("connection") or keeper.said
            self._drop()
            raise why_not(said, self.options)
        self.home, self._cwd = opened.home, opened.cwd
        return opened

    def _drop(self) -> None:
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _argv(self, log: str) -> list[str]:
        given, (every, times) = self.options, ALIVE
        settings = [
            "BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "LogLevel=ERROR", "EscapeChar=none",
            "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no", "RemoteCommand=none",
            f"ConnectTimeout={given.connect_seconds}", f"ServerAliveInterval={every}", f"ServerAliveCountMax={times}",
        ]  # fmt: skip
        if given.known_hosts:
            known = _word(Path(given.known_hosts).expanduser())
            settings += [f"UserKnownHostsFile={known}", "GlobalKnownHostsFile=/dev/null"]
        if given.key:
            settings += [f"IdentityFile={_word(Path(given.key).expanduser())}", "IdentitiesOnly=yes"]
        argv = [self._client, "-S", f"{self._folder}/c", "-E", f"{self._folder}/{log}"]
        argv += ["-F", str(Path(given.config).expanduser())] if given.config else []
        argv += ["-l", given.user] if given.user else []
        argv += ["-p", str(given.port)] if given.port else []
        return [*argv, *(word for setting in settings for word in ("-o", setting))]

    def _said(self, log: str) -> str:
        if self._folder is None:
            return ""
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / log).read_text("utf-8", "replace").strip()
        return ""

    # ---- commands ----------------------------------------------------------------------------------------------------

    async def _launch(self, spec: Spec) -> Launched:
        opened = await self.connected()
        keeper, id = self._keeper, token_hex(8)
        if keeper is None or self._folder is None:
            raise why_not("", self.options)
        cwd = scripts.located(self, spec.cwd)
        given = self._place.variables
        passed = [f"{name}={given[name]}" for name in self.options.variables if name in given]
        line = run_command(opened, id, passed, scripts.wrapped(spec.argv, cwd=cwd, id=id))
        if len(line) > LONGEST:
            what = f"the command is too long for ssh: {len(line)} bytes as it is sent, and {LONGEST} at most"
            raise EnvironmentFailure(what, next="write it into a file there and run that")
        argv = [*self._argv(id), "-o", "ControlMaster=no", "-tt" if spec.pty else "-T", "--", self.options.host, line]
        carrier = launch(structs.replace(spec, argv=argv, cwd="/"), self._variables)
        near = carrier.handle
        assert isinstance(near, HostHandle)  # noqa: S101 - launch gives no other
        handle = FarHandle(near, keeper, id)
        try:
            said = await self._greeted(handle, carrier.out)
            handle.pid = scripts.greeting(said, id=id, argv=spec.argv, cwd=cwd).pid
        except BaseException as error:
            handle.kill()
            handle.release()
            for descriptor in {carrier.out, carrier.stdin} - {-1}:
                os.close(descriptor)
            self._unlog(id)
            if isinstance(error, TimeoutError):
                raise why_not("no answer in time", self.options) from error
            raise
        return structs.replace(carrier, handle=handle, trailing=TRAILING)

    async def _greeted(self, handle: FarHandle, descriptor: int) -> bytes:
        async with asyncio.timeout(STARTING):
            said = await first_line(descriptor, handle.id)
        if said:
            return said
        raise (
            why_not(self._said(handle.id), self.options) if await handle.keeper.answers() else self._gone(handle.keeper)
        )

    async def _lost(self, child: Child) -> EnvironmentFailure | None:
        handle = child.handle
        if not isinstance(handle, FarHandle) or child.code != OWN_FAILURE or handle.told is not None:
            return None
        if not await handle.keeper.answers():
            return self._gone(handle.keeper)
        said = self._said(handle.id)
        return why_not(said, self.options) if said and handle.told is None else None

    def _gone(self, keeper: Keeper) -> EnvironmentFailure:
        said = self._said("connection").splitlines() if keeper is self._keeper else []
        ended = "no sign of life" if keeper.status is None else f"ssh ended with status {keeper.status}"
        return EnvironmentFailure(
            f"the connection to {self.options.host} was lost ({said[-1] if said else ended})",
            kept="what ran there is ended as soon as that machine notices",
            next="the next command connects again",
        )

    def _over(self, child: Child) -> None:
        if isinstance(child.handle, FarHandle):
            child.handle.release()
            self._unlog(child.handle.id)

    def _unlog(self, id: str) -> None:
        if self._folder is not None:
            (self._folder / id).unlink(missing_ok=True)

    # ---- files: the folder there is known once there is a connection ---------------------------------------------------

    async def temp(self) -> str:
        """A folder there for this session alone; it goes with the connection."""
        return f"{(await self.connected()).folder}/temp"

    async def read(self, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        """Bytes of a regular file; raises OSError."""
        await self.connected()
        return await super().read(path, offset=offset, limit=limit)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file atomically."""
        await self.connected()
        await super().write(path, data)

    async def stat(self, path: str) -> FileStat | None:
        """What is there, or None."""
        await self.connected()
        return await super().stat(path)

    async def list(self, path: str) -> Sequence[Entry]:
        """The names in a folder, sorted."""
        await self.connected()
        return await super().list(path)

    async def remove(self, path: str) -> None:
        """Remove a file, or a link."""
        await self.connected()
        await super().remove(path)

    async def rename(self, path: str, to: str) -> None:
        """Move a file, replacing what is there."""
        await self.connected()
        await super().rename(path, to)

    async def aclose(self) -> None:
        """End all that runs there, remove what was borrowed there, and end the connection."""
        if self.errands and not self.closed:
            await self.errands.aclose()
        await self.end_all()
        async with self._connecting:
            if self._keeper is not None:
                await self._keeper.aclose()
            self._drop()


def _judge(given: SshOptions) -> None:
    """Refuse what ssh would take for something else."""
    for setting, value in (("ssh.host", given.host), ("ssh.user", given.user)):
        if value.startswith("-") or any(letter.isspace() or not letter.isprintable() for letter in value):
            raise EnvironmentFailure(f"{setting} is no name: {value!r}", next="melete config edit")
    if not given.host:
        raise EnvironmentFailure("no machine is set for ssh", next="melete config set ssh.host NAME")


def _word(path: Path) -> str:
    """A path as ssh's own settings take it."""
    return '"' + str(path).replace("%", "%%") + '"'
