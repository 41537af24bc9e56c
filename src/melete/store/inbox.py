"""The inbox of a session: one file a message, put in place whole and durable, read by the owner alone. Part of the store.

The folder `<session>.inbox` stands beside the log and is made by the first message.
"""

import errno
import os
import time
from collections.abc import Container, Sequence
from pathlib import Path

import msgspec

from melete.core.errors import StoreError
from melete.core.session import InboxMessage
from melete.store.disk import make_folder, read_regular, storage_error, write_new
from melete.store.names import is_message_id

SUFFIX = ".json"
REFUSED = ".refused"
LEFT_SECONDS = 60
"""A temporary file this old has no sender any more."""
FRESH_NS = 50_000_000
"""A folder that changed less than this ago may change again without a new time stamp: its listing is not trusted."""


def inbox_path(log: Path) -> Path:
    """The inbox of a log."""
    return log.with_suffix(".inbox")


def put(log: Path, message: InboxMessage) -> Path:
    """Write the message durably and return its file; raises StorageError, and StoreError for an id that cannot be a name."""
    if not is_message_id(message.id):
        raise StoreError(f"{message.id!r} cannot be the id of a message", next="use letters, digits, '-' and '_'")
    folder = inbox_path(log)
    make_folder(folder)
    path = folder / f"{message.id}{SUFFIX}"
    try:
        write_new(path, msgspec.json.encode(message))
    except OSError as error:
        raise storage_error(error, f"writing to the inbox {folder}", kept="nothing was sent") from error
    except UnicodeEncodeError as error:
        raise StoreError("the message is not valid text", kept="nothing was sent", next="send it as UTF-8") from error
    return path


def discard(message: Path) -> None:
    """Take away the file of a message whose session is gone, and the folder that it may have made; raises StorageError."""
    try:
        message.unlink(missing_ok=True)
        message.parent.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise storage_error(
                error, f"removing {message}", kept="the session is gone, the message is there"
            ) from error


def refused(log: Path) -> Sequence[Path]:
    """Files that stood in the inbox, were no messages and were set aside."""
    return sorted(inbox_path(log).glob(f"*{REFUSED}"))


class Inbox:
    """The owner's side: what waits, oldest first, at the price of one `stat` while nothing changes."""

    def __init__(self, log: Path) -> None:
        self._folder = inbox_path(log)
        self._seen = -1
        self._waiting: list[InboxMessage] = []

    def pending(self, done: Container[str]) -> Sequence[InboxMessage]:
        """Messages whose ids are not in `done`; those that are get removed, files that are no messages are set aside."""
        try:
            changed = self._folder.stat().st_mtime_ns
            if changed != self._seen:
                self._waiting = self._read()
                self._seen = changed if time.time_ns() - changed > FRESH_NS else -1
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise storage_error(error, f"reading the inbox {self._folder}", kept="its messages stay there") from error
        for message in [message for message in self._waiting if message.id in done]:
            self.settle(message.id)
        return tuple(self._waiting)

    def settle(self, message: str) -> None:
        """Remove a message; one that is gone already is fine."""
        self._waiting = [waiting for waiting in self._waiting if waiting.id != message]
        if not is_message_id(message):
            return
        try:
            (self._folder / f"{message}{SUFFIX}").unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(
                error, f"removing a message from {self._folder}", kept="its fact is stored; it will not act twice"
            ) from error

    def _read(self) -> list[InboxMessage]:
        found: list[InboxMessage] = []
        for path in self._folder.iterdir():
            if path.name.startswith("."):
                _drop_if_left(path)
                continue
            if path.suffix != SUFFIX:
                continue
            try:
                message = _message(path)
            except FileNotFoundError:
                continue
            if message is not None and message.id == path.stem:
                found.append(message)
            else:
                path.rename(path.with_suffix(REFUSED))
        return sorted(found, key=lambda message: (message.at.timestamp(), message.id))


def _message(path: Path) -> InboxMessage | None:
    """The message in a file, None for what is none; raises OSError."""
    try:
        return msgspec.json.decode(read_regular(path), type=InboxMessage)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return None
    except OSError:
        if path.is_file() or not os.path.lexists(path):
            raise
        return None  # a folder, a pipe, a device


def _drop_if_left(path: Path) -> None:
    """Remove what a sender that was killed half-way left behind; it acknowledged nothing."""
    try:
        if time.time() - path.stat().st_mtime > LEFT_SECONDS:
            path.unlink()
    except (FileNotFoundError, IsADirectoryError):
        return
