"""A log file: append-only records, one owner at a time, any number of readers. Part of the store.

`Log` is the owner's side: it holds the lock and alone may write or cut. `LogReader` follows a log without owning it
and stops before anything that is not whole yet.
"""

import asyncio
import fcntl
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from melete.core.errors import SessionBusyError, SessionNotFoundError, StorageError, StoreError
from melete.core.event import Fact, Opened
from melete.store import record
from melete.store.aside import Finding, keep_aside
from melete.store.disk import open_regular, read_from, storage_error, sync_folder, wait_for, write_all
from melete.store.names import is_session_id
from melete.store.record import Unknown

CLAIM_SECONDS = 0.2
CLAIM_STEP = 0.02


def is_locked(path: Path) -> bool:
    """Whether somebody owns the log right now; a log that is gone is owned by nobody."""
    try:
        handle = open_regular(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def lock(path: Path, *, create: bool = False) -> int | None:
    """Try to own the log at `path` and return its handle, or None while somebody else does or probes it.

    Raises SessionNotFoundError when there is no such log and StorageError when it cannot be opened.
    """
    try:
        handle = open_regular(path, os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0))
    except FileNotFoundError as error:
        raise SessionNotFoundError(f"there is no session {path.stem!r}", next="see `melete sessions list`") from error
    except OSError as error:
        raise storage_error(error, f"opening {path}", kept="what it holds is untouched") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _same_file(handle, path):
            return handle
    except BlockingIOError:
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


async def lock_soon(path: Path, *, create: bool = False) -> int:
    """Own the log, waiting a moment for those who only probe it; raises SessionBusyError."""
    for _ in range(round(CLAIM_SECONDS / CLAIM_STEP)):
        if (handle := lock(path, create=create)) is not None:
            return handle
        await asyncio.sleep(CLAIM_STEP)
    raise SessionBusyError(
        f"another process runs the session {path.stem}",
        kept="it was not touched",
        next="steer or cancel it (`melete sessions steer`, `cancel`), or wait until it ends",
    )


