"""What two copies of a folder hold, entry by entry: read from this machine, or told by a shell of another one."""

import fnmatch
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from melete.core.environment import SEALED, Completed
from melete.core.errors import EnvironmentFailure

OURS = ".melete-sync"
"""How the folder in the copy is called that holds what is on its way, each session's own; names that begin so are never copied."""
GUARDED = frozenset({"config", "config.worktree"})
"""What git runs, or reads programs to run from: never taken back from another machine."""
LOST = 3

LIST = """
cd "$1" 2>/dev/null || exit 3
for tool in find stat tar dd; do command -v "$tool" >/dev/null || exit 4; done
token=$2 mark=$3; shift 3
date +%s
[ -d "$mark" ] && echo marked || echo unmarked
if stat -c %f / >/dev/null 2>&1; then how=-c what="$token %f %s %Y|%y|%n"
else how=-f what="$token %Xp %z %m|%Fm|%N"; fi
find . "$@" -exec stat "$how" "$what" {} + 2>/dev/null && whole=whole || whole=partly
echo "$token $whole"
"""


class Found(Struct, frozen=True, kw_only=True):
    """One entry of a folder: `stamp` differs once its content may differ, `time` is that of its last change in whole seconds.

    `fine` says that the time is known to less than a second, so that two changes in one second are told apart.
    """

    kind: Literal["file", "folder", "link"]
    size: int = 0
    mode: int = 0o644
    time: int = 0
    stamp: str = ""
    fine: bool = True


class Listing(Struct, frozen=True, kw_only=True):
    """All entries by relative path, the clock as it was read, and whether what is missing can be taken for removed."""

    entries: Mapping[str, Found]
    now: int = 0
    whole: bool = False


def guarded(path: str, kind: str) -> bool:
    """Whether a program could come to run here through this path by itself: git's hooks and settings, or where it has them."""
    parts = path.casefold().split("/")
    if ".git" not in parts:
        return False
    inside = parts[parts.index(".git") + 1 :]
    if not inside:
        return kind != "folder"
    if inside[0] in {"refs", "logs", "objects"}:
        return False
    return "hooks" in inside or inside[-1] in GUARDED


def here(folder: Path, skip: Sequence[str]) -> dict[str, Found]:
    """What a folder of this machine holds; raises OSError when it cannot be read, entries that vanish are left out."""
    left_out = skipping(skip)
    found: dict[str, Found] = {}
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        for entry in _entries(folder, inside):
            if left_out(entry.name):
                continue
            path = f"{inside}{entry.name}"
            try:
                known = described(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            if known is None:
                continue
            found[path] = known
            if known.kind == "folder":
                waiting.append(path + "/")
    return found


def skipping(skip: Sequence[str]) -> Callable[[str], bool]:
    """Whether an entry of this name is not copied; `*`, `?` and `[…]` stand for what they stand for in a shell."""
    patterns = "|".join(fnmatch.translate(name) for name in (f"{OURS}*", SEALED, *skip))
    matches = re.compile(patterns).fullmatch
    return lambda name: matches(name) is not None


def _entries(folder: Path, inside: str) -> Sequence["os.DirEntry[str]"]:
    try:
        with os.scandir(folder / inside) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        if not inside:
            raise
        return []  # it has vanished since its name was read


def described(found: os.stat_result) -> Found | None:
    """An entry of this machine; None for what is neither file, folder nor link."""
    kind = _kind(found.st_mode)
    if kind is None:
        return None
    return Found(
        kind=kind,
        size=found.st_size,
        mode=stat.S_IMODE(found.st_mode) & 0o777,
        time=int(found.st_mtime),
        stamp=f"{found.st_size} {found.st_mtime_ns} {found.st_ino}",
    )


def listing_argv(folder: str, token: str, mark: str, skip: Sequence[str]) -> list[str]:
    """The command that lists a folder over there, marked by `mark`; `token` is a word that nobody there can know."""
    leave = ["(", "-name", f"{OURS}*"]
    for name in (SEALED, *skip):
        leave += ["-o", "-name", name]
    kinds = ["(", "-type", "f", "-o", "-type", "d", "-o", "-type", "l", ")"]
    return ["sh", "-c", LIST, "sh", folder, token, mark, *leave, ")", "-prune", "-o", *kinds]


def told(done: Completed, token: str, folder: str) -> Listing | None:
    """What that command said; None when the folder is not there, EnvironmentFailure when it could not say."""
    if done.code == LOST:
        return None
    head, *rows = done.output.decode("utf-8", "surrogateescape").split(f"{token} ")
    words = head.split()
    last = rows[-1].strip() if rows else ""
    complete = last in {"whole", "partly"}
    if done.code != 0 or done.dropped or not complete or len(words) != 2 or not words[0].isdigit():  # noqa: PLR2004
        raise EnvironmentFailure(
            f"the files in {folder} could not be listed there",
            kept="nothing was copied or removed",
            next="find, stat, tar and dd must work there",
        )
    entries = dict(row for row in map(_row, rows[:-1]) if row is not None)
    return Listing(entries=entries, now=int(words[0]), whole=words[1] == "marked" and last == "whole")


def _row(row: str) -> tuple[str, Found] | None:
    about, _, path = row.removesuffix("\n").partition("|")
    full, _, path = path.partition("|")
    try:
        mode, size, time = about.split()
        kind = _kind(int(mode, 16))
        whole = int(time)
    except ValueError:
        return None
    path = path.removeprefix("./")
    if kind is None or not honest(path):
        return None
    fine = bool(full.partition(".")[2].split(" ")[0].strip("0"))
    return path, Found(
        kind=kind,
        size=int(size),
        mode=stat.S_IMODE(int(mode, 16)) & 0o777,
        time=whole,
        stamp=f"{size} {full}",
        fine=fine,
    )


def honest(path: str) -> bool:
    """Whether a relative path leads nowhere but below its folder."""
    parts = path.split("/")
    return bool(path) and "\0" not in path and not any(part in {"", ".", ".."} for part in parts)


def _kind(mode: int) -> Literal["file", "folder", "link"] | None:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else None
