"""The jobs of a home as they are stored: HOME/cron/jobs.json, and the locks that its processes share. Composition root.

The file is replaced whole while the folder is locked, so a reader sees the jobs before a change or after it. A file that cannot
be understood is never written over. Everything here blocks: it is called in a worker thread.
"""

import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from melete.core.errors import StorageError, StoreError
from melete.core.job import Job, Occurrence
from melete.store.disk import make_folder, open_regular, read_regular, storage_error, write_new

VERSION = 1
LOCK_SECONDS = 10.0
LOCK_STEP = 0.005
UNCHANGED = "nothing was changed"
log = logging.getLogger("melete.jobs")


class DamagedJobsError(StoreError):
    """The file of the jobs cannot be understood; no job runs, and none can be changed, until it can."""


class JobContent(Struct, frozen=True, kw_only=True):
    """What the file holds: the jobs, and rows of the history that may not be there yet: a change of both is one change."""

    version: int = VERSION
    jobs: tuple[Job, ...] = ()
    unwritten: tuple[Occurrence, ...] = ()


_decoder: msgspec.json.Decoder[JobContent] = msgspec.json.Decoder(JobContent)


class JobFile:
    """The jobs in `folder`; nothing is made before it is written to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "jobs.json"

    def state(self) -> tuple[int, ...]:
        """What is another one whenever the file was changed; empty for no file. Raises StorageError."""
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise storage_error(error, f"looking at {self.path}", kept="no job was touched") from error
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size

    def read(self) -> Sequence[Job]:
        """The jobs in the order of their making; raises DamagedJobsError, StorageError."""
        return self.content().jobs

    def content(self) -> JobContent:
        """All that the file holds; raises DamagedJobsError, StorageError."""
        try:
            data = read_regular(self.path)
        except FileNotFoundError:
            return JobContent()
        except OSError as error:
            raise storage_error(error, f"reading {self.path}", kept="no job was touched") from error
        try:
            content = _decoder.decode(data)
        except (msgspec.DecodeError, ValueError) as error:  # ValueError: bytes that are no UTF-8
            raise self._damaged(data, str(error)) from error
        if content.version != VERSION:
            raise self._damaged(data, f"its version is {content.version}, and this program knows {VERSION}")
        if len({job.id for job in content.jobs}) < len(content.jobs):
            raise self._damaged(data, "an id stands in it twice")
        return content

    @contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Shut out every other process, and thread, that changes jobs or history; raises StorageError."""
        make_folder(self.folder)
        try:
            handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise storage_error(error, f"opening {self.folder}", kept=UNCHANGED) from error
        try:
            until = time.monotonic() + LOCK_SECONDS
            while not _try_lock(handle):
                if time.monotonic() > until:
                    raise StorageError(
                        f"another process has kept {self.folder} locked for {LOCK_SECONDS:.0f} seconds",
                        kept=UNCHANGED,
                        next="look for a process of melete that hangs",
                    )
                time.sleep(LOCK_STEP)
            yield
        finally:
            os.close(handle)

    def write(self, jobs: Sequence[Job], *, unwritten: Sequence[Occurrence] = ()) -> None:
        """Replace the file, while it is locked; durable when this returns. Raises StorageError with the old one in place."""
        content = JobContent(jobs=tuple(jobs), unwritten=tuple(unwritten))
        try:
            write_new(self.path, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
        except OSError as error:
            raise storage_error(error, f"writing {self.path}", kept="the jobs are as they were before") from error

    def claim(self, name: str) -> int | None:
        """Own `name` (a job while it runs, or the ticker) until the handle is closed; None while another process does.

        The end of a process, however it comes, lets it go. Raises StorageError.
        """
        folder = self.folder / "locks"
        make_folder(folder)
        try:
            handle = open_regular(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise storage_error(error, f"opening {folder / name}.lock", kept="nothing was begun") from error
        if _try_lock(handle):
            return handle
        os.close(handle)
        return None

    def _damaged(self, data: bytes, why: str) -> DamagedJobsError:
        """The error to raise, after a copy of what is there was put beside it, once."""
        copy = self.path.with_name(f"jobs.damaged-{hashlib.sha256(data).hexdigest()[:8]}.json")
        kept = f"the file was not touched, and a copy is in {copy}"
        try:
            if not copy.exists():
                write_new(copy, data)
        except OSError as error:
            log.warning("no copy of %s could be made: %s", self.path, error)
            kept = "the file was not touched"
        return DamagedJobsError(
            f"the jobs cannot be read: {self.path}: {why}; none of them runs",
            kept=kept,
            next="mend the file by hand, or move it away and make the jobs anew",
        )


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