def _same_file(handle: int, path: Path) -> bool:
    """Whether the path still names the file that is open: it may have been deleted between open and lock."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), there)


def logs(folder: Path) -> Sequence[Path]:
    """The logs in a folder, in the order of their ids; none when there is no folder yet. Raises StorageError."""
    return [path for path, regular in _named_as_logs(folder) if regular]


def strangers(folder: Path) -> Sequence[Path]:
    """What stands in the place of a log and is none: a folder, a pipe, a device, a link that leads nowhere."""
    return [path for path, regular in _named_as_logs(folder) if not regular]


def _named_as_logs(folder: Path) -> list[tuple[Path, bool]]:
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.name, _is_regular(entry))
                for entry in entries
                if entry.name.endswith(".log") and is_session_id(entry.name[:-4])
            ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(error, f"reading the folder {folder}", kept="what it holds is untouched") from error
    return [(folder / name, regular) for name, regular in sorted(found)]


def _is_regular(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_file()
    except OSError:  # links that lead in a circle
        return False


def first_fact(path: Path) -> Opened | None:
    """How the session began, read from the head of its log; None when it is no session.

    A session whose first fact is damaged began in a way that nobody knows: it is there, and every field is empty.
    """
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            head = file.readline()
            more = file.read(1)
    except OSError:
        return None
    body = record.check(head.rstrip(b"\n"), record.seed(path.stem))
    if body is None:
        return Opened() if more else None
    fact = record.decode_fact(body, path.stem)
    return fact if isinstance(fact, Opened) else Opened()


class Log:
    """A log that this process owns; `facts` are those found when it was opened, `findings` what was wrong with it."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.session = path.stem
        self.handle = handle
        self.facts: Sequence[Fact] = ()
        self.findings: Sequence[Finding] = ()
        self.size = 0
        self.seq = 0
        self._seed = record.seed(self.session)
        self._broken: StorageError | None = None
        self._name_is_durable = False

    def load(self) -> None:
        """Read everything, set aside what is not a record, and cut an incomplete tail; raises StorageError."""
        try:
            data = self._read()
            found = record.scan(data, self._seed)
            if not found.records and b"\n" in data:
                raise StoreError(
                    f"{self.path} holds no readable record",
                    kept="it was not touched",
                    next="put back a copy, or move the file away; `melete verify` tells more",
                )
            entries = [record.decode_fact(entry.body, self.session) for entry in found.records]
            findings = examine(found, [entry.seq for entry in entries])
            self.findings = keep_aside(self.path, findings)
            if found.tail:
                os.ftruncate(self.handle, found.end)
        except OSError as error:
            raise storage_error(error, f"opening {self.path}", kept="what it holds is untouched") from error
        self.facts = [entry for entry in entries if not isinstance(entry, Unknown)]
        self.seq = max((entry.seq for entry in entries), default=0)
        self.size = found.end

    def _read(self) -> bytes:
        """All bytes; a last record that lacks nothing but its line break gets it."""
        data = read_from(self.handle, 0)
        last = data.rpartition(b"\n")[2]
        if last and record.check(last, self._seed) is not None:
            write_all(self.handle, b"\n")
            data += b"\n"
        return data

    async def append(self, facts: Sequence[Fact], *, durable: bool) -> asyncio.CancelledError | None:
        """Write the facts, whose `seq` goes on from here; with `durable`, wait until they and all before are on the disk.

        Raises StorageError with nothing of them kept. A cancellation waits for the disk and is returned.
        """
        if durable and self._broken is None and not _same_file(self.handle, self.path):
            self._broken = StorageError(
                f"{self.path} was removed or replaced while the session ran",
                kept="what stands there now was not touched; nothing more of this run can be kept",
                next="put it back from a copy, or start a new session",
            )
        if self._broken is not None:
            raise self._broken
        before = self.size
        data = b"".join(record.line(record.encode_fact(fact), self._seed) for fact in facts)
        cancelled: asyncio.CancelledError | None = None
        try:
            write_all(self.handle, data)
            if durable:
                cancelled = await wait_for(self._sync)
        except OSError as error:
            self._take_back(before)
            raise storage_error(
                error, f"writing to {self.path}", kept=f"the {self.seq} facts before are kept and can be read"
            ) from error
        self.size = before + len(data)
        self.seq += len(facts)
        return cancelled

    def _sync(self) -> None:
        os.fdatasync(self.handle)
        if not self._name_is_durable:
            sync_folder(self.path.parent)
            self._name_is_durable = True

    def _take_back(self, size: int) -> None:
        """Cut the log back to `size`; a log that cannot be cut takes no more facts."""
        try:
            os.ftruncate(self.handle, size)
        except OSError as error:
            self._broken = storage_error(
                error, f"taking back an incomplete write to {self.path}", kept=f"the first {size} bytes are sound"
            )

    def close(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def examine(found: record.Scan, numbers: Sequence[int]) -> list[Finding]:
    """What is wrong with a log whose whole records carry these numbers: bad records, missing numbers, a cut tail."""
    findings = [
        Finding(what="a bad record in the middle", offset=piece.offset, raw=piece.raw, harmless=False)
        for piece in found.damage
    ]
    last = 0
    for number, place in zip(numbers, found.records, strict=True):
        if number != last + 1:
            missing = number - last - 1
            gap = f"a gap: facts {last + 1} to {number - 1}" if missing > 1 else f"a gap: fact {number - 1}"
            what = gap if missing > 0 else f"fact {number} in the place of {last + 1}"
            findings.append(Finding(what=what, offset=place.offset, harmless=False))
        last = max(last, number)
    if found.tail:
        whole = b"\n" in found.tail
        what = "bad records at the end" if whole else "an incomplete record at the end"
        findings.append(Finding(what=what, offset=found.end, raw=found.tail, harmless=not whole))
    return findings


class LogReader:
    """Reads a log piece by piece; each call of `new` gives the facts that were completed since the last."""

    def __init__(self, path: Path, *, offset: int = 0) -> None:
        self.path = path
        self.session = path.stem
        self.offset = offset
        self.last = 0
        self.damage: list[record.Piece] = []
        self.unknown: list[Unknown] = []
        self._seed = record.seed(self.session)
        try:
            self._handle = open_regular(path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise SessionNotFoundError(
                f"there is no session {path.stem!r}", next="see `melete sessions list`"
            ) from error
        except OSError as error:
            raise storage_error(error, f"reading {path}", kept="what it holds is untouched") from error

    @property
    def gone(self) -> bool:
        """Whether the log was deleted."""
        return os.fstat(self._handle).st_nlink == 0

    @property
    def inode(self) -> int:
        """The number of the file."""
        return os.fstat(self._handle).st_ino

    @property
    def size(self) -> int:
        """Bytes in the file, whole records or not."""
        return os.fstat(self._handle).st_size

    def mark(self, offset: int, length: int) -> int:
        """A checksum of the `length` bytes before `offset`, which an append never changes."""
        start = max(0, offset - length)
        return zlib.crc32(os.pread(self._handle, offset - start, start))

    def new(self, limit: int = 0) -> list[Fact]:
        """Facts behind the last one that was given, each once; raises StorageError when the disk fails.

        With a `limit`, about so many bytes are read, but at least one record where there is one.
        """
        try:
            size = os.fstat(self._handle).st_size
            if size == self.offset:
                return []
            if size < self.offset:
                self.offset = 0
            found = self._scan(limit or size)
            while found.end == self.offset and limit and self.offset + limit < size:
                limit *= 4
                found = self._scan(limit)
        except OSError as error:
            raise storage_error(error, f"reading {self.path}", kept="what it holds is untouched") from error
        self.offset = found.end
        self.damage += found.damage
        facts: list[Fact] = []
        for entry in found.records:
            fact = record.decode_fact(entry.body, self.session)
            if isinstance(fact, Unknown):
                self.unknown.append(fact)
            elif fact.seq > self.last:
                self.last = fact.seq
                facts.append(fact)
        return facts

    def _scan(self, limit: int) -> record.Scan:
        return record.scan(read_from(self._handle, self.offset, limit=limit), self._seed, base=self.offset)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
