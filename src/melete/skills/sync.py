"""The skills that come with Melete, copied into the home and kept up to date there. What a person made of them stays.

The manifest holds, for each skill that was ever copied, what it was then: so an edit, a skill that was removed and one that is
merely old can be told apart. When the package has not changed since, nothing but its folder is looked at.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from melete.core.errors import StorageError
from melete.core.skill import Version
from melete.core.tool import ToolError
from melete.skills.folders import SKIPPED, walk
from melete.skills.manage import Keeper
from melete.skills.place import ConflictError, alone, held, put_tree, recover
from melete.skills.versions import Tree, diff, put_file, tree_of, version_of_tree

SOURCE: Final = Path(__file__).parent / "bundled"
MANIFEST: Final = ".bundled_manifest"
MARKER: Final = ".no-bundled-skills"
PATIENCE: Final = 5.0
"""Seconds to wait for another process that changes skills."""


class Synced(Struct, frozen=True, kw_only=True):
    """What a sync did, by names: copied, brought up to date, left as somebody edited them, left removed, no longer packaged."""

    new: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class Bundled:
    """The packaged skills in `source`, and their copies below the folder `skills` of a home; `version` is the package's."""

    def __init__(self, skills: Path, *, lock: Path, version: str, off: bool = False, source: Path = SOURCE) -> None:
        self._shelf = skills / "bundled"
        self._manifest = skills / MANIFEST
        self._marker = skills / MARKER
        self._lock = lock
        self._version = version
        self._off = off
        self._source = source

    @property
    def off(self) -> bool:
        """Whether the person wants none: nothing is copied or updated, and what is there stays."""
        return self._off or self._marker.exists()

    def opt(self, *, out: bool) -> None:
        """Want none from now on, or want them again; raises StorageError."""
        try:
            if out:
                put_file(self._marker, b"")
            else:
                self._marker.unlink(missing_ok=True)
        except OSError as error:
            raise _failed(error, self._marker) from error

    def sync(self) -> Synced | None:
        """Bring the copies up to date; None when there is nothing to do. Raises StorageError; what was done by then stays good."""
        if self.off:
            return None
        mark = f"# {self._version} {self._stamp()}"
        if self._read()[0] == mark:
            return None
        with held(self._lock, seconds=PATIENCE):
            seen, known = self._read()
            if seen == mark:  # another process was first
                return None
            try:
                recover(self._shelf)
                done, manifest = self._settled(known)
                put_file(self._manifest, _lines(mark, manifest), durable=False)
            except (OSError, ToolError) as error:
                raise _failed(error, self._shelf) from error
            return done

    def origin(self, name: str) -> str:
        """The version that a skill was when it was copied last; empty for one that never was."""
        return self._read()[1].get(name, "")

    def modified(self) -> list[str]:
        """The copies that somebody has edited."""
        known, there = self._read()[1], self._there()
        return [name for name in sorted(known) if name in there and _now(there[name]) != known[name]]

    def deleted(self) -> list[str]:
        """The packaged skills that somebody has removed from the home."""
        known, there = self._read()[1], self._there()
        return [name for name in self._packaged() if name in known and name not in there]

    def diff(self, name: str) -> str:
        """How the copy differs from the packaged one, as a unified diff; raises ToolError."""
        packaged, there = self._tree(name), self._there()
        return diff(packaged, tree_of(there[name]) if name in there else {})

    async def reset(self, name: str, library: Keeper) -> str:
        """Make a copy what is packaged again, also one that was removed, and return its version; an edit stays in its history.

        Raises ToolError, StorageError.
        """
        tree = self._tree(name)
        async with alone(self._lock):
            folder = self._there().get(name) or self._shelf / self._packaged()[name]
            before = tree_of(folder)
            if name in library and library.get(name).root == "bundled":
                await library.versions.notice(library.get(name), before)
            made = Version(skill=name, author="bundled", owner="bundled", reason="reset to what is packaged")
            made = await library.versions.record(made, tree)
            mark, known = self._read()
            try:
                put_tree(folder, tree, before=before, durable=True)
                put_file(self._manifest, _lines(mark, {**known, name: made.version}))
            except OSError as error:
                raise _failed(error, folder) from error
        library.refresh()
        return made.version

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _settled(self, known: Mapping[str, str]) -> tuple[Synced, dict[str, str]]:
        """Do it, and return what was done with the manifest that is true from then on."""
        packaged, there = self._packaged(), self._there()
        done: dict[str, list[str]] = {field: [] for field in Synced.__struct_fields__}
        manifest: dict[str, str] = {}
        for name, place in packaged.items():
            tree = tree_of(self._source / place)
            origin, before = version_of_tree(tree), known.get(name)
            now = _now(there[name]) if name in there else ""
            manifest[name] = origin
            if not now and before is not None:
                manifest[name] = before
                done["gone"].append(name)
            elif not now or (now == before != origin):
                done[self._put(there.get(name), self._shelf / place, tree, now)].append(name)
            elif now != origin:
                done["kept"].append(name)
            if name in done["kept"]:
                manifest[name] = before or origin
        done["dropped"] += sorted(known.keys() - packaged.keys())
        return Synced(**{field: tuple(names) for field, names in done.items()}), manifest

    def _put(self, there: Path | None, place: Path, tree: Tree, now: str) -> str:
        """Put what is packaged in the place of a copy that is `now` this version; returns what came of it."""
        before = tree_of(there) if there else None
        if before is not None and version_of_tree(before) != now:
            return "kept"
        try:
            put_tree(there or place, tree, before=before)
        except ConflictError:
            return "kept"
        return "updated" if now else "new"

    def _stamp(self) -> str:
        """What stands for the package's folder, by its names, sizes and times."""
        rows = sorted(_rows(str(self._source), ""))
        return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]

    def _read(self) -> tuple[str, Mapping[str, str]]:
        """The mark of the package that was copied last, and the manifest; empty before the first time."""
        try:
            mark, *lines = self._manifest.read_text(errors="replace").splitlines() or [""]
        except FileNotFoundError:
            return "", {}
        except OSError as error:
            raise _failed(error, self._manifest) from error
        rows = (line.partition(":") for line in lines)
        return mark, {name.strip(): origin.strip() for name, _, origin in rows if origin.strip()}

    def _packaged(self) -> Mapping[str, str]:
        return {found.folder.rpartition("/")[2]: found.folder for found in walk(str(self._source)).found}

    def _there(self) -> Mapping[str, Path]:
        """The copies by name, wherever below the shelf somebody has put them."""
        return {one.folder.rpartition("/")[2]: self._shelf / one.folder for one in walk(str(self._shelf)).found}

    def _tree(self, name: str) -> Tree:
        place = self._packaged().get(name)
        if place is None:
            raise ToolError(f"{name[:80]!r} is not among the skills that come with Melete")
        return tree_of(self._source / place)


def _rows(folder: str, inside: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name in SKIPPED:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _rows(entry.path, f"{inside}{entry.name}/")
            else:
                status = entry.stat(follow_symlinks=False)
                yield f"{inside}{entry.name} {status.st_size} {status.st_mtime_ns}"


def _lines(mark: str, manifest: Mapping[str, str]) -> bytes:
    return "\n".join([mark, *(f"{name}: {manifest[name]}" for name in sorted(manifest)), ""]).encode()


def _now(folder: Path) -> str:
    """The version that a copy is; what has become too large for a skill has been edited."""
    try:
        return version_of_tree(tree_of(folder))
    except ToolError:
        return "too large"


def _failed(error: OSError | ToolError, path: Path) -> StorageError:
    why = (isinstance(error, OSError) and error.strerror) or str(error)
    where = getattr(error, "filename", None) or path
    return StorageError(
        f"the bundled skills were not brought up to date: {where}: {why}",
        kept="each of them is as it was, or as it is packaged",
        next="look at the disk and its permissions",
    )
