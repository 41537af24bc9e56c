"""What became of every occurrence of every job: HOME/cron/history.jsonl, and the answers in HOME/cron/output. Composition root.

Rows are only ever added, each durable before the next thing is done; of several rows for one occurrence the last counts. A file
that has grown large is put aside under a number, and read as well. Everything here blocks: it is called in a worker thread.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from melete.core.job import Job, Occurrence
from melete.store.disk import make_folder, open_regular, storage_error, write_all, write_new

LARGEST = 8_000_000
"""Bytes from which on the file is put aside."""
BLOCK = 65_536
_ASIDE = re.compile(r"history-\d{6,}\.jsonl")
_row: msgspec.json.Decoder[Occurrence] = msgspec.json.Decoder(Occurrence)


class JobHistory:
    """The rows in `folder`; those who add any hold the folder's lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "history.jsonl"

    def add(self, rows: Sequence[Occurrence]) -> None:
        """Store rows, durable when this returns; raises StorageError, after which none, or some, of them are there."""
        if not rows:
            return
        data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        try:
            handle = open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    data = b"\n" + data  # a crash left half a row: it stays, alone on its line
                write_all(handle, data)
                os.fdatasync(handle)
            finally:
                os.close(handle)
            if size > LARGEST:
                self._put_aside()
        except OSError as error:
            raise storage_error(error, f"writing {self.path}", kept="earlier rows are untouched") from error

    def of(self, job: str, *, limit: int, before: str = "") -> Sequence[Occurrence]:
        """The occurrences of a job, the last changed first, those older than `before`; raises StorageError."""
        found: list[Occurrence] = []
        seen: set[str] = set()
        waiting = bool(before)
        for row in self._backwards(f'"job":"{job}"'.encode(), lambda row: row.job == job):
            if row.id in seen:
                continue
            seen.add(row.id)
            if not waiting:
                found.append(row)
            waiting = waiting and row.id != before
            if len(found) >= limit:
                break
        return found

    def ends_with(self, row: Occurrence) -> bool:
        """Whether the last row is one of the same occurrence; raises StorageError."""
        try:
            line = next(_lines_backwards(self.path), b"")
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error(error, f"reading {self.path}", kept="nothing was touched") from error
        last = _decoded(line)
        return last is not None and last.id == row.id

    def find(self, id: str) -> Occurrence | None:
        """What is known of one occurrence; raises StorageError."""
        return next(self._backwards(f'"id":"{id}"'.encode(), lambda row: row.id == id), None)

    def keep_output(self, row: Occurrence, job: Job, text: str) -> str:
        """Put the answer of an occurrence into a file of its own and return its path below the folder; raises StorageError."""
        stamp = row.id.removeprefix(f"{job.id}-")
        folder = self.folder / "output" / job.id
        make_folder(folder)
        path = folder / f"{stamp}.md"
        try:
            write_new(path, _page(row, job, text).encode("utf-8", "replace"))
        except OSError as error:
            raise storage_error(error, f"writing {path}", kept="the answer is in its session") from error
        return str(path.relative_to(self.folder))

    def _put_aside(self) -> None:
        last = max((int(path.stem.rpartition("-")[2]) for path in self._aside()), default=0)
        self.path.rename(self.path.with_name(f"history-{last + 1:06}.jsonl"))

    def _aside(self) -> Sequence[Path]:
        """What was put aside, the oldest first."""
        return sorted(path for path in self.folder.glob("history-*.jsonl") if _ASIDE.fullmatch(path.name))

    def _backwards(self, mark: bytes, wanted: Callable[[Occurrence], bool]) -> Iterator[Occurrence]:
        """The rows with `mark` in their text that are wanted, the last first; what cannot be read is passed over."""
        for path in (self.path, *reversed(self._aside())):
            try:
                for line in _lines_backwards(path):
                    if mark in line and (row := _decoded(line)) is not None and wanted(row):
                        yield row
            except FileNotFoundError:
                continue  # it was never made, or put aside just now
            except OSError as error:
                raise storage_error(error, f"reading {path}", kept="nothing was touched") from error


def _decoded(line: bytes) -> Occurrence | None:
    try:
        return _row.decode(line)
    except (msgspec.DecodeError, ValueError):
        return None


def _lines_backwards(path: Path) -> Iterator[bytes]:
    """The lines of a file from the last to the first; raises OSError."""
    handle = open_regular(path, os.O_RDONLY)
    try:
        place, rest = os.fstat(handle).st_size, b""
        while place > 0:
            start = max(0, place - BLOCK)
            first, *others = (os.pread(handle, place - start, start) + rest).split(b"\n")
            yield from (line for line in reversed(others) if line)
            place, rest = start, first
        if rest:
            yield rest
    finally:
        os.close(handle)


def _page(row: Occurrence, job: Job, text: str) -> str:
    """The answer below a head that says what it answers."""
    known = {
        "due": row.due.isoformat(timespec="seconds"),
        "started": row.started.isoformat(timespec="seconds") if row.started else "",
        "ended": row.ended.isoformat(timespec="seconds") if row.ended else "",
        "status": row.status,
        "why": " ".join(row.why.split()),
        "session": row.session,
        "run": row.run,
    }
    head = "\n".join(f"- {name}: {value}" for name, value in known.items() if value)
    return f"# {' '.join(job.name.split())}\n\n{head}\n\n{text.rstrip()}\n"
