"""Starts the program inside a sandbox, behind walls of either kind, and ends it with everything that runs there."""

import asyncio
import contextlib
import functools
import json
import marshal
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from msgspec import Struct

from melete.core.environment import Place
from melete.core.errors import EnvironmentFailure
from melete.core.places import SandboxOptions
from melete.core.plugin import Lazy
from melete.environments import seccomp, tree
from melete.environments.grants import granted
from melete.environments.limits import Group
from melete.environments.rules import TEMP, Rules
from melete.environments.spawner import Inside, close_all
from melete.environments.walls import arguments, python

STARTING = 10.0
ENDING = 2.0
MEGABYTE = 1 << 20
OWN_LIMITS_SINCE = (5, 14)
"""From this kernel on a user's processes are counted for each sandbox and not for all that the user runs."""
PARTS = ("files", "tree", "landlock", "inner")
"""What the program inside is made of, in the order in which it is loaded; Landlock's part where it is needed."""
BOOT = """
import marshal, sys
kind, connection, code = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
package = sys.modules["melete"] = sys.modules["melete.environments"] = type(sys)("melete")
package.environments = package
with open(code, "rb") as file:
    parts = marshal.load(file)
for name, part in parts.items():
    module = sys.modules["melete.environments." + name] = type(sys)(name)
    setattr(package, name, module)
    exec(part, module.__dict__)
package.inner.main(connection, package.landlock.restrict if kind == "landlock" else None)
"""
"""Loads the parts from compiled code: nothing is looked up, and nothing compiled, in the time that a first command waits."""
landlock_abi: Lazy[Callable[[], int]] = Lazy("melete.environments.landlock:abi")
landlock_needed: Lazy[int] = Lazy("melete.environments.landlock:NEEDED")


class Refused(EnvironmentFailure):
    """The walls could not be built here, and would not the next time."""


class Enclosure:
    """A sandbox that runs: `inside` talks to it; `temp` is its private folder for temporary files, a path in there."""

    def __init__(self, process: "subprocess.Popen[bytes]", inside: Inside, *, rules: Rules) -> None:
        self.inside = inside
        self.rules = rules
        self.temp = TEMP
        self.folder = identity(rules.cwd)
        self.own_temp = ""
        self.group: Group | None = None
        self.first = -1
        """A handle on the program inside; -1 where the started process is that itself."""
        self._process = process

    async def aclose(self) -> None:
        """End everything that runs inside; returns when it is gone."""
        self.inside.close()
        if self.own_temp:  # no wall ends these processes with the first: it ends them when the connection is closed
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, ENDING)
        _kill(self._process)
        if self.first >= 0:
            await _readable(self.first, ENDING)
            os.close(self.first)
            self.first = -1
        if self.group:
            await self.group.aclose()
        if self.own_temp:
            await _none_left(f"TMPDIR={self.own_temp}".encode())
            await asyncio.to_thread(shutil.rmtree, self.own_temp, ignore_errors=True)


class _Begun(Struct, frozen=True, kw_only=True):
    """A process on its way, and what is held until it is up."""

    process: Any
    inside: Inside
    complaints: int


async def with_bubblewrap(bwrap: str, place: Place, options: SandboxOptions, *, cwd: str) -> Enclosure:
    """Start one behind walls of bubblewrap; raises EnvironmentFailure, Refused where it cannot build them."""
    rules = Rules(place, options, cwd=cwd)
    information, told = os.pipe()
    opened = [told]
    try:
        argv = [bwrap, *arguments(rules, options), "--info-fd", str(told)]
        if filter_ := seccomp.program():
            opened.append(_held(filter_))
            argv += ["--seccomp", str(opened[-1])]
        begun = _begin([*argv, *python()], place, hand_over=opened)
        close_all(opened)
        opened.clear()
        opened.append(begun.complaints)
        return await _enclosed(begun, information, rules=rules, group=_group(options))
    finally:
        close_all([information, *opened])


async def _enclosed(begun: "_Begun", information: int, *, rules: Rules, group: Group | None) -> Enclosure:
    """The enclosure once it is up; it is counted in its group meanwhile, which the kernel takes its time for."""
    enclosure = Enclosure(begun.process, begun.inside, rules=rules)
    enclosure.group = group
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_ready(begun))
            tasks.create_task(_counted(enclosure, information))
    except ExceptionGroup as failed:
        await enclosure.aclose()
        raise failed.exceptions[0] from None
    except BaseException:
        await enclosure.aclose()
        raise
    return enclosure


async def _counted(enclosure: Enclosure, information: int) -> None:
    """Get hold of the first process inside, and put it into its group."""
    os.set_blocking(information, False)
    told = b""
    while not told.endswith(b"}\n"):  # it comes in pieces
        await _readable(information, STARTING)
        try:
            piece = os.read(information, 4_000)
        except BlockingIOError:  # nothing came in all that time
            piece = b""
        if not piece:
            break  # bubblewrap has failed, and says why elsewhere
        told += piece
    else:
        pid = json.loads(told)["child-pid"]
        with contextlib.suppress(ProcessLookupError):
            enclosure.first = os.pidfd_open(pid)
        if enclosure.group and not await asyncio.to_thread(enclosure.group.add, pid):
            await enclosure.group.aclose()
            enclosure.group = None


