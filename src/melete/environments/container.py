"""The container of one session: made, found again, held and given back.

Its main program reads a pipe that this process holds and ends when the pipe closes. So the container ends with the agent however
the agent ends, and nothing is left to be swept up later.
"""

import asyncio
import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import DockerOptions, SandboxOptions
from melete.environments.child import Child, Spec
from melete.environments.engine import ABSENT, Engine, fetch, meant
from melete.environments.host import launch
from melete.environments.rules import Access, Rules
from melete.environments.walls import NOTHING, fastened

WORKSPACE = "/workspace"
HOME = "/home/agent"
KEY, RECIPE = "melete.key", "melete.recipe"
READY = "melete: ready"
MAIN = f"echo '{READY}'; read -r line"
STARTING = 60.0
STOPPING = 10.0
UNMADE = 2.0
COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
KILLS = re.compile(rb"oom_kill (\d+)")
VOLUME = re.compile(r"([^:]+):(/[^:]*)(:[a-zA-Z,]+)?")
MEGABYTE = 1 << 20
REFUSALS = {
    "image": ABSENT,
    "--storage-opt": re.compile("storage-opt"),
    "--init": re.compile(r"\binit\b.*(not found|no such file)", re.IGNORECASE),
}
OPTIONAL = {"--storage-opt": 2, "--init": 1}
"""What an engine may refuse, and the words that it then does without; the program that collects orphans is often not installed."""
LIMITS_A_DISK = {"btrfs", "zfs", "devicemapper", "xfs"}


class Facts(Struct, frozen=True, kw_only=True):
    """What matters of the engine: who it runs as, and whether it can limit disks."""

    rootless: bool = False
    podman: bool = False
    remapped: bool = False
    selinux: bool = False
    disk: bool = False


class Container:
    """A container that runs as long as it is held."""

    def __init__(
        self, engine: Engine, id: str, held: Child, *, user: str, podman: bool = False, notes: Sequence[str] = ()
    ) -> None:
        self._engine = engine
        self._podman = podman
        self._held = held
        self.id = id
        self.user = user
        self.notes = tuple(notes)
        self._kills = 0

    @property
    def numbered(self) -> bool:
        """Whether its user is a number, which was given a home; a user of the image has its own."""
        return is_numbered(self.user)

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        return self._held.code is not None

    async def ended(self, within: float) -> bool:
        """Whether it ends within so many seconds."""
        await asyncio.wait([self._held.done], timeout=within)
        return self.gone

    async def out_of_memory(self) -> bool:
        """Whether programs were killed since this was asked last because the memory was used up."""
        done = await self._engine.attempt("exec", self.id, "sh", "-c", f"cat {' '.join(COUNTERS)} 2>/dev/null")
        found = KILLS.search(done.output)
        kills = int(found[1]) if found else 0
        more, self._kills = kills > self._kills, max(kills, self._kills)
        return more

    async def kill(self) -> None:
        """End everything in it, by force."""
        await self._engine.attempt("kill", self.id)
        await self.ended(STOPPING)

    def forget(self) -> None:
        """Let go of one that has ended."""
        self._held.close()

    async def give_back(self, *, keep: bool) -> None:
        """Stop it, and throw it away unless it is to be kept."""
        try:
            if keep:
                self._held.close_stdin()
                if not await self.ended(STOPPING):
                    await self._engine("stop", "--time", "1", self.id)
            else:
                if self._podman:  # which waits ten seconds for what it removes to end by itself
                    await self._engine.attempt("kill", self.id)
                await self._engine.attempt("rm", "--force", "--volumes", self.id)
            await self.ended(STOPPING)
        finally:
            self._held.close()


async def facts_of(engine: Engine) -> Facts:
    """Ask the engine; raises EnvironmentFailure when it does not answer."""
    done = await engine.attempt("info", "--format", "{{json .}}")
    said = done.output.decode("utf-8", "replace")
    try:
        found: dict[str, Any] = json.JSONDecoder().raw_decode(said, said.index("{"))[0]
    except ValueError:
        raise meant(said, "the container engine does not answer") from None
    if errors := found.get("ServerErrors"):
        raise meant("\n".join(errors), "the container engine does not answer")
    host: dict[str, Any] = found.get("host") or {}
    security: dict[str, Any] = host.get("security") or {}
    options = " ".join(found.get("SecurityOptions") or ())
    under = {str(found.get("Driver")), *(str(value) for _, value in found.get("DriverStatus") or ())}
    return Facts(
        rootless=bool(security.get("rootless")) or "name=rootless" in options,
        podman="host" in found,
        remapped="name=userns" in options,
        selinux=bool(security.get("selinuxEnabled")) or "name=selinux" in options,
        disk=bool(under & LIMITS_A_DISK),
    )


def user_of(place: Place, options: DockerOptions, facts: Facts) -> str:
    """UID:GID in the container, so that what it writes here belongs to the owner of the working folder."""
    if options.user:
        return options.user
    if facts.rootless and not facts.podman:
        return "0:0"  # root of such an engine is its owner out here
    owner = Path(place.cwd).stat()
    return f"{owner.st_uid}:{owner.st_gid}"


