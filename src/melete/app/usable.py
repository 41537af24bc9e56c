"""Which walls a sandbox has on this machine: tried once, remembered until something changes. Part of the composition root."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal, cast

from msgspec import Struct

from melete.app.settings import Loaded
from melete.core.plugin import Lazy

TRYING = 5.0
SWITCHES = (
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/user/max_user_namespaces",
)
"""Settings of the kernel that forbid bubblewrap its work."""
_program: Lazy[Callable[..., str]] = Lazy("melete.environments.walls:program")
_walls: Lazy[Callable[[], list[str]]] = Lazy("melete.environments.walls:basic")
_landlock: Lazy[Callable[[], int]] = Lazy("melete.environments.landlock:abi")
_landlock_needed: Lazy[int] = Lazy("melete.environments.landlock:NEEDED")


class Usable(Struct, frozen=True, kw_only=True):
    """The best walls that can be had, none where `walls` is empty; `reason` is why they are not bubblewrap's, half a sentence."""

    walls: Literal["bwrap", "landlock", ""]
    reason: str = ""


def why_no_sandbox(loaded: Loaded) -> str:
    """Empty where a sandbox works; else the reason, in half a sentence."""
    found = usable_walls(loaded)
    return "" if found.walls else found.reason


def usable_walls(loaded: Loaded) -> Usable:
    """What works here; takes a few milliseconds the first time, and no time later unless nothing works."""
    if sys.platform != "linux":
        return Usable(walls="", reason="it needs Linux")
    wanted = loaded.settings.sandbox.walls
    program = _found(loaded.environ.get("PATH", ""))
    stamp = _stamp(program, wanted)
    note = loaded.home.state / "sandbox-works"
    try:
        known = note.read_text().split("\n", 2)
    except (OSError, UnicodeDecodeError):  # not tried yet
        known = []
    if len(known) == 3 and known[0] == stamp and known[1] in {"bwrap", "landlock"}:  # noqa: PLR2004
        return Usable(walls=cast("Literal['bwrap', 'landlock']", known[1]), reason=known[2])
    found = _tried(program, wanted)
    if found.walls and note.parent.is_dir():  # looking makes no home
        with contextlib.suppress(OSError):  # it will be tried again
            note.write_text(f"{stamp}\n{found.walls}\n{found.reason}")
    return found


def _found(path: str) -> str:
    """Bubblewrap, but none that lies in the folder in which this was started: what is tried runs without walls."""
    try:
        return _program.load()(path, cwd=os.getcwd())  # noqa: PTH109 - it is only looked at
    except FileNotFoundError:  # the folder is gone, which is told when a place is opened
        return _program.load()(path, cwd="/")


def _tried(program: str, wanted: str) -> Usable:
    reason = "sandbox.walls is landlock" if wanted == "landlock" else _why_no_bubblewrap(program)
    if not reason:
        return Usable(walls="bwrap")
    if wanted != "bwrap" and _landlock.load()() >= _landlock_needed.load():
        return Usable(walls="landlock", reason=reason)
    return Usable(walls="", reason=reason)


def _why_no_bubblewrap(program: str) -> str:
    if not program:
        return "bubblewrap (bwrap) is not installed"
    argv = [program, *_walls.load()(), "true"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=TRYING, check=False, stdin=subprocess.DEVNULL)  # noqa: S603
    except subprocess.TimeoutExpired:
        return f"bubblewrap was not done after {TRYING:.0f} seconds"
    except OSError as error:
        return f"bubblewrap could not be started: {error.strerror}"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip()
    return said.splitlines()[-1] if said else "bubblewrap failed"


def _stamp(program: str, wanted: str) -> str:
    """What the result depends on, in one line."""
    try:
        changed = Path(program).stat().st_mtime_ns if program else 0
    except OSError:
        changed = 0
    kernel = os.uname()
    switches = ",".join(_value(path) for path in SWITCHES)
    return f"{program} {changed} {kernel.release} {os.getuid()} {switches} {wanted}"


def _value(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:  # this kernel has no such switch
        return ""
