"""Commands in a container of Apptainer or Singularity: one instance a session, with the working folder at its own path.

An instance joins commands to its namespaces, and they stay children of this process: so they are watched and ended here, and
nothing has to be asked of the container.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex

import msgspec
from msgspec import Struct, structs

from melete.core.environment import Completed, Missing, Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import ApptainerOptions, SandboxOptions
from melete.environments import scripts, tree
from melete.environments.child import Child, Launched, Spec
from melete.environments.host import launch
from melete.environments.keeper import first_line
from melete.environments.local import LocalEnvironment
from melete.environments.rules import Rules, trusted
from melete.environments.running import Programs

PREFIX = "melete-"
STARTING = 900.0
CALL = 60.0
ANSWER = 60.0
AFTER = 0.5
"""Seconds after which an instance that was stopped is listed no more: its commands end first."""
BY_FORCE = frozenset({255, 137, 143, -9, -15})
VOLUME = re.compile(r"[^:,]+:/[^:,]*(:ro|:rw)?")
INSTALL = "install Apptainer, or choose another environment: melete env list"
MEANINGS: tuple[tuple[str, str, str], ...] = (
    ("no space left", "the disk is full", "free some, or set APPTAINER_CACHEDIR and APPTAINER_TMPDIR to a larger one"),
    ("user namespace", "it needs user namespaces, which are off here", "ask who runs this machine to allow them"),
    ("while pulling", "the image could not be fetched", "pull it by hand and set apptainer.image to the file"),
    ("unable to open", "the image could not be opened", "check apptainer.image"),
    ("could not open image", "the image could not be opened", "check apptainer.image"),
    ("no such file", "something it needs is missing", "check apptainer.image and apptainer.volumes"),
)
LIMITS = re.compile(r"cgroup|systemd|dbus|--memory|--cpus", re.IGNORECASE)
OVERLAY = re.compile(r"overlay", re.IGNORECASE)


class _Named(Struct, frozen=True, kw_only=True):
    instance: str


class _Listed(Struct, frozen=True, kw_only=True):
    instances: tuple[_Named, ...] = ()


class Apptainer(scripts.ScriptedFiles, Programs):
    """An `Environment` in an instance; it starts with its first use and is stopped by `aclose`."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.options: ApptainerOptions = place.options or ApptainerOptions()
        self.place = place
        self._cwd = os.path.realpath(Path(place.cwd).expanduser() if place.cwd else Path.cwd())
        if not Path(self._cwd).is_dir():
            raise FileNotFoundError(self._cwd)
        if missing := self.missing(place):
            raise EnvironmentFailure(missing.why, next=missing.fix)
        _judge(self.options, self._cwd)
        _keep_off(place, self._cwd)
        variables = self._handed()
        self._variables = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
        self._runner = LocalEnvironment(Place(cwd="/", variables=variables))
        self._instance = ""
        self._starting = asyncio.Lock()
        self._notes: list[str] = []

    @staticmethod
    def missing(place: Place) -> Missing | None:
        """Why it would not work here."""
        options: ApptainerOptions = place.options or ApptainerOptions()
        if shutil.which(options.command, path=trusted(place)["PATH"]) is None:
            return Missing(why=f"{options.command} is not installed", fix=INSTALL)
        return None

    @property
    def name(self) -> str:
        """`apptainer`."""
        return "apptainer"

    @property
    def cwd(self) -> str:
        """The working folder, absolute; the same path inside and outside."""
        return self._cwd

    @property
    def note(self) -> str:
        """One sentence for the model."""
        network = "there is no network" if self.options.network == "off" else "it has this machine's network"
        return f"Commands run in a container of {self.options.image}; the working folder is at its own path; {network}."

    async def about(self) -> Mapping[str, Sequence[str]]:
        """What a person should know about it."""
        given = self.options
        return {
            "image": [given.image],
            "network": ["none" if given.network == "off" else "this machine's own"],
            "writable": [self._cwd, *given.volumes],
            "limits": [f"{given.cpus:g} processors", f"{given.memory_mb} MB of memory", "where limits are supported"],
            "afterwards": ["kept in an overlay" if given.keep else "thrown away"],
        }

    # ---- the instance --------------------------------------------------------------------------------------------------

    async def started(self) -> str:
        """The name of the instance, started now if need be; raises EnvironmentFailure."""
        async with self._starting:
            if self.closed:
                raise EnvironmentFailure("the environment is closed")
            if not self._instance:
                await self._sweep()
                self._instance = await self._start()
            return self._instance

    async def _start(self) -> str:
        name = f"{PREFIX}{os.getpid()}-{tree.born(os.getpid()) or 0}-{token_hex(4)}"
        limits, overlay = True, self.options.keep
        while True:
            argv = self._start_words(name, limits=limits, overlay=overlay)
            done = await self._call(argv, timeout=STARTING)
            said = done.output.decode("utf-8", "replace").strip()
            if done.code == 0:
                return name
            if limits and LIMITS.search(said):
                limits = False
                self._notes.append(
                    "the container runs without limits of memory and processors: they are not supported here"
                )
            elif overlay and OVERLAY.search(said):
                overlay = False
                self._notes.append(
                    "what is written outside the working folder is not kept: overlays are not supported here"
                )
            else:
                raise _meant(said, self.options, timed_out=done.timed_out)

    def _start_words(self, name: str, *, limits: bool, overlay: bool) -> list[str]:
        given = self.options
        words = ["instance", "start", "--containall", "--cleanenv", "--bind", f"{self._cwd}:{self._cwd}"]
        for volume in given.volumes:
            words += ["--bind", volume]
        if given.network == "off":
            words += ["--net", "--network", "none"]
        if overlay:
            folder = Path(self.place.scratch) / "apptainer" / re.sub(r"[^A-Za-z0-9_-]", "_", self.place.key or "kept")
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            words += ["--overlay", str(folder)]
        else:
            words.append("--writable-tmpfs")
        if limits:
            words += ["--cpus", f"{given.cpus:g}", "--memory", f"{given.memory_mb}M"]
        words += ["--userns"] if given.userns else []
        return [*words, *given.extra, given.image, name]

    async def _sweep(self) -> None:
        """Stop the instances of agents that were killed."""
        for name in await self._instances():
            pid, _, rest = name.removeprefix(PREFIX).partition("-")
            if name.startswith(PREFIX) and pid.isdigit() and tree.born(int(pid)) != rest.partition("-")[0]:
                await self._call(["instance", "stop", name], timeout=CALL)

    async def _instances(self) -> list[str]:
        done = await self._call(["instance", "list", "--json"], timeout=CALL)
        start = max(done.output.find(b"{"), 0)
        try:
            return [one.instance for one in msgspec.json.decode(done.output[start:], type=_Listed).instances]
        except msgspec.MsgspecError:
            return []

    async def _call(self, words: Sequence[str], *, timeout: float) -> Completed:
        return await self._runner.exec([self.options.command, *words], timeout=timeout)

    async def _gone(self) -> bool:
        name = self._instance
        if not name or name in await self._instances():
            return False
        if name == self._instance:
            self._instance = self._temp_made = ""
        return True

    # ---- commands ------------------------------------------------------------------------------------------------------

    async def _launch(self, spec: Spec) -> Launched:
        cwd = scripts.located(self, spec.cwd)
        for again in (True, False):
            name, id = await self.started(), token_hex(8)
            words = [
                "exec",
                "--cleanenv",
                "--pwd",
                "/",
                f"instance://{name}",
                *scripts.wrapped(spec.argv, cwd=cwd, id=id),
            ]
            argv = [self.options.command, *words]
            launched = launch(structs.replace(spec, argv=argv, cwd="/"), self._variables)
            try:
                async with asyncio.timeout(ANSWER):
                    line = await first_line(launched.out, id)
                if line.startswith(id.encode()) or not (again and await self._gone()):
                    scripts.greeting(line, id=id, argv=spec.argv, cwd=cwd)
                    return launched
            except BaseException as error:
                _abandon(launched)
                if isinstance(error, TimeoutError):
                    raise EnvironmentFailure(
                        "the container does not answer", next="look at it with `apptainer instance list`"
                    ) from error
                raise
            _abandon(launched)
            self._notes.append(
                "the container had ended; this ran in a new one, without what was outside the working folder"
            )
        raise AssertionError("unreachable")

    async def _lost(self, child: Child) -> EnvironmentFailure | None:
        if child.code not in BY_FORCE or self.closed:
            return None
        if not await self._gone():
            await asyncio.sleep(AFTER)
            if not await self._gone():
                return None
        return EnvironmentFailure(
            "the container ended while the command ran",
            kept="files in the working folder are as they were",
            next="the next command starts a container anew",
        )

    def _remarks(self) -> tuple[str, ...]:
        notes, self._notes = tuple(self._notes), []
        return notes

    async def aclose(self) -> None:
        """End everything that runs inside, and stop the instance."""
        await self.end_all()
        async with self._starting:
            name, self._instance = self._instance, ""
            if name:
                await self._call(["instance", "stop", name], timeout=CALL)
            await self._runner.aclose()

    def _handed(self) -> dict[str, str]:
        """The program's own variables, and those for commands under the names by which it hands them on."""
        given = self.place.variables
        passed = {name: given[name] for name in self.options.variables if name in given}
        handed = {f"{kind}ENV_{name}": value for name, value in passed.items() for kind in ("APPTAINER", "SINGULARITY")}
        return {**trusted(self.place), **handed}


