"""Files on their way between two copies of a folder: packed, taken apart without trust, and put in place whole or not at all.

What comes from elsewhere may say anything: only entries that were asked for are taken, no link may lead out of the folder, and
no folder on the way may be a link.
"""

import contextlib
import hashlib
import io
import os
import posixpath
import stat
import tarfile
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from msgspec import Struct

from melete.environments.manifest import OURS, Found, described, honest

BLOCK = 1 << 20
LINK = "link:"
DIGEST = 20


class Taken(Struct, frozen=True, kw_only=True):
    """One entry as it came: `data` of a small file, or the target of a link. `digest` is of either."""

    kind: str
    digest: str
    mode: int = 0o644
    time: int = 0
    size: int = 0
    data: bytes = b""
    target: str = ""


class Sent(Struct, frozen=True, kw_only=True):
    """One entry of here as it was read."""

    digest: str
    found: Found


def pack(folder: Path, paths: Sequence[str]) -> tuple[bytes, dict[str, Sent]]:
    """An archive of files and links of here; what vanished or changed while it was read is left out."""
    made = io.BytesIO()
    sent: dict[str, Sent] = {}
    with tarfile.open(
        fileobj=made, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for path in paths:
            with contextlib.suppress(OSError):
                if (one := _add(tar, folder, path)) is not None:
                    sent[path] = one
    return made.getvalue(), sent


def _add(tar: tarfile.TarFile, folder: Path, path: str) -> Sent | None:
    about = tarfile.TarInfo(f"./{path}")
    found = described(os.lstat(folder / path))
    if found is None or found.kind == "folder":
        return None
    about.mode, about.mtime = found.mode, found.time
    if found.kind == "link":
        about.type, about.linkname = tarfile.SYMTYPE, target(folder / path)
        tar.addfile(about)
        return Sent(digest=LINK + about.linkname, found=found)
    with reading(folder, path) as file:
        data = file.read()
        if described(os.fstat(file.fileno())) != found or len(data) != found.size:
            return None
    about.size = len(data)
    tar.addfile(about, io.BytesIO(data))
    return Sent(digest=digest_of([data]), found=found)


def unpack(data: bytes, wanted: Mapping[str, Found]) -> tuple[dict[str, Taken], list[str]]:
    """(entries that were asked for, names of what was refused). An archive that breaks off gives what is whole in it."""
    taken: dict[str, Taken] = {}
    refused: list[str] = []
    broken = contextlib.suppress(tarfile.TarError, EOFError, ValueError, OverflowError)
    with broken, tarfile.open(None, "r:", io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as tar:
        for member in tar:
            path = member.name.removeprefix("./")
            whole = path in wanted and path not in taken and member.size <= len(data) and not member.issparse()
            one = _take(tar, member, taken) if whole else None
            if one is None:
                refused.append(member.name)
            else:
                taken[path] = one
    return taken, refused


def _take(tar: tarfile.TarFile, member: tarfile.TarInfo, taken: Mapping[str, Taken]) -> Taken | None:
    mode, time = stat.S_IMODE(member.mode) & 0o777, int(member.mtime)
    if member.issym():
        return Taken(kind="link", digest=LINK + member.linkname, target=member.linkname)
    if member.islnk():
        return taken.get(member.linkname.removeprefix("./"))
    if not member.isreg():
        return None
    file = tar.extractfile(member)
    data = file.read() if file is not None else b""
    if len(data) != member.size:
        return None
    return Taken(kind="file", digest=digest_of([data]), mode=mode, time=time, size=len(data), data=data)


def stays_inside(path: str, target: str) -> bool:
    """Whether a link at `path` that says `target` leads to a place below the folder."""
    if not target or target.startswith("/") or "\0" in target:
        return False
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return whole == "." or honest(whole)


def target(path: Path) -> str:
    """What a link of here says, letter for letter."""
    return os.readlink(path)  # noqa: PTH115 - pathlib would tidy it


def digest_of(pieces: Sequence[bytes]) -> str:
    """The digest by which contents are compared."""
    made = hashlib.blake2b(digest_size=DIGEST)
    for piece in pieces:
        made.update(piece)
    return made.hexdigest()


def digest_here(folder: Path, path: str, found: Found) -> str:
    """The digest of an entry of here; raises OSError."""
    if found.kind == "link":
        return LINK + target(folder / path)
    made = hashlib.blake2b(digest_size=DIGEST)
    with reading(folder, path) as file:
        while piece := file.read(BLOCK):
            made.update(piece)
    return made.hexdigest()


@contextlib.contextmanager
def reading(folder: Path, path: str) -> Generator[BinaryIO]:
    """A regular file of here, open; raises OSError, also when a link is on the way."""
    with parent(folder, path) as (descriptor, name):
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
    with open(opened, "rb") as file:  # noqa: PTH123 - it is a descriptor
        yield file


@contextlib.contextmanager
def parent(folder: Path, path: str, *, make: bool = False) -> Generator[tuple[int, str]]:
    """(descriptor of the folder that a path of here is in, its last name); no link is followed on the way."""
    *folders, name = path.split("/")
    if not honest(path):
        raise OSError(0, "no honest path", path)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(folder, flags)
    try:
        for part in folders:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor, name
    finally:
        os.close(descriptor)


class Arrival:
    """An entry that is being put in place here: `write` its bytes, then `settle`; until then nothing is seen of it."""

    def __init__(self, folder: Path, path: str) -> None:
        self._folder, self._path = folder, path
        self._beside = f"{OURS}-{token_hex(6)}"
        self._opened = -1

    def __enter__(self) -> "Arrival":
        return self

    def __exit__(self, *_about: object) -> None:
        if self._opened >= 0:
            os.close(self._opened)
        with contextlib.suppress(OSError), parent(self._folder, self._path) as (where, _):
            os.unlink(self._beside, dir_fd=where)

    def write(self, data: bytes) -> None:
        """Add bytes."""
        if self._opened < 0:
            with parent(self._folder, self._path, make=True) as (where, _):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self._opened = os.open(self._beside, flags, 0o600, dir_fd=where)
        view = memoryview(data)
        while view:
            view = view[os.write(self._opened, view) :]

    def settle(self, taken: Taken, *, name: str = "", still: Callable[[Found | None], bool] = lambda _: True) -> bool:
        """Put it in place, or under another `name` in the same folder; False when `still` refuses what is there by now."""
        with parent(self._folder, self._path, make=True) as (where, own):
            if taken.kind == "link":
                os.symlink(taken.target, self._beside, dir_fd=where)
            else:
                self.write(b"")
                os.fchmod(self._opened, taken.mode & 0o777)
                os.utime(self._opened, (taken.time, taken.time))
            seen = _seen(own, where)
            if not still(seen):
                return False
            if not name and seen is not None and seen.kind == "folder":
                os.rmdir(own, dir_fd=where)
            os.rename(self._beside, name or own, src_dir_fd=where, dst_dir_fd=where)
        return True


def remove(folder: Path, path: str, *, still: Callable[[Found | None], bool]) -> bool:
    """Remove an entry of here when `still` agrees to what is there; an empty folder as well. Raises OSError."""
    with parent(folder, path) as (where, name):
        found = _seen(name, where)
        if found is None or not still(found):
            return False
        if found.kind == "folder":
            os.rmdir(name, dir_fd=where)
        else:
            os.unlink(name, dir_fd=where)
    return True


def _seen(name: str, where: int) -> Found | None:
    try:
        return described(os.stat(name, dir_fd=where, follow_symlinks=False))
    except FileNotFoundError:
        return None
