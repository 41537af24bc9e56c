"""What is known of the skills on the shelves without reading them again: a snapshot that all processes of a home share.

Each SKILL.md has a row with the stamp under which it was read. The snapshot can be dropped at any time: it is remade from the
files. It is replaced whole, never changed in place, and not forced to the disk.
"""

import hashlib
import os
import stat
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from melete.core.errors import MeleteError
from melete.core.plugin import Lazy
from melete.core.skill import Problem, Skill, unconditional
from melete.skills.folders import DEEPEST, IN_PROJECT, Found, Shelf, Stamp, changed, walk

_read_skill: Lazy[Callable[..., tuple[Skill, str]]] = Lazy("melete.skills.format:read_skill")

SCHEMA: Final = 1
LONGEST_FILE: Final = 400_001
"""Bytes that are read of a SKILL.md; one more than the longest that is accepted."""
MOST_SHELVES: Final = 16
SETTLED_NS: Final = 50_000_000
"""A file that was changed so short a time before it was read may change again within the same tick."""


PREPARED: Final = Path(__file__).with_name("bundled.json")
"""What the packaged SKILL.md files say, by their digest: a new home parses none of them. `scripts/prepare_skills.py` writes it."""


class Row(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One SKILL.md: where, as of when, and the skill in it (encoded) or why there is none."""

    folder: str
    file: str
    changed: int
    size: int
    name: str
    always: bool
    problem: str
    skill: msgspec.Raw

    @property
    def stamp(self) -> Stamp:
        """The stamp of the file that was read."""
        return Stamp(self.changed, self.size)

    def decoded(self) -> Skill:
        """What the file says, as a Skill."""
        return _skill.decode(self.skill)


class _Shelf(Struct, frozen=True, kw_only=True, array_like=True):
    folders: dict[str, int]
    problems: list[Problem]
    rows: list[Row]


class _Snapshot(Struct, frozen=True, kw_only=True, array_like=True):
    schema: int
    shelves: dict[str, msgspec.Raw]


_skill = msgspec.msgpack.Decoder(Skill)
_shelf = msgspec.msgpack.Decoder(_Shelf)
_snapshot = msgspec.msgpack.Decoder(_Snapshot)


class Stock:
    """The rows of one shelf, kept as they are on the disk."""

    def __init__(self, shelf: Shelf, known: _Shelf | None = None) -> None:
        self.shelf = shelf
        self.problems: list[Problem] = known.problems if known else []
        self.rows: dict[str, Row] = {row.folder: row for row in known.rows} if known else {}
        self._folders: dict[str, int] = known.folders if known else {}

    def look(self) -> bool:
        """Read what has changed; whether anything had. Costs one question to the disk a file where nothing has."""
        root = self.shelf.path
        if any(changed(_join(root, folder)) != then for folder, then in self._folders.items()) or not self._folders:
            return self._walk()
        fresh: list[Found] = []
        try:
            with _opened(root) as handle:
                for row in self.rows.values():
                    about = os.stat(_join(row.folder, row.file), dir_fd=handle, follow_symlinks=False)
                    if about.st_ctime_ns != row.changed or about.st_size != row.size:
                        fresh.append(Found(row.folder, row.file, Stamp(about.st_ctime_ns, about.st_size)))
        except OSError:
            return self._walk()
        rows = {one.folder: self._read(one) for one in fresh}
        differs = any(row != self.rows[folder] for folder, row in rows.items())
        self.rows |= rows
        return differs

    def _walk(self) -> bool:
        tree = walk(self.shelf.path, deepest=IN_PROJECT if self.shelf.kind == "project" else DEEPEST)
        rows = {
            one.folder: row
            if (row := self.rows.get(one.folder)) and (row.file, row.stamp) == (one.file, one.stamp)
            else self._read(one)
            for one in tree.found
        }
        differs = rows != self.rows or tree.problems != self.problems
        self.rows, self.problems, self._folders = rows, tree.problems, tree.folders
        return differs

    def _read(self, found: Found) -> Row:
        path = f"{_join(self.shelf.path, found.folder)}/{found.file}"
        try:
            data, mark = read_file(path, most=LONGEST_FILE)
            category, _, name = found.folder.rpartition("/")
            skill = _prepared().get(hashlib.sha256(data).hexdigest()) if self.shelf.kind == "bundled" else None
            skill = skill or _read_skill.load()(data, folder=name)[0]
        except (MeleteError, OSError) as error:
            why = error.what if isinstance(error, MeleteError) else f"it cannot be read: {error.strerror}"
            return _row(found, found.stamp, problem=why)
        if category or not skill.category:
            skill = msgspec.structs.replace(skill, category=category)
        return _row(found, mark, skill=skill)

    def encoded(self) -> msgspec.Raw:
        """The shelf as it goes into the snapshot."""
        shelf = _Shelf(folders=self._folders, problems=self.problems, rows=list(self.rows.values()))
        return msgspec.Raw(msgspec.msgpack.encode(shelf))


@cache
def _prepared() -> Mapping[str, Skill]:
    with suppress(OSError, msgspec.MsgspecError):  # then each is parsed
        return msgspec.json.decode(PREPARED.read_bytes(), type=dict[str, Skill])
    return {}


def _row(found: Found, mark: Stamp, *, skill: Skill | None = None, problem: str = "") -> Row:
    return Row(
        folder=found.folder,
        file=found.file,
        changed=mark.changed,
        size=mark.size,
        name=skill.name if skill else "",
        always=skill is None or unconditional(skill.conditions),
        problem=problem,
        skill=msgspec.Raw(msgspec.msgpack.encode(skill)),
    )


def _join(root: str, folder: str) -> str:
    return f"{root}/{folder}" if folder else root


@contextmanager
def _opened(folder: str) -> Generator[int]:
    """A folder, below which paths are found faster."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def read_file(path: str, *, most: int) -> tuple[bytes, Stamp]:
    """The first `most` bytes of a regular file, with its stamp; raises OSError, for a link as well.

    The stamp of a file that was changed just now fits no file: it will be read again.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "it is not a regular file", path)
        data = os.read(handle, min(most, about.st_size + 1))  # a larger buffer costs more than the file
    finally:
        os.close(handle)
    settled = time.time_ns() - about.st_ctime_ns > SETTLED_NS
    return data, Stamp(about.st_ctime_ns if settled else 0, about.st_size)


class Catalogue:
    """The shelves of one library, with their snapshot in the file `path`; `mark` is another one for each that is kept."""

    def __init__(self, shelves: list[Shelf], path: Path) -> None:
        self._path = path
        self._others = _load(path)
        self.mark = _mark(path)
        self.stocks = [Stock(shelf, _known(self._others.pop(_key(shelf), None))) for shelf in shelves]

    def look(self) -> bool:
        """Read what has changed on any shelf, and keep the snapshot; whether anything had."""
        differs = [stock.look() for stock in self.stocks]
        if any(differs):
            self._save()
        return any(differs)

    @property
    def keys(self) -> str:
        """What tells these shelves from others."""
        return "\n".join(_key(stock.shelf) for stock in self.stocks)

    def rows(self) -> Iterator[tuple[Stock, Row]]:
        """Every row of every shelf."""
        for stock in self.stocks:
            for row in stock.rows.values():
                yield stock, row

    def _save(self) -> None:
        shelves = {_key(stock.shelf): stock.encoded() for stock in self.stocks if stock.rows}
        others = [key for key in self._others if os.path.isdir(key.partition(":")[2])]  # noqa: PTH112
        shelves |= {key: self._others[key] for key in others[: MOST_SHELVES - len(shelves)]}
        done = write(self._path, msgspec.msgpack.encode(_Snapshot(schema=SCHEMA, shelves=shelves)))
        self.mark = _mark(self._path) if done else ""


def _key(shelf: Shelf) -> str:
    return f"{shelf.kind}:{shelf.path}"


def _mark(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_ino}-{found.st_ctime_ns}-{found.st_size}"


def _load(path: Path) -> dict[str, msgspec.Raw]:
    with suppress(OSError, msgspec.MsgspecError):  # what cannot be read is remade
        found = _snapshot.decode(path.read_bytes())
        return found.shelves if found.schema == SCHEMA else {}
    return {}


def _known(raw: msgspec.Raw | None) -> _Shelf | None:
    with suppress(msgspec.MsgspecError):
        return _shelf.decode(raw) if raw is not None else None
    return None


def write(path: Path, data: bytes) -> bool:
    """Put a file in place whole, for its owner alone; whether that was possible: if not, things stay as they were."""
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
        try:
            with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(data)
            new.replace(path)
        except OSError:
            new.unlink(missing_ok=True)
            return False
        return True
    return False
