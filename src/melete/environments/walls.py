"""The walls of a sandbox as bubblewrap builds them: its arguments, made from the rules."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from melete.core.places import SandboxOptions
from melete.environments.rules import TEMP, Access, Rules, outside

NOTHING = "/dev/null"
SETTINGS_OF_KERNEL = ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/sysrq-trigger")
TINY = "4096"


def program(path: str, *, cwd: str) -> str:
    """Where bubblewrap is; empty where it is not. One in the working folder does not count."""
    trusted = outside(path, cwd)
    return (shutil.which("bwrap", path=trusted) if trusted else None) or ""


def basic(*, network: bool = False) -> list[str]:
    """The arguments that every sandbox has, whatever it shows."""
    argv = ["--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"]
    if network:
        argv.append("--share-net")
    argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for folder in SETTINGS_OF_KERNEL:  # an administrator's command could write them without any privilege
        argv += ["--ro-bind-try", folder, folder]
    return [*argv, "--size", TINY, "--perms", "0700", "--tmpfs", TEMP]


def arguments(rules: Rules, options: SandboxOptions) -> list[str]:
    """The arguments that build the walls; the program to run inside follows."""
    argv = basic(network=options.network == "on")
    size = str(options.temp_mb << 20)
    for path, access in fastened(rules.kept).items():
        if access == "private":
            argv += ["--size", size, "--perms", "0700" if path == rules.home else "1777", "--tmpfs", path]
        elif access == "write":
            argv += ["--bind", path, path]
        elif access == "read":
            argv += ["--ro-bind-try", path, path]
        elif Path(path).is_dir():
            argv += ["--size", TINY, "--perms", "0555", "--tmpfs", path]
        else:
            argv += ["--ro-bind-try", NOTHING, path]
    for name, target in rules.links.items():
        argv += ["--symlink", target, name]
    return [*argv, "--remount-ro", "/dev", "--chdir", "/"]


def fastened(rows: Mapping[str, Access]) -> dict[str, Access]:
    """The rules, and one for each folder between a writable one and what is closed in it.

    Such a folder becomes a mount of its own, which cannot be renamed. Else a command could rename it, and what is closed would
    lie open in the next sandbox, under a name for which there is no rule.
    """
    found = dict(rows)
    for path in rows:
        between: list[str] = []
        for parent in map(str, Path(path).parents):
            if parent in rows:
                for one in between if rows[parent] == "write" else ():
                    found[one] = "write"
                break
            between.append(parent)
    return dict(sorted(found.items(), key=lambda row: (row[0].count("/"), row[0])))


def python() -> list[str]:
    """The interpreter for the program inside, with as little as possible to load."""
    return [str(Path(sys.executable).resolve()), "-S", "-E", "-s", "-B"]
