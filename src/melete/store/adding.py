"""A session made of facts that exist already: written beside its place, put there whole, durable, or not at all.

Part of the store. Imports and forks come this way; a process that is killed half-way leaves no session, only a temporary
file that a later one removes.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from melete.core.errors import StoreError
from melete.core.event import EPOCH, Fact, Opened
from melete.store import record
from melete.store.disk import PRIVATE_FILE, storage_error, sync_folder, write_all
from melete.store.names import is_session_id

SUFFIX = ".new"
LEFT_SECONDS = 3_600
"""A temporary file this old has no writer any more."""


def check_id(name: str) -> None:
    """Raises StoreError for what cannot be a session's id."""
    if not is_session_id(name):
        raise StoreError(f"{name!r} cannot be the id of a session", next="use a-z, 0-9 and '-', at most 80")


def check_opened(fact: Fact) -> Opened:
    """The fact as the first of a session; raises StoreError."""
    if not isinstance(fact, Opened):
        raise StoreError(f"a session cannot begin with {type(fact).__name__}", next="begin with Opened")
    return fact


def taken(name: str) -> StoreError:
    """The error for an id that a session has already."""
    return StoreError(f"there is a session {name} already", kept="it was not touched", next="choose another id")


def numbered(facts: Sequence[Fact], session: str, now: datetime) -> list[Fact]:
    """The facts as those of `session`, numbered from 1; those without a time get `now`. Raises StoreError."""
    if not facts:
        raise StoreError("a session cannot be made of no facts", next="begin with Opened")
    check_opened(facts[0])
    return [
        msgspec.structs.replace(
            fact, seq=number, session=session, at=now.astimezone(UTC) if fact.at == EPOCH else fact.at
        )
        for number, fact in enumerate(facts, 1)
    ]


def encoded(facts: Sequence[Fact], session: str) -> bytes:
    """The whole log that holds these facts; raises StorageError for one that cannot be written."""
    start = record.seed(session)
    return b"".join(record.line(record.encode_fact(fact), start) for fact in facts)


def latest(facts: Sequence[Fact], now: datetime) -> float:
    """When the session of these facts changed last, in seconds since 1970."""
    return max(now if fact.at == EPOCH else fact.at for fact in facts).timestamp()


def put(path: Path, data: bytes, *, at: float) -> None:
    """Make the log at `path` with these bytes, changed last `at`, durably.

    Raises StoreError when there is one already, StorageError.
    """
    temporary = path.with_name(f".{path.stem}.{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            write_all(handle, data)
            os.utime(handle, (at, at))
            os.fsync(handle)
        finally:
            os.close(handle)
        os.link(temporary, path)  # unlike a rename, this refuses to take the place of another
        temporary.unlink()
        sync_folder(path.parent)
    except FileExistsError:
        temporary.unlink(missing_ok=True)
        raise taken(path.stem) from None
    except OSError as error:
        with suppress(OSError):  # the disk that failed may fail again; a later process removes it
            temporary.unlink(missing_ok=True)
        raise storage_error(error, f"writing {path}", kept="no session was made") from error


def drop_left(folder: Path) -> None:
    """Remove temporary files that killed writers left behind; raises StorageError."""
    oldest = time.time() - LEFT_SECONDS
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") and entry.name.endswith(SUFFIX) and entry.stat().st_ctime < oldest:
                    Path(entry.path).unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error(error, f"reading the folder {folder}", kept="what it holds is untouched") from error
