"""Every version of every skill: what it held, who made it and why. Facts of the ledger, and content kept by its digest.

Content is never changed and never removed, so whatever a skill once was can be read, compared and brought back. An edit on
the disk that nobody announced is noticed by its digest and becomes a version of its own.
"""

import asyncio
import difflib
import hashlib
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import msgspec
from msgspec import structs

from melete.core.errors import StorageError
from melete.core.ports import Ledger
from melete.core.skill import MAIN, Skill, Version
from melete.core.tool import ToolError

Tree = Mapping[str, bytes]
"""A skill's files: paths inside its folder, and what they hold."""
VERSION: Final = "skill.version"
STATE: Final = "skill.state"
FOUND: Final = "found on the disk"
"""The reason of a version that nobody announced."""
LENGTH: Final = 16
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
MOST_FILES: Final = 500
MOST_BYTES: Final = 16_000_000
PRIVATE: Final = 0o600
NOT_KEPT: Final = frozenset({"external", "project"})
"""Roots whose skills have a history of their own somewhere else."""


def none(_: str) -> str:
    """No version of any skill."""
    return ""


def digest(data: bytes) -> str:
    """What stands for a content."""
    return hashlib.sha256(data).hexdigest()


def version_of(files: Mapping[str, str]) -> str:
    """What stands for a skill's files, paths to digests."""
    return _rows(files)[:LENGTH]


def whole(tree: Tree) -> str:
    """The digest of these files, of which a version is the beginning."""
    return _rows({path: digest(data) for path, data in tree.items()})


def _rows(files: Mapping[str, str]) -> str:
    return digest("".join(f"{path}\0{files[path]}\n" for path in sorted(files)).encode())


def version_of_tree(tree: Tree) -> str:
    """What stands for these files."""
    return version_of({path: digest(data) for path, data in tree.items()})


def tree_of(folder: Path) -> dict[str, bytes]:
    """The files of the skill in a folder, hidden ones and links left out, SKILL.md under this name however it is spelt.

    Raises ToolError for more than a skill is, OSError.
    """
    found: dict[str, bytes] = {}
    room = MOST_BYTES
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in sorted(names):
            path = Path(here, name)
            status = path.lstat()
            if name.startswith(".") or not stat.S_ISREG(status.st_mode):
                continue
            room -= status.st_size
            if len(found) == MOST_FILES or room < 0:
                raise ToolError(
                    f"{folder.name} has more than {MOST_FILES} files or {MOST_BYTES:,} bytes: too much for a skill"
                )
            inside = path.relative_to(folder).as_posix()
            found[MAIN if inside.upper() == MAIN.upper() and MAIN not in names else inside] = path.read_bytes()
    return found


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, for its owner alone; raises OSError."""
    for one in reversed([one for one in (path, *path.parents) if not one.exists()]):
        one.mkdir(mode=0o700, exist_ok=True)


def put_file(path: Path, data: bytes, *, mode: int = PRIVATE, durable: bool = True) -> None:
    """Put a file in place whole, or not at all; raises OSError with nothing left behind."""
    make_folder(path.parent)
    draft = draft_of(path, data, mode=mode, durable=durable)
    try:
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def draft_of(path: Path, data: bytes, *, mode: int = PRIVATE, durable: bool = True) -> Path:
    """A new hidden file beside `path` that holds the data; raises OSError with nothing left behind."""
    draft = path.with_name(f".{path.name}.{token_hex(4)}.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


class Blobs:
    """Contents by their digest, in a folder that only grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes, *, durable: bool = True) -> str:
        """Keep a content and return its digest; raises StorageError."""
        name = digest(data)
        path = self._folder / name[:2] / name
        try:
            if not path.exists():
                put_file(path, data, durable=durable)
        except OSError as error:
            raise StorageError(
                f"writing {path} failed: {error.strerror}",
                kept="nothing was changed",
                next="look at the disk and its permissions",
            ) from error
        return name

    def get(self, name: str) -> bytes:
        """The content with this digest; raises StorageError where it is lost or damaged."""
        if not DIGEST.fullmatch(name):
            raise StorageError(
                f"{name[:80]!r} is no digest", kept="nothing was opened", next="restore it from a backup"
            )
        path = self._folder / name[:2] / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}", next="restore it from a backup") from error
        if digest(data) != name:
            raise StorageError(f"{path} is damaged", kept="it was not touched", next="restore it from a backup")
        return data


