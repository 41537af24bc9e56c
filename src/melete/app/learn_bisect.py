"""Which version of a skill broke it: half of those in question is ruled out by each look. Part of the composition root."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct

from melete.app.skill_shelf import noticed
from melete.app.skills import library
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.plugin import Lazy
from melete.core.skill import Version
from melete.learn.lineage import BAD, GOOD, SKIP, Bisect

__all__ = ["ANSWERS", "BAD", "GOOD", "SKIP", "Broken", "bisect"]

_folder: Lazy[Callable[..., AbstractContextManager[str]]] = Lazy("tempfile:TemporaryDirectory")
ANSWERS = (GOOD, BAD, SKIP)
Judge = Callable[[Version, Path, int], str]
"""Says whether the version that lies in a folder is good or bad, or cannot be judged; so many are in question."""


class Broken(Struct, frozen=True, kw_only=True):
    """The first version that is bad, and the last before it that was found good; `tried` counts the looks.

    With any in `left`, it may be one of these as well: they were skipped.
    """

    bad: Version
    good: Version
    tried: int
    diff: str
    left: tuple[Version, ...] = ()


async def bisect(app: Melete, name: str, judge: Judge, *, good: str = "", bad: str = "") -> Broken:
    """The version of a skill that broke it, between one that is good (the first) and one that is bad (the last).

    Each is laid out in a throw-away folder. Raises UsageError where the two are not as they were said to be, ToolError.
    """
    keeper = library(app)
    if name in keeper:
        await noticed(keeper, name)
    known = keeper.versions.history(name)
    if not known and name not in keeper:
        raise UsageError(f"there is no skill {name!r}", next="melete skills list names all")
    first = known.index(keeper.versions.find(name, good)) if good else 0
    last = known.index(keeper.versions.find(name, bad)) if bad else len(known) - 1
    row = [
        one for at, one in enumerate(known[first : last + 1]) if not at or one.version != known[first + at - 1].version
    ]
    if len(row) < 2:  # noqa: PLR2004 - a good one and a bad one
        raise UsageError(f"{name} has no two versions to look between", next=f"see: melete skills history {name}")
    search, tried = Bisect(len(row)), 0

    async def look(at: int) -> str:
        with _folder.load()(prefix="melete-bisect-") as folder:
            place = Path(folder, name)
            await asyncio.to_thread(_lay_out, keeper.versions.tree(row[at]), place)
            return judge(row[at], place, len(search.left))

    for at, wanted in ((len(row) - 1, BAD), (0, GOOD)):
        if (said := await look(at)) != wanted:
            which = "last" if wanted == BAD else "first"
            what = f"the {which} version of {name}, {row[at].version}, is {said}"
            raise UsageError(what, next="mend the check, or name other versions with --good and --bad")
    while (at := search.next) is not None:
        search.told(at, await look(at))
        tried += 1
    suspects = tuple(row[at] for at in search.left)
    before = row[search.left[0] - 1]
    shown = keeper.versions.diff(name, old=before.version, new=row[search.first].version)
    return Broken(bad=row[search.first], good=before, tried=tried + 2, diff=shown, left=suspects[:-1])


def _lay_out(files: dict[str, bytes], folder: Path) -> None:
    for path, data in files.items():
        place = folder / path
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(0o700 if data.startswith(b"#!") else 0o600)
