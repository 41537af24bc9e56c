"""Reading the program's own log files: the records that somebody wants, those that are there and those that come. Composition root.

Rotated files are read in order, and a reader that stays goes on over a rotation. Whatever stands in the files is read as far
as it makes sense; secrets that are known now are taken out, also where an older program wrote them down.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal, Self

from msgspec import Struct, structs

from melete.app.clock import SystemClock
from melete.app.home import Home
from melete.app.keys import looks_secret
from melete.app.logs import AGENT_LOG, ERRORS_LOG, KEPT, LARGEST
from melete.app.settings import SHORTEST_SECRET, load, variables
from melete.core.errors import ConfigError, SessionNotFoundError, StorageError, UsageError
from melete.security.redact import Redactor
from melete.store import open_store

READ = 4 * LARGEST
"""Bytes of one file that are read at most, its last ones: a larger one was not written by us."""
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FILES = {"agent": AGENT_LOG, "errors": ERRORS_LOG}

_LINE = re.compile(r"(?P<at>\S+Z) (?P<level>[A-Z]+) +(?P<logger>\S+) \[(?P<session>[^\]]*)\] (?P<text>.*)", re.DOTALL)
_INDENT = "    "


class LogEntry(Struct, frozen=True, kw_only=True):
    """One record of a log file; `text` holds its further lines as well, such as a traceback."""

    at: datetime
    level: str
    logger: str
    session: str
    text: str


class Wanted(Struct, frozen=True, kw_only=True):
    """Which records: of at least `level`, from `since` on and before `until`; empty fields leave all in.

    `session` is an id or its beginning, `logger` a name with all below it, `text` stands somewhere in the record, in capitals or
    not. `file` is the log to read; where none is named it is the one that goes back farthest.
    """

    level: str = "INFO"
    session: str = ""
    since: datetime | None = None
    until: datetime | None = None
    logger: str = ""
    text: str = ""
    file: Literal["", "agent", "errors"] = ""

    @property
    def levels(self) -> Sequence[str]:
        """The names of the levels; raises UsageError for one that does not exist."""
        least = self.level.upper()
        if least not in LEVELS:
            raise UsageError(f"no level is called {self.level!r}", next=f"use one of {', '.join(LEVELS).lower()}")
        return LEVELS[LEVELS.index(least) :]

    @property
    def log(self) -> str:
        """The name of the file to read."""
        return FILES.get(self.file) or (ERRORS_LOG if "INFO" not in self.levels else AGENT_LOG)


def read_logs(
    home: Home, wanted: Wanted | None = None, *, limit: int = 100, redact: Callable[[str], str] = str
) -> Sequence[LogEntry]:
    """The last `limit` records that are wanted, oldest first; no logs give none.

    Raises UsageError for a level that does not exist, StorageError for files that cannot be read.
    """
    with LogReader(home, wanted or Wanted(), redact=redact) as reader:
        return tuple(deque(reader.read(), maxlen=max(limit, 0)))


class LogReader:
    """The records of a home that are wanted; each `read` goes on where the one before stopped.

    Raises UsageError for a level that does not exist.
    """

    def __init__(self, home: Home, wanted: Wanted, *, redact: Callable[[str], str] = str) -> None:
        self._shown = home.display(home.logs)
        self._lines = _Lines(home.logs / wanted.log)
        self._wanted = wanted
        self._levels = frozenset(wanted.levels)
        self._redact = redact
        self._entry: LogEntry | None = None
        self._more: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()

    def read(self, *, whole: bool = True) -> Iterator[LogEntry]:
        """The records since the last call, oldest first; raises StorageError.

        Unless all is to be taken as `whole`, the last record waits until a call finds nothing behind it.
        """
        came = False
        try:
            for line in self._lines.read(whole=whole):
                came = True
                if (entry := _begun(line)) is None:
                    self._more.append(line.removeprefix(_INDENT))
                    continue
                yield from self._ended()
                self._entry = entry
            if whole or not (came or self._lines.begun):
                yield from self._ended()
        except OSError as error:
            raise StorageError(
                f"{self._shown} cannot be read: {error.strerror}", next="check its permissions"
            ) from error

    def _ended(self) -> Iterator[LogEntry]:
        """The record whose last line has been read, where there is one and it is wanted."""
        entry, more = self._entry, self._more
        self._entry, self._more = None, []
        if entry is None or not self._fits(entry):
            return
        text = self._redact("\n".join((entry.text, *more)))
        if self._wanted.text.casefold() in text.casefold():
            yield structs.replace(
                entry, text=text, logger=self._redact(entry.logger), session=self._redact(entry.session)
            )

    def _fits(self, entry: LogEntry) -> bool:
        wanted = self._wanted
        return (
            entry.level in self._levels
            and entry.session.startswith(wanted.session)
            and (not wanted.logger or f"{entry.logger}.".startswith(f"{wanted.logger.rstrip('.')}."))
            and (wanted.since is None or entry.at >= wanted.since)
            and (wanted.until is None or entry.at < wanted.until)
        )


async def of_session(home: Home, wanted: Wanted) -> Wanted:
    """The same records with the id of the session that is named by id, unique beginning or title.

    The records of a session that was deleted still name it. Raises SessionNotFoundError.
    """
    if not wanted.session:
        return wanted
    async with aclosing(open_store(home.state, clock=SystemClock())) as store:
        try:
            found = (await store.find(wanted.session)).id
        except SessionNotFoundError:
            everything = Wanted(level="DEBUG", session=wanted.session, file=wanted.file)
            with LogReader(home, everything) as reader:
                named = {entry.session for entry in reader.read()}
            if len(named) != 1:
                raise
            found = named.pop()
    return structs.replace(wanted, session=found)


def redaction(profile: str = "", *, always: bool = False) -> Callable[[str], str]:
    """What takes the secrets out that are known here, and what looks like one unless `security.redact` is known and not `always`.

    It works when config.yaml cannot be read as well.
    """
    try:
        shapes = always or load(profile=profile).settings.security.redact == "auto"
    except ConfigError:
        shapes = True
    return Redactor(known_secrets(profile), shapes=shapes)


def known_secrets(profile: str = "") -> Mapping[str, str]:
    """The secrets that are known here, by their variables' names."""
    try:
        return load(profile=profile).secrets
    except ConfigError:
        found = variables(profile=profile)
        return {n: v for n, v in found.items() if looks_secret(n) and len(v.strip()) >= SHORTEST_SECRET}


