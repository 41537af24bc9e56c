"""Skills as they were at an earlier time, laid out in a folder of their own from what is kept of their versions.

What lies in a home without a history counts as long as its files are older than the time. Nothing in the home is changed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from melete.core.skill import Version
from melete.core.tool import ToolError
from melete.skills.folders import walk
from melete.skills.standing import ROOTS
from melete.skills.versions import FOUND, STATE, VERSION, Tree, tree_of, version_of_tree
from melete.skills.without import NOTHING, Step, steps

OWN: Final = ("user", "bundled", "hub")
PRIVATE, RUNS = 0o600, 0o700


def lay_out(
    rows: Sequence[Mapping[str, Any]], until: int, *, at: datetime, now: Path, to: Path, tree: Callable[[Version], Tree]
) -> list[str]:
    """Put the skills of the home's folder `now` into the folder `to` as they were when the ledger ended with the fact `until`.

    Returns the names of those of which nobody knows whether they were there. Raises OSError, StorageError.
    """
    told = {str(row["skill"]) for row in rows if row["kind"] in (VERSION, STATE)}
    known = {name: steps(rows, name) for name in told}
    places = {(root, name): place for root in OWN for name, place in _placed(now / root)}
    unknown: list[str] = []
    for root, name in dict.fromkeys((*places, *_roots(known))):
        place = places.get((root, name))
        before = [step for step in known.get(name, ()) if step.number <= until]
        files: Tree | None
        if before:
            made = before[-1].made
            files = tree(made) if made and ROOTS.get(made.owner, "hub") == root else NOTHING
        else:
            there = now / root / place / name if place is not None else None
            files = _untold(known.get(name, ()), there, at=at, bundled=root == "bundled", tree=tree)
            unknown += [name] if files is None else []
        _put(to / root / (place or "") / name, files or {})
    return sorted(unknown)


def _placed(shelf: Path) -> Iterator[tuple[str, str]]:
    """The skills on a shelf by the names of their folders, each with the category that it lies in."""
    for found in walk(str(shelf)).found:
        category, _, name = found.folder.rpartition("/")
        yield name, category


def _roots(known: Mapping[str, Sequence[Step]]) -> Iterator[tuple[str, str]]:
    for name, told in known.items():
        yield from {(ROOTS.get(step.made.owner, "hub"), name) for step in told if step.made}


def _untold(
    later: Sequence[Step], place: Path | None, *, at: datetime, bundled: bool, tree: Callable[[Version], Tree]
) -> Tree | None:
    """The files of a skill of which nothing was told by then; None where nobody knows whether it was there, and how."""
    first = later[0] if later else None
    if first and not (first.made and (bundled or first.reason == FOUND)):
        return NOTHING  # it was made later
    if bundled and first and first.made:
        return tree(first.made)
    try:
        files = tree_of(place) if place else None
    except ToolError:
        return None
    if bundled or files is None or place is None:
        return files
    old = _newest(place, files) <= at.timestamp()
    same = not first or not first.made or first.made.version == version_of_tree(files)
    return files if old and same else None if first else NOTHING


def _newest(place: Path, files: Tree) -> float:
    """When the last of these files was changed."""
    return max((path.stat().st_mtime for one in files if (path := place / one).exists()), default=0.0)


def _put(folder: Path, files: Tree) -> None:
    for path, data in files.items():
        place = folder / path
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(RUNS if data.startswith(b"#!") else PRIVATE)
