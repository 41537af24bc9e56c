"""The program's own log files: HOME/logs/agent.log (INFO and above) and errors.log (WARNING and above). Composition root.

They are for finding out what went wrong, not for the conversation, which is in the store. Nothing is opened before the
first record; several processes may write at once; secrets are taken out before a line is written. log_reader.py reads them.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from melete.app.home import Home
from melete.app.log_file import LogFile
from melete.core.errors import MeleteError

AGENT_LOG = "agent.log"
ERRORS_LOG = "errors.log"
LARGEST = 5 << 20
KEPT = 3

_session: ContextVar[str] = ContextVar("session", default="-")


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
            (logging.INFO, LogFile(home.logs / AGENT_LOG, largest=LARGEST, kept=KEPT)),
            (logging.WARNING, LogFile(home.logs / ERRORS_LOG, largest=LARGEST, kept=KEPT)),
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