def _begun(line: str) -> LogEntry | None:
    """The record whose first line this is; None for a further line, or one that is damaged."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    try:
        at = datetime.fromisoformat(found["at"])
    except ValueError:
        return None
    session = "" if found["session"] == "-" else found["session"]
    return LogEntry(at=at, level=found["level"], logger=found["logger"], session=session, text=found["text"])


class _Lines:
    """The lines of a file with its older parts before it; the newest part stays open, so that no rotation is missed."""

    def __init__(self, path: Path) -> None:
        self._names = (path, *(path.with_name(f"{path.name}.{number}") for number in range(1, KEPT + 1)))
        self._file: BinaryIO | None = None
        self._rest = b""

    def close(self) -> None:
        """Close the part that is open."""
        if self._file is not None:
            self._file.close()

    @property
    def begun(self) -> bool:
        """Whether a line has begun that has no end yet."""
        return bool(self._rest)

    def read(self, *, whole: bool) -> Iterator[str]:
        """The lines since the last call, oldest first; what has no end of line waits for it, unless all is `whole`."""
        newer = self._newer()
        if self._file is not None:
            yield from self._drain(self._file, whole=whole or bool(newer))
        try:
            for number, file in enumerate(newer, 1):
                self.close()
                self._file = file
                file.seek(max(0, os.fstat(file.fileno()).st_size - READ))
                yield from self._drain(file, whole=whole or number < len(newer))
        finally:
            for file in newer:
                if file is not self._file:
                    file.close()

    def _drain(self, file: BinaryIO, *, whole: bool) -> Iterator[str]:
        if os.fstat(file.fileno()).st_size < file.tell():  # it was emptied
            file.seek(0)
            self._rest = b""
        for line in file:
            if line.endswith(b"\n"):
                yield _text(self._rest + line[:-1])
                self._rest = b""
            else:
                self._rest += line
        if whole and self._rest:
            yield _text(self._rest)
            self._rest = b""

    def _newer(self) -> list[BinaryIO]:
        """The parts that were begun after the open one, oldest first; the names are looked at newest first.

        A rotation in between shows a part twice, never none.
        """
        found: list[BinaryIO] = []
        current = os.fstat(self._file.fileno()) if self._file is not None else None
        known: list[os.stat_result] = []
        for name in self._names:
            if (file := _opened(name)) is None:
                continue
            status = os.fstat(file.fileno())
            if current is not None and os.path.samestat(status, current):
                file.close()
                break
            moved = current is not None and status.st_mtime_ns < current.st_mtime_ns  # the open one lies elsewhere now
            if moved or any(os.path.samestat(status, other) for other in known):
                file.close()
            else:
                known.append(status)
                found.append(file)
        return found[::-1]


def _opened(path: Path) -> BinaryIO | None:
    """The regular file at a path, opened; None where there is none. Raises OSError."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe is not waited for
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
    return None


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