class Versions:
    """The history of all skills of a home, read from the ledger as far as it goes at the moment.

    `origin` tells the version of a bundled skill that was put there with Melete itself, empty where there is none.
    """

    def __init__(self, ledger: Ledger, blobs: Blobs, *, origin: Callable[[str], str] = none) -> None:
        self._ledger = ledger
        self._blobs = blobs
        self._origin = origin
        self._read = 0
        self._of: dict[str, list[Version]] = {}
        self._archived: set[str] = set()

    def history(self, skill: str) -> Sequence[Version]:
        """All versions of a skill, the first one first."""
        for row in self._ledger.read(after=self._read):
            self._read = row["number"]
            if row["kind"] == VERSION:
                made = msgspec.convert(row, Version)
                self._of.setdefault(made.skill, []).append(made)
                self._archived.discard(made.skill)
            elif row["kind"] == STATE and row.get("state") == "archived":
                self._archived.add(row["skill"])
        return tuple(self._of.get(skill, ()))

    def head(self, skill: str) -> Version | None:
        """The latest version; None for a skill that has none yet."""
        known = self.history(skill)
        return known[-1] if known else None

    def find(self, skill: str, version: str) -> Version:
        """The version that begins so, the latest of several times the same; raises ToolError that lists what there is."""
        known = self.history(skill)
        found = {one.version: one for one in known if version and one.version.startswith(version)}
        if len(found) == 1:
            return next(iter(found.values()))
        why = f"{version!r} begins several versions" if found else f"{skill} has no version {version!r}"
        raise ToolError(why, versions=list(dict.fromkeys(one.version for one in reversed(known)))[:20])

    def tree(self, version: Version) -> dict[str, bytes]:
        """What a version holds; raises StorageError where a content is lost."""
        return {path: self._blobs.get(name) for path, name in version.files.items()}

    async def record(self, made: Version, tree: Tree, *, durable: bool = True) -> Version:
        """Keep the files and the fact that `made` tells of them; returns it with its version, parent and number.

        Both are on the disk when this returns, unless they need not be `durable`. Raises StorageError.
        """
        files = await asyncio.to_thread(self._put, tree, durable=durable)
        head = self.head(made.skill)
        version, parent = version_of(files), head.version if head else ""
        if head and parent == version:  # another process was first
            parent = head.parent
        elif made.reason == FOUND and made.skill in self._archived:  # another skill under the name of that one
            parent = ""
        made = structs.replace(made, version=version, parent=parent, files=files)
        fields = msgspec.to_builtins(made)
        await self._ledger.append(
            VERSION, {k: v for k, v in fields.items() if k not in ("number", "at")}, durable=durable
        )
        return self.head(made.skill) or made

    def _put(self, tree: Tree, *, durable: bool) -> dict[str, str]:
        return {path: self._blobs.put(data, durable=durable) for path, data in tree.items()}

    async def mark(self, skill: str, *, reason: str, **changes: Any) -> None:
        """Store a change of a skill's state, owner, trust, or whether it is pinned."""
        await self._ledger.append(STATE, {"skill": skill, "reason": reason, **changes})

    async def note(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Store another fact about skills."""
        await self._ledger.append(kind, fields)

    def facts(self, kind: str) -> Sequence[Mapping[str, Any]]:
        """All facts of a kind, the first one first."""
        return self._ledger.read(kind=kind)

    async def notice(self, skill: Skill, tree: Tree) -> Version:
        """The version that a skill's files on the disk are, stored if they are new: then somebody has edited them.

        What lies in a folder that is read only gets no history here. Raises StorageError.
        """
        version = version_of_tree(tree)
        head = self.head(skill.name)
        if head is not None and head.version == version:
            return head
        origin = self._origin(skill.name) if skill.root == "bundled" else ""
        author = skill.root if version == origin or (head is None and skill.root != "bundled") else "user"
        made = Version(
            skill=skill.name, version=version, author=author, owner=skill.owner, trust=skill.trust, state=skill.state,
            reason=FOUND,
        )  # fmt: skip
        return made if skill.root in NOT_KEPT else await self.record(made, tree)

    def diff(self, skill: str, *, old: str = "", new: str = "") -> str:
        """What changed between two versions, the last two where none is named; raises ToolError, StorageError."""
        known = self.history(skill)
        if not known:
            raise ToolError(f"{skill} has no versions yet")
        later = self.find(skill, new) if new else known[-1]
        earlier = self.find(skill, old) if old else next((v for v in known if v.version == later.parent), None)
        return diff(self.tree(earlier) if earlier else {}, self.tree(later))


def diff(old: Tree, new: Tree) -> str:
    """Two trees compared, as a unified diff."""
    pieces: list[str] = []
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        if before == after:
            continue
        texts = [None if data is None else _text(data) for data in (before, after)]
        names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
        if any(data is not None and text is None for data, text in zip((before, after), texts, strict=True)):
            pieces.append(
                f"--- {names[0]}\n+++ {names[1]}\n(not a text: {len(before or b'')} → {len(after or b'')} bytes)"
            )
            continue
        lines = [(text or "").splitlines() for text in texts]
        pieces.append("\n".join(difflib.unified_diff(lines[0], lines[1], names[0], names[1], lineterm="")))
    return "\n".join(pieces)


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
