"""Where skills lie: a shelf is a folder of one origin, each folder in it that holds a SKILL.md a skill. Nothing is parsed."""

import os
import re
import stat
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from melete.core.skill import MAIN, Problem, Root
from melete.security.paths import same_name, within, wrong_name

DEEPEST: Final = 6
IN_PROJECT: Final = 2
"""How deep the `skills` folder of a project is searched, which may hold something else."""
MOST: Final = 50_000
ORDER: Final[Sequence[Root]] = ("user", "bundled", "external", "hub", "project")
"""Whose skill is taken of two with one name and the same trust."""
SKIPPED = frozenset({"node_modules", "__pycache__"})
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class Shelf(Struct, frozen=True, kw_only=True):
    """A folder of skills of one origin; `path` is absolute."""

    kind: Root
    path: str


class Found(NamedTuple):
    """A SKILL.md: its folder below the shelf, its own name, and the stamp that tells whether it has changed."""

    folder: str
    file: str
    stamp: "Stamp"


class Stamp(NamedTuple):
    """When a file was last changed, which nobody can set, and how long it is."""

    changed: int
    size: int


class Tree(NamedTuple):
    """What a walk has found; `folders` are those that hold no SKILL.md themselves, with the time of their last change."""

    found: list[Found]
    folders: dict[str, int]
    problems: list[Problem]


def shelves(wanted: Sequence[Shelf]) -> list[Shelf]:
    """The shelves with links resolved, without those that are, hold or lie in one that came before, and links of a project."""
    kept: list[Shelf] = []
    for shelf in wanted:
        path = os.path.realpath(shelf.path)
        above, name = os.path.split(shelf.path.rstrip("/"))
        led_astray = shelf.kind == "project" and path != f"{os.path.realpath(above).rstrip('/')}/{name}"
        if not led_astray and not any(within(path, one.path) or within(one.path, path) for one in kept):
            kept.append(Shelf(kind=shelf.kind, path=path))
    return kept


def stamp(path: str) -> Stamp | None:
    """The stamp of a regular file that is no link; None for anything else, or nothing."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return Stamp(found.st_ctime_ns, found.st_size) if stat.S_ISREG(found.st_mode) else None


def changed(path: str) -> int:
    """When a folder was last changed; 0 where there is none."""
    try:
        return os.lstat(path).st_ctime_ns
    except (OSError, ValueError):
        return 0


def walk(root: str, *, deepest: int = DEEPEST) -> Tree:
    """Every SKILL.md below a folder, folders of skills not searched further; links are told as problems, never followed."""
    tree = Tree([], {"": changed(root)}, [])
    if not tree.folders[""]:
        return tree
    waiting = [("", 0)]
    while waiting:
        folder, depth = waiting.pop()
        if len(tree.found) + len(tree.folders) > MOST:
            tree.problems.append(
                Problem(path=root, reason=f"it holds more than {MOST:,} folders; the rest is not read")
            )
            break
        here = f"{root}/{folder}" if folder else root
        if found := stamp(f"{here}/{MAIN}"):
            tree.found.append(Found(folder, MAIN, found))
            tree.folders.pop(folder, None)
            continue
        tree.folders[folder] = changed(here)  # before it is listed: what comes meanwhile is seen the next time
        try:
            with os.scandir(here) as entries:
                below = _below(folder, sorted(entries, key=lambda entry: entry.name, reverse=True), tree, root)
        except OSError as error:
            tree.problems.append(Problem(path=here, reason=f"it cannot be read: {error.strerror}"))
            continue
        if depth < deepest:
            waiting += [(one, depth + 1) for one in below]
        elif below and deepest == DEEPEST:
            tree.problems.append(Problem(path=here, reason=f"folders more than {DEEPEST} deep are not searched"))
    return tree


def _below(folder: str, entries: Sequence["os.DirEntry[str]"], tree: Tree, root: str) -> list[str]:
    """The folders to look into; a SKILL.md in other letters makes this one a skill, and there are none."""
    below: list[str] = []
    for entry in entries:
        name, path = entry.name, f"{folder}/{entry.name}" if folder else entry.name
        if name.startswith(".") or name in SKIPPED:
            continue
        if entry.is_symlink():
            if entry.is_dir() or same_name(name) == same_name(MAIN):
                why = "it is a link, which is not followed; name the real folder in skills.external_dirs"
                tree.problems.append(Problem(path=f"{root}/{path}", reason=why))
        elif entry.is_dir():
            if PLAIN.fullmatch(name) or not (why := wrong_name(name)):
                below.append(path)
            else:
                tree.problems.append(Problem(path=ascii(f"{root}/{path}")[1:-1], reason=why))
        elif same_name(name) == same_name(MAIN) and (found := stamp(entry.path)):
            tree.found.append(Found(folder, name, found))
            tree.folders.pop(folder, None)
            return []
    return below
