"""The program's own log files: HOME/logs/agent.log (INFO and above) and errors.log (WARNING and above). Composition root.

They are for finding out what went wrong, not for the conversation, which is in the store. Nothing is opened before the
first record; several processes may write at once; secrets are taken out before a line is written.
"""

import fcntl
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from melete.app.home import Home
from melete.core.errors import MeleteError, StorageError, UsageError

AGENT_LOG = "agent.log"
ERRORS_LOG = "errors.log"
LARGEST = 5 << 20
KEPT = 3
READ = 4 * LARGEST
"""Bytes of one file that are read at most, its last ones: a larger one was not written by us."""
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_LINE = re.compile(r"(?P<at>\S+Z) (?P<level>[A-Z]+) +(?P<logger>\S+) \[(?P<session>[^\]]*)\] (?P<text>.*)")
_AGO = re.compile(r"(\d+)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_session: ContextVar[str] = ContextVar("session", default="-")


class LogEntry(Struct, frozen=True, kw_only=True):
    """One record of a log file; `text` holds its further lines as well, such as a traceback."""

    at: datetime
    level: str
    logger: str
    session: str
    text: str


@contextmanager
def log_session(session: str) -> Generator[None, None, None]:
    """Let every record inside the block, and inside tasks begun there, carry this session id."""
    token = _session.set(session)
    try:
        yield
    finally:
        _session.reset(token)


@contextmanager
def logging_to(
    home: Home, *, redact: Callable[[str], str], on_failure: Callable[[str], None] | None = None
) -> Generator[None, None, None]:
    """Write the program's records (INFO and above) and everybody's warnings to the home's logs until the block ends.

    Where the files cannot be written the work goes on, and `on_failure` is told once, in one line.
    """
    handler = _Handler(home, redact=redact, on_failure=on_failure)
    root, own = logging.getLogger(), logging.getLogger("melete")
    before = own.level
    root.addHandler(handler)
    own.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        own.setLevel(before)
        handler.close()


class _Handler(logging.Handler):
    """Formats a record once and appends it to each file that wants its level."""

    def __init__(
        self, home: Home, *, redact: Callable[[str], str], on_failure: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(logging.INFO)
        self._home = home
        self._redact = redact
        self._on_failure = on_failure
        self._files = (
            (logging.INFO, _File(home.logs / AGENT_LOG)),
            (logging.WARNING, _File(home.logs / ERRORS_LOG)),
        )

    def emit(self, record: logging.LogRecord) -> None:
        line = self._line(record).encode("utf-8", "replace")
        try:
            self._home.folder(self._home.logs)
            for level, file in self._files:
                if record.levelno >= level:
                    file.append(line)
        except (OSError, MeleteError) as error:
            self._fail(str(error))

    def close(self) -> None:
        for _, file in self._files:
            file.close()
        super().close()

    def _line(self, record: logging.LogRecord) -> str:
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError) as error:
            text = f"{record.msg} (the record's arguments do not fit: {error})"
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        session = getattr(record, "session", "") or _session.get()
        body = self._redact(text).replace("\r", "\\r").rstrip("\n").replace("\n", "\n    ")
        return f"{at} {record.levelname:<7} {record.name} [{session}] {body}\n"

    def _fail(self, reason: str) -> None:
        if self._on_failure is not None:
            self._on_failure(f"the log files cannot be written: {reason}")
            self._on_failure = None


class _File:
    """One file that grows to a size, then makes room for a new one; any process may do so, the others follow."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def append(self, line: bytes) -> None:
        """Add a line, whole; raises OSError."""
        status = self._opened()
        if status.st_size and status.st_size + len(line) > LARGEST:
            self._rotate()
            self._opened()
        os.write(self._descriptor, line)

    def close(self) -> None:
        """Give the file back; the next line opens it anew."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _opened(self) -> os.stat_result:
        if self._descriptor >= 0 and not self._current():
            self.close()
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe is not waited for
            self._descriptor = os.open(self._path, flags, 0o600)
        return os.fstat(self._descriptor)

    def _current(self) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._descriptor))

    def _rotate(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        if self._current():
            for number in range(KEPT - 1, 0, -1):
                older = self._path.with_name(f"{self._path.name}.{number}")
                if older.exists():
                    older.replace(self._path.with_name(f"{self._path.name}.{number + 1}"))
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self.close()


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_logs(
    home: Home, *, level: str = "INFO", session: str = "", since: datetime | None = None, limit: int = 100
) -> Sequence[LogEntry]:
    """The last `limit` records of at least `level`, oldest first; `session` is an id or its beginning.

    No logs give no records. Raises UsageError for a level that does not exist, StorageError for files that cannot be read.
    """
    wanted = level.upper()
    if wanted not in LEVELS:
        raise UsageError(f"no level is called {level!r}", next=f"use one of {', '.join(LEVELS).lower()}")
    least = LEVELS.index(wanted)
    found = (
        entry
        for entry in _entries(home.logs / (ERRORS_LOG if least >= LEVELS.index("WARNING") else AGENT_LOG))
        if entry.level in LEVELS[least:] and entry.session.startswith(session) and (since is None or entry.at >= since)
    )
    try:
        return tuple(deque(found, maxlen=max(limit, 0)))
    except OSError as error:
        raise StorageError(
            f"{home.display(home.logs)} cannot be read: {error.strerror}", next="check its permissions"
        ) from error


def moment(text: str, *, now: datetime) -> datetime:
    """The time that `text` means: `90s`, `15m`, `2h`, `3d`, `1w` before `now`, or an ISO time (UTC without a zone)."""
    try:
        if ago := _AGO.fullmatch(text.strip()):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        at = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is not a time", next="write 15m, 2h, 3d or 2026-01-31T12:00") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _entries(path: Path) -> Iterator[LogEntry]:
    entry: LogEntry | None = None
    more: list[str] = []
    for line in _lines(path):
        begun = _begun(line)
        if begun is None:
            more.append(line.removeprefix("    "))
            continue
        if entry is not None:
            yield _with(entry, more)
        more = []
        entry = begun
    if entry is not None:
        yield _with(entry, more)


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


def _with(entry: LogEntry, more: Sequence[str]) -> LogEntry:
    if not more:
        return entry
    return LogEntry(
        at=entry.at,
        level=entry.level,
        logger=entry.logger,
        session=entry.session,
        text="\n".join((entry.text, *more)),
    )


def _lines(path: Path) -> Iterator[str]:
    for part in (*(path.with_name(f"{path.name}.{number}") for number in range(KEPT, 0, -1)), path):
        if part.is_file():
            with part.open("rb") as file:
                file.seek(max(0, part.stat().st_size - READ))
                for line in file:
                    yield line.decode("utf-8", "replace").rstrip("\n")