def _judge(given: ApptainerOptions, cwd: str) -> None:
    """Refuse what the program would take for something else."""
    if any(letter in cwd for letter in ":,"):
        what = f"the working folder's name holds a colon or a comma, which {given.command} cannot mount: {cwd}"
        raise EnvironmentFailure(what, next="work in a folder with another name")
    if not given.image or given.image.startswith("-"):
        raise EnvironmentFailure(f"apptainer.image is no image: {given.image!r}", next="melete config edit")
    for volume in given.volumes:
        if not VOLUME.fullmatch(volume):
            raise EnvironmentFailure(
                f"apptainer.volumes: {volume!r} is not HERE:THERE or HERE:THERE:ro", next="melete config edit"
            )


def _keep_off(place: Place, cwd: str) -> None:
    """Refuse a working folder in which commands would see what is hidden: it is mounted whole."""
    secrets = Rules(place, SandboxOptions(), cwd=cwd, thorough=False).secrets
    for path in (*map(os.path.realpath, place.hidden), *sorted(secrets)):
        if f"{path}/".startswith(f"{cwd.rstrip('/')}/") and Path(path).exists():
            whose = "secrets" if path in secrets else "Melete's own"
            what = f"the working folder {cwd} has {whose} in it ({path}), which commands must not see"
            raise EnvironmentFailure(what, next="start in another, such as that of a project")


def _meant(said: str, given: ApptainerOptions, *, timed_out: bool) -> EnvironmentFailure:
    lines = [line for line in said.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith("FATAL")] or lines[-1:]
    reason = (
        "no answer in time"
        if timed_out
        else fatal[0].removeprefix("FATAL:").strip()
        if fatal
        else "no reason was given"
    )
    for part, what, fix in MEANINGS:
        if part in said.casefold():
            return EnvironmentFailure(f"the container could not be started, {what}: {reason}", next=fix)
    return EnvironmentFailure(
        f"the container could not be started: {reason}", next=f"`{given.command} exec {given.image} true` shows more"
    )


def _abandon(launched: Launched) -> None:
    for descriptor in {launched.out, launched.stdin} - {-1}:
        os.close(descriptor)
    launched.handle.kill()
