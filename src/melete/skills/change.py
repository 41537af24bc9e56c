"""The files of one change put in place: prepared beside what they replace, compared once more with what was read, then renamed.

A journal says which version a folder is on its way to, so that what a killed process left half done is finished by the next one.
Whoever changes anything here holds the lock of the home's skills.
"""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import msgspec
from msgspec import Struct

from melete.skills.versions import Tree, draft_of, make_folder, put_file

PRIVATE, RUNS = 0o600, 0o700


class EditedError(Exception):
    """A file is not any more what it was when the change was planned; every file is as somebody left it."""


class Under(Struct, frozen=True, kw_only=True):
    """What is under way: the folder of a skill becomes a version, or moves to `target`."""

    skill: str
    folder: str
    version: str = ""
    target: str = ""


class Journal:
    """At most one change that is under way, in the file `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, under: Under, *, durable: bool = True) -> None:
        """Say what begins; on the disk when this returns, where it is to be `durable`. Raises OSError."""
        put_file(self.path, msgspec.json.encode(under), durable=durable)

    def left(self) -> Under | None:
        """What a process that was killed has left; nothing where what it wrote cannot be read."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Under)
        except (OSError, msgspec.MsgspecError):
            return None

    def end(self) -> None:
        """Nothing is under way any more."""
        self.path.unlink(missing_ok=True)


class Edit:
    """The way of a folder's files from `before` to `after`."""

    def __init__(self, folder: Path, before: Tree, after: Tree) -> None:
        self._folder = folder
        self._before = before
        self._after = after
        self._paths = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
        self._drafts: dict[str, Path] = {}

    def prepare(self) -> None:
        """Write what is new beside what it replaces; raises OSError with nothing left behind, EditedError."""
        for draft in self._folder.rglob(".*.????????.new"):  # of a process that was killed
            draft.unlink()
        self._compare(self._paths)
        try:
            for path in self._paths:
                place, data = self._folder / path, self._after.get(path)
                if data is not None:
                    make_folder(place.parent)
                    self._drafts[path] = draft_of(place, data, mode=_mode(place, data))
            self._compare(self._paths)
        except BaseException:
            self.drop()
            raise

    def place(self) -> None:
        """Put it in place; raises OSError and EditedError, after which every file is as it was."""
        done: list[str] = []
        try:
            for path in self._paths:
                self._compare([path])
                self._swap(path, self._drafts.pop(path, None), done)
        except (OSError, EditedError):
            for path in done:
                self._back(path)
            self.drop()
            raise

    def _swap(self, path: str, draft: Path | None, done: list[str]) -> None:
        """Replace or remove one file; what was saved into the old one in this very moment is put back, and EditedError raised."""
        place = self._folder / path
        old = place.with_name(f".{place.name}.{token_hex(4)}.new")
        with suppress(OSError):  # there is none, or the disk knows no second names: then what was compared counts
            os.link(place, old)
        done.append(path)
        try:
            draft.replace(place) if draft else place.unlink()
            if old.exists() and old.read_bytes() != self._before.get(path):
                old.replace(place)
                done.remove(path)
                raise EditedError(path)
        finally:
            old.unlink(missing_ok=True)

    def drop(self) -> None:
        """Remove what was prepared."""
        for draft in self._drafts.values():
            draft.unlink(missing_ok=True)
        self._drafts.clear()

    def _compare(self, paths: list[str]) -> None:
        for path in paths:
            place = self._folder / path
            if any(one.is_symlink() for one in (place, *place.parents) if one.is_relative_to(self._folder)):
                raise EditedError(f"{path} (a link)")
            now = place.read_bytes() if os.path.lexists(place) else None
            if now != self._before.get(path):
                raise EditedError(path)

    def _back(self, path: str) -> None:
        data, place = self._before.get(path), self._folder / path
        if data is None:
            place.unlink(missing_ok=True)
        else:
            put_file(place, data, mode=_mode(place, data))


def _mode(place: Path, data: bytes) -> int:
    return place.stat().st_mode & 0o777 if place.exists() else RUNS if data.startswith(b"#!") else PRIVATE
