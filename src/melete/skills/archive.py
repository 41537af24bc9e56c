"""A zip or tar archive from outside, unpacked whole or not at all: plain files in plain folders, and nothing else.

Every entry is judged before anything is put in place. Links, devices and archives that are more than they seem are refused, not
repaired; modes are ours. The files appear in the target together, when the last of them is good.
"""

import io
import os
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

from msgspec import Struct

from melete.core.errors import MeleteError
from melete.core.plugin import Lazy
from melete.core.skill import MAIN
from melete.security.paths import PathRefusedError, parts, same_name

_openers: Final[dict[bytes, Lazy[Callable[..., IO[bytes]]]]] = {
    b"\x1f\x8b": Lazy("gzip:open"),
    b"BZh": Lazy("bz2:open"),
    b"\xfd7zXZ\x00": Lazy("lzma:open"),
}
_lzma_error: Lazy[type[Exception]] = Lazy("lzma:LZMAError")

NEW: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
BLOCK: Final = 65_536
LOCAL_HEADER: Final = 30
ENCRYPTED: Final = 0x1
OVERHEAD: Final = 2_048
"""Bytes of a tar archive that one entry may take beside its data."""
VERSIONED = frozenset({".git", ".hg", ".svn", ".bzr", ".jj"})
"""Folders in which programs look for what they are to run."""
DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, KeyError, IndexError, RecursionError,
    NotImplementedError, RuntimeError, OverflowError, OSError,
)  # fmt: skip


