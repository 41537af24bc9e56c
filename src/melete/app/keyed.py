"""Requests that a client may send twice: each of its keys leads to one piece of work, also across a kill. Composition root.

Before the work of a keyed request begins, the ledger has a durable fact of kind `request`: whose it is, hashes of key and body,
and the id that the work gets. Whoever sends it again, before or after a restart, is led to that id.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from msgspec import Struct

from melete.agent.run import new_run_id
from melete.core.errors import MeleteError, SessionBusyError
from melete.core.ports import Clock, Ledger

KIND = "request"
KEPT = timedelta(hours=24)
"""For which a key is remembered."""
BEGINS = timedelta(seconds=10)
"""For which another process that has stored a key is taken to begin its work."""


class KeyReusedError(MeleteError):
    """The key was used for another request; nothing was done."""


class KeyInUseError(SessionBusyError):
    """The first request with this key is being answered at this moment; nothing was done."""


class Keyed(Struct, frozen=True, kw_only=True):
    """One request: `key` is the client's name for it, `owner` who sends it, `body` all that tells it from another one."""

    owner: str
    key: str
    body: bytes


class Work(Struct, frozen=True, kw_only=True):
    """What a key leads to: the id under which the work is to be found, or to begin where it never began.

    `first` for a new key; `done` when this process knows that the work was begun, so that it is gone if it cannot be found.
    """

    id: str
    first: bool = False
    done: bool = False


class _Known(Struct, kw_only=True):
    body: str
    id: str
    at: datetime
    done: bool = False
    elsewhere: bool = False


Began = Callable[[str], Awaitable[bool]]


class Requests:
    """The keyed requests of the last 24 hours. What is in the ledger is read once, when the first key is seen."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._beginning: dict[str, asyncio.Event] = {}
        self._reading = asyncio.Lock()
        self._read = False
        self._upto = 0
        self._storing: set[str] = set()

    @asynccontextmanager
    async def once(self, keyed: Keyed, *, began: Began, wait: bool = False) -> AsyncGenerator[Work]:
        """The work that the key leads to, stored before the block is entered; the block is to begin it where it has not begun.

        `began` says whether there is work under an id: a key whose work never began may be used for another body. While another
        request with the key is inside its block, this waits for it, or without `wait` raises KeyInUseError. Raises
        KeyReusedError, StorageError.
        """
        await self._load()
        name, body = _hash(f"{keyed.owner}\0{keyed.key}".encode()), _hash(keyed.body)
        while (going := self._beginning.get(name)) is not None:
            if not wait:
                raise KeyInUseError(
                    "a request with this Idempotency-Key is being answered", next="try again in a moment"
                )
            await going.wait()
        over = self._beginning[name] = asyncio.Event()
        try:
            known = self._find(name)
            if known is not None and known.body != body:
                if await began(known.id):
                    raise _reused()
                known = None
            first = known is None
            known = known or await self._keep(keyed.owner, name, body)
            if known.elsewhere:
                first = False
                await self._look_elsewhere(known, body, began)
            yield Work(id=known.id, first=first, done=known.done)
            known.done = True
        finally:
            del self._beginning[name]
            over.set()

    def _find(self, name: str) -> _Known | None:
        self._forget()
        return self._known.get(name)

    async def _keep(self, owner: str, name: str, body: str) -> _Known:
        """What the key leads to from now on: another process of this home may have stored it first."""
        self._known.pop(name, None)
        made = _Known(body=body, id=new_run_id(), at=self._clock.now())
        self._storing.add(made.id)
        try:
            stored = {"owner": owner, "key": name, "body": body, "run": made.id}
            number = await self._ledger.append(KIND, stored, durable=True)
            if number > self._upto + 1:
                rows = await asyncio.to_thread(self._ledger.read, kind=KIND, after=self._upto)
                self._take_in([row for row in rows if row["number"] < number])
            self._upto = max(self._upto, number)
        finally:
            self._storing.discard(made.id)
        return self._known.setdefault(name, made)  # the last stands last

    def _take_in(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Know what other processes have stored; the first of one key counts."""
        oldest = self._clock.now() - KEPT
        for row in rows:
            known = _known(row)
            if known is None or known.at < oldest or known.id in self._storing:
                continue
            known.elsewhere = True
            self._known.setdefault(row["key"], known)

    async def _look_elsewhere(self, known: _Known, body: str, began: Began) -> None:
        """Raise KeyReusedError or KeyInUseError for a key that another process has stored, where that may still be at it."""
        if known.body != body:
            raise _reused()
        if not await began(known.id) and self._clock.now() - known.at < BEGINS:
            raise KeyInUseError(
                "another server answers a request with this Idempotency-Key", next="try again in a moment"
            )
        known.elsewhere = False

    def _forget(self) -> None:
        """Let go of what is older than is remembered."""
        oldest = self._clock.now() - KEPT
        for name in [*self._known]:
            if self._known[name].at >= oldest:
                return
            del self._known[name]

    async def _load(self) -> None:
        """Take in what earlier processes stored."""
        async with self._reading:
            if self._read:
                return
            rows = await asyncio.to_thread(self._ledger.read, kind=KIND)
            for row in rows:
                if (known := _known(row)) is not None:
                    self._known.pop(row["key"], None)
                    self._known[row["key"]] = known
            self._upto = rows[-1]["number"] if rows else 0
            self._read = True


def _known(row: Mapping[str, Any]) -> _Known | None:
    """A row of the ledger as it was stored; None for one that holds something else."""
    try:
        return _Known(body=str(row["body"]), id=str(row["run"]), at=datetime.fromisoformat(row["at"]))
    except (KeyError, TypeError, ValueError):
        return None


def _reused() -> KeyReusedError:
    return KeyReusedError(
        "this Idempotency-Key was used for another request",
        kept="nothing was done",
        next="use a new key for each request; send a request again exactly as it was",
    )


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()