def recipe(place: Place, options: DockerOptions, facts: Facts, *, cwd: str) -> list[str]:
    """The words that make the container, without those that are its own."""
    user = user_of(place, options, facts)
    words = [
        "--interactive",
        "--init",
        "--entrypoint",
        "sh",
        "--user",
        user,
        "--workdir",
        WORKSPACE,
        "--hostname",
        "melete",
    ]
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    if is_root(user):  # what installing programs needs; for others these would be without effect
        words += [word for name in ("CHOWN", "DAC_OVERRIDE", "FOWNER") for word in ("--cap-add", name)]
    # Commands can write to the main program's output: a log of it would fill the disk of here.
    words += ["--log-driver", "none"]
    words += ["--security-opt", "label=disable"] if facts.selinux else []
    words += ["--userns", "keep-id"] if facts.podman and facts.rootless else []
    words += ["--userns", "host"] if facts.remapped else []
    words += {"off": ["--network", "none"], "on": []}.get(options.network, ["--network", options.network])
    words += ["--cpus", str(options.cpus), "--pids-limit", str(options.processes), "--ulimit", "core=0"]
    words += ["--ulimit", "host"] if facts.podman else []  # it would raise others, which fails where less is allowed
    words += ["--memory", f"{options.memory_mb}m", "--memory-swap", f"{options.memory_mb}m"]
    words += ["--ulimit", f"fsize={options.disk_mb * MEGABYTE}"] if options.disk_mb else []
    words += ["--storage-opt", f"size={options.disk_mb}m"] if options.disk_mb and facts.disk else []
    if options.workspace == "mount":
        words += ["--mount", _fields("type=bind", f"source={cwd}", f"target={WORKSPACE}")]
        words += _closing(place, cwd=cwd)
        for path in filter(os.path.isdir, place.shown):
            words += ["--mount", _fields("type=bind", f"source={path}", f"target={path}", "readonly")]
    for volume in options.volumes:
        words += ["--volume", _volume(volume, options)]
    return [*words, "--label", f"{KEY}={place.key}"]


def _closing(place: Place, *, cwd: str) -> list[str]:
    """The words that close what the sandbox closes in its working folder; folders on the way to it become mounts, which cannot
    be renamed."""
    hidden = {path for path in map(os.path.realpath, place.hidden) if Path(path).is_dir()}
    if cwd in hidden:
        raise EnvironmentFailure(f"the working folder {cwd} is Melete's own and hidden", next="start in another")
    rules = Rules(place, SandboxOptions(), cwd=cwd, thorough=False)
    rows: dict[str, Access] = dict(rules.kept) if rules.access(cwd) == "write" else {}
    rows |= dict.fromkeys(hidden.union(filter(os.path.exists, rules.secrets)), "hide")
    base = cwd.rstrip("/")
    rows = {path: access for path, access in rows.items() if path.startswith(f"{base}/") and access != "private"}
    closed = {path for path, access in rows.items() if access == "hide"}
    rows = {path: access for path, access in rows.items() if not closed.intersection(map(str, Path(path).parents))}
    words: list[str] = []
    for path, access in fastened({cwd: "write", **rows}).items():
        target = f"target={WORKSPACE}{path.removeprefix(base)}"
        if access == "hide" and Path(path).is_dir():
            words += ["--mount", _fields("type=tmpfs", target, "tmpfs-size=4096")]
        elif path != cwd:
            source = f"source={NOTHING if access == 'hide' else path}"
            words += ["--mount", _fields("type=bind", source, target, *([] if access == "write" else ["readonly"]))]
    return words


def _volume(volume: str, options: DockerOptions) -> str:
    found = VOLUME.fullmatch(volume)
    if found is None:
        raise EnvironmentFailure(f"docker.volumes: {volume} is no mount", next="write HERE:THERE or HERE:THERE:ro")
    here = os.path.expanduser(found[1])  # noqa: PTH111 - it may be the name of a volume
    if here.startswith("/") and options.host.partition(":")[0] in {"", "unix"} and not Path(here).exists():
        raise EnvironmentFailure(  # the engine would make it, as root
            f"docker.volumes: {here} does not exist", next="make the folder, or take it out of docker.volumes"
        )
    return here + volume[found.end(1) :]


def is_numbered(user: str) -> bool:
    """Whether it is UID:GID in numbers."""
    uid, _, gid = user.partition(":")
    return uid.isdigit() and gid.isdigit()


def is_root(user: str) -> bool:
    """Whether UID:GID is root's."""
    return user.partition(":")[0] in {"0", "root"}