class ArchiveRefusedError(MeleteError):
    """An archive is not what it should be; nothing of it was kept."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the archive is refused: {why}", kept="nothing of it was kept", next="get it from somebody else"
        )


class Bounds(Struct, frozen=True, kw_only=True):
    """How much an archive may be: its own bytes, its files, the bytes of one and of all."""

    archive: int = 32_000_000
    files: int = 2_000
    one: int = 8_000_000
    total: int = 32_000_000


class Member(NamedTuple):
    """One entry that may be unpacked: a folder has no `open`."""

    path: tuple[str, ...]
    size: int
    runs: bool
    open: Callable[[], IO[bytes] | None] | None


Check = Callable[[Path], Path]
"""Looks at what was unpacked; returns the folder of it that is wanted, or raises a MeleteError."""


def unpack(source: Path, target: Path, *, check: Check | None = None, bounds: Bounds | None = None) -> list[str]:
    """Unpack `source` into `target`, which is empty or not there, and return the paths; raises ArchiveRefusedError, StorageError's
    OSError for the target's disk. After any failure the target is as it was.
    """
    bounds = bounds or Bounds()
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name[:40]}.", dir=target.parent) as folder:
        staged = Path(folder) / "all"
        staged.mkdir()
        with source.open("rb") as file:
            if os.fstat(file.fileno()).st_size > bounds.archive:
                raise ArchiveRefusedError(f"it is larger than {bounds.archive:,} bytes")
            if not _put(_members(file, bounds), staged, bounds):
                raise ArchiveRefusedError("it holds no files")
        wanted = check(staged) if check else staged
        paths = sorted(path.relative_to(wanted).as_posix() for path in wanted.rglob("*") if path.is_file())
        wanted.replace(target)
        return paths


def skill_folder(folder: Path) -> Path:
    """A `Check`: the folder with SKILL.md, which is the top or the only folder in it; raises ArchiveRefusedError."""
    entries = list(folder.iterdir())
    for place in (folder, *([entries[0]] if len(entries) == 1 else [])):
        found = place / MAIN
        if found.is_file():
            try:
                found.read_bytes().decode()
            except UnicodeError as error:
                raise ArchiveRefusedError("its SKILL.md is not UTF-8") from error
            return place
    raise ArchiveRefusedError("it has no SKILL.md")


def _members(file: IO[bytes], bounds: Bounds) -> Iterator[Member]:
    start = file.read(8)
    file.seek(0)
    if start.startswith(b"PK"):
        return _zip(file, bounds)
    for mark, opener in _openers.items():
        if start.startswith(mark):
            return _tar(opener.load()(file, "rb"), bounds)
    return _tar(file, bounds)


def _put(members: Iterator[Member], folder: Path, bounds: Bounds) -> int:
    """Write all members below an empty folder of our own; returns how many files there are."""
    seen: dict[tuple[str, ...], bool] = {}
    files, room = 0, bounds.total
    iterator = iter(members)
    while (member := _next(iterator)) is not None:
        _no_clash(member, seen)
        if len(seen) > bounds.files:
            raise ArchiveRefusedError(f"it holds more than {bounds.files:,} files and folders")
        place = folder.joinpath(*member.path)
        if member.open is None:
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        room -= _write(member, place, min(room, bounds.one))
        files += 1
    return files


def _next(members: Iterator[Member]) -> Member | None:
    try:
        return next(members, None)
    except (ArchiveRefusedError, PathRefusedError) as error:
        raise error if isinstance(error, ArchiveRefusedError) else ArchiveRefusedError(error.what) from error
    except (*DAMAGED, _lzma_error.load()) as error:
        raise ArchiveRefusedError(f"it is damaged ({type(error).__name__})") from error


def _no_clash(member: Member, seen: dict[tuple[str, ...], bool]) -> None:
    """Refuse a file that is there twice, under whatever spelling, or where a folder is."""
    folder = member.open is None
    key = tuple(same_name(name) for name in member.path)
    if key in seen and not (folder and seen[key]):
        raise ArchiveRefusedError(f"{ascii('/'.join(member.path))[:200]} is in it twice")
    seen[key] = folder
    for depth in range(1, len(key)):
        if not seen.setdefault(key[:depth], True):
            raise ArchiveRefusedError(f"{ascii('/'.join(member.path))[:200]} lies below a file")


def _write(member: Member, place: Path, most: int) -> int:
    """Copy one file, at most so many bytes, whatever its header says; returns how many they were."""
    written = 0
    with os.fdopen(os.open(place, NEW, 0o755 if member.runs else 0o644), "wb") as out:
        for block in _blocks(member):
            written += len(block)
            if written > most:
                raise ArchiveRefusedError("it unpacks to more than an honest archive of this kind holds")
            out.write(block)
    if written != member.size:
        raise ArchiveRefusedError(f"{ascii('/'.join(member.path))[:200]} is not as long as the archive says")
    return written


def _blocks(member: Member) -> Iterator[bytes]:
    try:
        source = member.open() if member.open else None
        if source is None:
            raise ArchiveRefusedError("it is damaged")
        with source:
            while block := source.read(BLOCK):
                yield block
    except (*DAMAGED, _lzma_error.load()) as error:
        raise ArchiveRefusedError(f"it is damaged or encrypted ({type(error).__name__})") from error


def _path(name: str) -> tuple[str, ...]:
    found = parts(name)
    if any(same_name(one) in VERSIONED for one in found):
        raise ArchiveRefusedError("it holds a folder of a version control system, which runs what stands there")
    return found


def _zip(file: IO[bytes], bounds: Bounds) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        if len(infos) > bounds.files:
            raise ArchiveRefusedError(f"it holds more than {bounds.files:,} files and folders")
        _no_overlap(infos, archive.start_dir)
        for info in infos:
            kind = stat.S_IFMT(info.external_attr >> 16)
            if info.flag_bits & ENCRYPTED:
                raise ArchiveRefusedError("it is encrypted")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ArchiveRefusedError("it is compressed in an unusual way")
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR) > info.is_dir():
                raise ArchiveRefusedError(f"{ascii(info.filename)[:200]} is a link or a device")
            path = _path(info.orig_filename)
            runs = bool(info.external_attr >> 16 & stat.S_IXUSR)
            opened = None if info.is_dir() else (lambda info=info: archive.open(info))
            yield Member(path=path, size=info.file_size, runs=runs, open=opened)


def _no_overlap(infos: list[zipfile.ZipInfo], end: int) -> None:
    """Refuse entries that share bytes, from which a small archive unpacks to a huge one."""
    ordered = sorted(infos, key=lambda info: info.header_offset)
    for info, following in zip(ordered, [*(one.header_offset for one in ordered[1:]), end], strict=True):
        if info.header_offset + LOCAL_HEADER + len(info.orig_filename.encode()) + info.compress_size > following:
            raise ArchiveRefusedError("its entries overlap")


class _Counted(io.RawIOBase):
    """A stream that ends in a refusal when more comes out of it than any archive within the bounds has."""

    def __init__(self, source: IO[bytes], most: int) -> None:
        self._source = source
        self._left = most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(min(size, BLOCK) if size >= 0 else BLOCK)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveRefusedError("it unpacks to more than an honest archive of this kind holds")
        return data


class _Strict(tarfile.TarInfo):
    """A header whose name ends where it says: what stands behind a NUL is another name to another program."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        for field in (buf[:100], buf[157:257]):
            if bytes(field).partition(b"\0")[2].strip(b"\0"):
                raise ArchiveRefusedError("a name in it goes on behind its end")
        return super().frombuf(buf, encoding, errors)


def _tar(source: IO[bytes], bounds: Bounds) -> Iterator[Member]:
    counted = _Counted(source, bounds.total + OVERHEAD * bounds.files)
    with tarfile.open(fileobj=counted, mode="r|", tarinfo=_Strict, encoding="utf-8", errors="strict") as archive:
        for info in archive:
            if info.issparse() or not (info.isfile() or info.isdir()):
                raise ArchiveRefusedError(f"{ascii(info.name)[:200]} is a link, a device, or sparse")
            if info.size > bounds.one:
                raise ArchiveRefusedError(f"a file in it is larger than {bounds.one:,} bytes")
            if info.isdir() and info.name.strip("./") == "":
                continue  # the top itself
            opened = None if info.isdir() else (lambda info=info: archive.extractfile(info))
            yield Member(path=_path(info.name), size=info.size, runs=bool(info.mode & stat.S_IXUSR), open=opened)
