"""The home's ledger: one log that nobody owns; each append is under a short lock that all processes share. Part of the store.

A spending record carries the totals of its day, open reservations counted in full, so the last one tells the day. The
reservation of a process that died is never given back that day: the budget errs on the side of spending less.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from melete.core.errors import StorageError, StoreError
from melete.core.message import Usage
from melete.core.policy import Allowance
from melete.core.ports import Clock, Day
from melete.store import record, spending
from melete.store.aside import Finding, keep_aside
from melete.store.disk import make_folder, open_regular, read_regular, storage_error, write_all
from melete.store.spending import RESERVED, SETTLED, SPENDING

NAME = "ledger"
BLOCK = 1_024
LOCK_STEP = 0.002
LOCK_SECONDS = 10.0
OWN_FIELDS = frozenset({"number", "kind", "at", "seq"})
"""Names that a fact's own fields may not have; `seq` is how a session's log numbers its facts."""

Row = dict[str, Any]
_row: msgspec.json.Decoder[Row] = msgspec.json.Decoder(Row)


def ledger_path(state: Path) -> Path:
    """Where a home's ledger stands."""
    return state / f"{NAME}.log"


def rows(data: bytes) -> list[Row]:
    """The readable facts of a ledger's bytes, oldest first."""
    found = record.scan(data, record.seed(NAME))
    return [row for entry in found.records if (row := _decode(entry.body)) is not None]


def _decode(body: bytes) -> Row | None:
    try:
        return _row.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


