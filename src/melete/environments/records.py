"""What is known of a session's background processes on the disk, so that it outlives the agent that started them.

A folder for each session holds `book.json`, replaced whole at each change and only under the folder's lock, and the last output of
each process. Several agents may have the session open: each changes its own rows. A power cut may lose the latest change, and
ended all processes with it.
"""

import contextlib
import fcntl
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from melete.environments import tree

log = logging.getLogger("melete.processes")
KEPT = timedelta(minutes=30)
"""For how long a process that has ended is remembered."""
BOOK = "book.json"
LOCK = ".lock"
OWNER_ONLY = 0o700
PRIVATE = 0o600
TRIES, STEP = 100, 0.01
HERE = "local"
"""The environment whose process ids are those of this machine."""
ENDS_WITH_AGENT = ("sandbox",)
"""Environments that the kernel ends with their agent, however that ends."""
ID = re.compile(r"p[0-9]{1,9}")
BOOT = Path("/proc/sys/kernel/random/boot_id")
Status = Literal["running", "exited", "killed", "unknown"]


class Record(Struct, frozen=True, kw_only=True):
    """One process: `born` and `boot` tell it from a later one with its number, `agent` is the pid of who started it."""

    id: str
    command: str
    cwd: str
    pid: int
    born: str
    environment: str
    agent: int
    agent_born: str
    boot: str
    status: Status
    code: int | None = None
    started: datetime
    ended: datetime | None = None
    notify: bool = False
    told: bool = False
    dropped: int = 0


class Book(Struct, frozen=True, kw_only=True):
    """All that is remembered of a session: `count` processes were started in it so far."""

    count: int = 0
    records: tuple[Record, ...] = ()

    def find(self, name: str) -> Record | None:
        """The record with this id."""
        return next((record for record in self.records if record.id == name), None)

    def with_record(self, record: Record) -> "Book":
        """The book with a record put in, in place of an older one of its id."""
        others = tuple(other for other in self.records if other.id != record.id)
        records = tuple(sorted((*others, record), key=lambda one: number_of(one.id)))
        return Book(count=max(self.count, number_of(record.id)), records=records)

    def without(self, gone: Callable[[Record], bool]) -> "Book":
        """The book without some records; their numbers are not given anew."""
        return Book(count=self.count, records=tuple(record for record in self.records if not gone(record)))


class Seen(Struct, frozen=True, kw_only=True):
    """What has become of a process that another agent started, as far as can be seen now."""

    status: Status
    note: str = ""
    foreign: bool = False


class Records:
    """The folder of one session; it is made by the first record. Its methods raise OSError."""

    def __init__(self, folder: Path, *, redact: Callable[[str], str] = str) -> None:
        self.folder = folder
        self._redact = redact

    def read(self) -> Book:
        """What is remembered; nothing where there is no book, or none that can be read: that is set aside."""
        path = self.folder / BOOK
        try:
            return msgspec.json.decode(path.read_bytes(), type=Book)
        except FileNotFoundError:
            return Book()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            aside = path.with_suffix(".damaged")
            log.warning("%s cannot be understood (%s): it is kept as %s", path, error, aside)
            path.replace(aside)
            return Book()

    def change(self, act: Callable[[Book], Book]) -> Book:
        """Replace the book by what `act` makes of it, as one step for everybody who looks."""
        if not self.folder.is_dir():
            _make(self.folder)
        with _locked(self.folder / LOCK):
            before = self.read()
            after = act(before)
            if after != before:
                self._write(BOOK, msgspec.json.encode(after))
        for name in {record.id for record in before.records} - {record.id for record in after.records}:
            self._log(name).unlink(missing_ok=True)
        return after

    def put(self, record: Record) -> Record:
        """Put a record in, its command without secrets; one without an id gets the next."""

        def act(book: Book) -> Book:
            nonlocal record
            if not record.id:
                record = msgspec.structs.replace(record, id=f"p{book.count + 1}")
            return book.with_record(record)

        record = msgspec.structs.replace(record, command=self._redact(record.command))
        self.change(act)
        return record

    def keep_output(self, name: str, text: str) -> None:
        """Keep the last output of a process, without secrets, in place of what was kept."""
        self._write(self._log(name).name, self._redact(text).encode("utf-8", "replace"))

    def output(self, name: str) -> str:
        """The last output that was kept; empty where none was."""
        try:
            return self._log(name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.folder)

    def _log(self, name: str) -> Path:
        return self.folder / f"p{number_of(name)}.log"

    def _write(self, name: str, data: bytes) -> None:
        temporary = self.folder / f".{name}.{os.getpid()}.new"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            temporary.replace(self.folder / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def number_of(name: str) -> int:
    """The number in an id such as `p12`; 0 for what is none."""
    return int(name[1:]) if ID.fullmatch(name) else 0


def boot() -> str:
    """What tells this start of the machine from any other; empty where that cannot be known."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return ""


def see(record: Record) -> Seen:
    """What has become of a process whose record was not made by this agent."""
    if record.status != "running":
        return Seen(status=record.status)
    if record.boot != boot():
        return Seen(status="killed", note="the machine was started anew since")
    if record.agent_born and tree.born(record.agent) == record.agent_born:
        return Seen(status="running", note=f"it belongs to another process of melete ({record.agent})", foreign=True)
    return _after_its_agent(record)


def _after_its_agent(record: Record) -> Seen:
    """What becomes of a process whose agent has ended while the machine ran on."""
    if record.environment in ENDS_WITH_AGENT:
        return Seen(status="killed", note=f"it ended with its {record.environment}, when the agent ended")
    if record.environment != HERE:
        return Seen(status="unknown", note=f"its agent ended before it: it may still run in {record.environment}")
    if record.born and tree.born(record.pid) == record.born:
        return Seen(status="running", note="its agent ended before it: what it prints since then is not known")
    return Seen(status="unknown", note="its agent ended before it: nobody saw how it ended")


def sweep(root: Path, *, now: datetime) -> Sequence[str]:
    """Forget, in the folders of all sessions, what ended too long ago; returns the sessions that have a folder.

    Processes that nobody has looked for since their agent ended get their true status. A folder that cannot be changed is logged.
    """
    folders = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    for folder in folders:
        records = Records(folder)
        try:
            book = records.read()
            if _swept(book, now) != book:
                records.change(lambda book: _swept(book, now))
        except (OSError, ValueError) as error:
            log.warning("the records of background processes in %s cannot be swept: %s", folder, error)
    return [folder.name for folder in folders]


def _swept(book: Book, now: datetime) -> Book:
    return settled(book, now).without(lambda record: is_over(record, now))


def settled(book: Book, now: datetime) -> Book:
    """The book with the true status of those whose agent has ended; nobody saw when they did, so it is now."""
    for record in book.records:
        status = see(record).status
        if status != record.status:
            book = book.with_record(msgspec.structs.replace(record, status=status, ended=now))
    return book


def is_over(record: Record, now: datetime) -> bool:
    """Whether a process ended so long ago that it is forgotten."""
    return record.ended is not None and now - record.ended > KEPT


@contextmanager
def _locked(path: Path) -> Generator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        for left in range(TRIES, -1, -1):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not left:
                    raise
                time.sleep(STEP)
        yield
    finally:
        os.close(handle)


def _make(folder: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=OWNER_ONLY)