async def with_landlock(place: Place, options: SandboxOptions, *, cwd: str) -> Enclosure:
    """Start one that walls itself in; raises EnvironmentFailure, Refused where the kernel cannot do that."""
    if not seccomp.program() or landlock_abi.load()() < landlock_needed.load():
        raise Refused("the kernel has no Landlock that would do (Linux 6.2 or later)", next="use --env local or docker")
    rules = Rules(place, options, cwd=cwd)
    temp = tempfile.mkdtemp(prefix="melete-")
    try:
        begun = _begin(python(), place, kind="landlock")
        try:
            await _ready(begun)
        finally:
            os.close(begun.complaints)
        enclosure = Enclosure(begun.process, begun.inside, rules=rules)
        enclosure.temp = enclosure.own_temp = temp
        enclosure.inside.terminals_outside = True
        group = _group(options)
        if group and group.add(begun.process.pid):
            enclosure.group = group
        try:
            filter_ = seccomp.program(alone=begun.process.pid).hex()
            await enclosure.inside.ask("restrict", grants=granted(rules, temp), filter=filter_)
        except OSError as error:
            await enclosure.aclose()
            raise Refused(f"Landlock refused its rules: {error.strerror}", next="use --env local or docker") from error
    except BaseException:
        shutil.rmtree(temp, ignore_errors=True)
        raise
    return enclosure


def limits(options: SandboxOptions, *, grouped: bool, apart: bool) -> dict[str, int]:
    """The limits that the program inside sets for its commands and watches; 0 is none.

    `apart` says that its processes are counted apart from all others of the user.
    """
    own = os.getuid() != 0 and (not apart or _kernel() >= OWN_LIMITS_SINCE)
    return {
        "file": options.file_mb * MEGABYTE,
        "most": options.processes,
        "processes": options.processes + (0 if apart else _running_already()) if own else 0,
        "watched": 0 if own or grouped else options.processes,
    }


def identity(folder: str) -> tuple[int, int] | None:
    """What tells a folder from another one of the same name; None when it is gone."""
    try:
        found = os.stat(folder)  # noqa: PTH116 - asked before every command
    except OSError:
        return None
    return found.st_dev, found.st_ino


@functools.cache
def _code(names: tuple[str, ...]) -> bytes:
    """The compiled parts of the program inside."""
    paths = {name: str(Path(__file__).with_name(f"{name}.py")) for name in names}
    return marshal.dumps({name: SourceFileLoader(name, path).get_code(name) for name, path in paths.items()})


def _begin(argv: Sequence[str], place: Place, *, hand_over: Sequence[int] = (), kind: str = "bwrap") -> _Begun:
    code = _held(_code(tuple(name for name in PARTS if name != "landlock" or kind == "landlock")))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    complaints, said = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - it returns at once
            [*argv, "-c", BOOT, kind, str(theirs.fileno()), str(code)], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            cwd="/", pass_fds=(theirs.fileno(), code, *hand_over), env={"PATH": place.variables.get("PATH", os.defpath)},
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        ours.close()
        os.close(complaints)
        raise Refused(f"{argv[0]} could not be started: {error.strerror}") from error
    finally:
        theirs.close()
        close_all([said, code])
    return _Begun(process=process, inside=Inside(ours), complaints=complaints)


async def _ready(begun: _Begun) -> None:
    """Wait until it is up; when that fails nothing is left of it."""
    up = False
    try:
        async with asyncio.timeout(STARTING):
            await begun.inside.ready
        up = True
    except TimeoutError as error:
        raise EnvironmentFailure(
            f"the sandbox was not up after {STARTING:.0f} seconds", next="try again when the machine is less busy"
        ) from error
    except EnvironmentFailure as error:
        raise Refused(
            f"the sandbox could not be started: {_said(begun.complaints) or 'no reason was given'}",
            next="melete env check sandbox shows more; --env local runs without walls",
        ) from error
    finally:
        if not up:
            begun.inside.close()
            _kill(begun.process)


def _group(options: SandboxOptions) -> Group | None:
    """A control group for an administrator's sandbox, where that is possible."""
    if os.getuid() != 0:
        return None
    return Group.made(options.processes + 1)


def _running_already() -> int:
    """How many threads this user runs."""
    count = 0
    for pid in tree.pids():
        with contextlib.suppress(OSError):  # it ended while we looked
            tasks = os.stat(f"/proc/{pid}/task")  # noqa: PTH116 - hundreds of them
            count += max(tasks.st_nlink - 2, 1) if tasks.st_uid == os.getuid() else 0
    return count


async def _none_left(mark: bytes) -> None:
    """Kill what outlived the program inside, which somebody else has killed: all whose variables still show whose they are."""
    loop = asyncio.get_running_loop()
    until = loop.time() + ENDING
    while found := [pid for pid in tree.pids() if mark in _variables_of(pid)]:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if loop.time() > until:
            return
        await asyncio.sleep(0.002)


def _variables_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or is not ours
        return b""


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End bubblewrap, and with it what it has begun: a child that still waits for its first word would wait for ever."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def _readable(descriptor: int, seconds: float) -> None:
    """Wait until a descriptor can be read; that of a process can once it has ended, and with the first of a sandbox all others."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: ready.done() or ready.set_result(None))
    try:
        await asyncio.wait([ready], timeout=seconds)
    finally:
        loop.remove_reader(descriptor)


def _held(data: bytes) -> int:
    """A descriptor from which `data` can be read."""
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit())


def _said(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    try:
        text = os.read(descriptor, 4_000).decode("utf-8", "replace").strip()
    except BlockingIOError:
        return ""
    return text.splitlines()[-1] if text else ""