class _Open:
    """The ledger's file while its lock is held."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.handle = handle
        self.size = os.fstat(handle).st_size

    @property
    def number(self) -> int:
        """The number of the last fact."""
        row = self.last(lambda _: True)
        return int(row["number"]) if row is not None else 0

    def last(self, wanted: Callable[[Row], bool]) -> Row | None:
        """The last fact that is wanted, looking back as far as it takes."""
        return next((row for row in self.backwards() if wanted(row)), None)

    def append(self, row: Row) -> None:
        """Write one fact; raises OSError with the file as it was."""
        data = record.line(msgspec.json.encode(row), record.seed(NAME))
        try:
            write_all(self.handle, data)
        except OSError:
            os.ftruncate(self.handle, self.size)
            raise
        self.size += len(data)

    def mend(self) -> None:
        """Cut what a crash left behind the last whole record, its bytes kept aside.

        Raises StoreError, nothing touched, when there is not one whole record in what looks like many.
        """
        block = 0
        while block < self.size:
            block = min(self.size, max(BLOCK, block * 8))
            found = self._scan(self.size - block, self.size)
            if found.records or block == self.size:
                break
        else:
            return
        if not found.tail:
            return
        if not found.records and b"\n" in found.tail:
            raise StoreError(
                f"{self.path} holds no readable record", kept="it was not touched", next="run `melete verify`"
            )
        finding = Finding(what="an incomplete record at the end", offset=found.end, raw=found.tail)
        keep_aside(self.path, [finding])
        os.ftruncate(self.handle, found.end)
        self.size = found.end

    def backwards(self) -> Iterator[Row]:
        """The facts from the last to the first; reads block by block and decodes only what is asked for."""
        stop, block = self.size, BLOCK
        while stop > 0:
            start = max(0, stop - block)
            found = self._scan(start, stop)
            for entry in reversed(found.records):
                if (row := _decode(entry.body)) is not None:
                    yield row
            stop, block = (found.records[0].offset, BLOCK) if found.records else (stop, block * 8)
            if start == 0:
                return

    def _scan(self, start: int, stop: int) -> record.Scan:
        """The records between two places, the line that `start` may cut in two left out."""
        data = os.pread(self.handle, stop - start, start)
        skipped = data.find(b"\n") + 1 if start else 0
        return record.scan(data[skipped:], record.seed(NAME), base=start + skipped)


class FileLedger:
    """The ledger of the home whose state folder is `state`."""

    def __init__(self, state: Path, *, clock: Clock) -> None:
        self._path = ledger_path(state)
        self._clock = clock

    async def append(self, kind: str, fields: Mapping[str, Any], *, durable: bool = True) -> int:
        """Store a fact of `kind` and return its number; raises StorageError, StoreError for a field that the ledger sets."""
        if taken := OWN_FIELDS & fields.keys():
            raise StoreError(f"the ledger sets {', '.join(sorted(taken))} itself", next="use another name")

        def act(ledger: _Open) -> int:
            return self._add(ledger, kind, fields)

        return await self._locked(act, durable=durable)

    def read(self, *, kind: str = "", after: int = 0) -> Sequence[Mapping[str, Any]]:
        """Facts behind `after`, oldest first."""
        if after:
            return self._behind(after, kind)
        try:
            data = read_regular(self._path)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise storage_error(error, f"reading {self._path}", kept="what it holds is untouched") from error
        return [row for row in rows(data) if row["number"] > after and kind in ("", row["kind"])]

    def _behind(self, after: int, kind: str) -> Sequence[Mapping[str, Any]]:
        """As `read`, looking back from the end no further than need be."""
        try:
            handle = open_regular(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise storage_error(error, f"reading {self._path}", kept="what it holds is untouched") from error
        try:
            fresh = [*takewhile(lambda row: row["number"] > after, _Open(self._path, handle).backwards())]
        finally:
            os.close(handle)
        return [row for row in reversed(fresh) if kind in ("", row["kind"])]

    async def reserve(self, who: str, want: Allowance, cap: Allowance) -> str:
        """Set aside part of the day's allowance, atomically across processes; raises LimitError with both numbers."""

        def act(ledger: _Open) -> str:
            total = spending.reserve(self._day(ledger), want, cap)
            reservation = spending.new_id(total)
            self._add(ledger, RESERVED, spending.reserved(reservation, who, want=want, total=total))
            return reservation

        return await self._locked(act)

    async def settle(self, reservation: str, *, usage: Usage, usd: float | None) -> Day:
        """Replace a reservation by what was spent and return the day so far; a second call changes nothing."""

        def act(ledger: _Open) -> Day:
            held = ledger.last(lambda row: row.get("id") == reservation and row["kind"] in SPENDING)
            day = self._day(ledger)
            if held is None:
                raise StoreError(f"there is no reservation {reservation}", kept="the day's total is as it was")
            if held["kind"] == SETTLED:
                return day
            total = spending.settle(day, held, usage=usage, usd=usd)
            self._add(ledger, SETTLED, spending.settled(held, usage=usage, usd=usd, total=total))
            return total

        return await self._locked(act)

    async def today(self) -> Day:
        """The day so far, in UTC."""
        if not self._path.exists():
            return spending.day_of((), self._clock.now())
        try:
            handle = open_regular(self._path, os.O_RDONLY)
        except OSError as error:
            raise storage_error(error, f"reading {self._path}", kept="what it holds is untouched") from error
        try:
            return self._day(_Open(self._path, handle))
        finally:
            os.close(handle)

    def _add(self, ledger: _Open, kind: str, fields: Mapping[str, Any]) -> int:
        number = ledger.number + 1
        at = self._clock.now().astimezone(UTC)
        ledger.append({"number": number, "kind": kind, "at": at, **fields})
        return number

    def _day(self, ledger: _Open) -> Day:
        return spending.day_of((row for row in ledger.backwards() if row["kind"] in SPENDING), self._clock.now())

    async def _locked(self, act: Callable[[_Open], Any], *, durable: bool = False) -> Any:
        """Do `act` under the lock that all processes share, then wait for the disk without it."""
        make_folder(self._path.parent)
        try:
            handle = open_regular(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise storage_error(error, f"opening {self._path}", kept="what it holds is untouched") from error
        try:
            await _lock(handle, self._path)
            try:
                ledger = _Open(self._path, handle)
                ledger.mend()
                result = act(ledger)
            finally:
                fcntl.flock(handle, fcntl.LOCK_UN)
            if durable:
                await asyncio.to_thread(os.fdatasync, handle)
        except OSError as error:
            raise storage_error(error, f"writing to {self._path}", kept="the facts before are kept") from error
        finally:
            os.close(handle)
        return result


async def _lock(handle: int, path: Path) -> None:
    for _ in range(round(LOCK_SECONDS / LOCK_STEP)):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(LOCK_STEP)
        else:
            return
    raise StorageError(
        f"{path} stayed locked for {LOCK_SECONDS:.0f} seconds",
        kept="nothing was written",
        next="look for a stopped melete process (`ps`), end it and try again",
    )
