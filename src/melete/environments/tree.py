"""The process tree as /proc shows it. Standard library alone, and little of it: the program inside a sandbox uses it as well.

Linux only; elsewhere nothing is found.
"""

import os
import sys

PROC = "/proc"
KILL, TERMINATE = 9, 15
CONTINUE, STOP = (18, 19) if sys.platform == "linux" else (19, 17)
"""Signals by their numbers: the module that names them takes milliseconds to load."""


def pids() -> list[int]:
    """Every process that can be seen."""
    try:
        return [int(name) for name in os.listdir(PROC) if name.isdigit()]
    except OSError:
        return []


def fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty for a process that is gone or dead."""
    try:
        with open(f"{PROC}/{pid}/stat", encoding="utf-8", errors="replace") as file:
            found = file.read().rpartition(")")[2].split()
    except OSError:
        return []
    return [] if not found or found[0] in "ZX" else found


def born(pid: int) -> str:
    """When a process began, in clock ticks since the machine's start; empty for one that is gone. With the pid it is unique."""
    found = fields(pid)
    return found[19] if found else ""


def group_breathes(group: int) -> bool:
    """Whether a group that exists holds more than dead processes that nobody has collected."""
    seen = pids()
    for pid in seen:
        found = fields(pid)
        if found and int(found[2]) == group:
            return True
    return not seen


def descendants(root: int) -> dict[int, str]:
    """What descends from `root` or is in its session but not in its process group: pid → time of birth."""
    parents: dict[int, int] = {}
    rows: dict[int, tuple[int, int, str]] = {}
    for pid in pids():
        found = fields(pid)
        if found:
            parents[pid] = int(found[1])
            rows[pid] = (int(found[2]), int(found[3]), found[19])
    return {
        pid: birth
        for pid, (group, session, birth) in rows.items()
        if group != root and (session == root or _descends(pid, root, parents))
    }


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    seen: set[int] = set()
    while pid > 1 and pid not in seen:
        seen.add(pid)
        pid = parents.get(pid, 0)
        if pid == root:
            return True
    return False


def send(group: int, others: dict[int, str], number: int) -> None:
    """Signal a process group, and those `others` that still are who they were."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass  # it is gone, or not ours any more
    for pid, birth in others.items():
        if born(pid) == birth:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                pass


def ask_to_end(group: int, others: dict[int, str]) -> None:
    """SIGTERM for all of them; what is stopped is woken, since it hears nothing else."""
    send(group, others, TERMINATE)
    send(group, others, CONTINUE)
