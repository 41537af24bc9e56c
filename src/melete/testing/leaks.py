"""What a piece of work left behind: processes, namespaces, mounts, descriptors, threads and temporary files. Part `testing`.

    before = leaks.Held.now(folder)
    ...
    assert leaks.left_behind(before) == []

Everything is counted for this process and what descends from it, and mounts where they lie beside `folder` or below it, so that
what others do on the machine does not matter.
Orphans count only where this process adopts them (`PR_SET_CHILD_SUBREAPER`).
"""

import gc
import os
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct

PATIENCE = 5.0
PAUSE = 0.05
KINDS = ("processes", "namespaces", "mounts", "descriptors", "threads", "files")


class Held(Struct, frozen=True, kw_only=True):
    """What this process holds at one moment; `folder` is where its temporary files go."""

    folder: str
    processes: Mapping[str, str] = {}
    namespaces: Mapping[str, str] = {}
    mounts: Mapping[str, str] = {}
    descriptors: Mapping[str, str] = {}
    threads: Mapping[str, str] = {}
    files: Mapping[str, str] = {}

    @classmethod
    def now(cls, folder: Path) -> "Held":
        """Look."""
        processes = _descendants()
        return cls(
            folder=str(folder),
            processes=processes,
            namespaces=_namespaces([str(os.getpid()), *processes]),
            mounts=_mounts(folder.parent),
            descriptors=_descriptors(),
            threads={str(thread.ident): thread.name for thread in threading.enumerate()},
            files={str(path): "" for path in folder.rglob("*")},
        )


def left_behind(before: Held, *, but: Collection[str] = ()) -> list[str]:
    """One line for each thing that is held now and was not `before`; what is just ending is given a few seconds.

    `but` are kinds that do not count, such as `files` where the work is meant to leave some.
    """
    until = time.monotonic() + PATIENCE
    kinds = [kind for kind in KINDS if kind not in but]
    while found := _new(before, Held.now(Path(before.folder)), kinds):
        if time.monotonic() > until:
            break
        gc.collect()  # what is only forgotten is not left behind; in a large process this takes as long as the test
        time.sleep(PAUSE)
    return found


def _new(before: Held, now: Held, kinds: Collection[str]) -> list[str]:
    lines: list[str] = []
    for kind in kinds:
        old: Mapping[str, str] = getattr(before, kind)
        new: Mapping[str, str] = getattr(now, kind)
        lines += [f"{kind}: {name} {new[name]}".rstrip() for name in new if name not in old]
    return lines


def _descendants() -> dict[str, str]:
    """Living processes below this one: pid → command line."""
    parents: dict[str, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:  # it ended while we looked
            continue
        if state not in "ZX":
            parents[entry.name] = parent
    below = {str(os.getpid())}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: _command(pid) for pid in sorted(below - {str(os.getpid())})}


def _mounts(below: Path) -> dict[str, str]:
    """Mounts below a folder, by number and place."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        head, _, tail = line.partition(" - ")
        number, point, kind = head.split()[0], head.split()[4], tail.split()[0]
        if Path(point).is_relative_to(below):
            found[f"{number} {point}"] = kind
    return found


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:  # it ended meanwhile
        return ""


def _namespaces(pids: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pid in pids:
        for entry in Path(f"/proc/{pid}/ns").glob("*"):
            try:
                found[str(entry.readlink())] = ""
            except OSError:  # it ended, or may not be looked at
                continue
    return found


def _descriptors() -> dict[str, str]:
    """Open descriptors of this process, by number and what they lead to."""
    found: dict[str, str] = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found[f"{entry.name} → {entry.readlink()}"] = ""
        except OSError:  # the one that lists them
            continue
    return found
