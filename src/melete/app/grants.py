"""What was approved for good: HOME/grants.json, one row for each grant. Part of the composition root.

The file is replaced whole while a lock is held, and is for its owner alone. One that cannot be understood grants nothing and is
never written over.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from melete.app.text_file import read_text, replacing
from melete.core.errors import ConfigError, StorageError
from melete.core.policy import Grant
from melete.core.ports import Clock

KEPT = "no grant counts until the file is sound; it was left as it is"


class Kept(Struct, frozen=True, kw_only=True):
    """What the file holds."""

    version: int = 1
    grants: tuple[Grant, ...] = ()


class GrantFile:
    """The lasting grants of a home; implements `Grants`. Nothing is made before something is granted."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self.path = path
        self._clock = clock

    async def holds(self, digest: str) -> bool:
        """Whether this was granted; raises StorageError."""
        return any(grant.digest == digest for grant in await asyncio.to_thread(self.read))

    async def add(self, grant: Grant) -> None:
        """Keep a grant, with the time of now; raises StorageError."""
        new = structs.replace(grant, at=self._clock.now().isoformat(timespec="seconds"))
        await asyncio.to_thread(self._change, lambda old: (*(g for g in old if g.digest != new.digest), new))

    def read(self) -> Sequence[Grant]:
        """All grants, the oldest first; raises StorageError for a file that cannot be read or understood."""
        try:
            text = read_text(self.path, shown=str(self.path))
            return msgspec.json.decode(text, type=Kept).grants if text is not None else ()
        except (ConfigError, msgspec.MsgspecError) as error:
            next_ = f"mend it, or remove it to begin without grants: {self.path}"
            raise StorageError(
                f"the approvals in {self.path.name} cannot be read: {error}", kept=KEPT, next=next_
            ) from error

    def revoke(self, start: str) -> Sequence[Grant]:
        """Take back the grants whose digest begins so, all of them for an empty text, and return them; raises StorageError."""
        gone: list[Grant] = []

        def without(old: Sequence[Grant]) -> tuple[Grant, ...]:
            gone.extend(grant for grant in old if grant.digest.startswith(start))
            return tuple(grant for grant in old if not grant.digest.startswith(start))

        self._change(without)
        return gone

    def _change(self, change: Callable[[Sequence[Grant]], tuple[Grant, ...]]) -> None:
        try:
            with self._locked():
                data = msgspec.json.format(msgspec.json.encode(Kept(grants=change(self.read()))))
                with replacing(self.path) as descriptor:
                    os.fchmod(descriptor, 0o600)
                    os.write(descriptor, data + b"\n")
        except OSError as error:
            raise StorageError(
                f"{self.path} cannot be written: {error.strerror}",
                kept="nothing was changed",
                next="check its permissions",
            ) from error

    @contextmanager
    def _locked(self) -> Generator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