async def open_container(engine: Engine, place: Place, options: DockerOptions, *, cwd: str) -> Container:
    """The container of `place.key`, running: the one that was kept, else a new one. Raises EnvironmentFailure."""
    facts = await facts_of(engine)
    words = recipe(place, options, facts, cwd=cwd)
    user = user_of(place, options, facts)
    mark = hashlib.sha256(msgspec.json.encode([options.image, *words])).hexdigest()[:16]
    notes: list[str] = []
    id = await _kept(engine, place.key, mark) if options.keep else ""
    made = not id
    try:
        if made:
            id = f"melete-{token_hex(8)}"
            words += ["--name", id, "--label", f"{RECIPE}={mark}", *([] if options.keep else ["--rm"])]
            await _made(engine, options.image, words, notes)
            if is_numbered(user) and not is_root(user):
                await _settle(engine, id, user, empty=options.workspace == "none")
        held = await _held(engine, id)
    except BaseException:
        if made:
            await _unmade(engine, id)
        raise
    return Container(engine, id, held, user=user, podman=facts.podman, notes=notes)


async def _kept(engine: Engine, key: str, mark: str) -> str:
    """The container that was kept for this session; one that was made in another way is thrown away."""
    ours = ["--quiet", "--no-trunc", "--filter", f"label={KEY}={key}"]
    alike = ["--filter", f"label={RECIPE}={mark}"]
    found = (await engine("ps", "--all", *ours, *alike)).split()
    for id in (await engine("ps", "--all", *ours)).split():
        if id not in found[:1]:
            await engine("rm", "--force", "--volumes", id)
    for id in (await engine("ps", *ours, *alike)).split():  # whoever held it is gone
        await engine("stop", "--time", "0", id)
    return found[0] if found else ""


async def _made(engine: Engine, image: str, words: Sequence[str], notes: list[str]) -> None:
    call = ["create", "--pull", "never", *words, image, "-c", MAIN]
    refused = set[str]()
    while True:
        done = await engine.attempt(*call)
        said = done.output.decode("utf-8", "replace")
        if not done.code and not done.timed_out:
            return
        why = next((name for name, pattern in REFUSALS.items() if pattern.search(said) and name not in refused), "")
        refused.add(why)
        if why == "image":
            await fetch(engine, image)
            notes.append(f"the image {image} was fetched first")
        elif why in call:
            at = call.index(why)
            del call[at : at + OPTIONAL[why]]
        else:
            raise meant(said, "the container could not be made")


async def _unmade(engine: Engine, id: str) -> None:
    """Throw away a container whose start was given up; the engine may still be making it, though nobody waits for it."""
    until = asyncio.get_running_loop().time() + UNMADE
    while True:
        done = await engine.attempt("rm", "--force", "--volumes", id)
        said = done.output.strip().lower()
        if (said and b"no such container" not in said) or asyncio.get_running_loop().time() > until:
            return
        await asyncio.sleep(0.1)


async def _settle(engine: Engine, id: str, user: str, *, empty: bool) -> None:
    """Give the user a home and a name in the container, and a working folder where none is mounted."""
    uid, _, gid = user.partition(":")
    names = await engine.attempt("cp", f"{id}:/etc/passwd", "-")
    pile = io.BytesIO()
    with tarfile.open(fileobj=pile, mode="w") as tar:
        for name in (HOME, WORKSPACE) if empty else (HOME,):
            folder = tarfile.TarInfo(name.lstrip("/"))
            folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o700, int(uid), int(gid)
            tar.addfile(folder)
        if not names.code and (known := _passwd(names.output)) and f":{uid}:".encode() not in known:
            line = f"agent:x:{uid}:{gid}:agent:{HOME}:/bin/sh\n".encode()
            file = tarfile.TarInfo("etc/passwd")
            file.mode, file.size = 0o644, len(known) + len(line)
            tar.addfile(file, io.BytesIO(known + line))
    await engine("cp", "-", f"{id}:/", stdin=pile.getvalue())


def _passwd(archive: bytes) -> bytes:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            file = tar.extractfile("passwd")
            return file.read() if file else b""
    except (tarfile.TarError, KeyError):
        return b""  # an image without names: commands run under a number


async def _held(engine: Engine, id: str) -> Child:
    said: list[bytes] = []
    heard = asyncio.Event()
    up = False

    def take(data: bytes) -> None:
        if not up:  # commands can write there as well, without end
            said.append(data)
            heard.set()

    variables: Mapping[bytes, bytes] = {
        os.fsencode(name): os.fsencode(value) for name, value in engine.variables.items()
    }
    spec = Spec(argv=engine.argv("start", "--attach", "--interactive", id), cwd="/", stdin=None)
    child = Child(launch(spec, variables), take)
    child.done.add_done_callback(lambda _: heard.set())
    try:
        async with asyncio.timeout(STARTING):
            while READY.encode() not in b"".join(said) and child.code is None:
                heard.clear()
                await heard.wait()
    except BaseException as error:
        child.close()
        if not isinstance(error, TimeoutError):
            raise
        what = f"the container did not start within {STARTING:.0f} seconds"
        raise EnvironmentFailure(what, next="melete env check docker shows more") from error
    up = True
    if child.code is not None and READY.encode() not in b"".join(said):
        child.close()
        raise meant(b"".join(said).decode("utf-8", "replace"), "the container could not be started")
    return child


def _fields(*fields: str) -> str:
    return ",".join('"' + field.replace('"', '""') + '"' if set(field) & {",", '"'} else field for field in fields)
