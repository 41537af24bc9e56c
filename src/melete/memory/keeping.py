"""The files of memory and the ledger, kept in step while other processes and editors write. Part of the memory.

A change is stored beside the file, told in the ledger, and only then put in place. The draft beside the file is what says that a
change is under way: a process that was killed leaves it, and whoever comes next finishes the change, or merges it with what
somebody has saved since. A file that differs from what the ledger tells was edited by hand, and that counts.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct, structs, to_builtins

from melete.core.errors import StorageError, StoreError
from melete.core.memory import MemoryEntry, Noting, Target
from melete.core.ports import Ledger
from melete.memory.files import (
    UnusableError,
    alone,
    digest,
    drafts,
    keep_damaged,
    place,
    read,
    read_settled,
    rendered,
    surely,
    texts_of,
    write_draft,
)
from melete.memory.fold import CHANGE, Book, Books, Changed, Row, key_of, new_id
from melete.memory.plan import Plan, edited, merged, rows, stale
from melete.memory.snapshot import NAMES

log = logging.getLogger("melete.memory")
FOUND: Final = "edited on the disk"
"""The reason of a change that nobody announced."""
PATIENCE: Final = 2.0
"""Seconds that a reader waits for a writer."""
OPEN: Final = timedelta(minutes=10)
"""How long an editor may have been open whose text is merged with what came meanwhile."""
NAME: Final = 16
T = TypeVar("T")


class Sheet(Struct, frozen=True, kw_only=True):
    """A file of memory: what it is about, whose it is, and where it stands."""

    target: Target
    who: str
    path: Path

    @property
    def key(self) -> str:
        """What stands for it in the ledger."""
        return key_of(self.target, self.who)


class State(Struct, frozen=True, kw_only=True):
    """A file as it is now: its bytes, and its entries."""

    data: bytes
    entries: tuple[MemoryEntry, ...]


def saying(entries: Sequence[MemoryEntry]) -> list[tuple[str, str]]:
    """What a file says, and which entry says it."""
    return [(entry.id, entry.text) for entry in entries]


class Keeping:
    """The files in `folder`, with their history in the ledger; nothing is written without `keeps`."""

    def __init__(self, folder: Path, state: Path, *, ledger: Ledger, mark: str, keeps: bool) -> None:
        self.books = Books(ledger, state / "memory.fold", mark=mark)
        self._folder, self._lock, self._ledger, self._keeps = folder, state / "memory.lock", ledger, keeps
        self._same: dict[str, tuple[str, str]] = {}
        self._unkept: dict[str, tuple[str, tuple[MemoryEntry, ...]]] = {}

    def sheet(self, target: Target, who: str) -> Sheet:
        """A file; the one that a link points to, where it is one."""
        who = who if target == "user" else ""
        name = f"people/{digest(who.encode(errors='surrogatepass'))[:NAME]}.md" if who else NAMES[target][1]
        return Sheet(target=target, who=who, path=Path(os.path.realpath(self._folder / name)))

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Keep everybody else from changing memory; raises StorageError."""
        return alone(self._lock)

    async def look(self, sheet: Sheet) -> State:
        """A file as it is now; an edit by hand is told in the ledger, where that is possible. Raises UnusableError, StoreError."""
        self.books.catch_up()
        data = read(sheet.path)
        if self._knows(sheet, data) and not drafts(sheet.path):
            return State(data=data, entries=self.books.book(sheet.key).entries)
        if self._keeps:
            try:
                async with alone(self._lock, seconds=PATIENCE):
                    return await self.settled(sheet)
            except StorageError as error:
                log.warning("%s is read as it is, and nothing about it is stored: %s", sheet.path, error)
        return State(data=data, entries=self._seen(sheet, data))

    async def keep(self) -> None:
        """Keep what was folded and judged for the next start, where that is worth it."""
        if self._keeps and self.books.worth_saving:
            with suppress(StorageError):  # then the next start does it again
                async with alone(self._lock, seconds=0.05):
                    self.books.save()

    def _knows(self, sheet: Sheet, data: bytes) -> bool:
        book, mark = self.books.book(sheet.key), digest(data)
        return mark == book.after or self._same.get(sheet.key) == (book.change, mark)

    def _seen(self, sheet: Sheet, data: bytes) -> tuple[MemoryEntry, ...]:
        """The entries of a file of which nothing can be stored: the same names for as long as it is the same."""
        book, mark = self.books.book(sheet.key), digest(data)
        if self._knows(sheet, data):
            return book.entries
        known = self._unkept.get(sheet.key)
        if known is None or known[0] != mark:
            known = self._unkept[sheet.key] = mark, self._edited(sheet, book, data)
        return known[1]

    def _edited(self, sheet: Sheet, book: Book, data: bytes) -> tuple[MemoryEntry, ...]:
        return edited(book.entries, texts_of(data)[0], target=sheet.target, gone=book.prior)

    # ---- while nobody else changes anything --------------------------------------------------------------------------

    async def settled(self, sheet: Sheet) -> State:
        """A file once what was left half done is finished and what was edited by hand is told; call it alone.

        What is saved by an editor that was open since before the latest changes is merged with them. Raises UnusableError,
        StoreError.
        """
        self.books.catch_up()
        for change, draft in drafts(sheet.path).items():
            if change == self.books.book(sheet.key).change:
                await self._finish(sheet, draft)
            draft.unlink(missing_ok=True)
        data = await read_settled(sheet.path, self.books.book(sheet.key).after)
        if not self._knows(sheet, data):
            await self._told_by_hand(sheet, data)
            data = read(sheet.path)
        return State(data=data, entries=self.books.book(sheet.key).entries)

    async def put(self, sheet: Sheet, state: State, change: Noting, *, plan: Plan, told: Sequence[Row]) -> int:
        """Make the change of a file that is `settled`, durable and in place when this returns its number; call it alone.

        Raises StorageError with the file as it was, UnusableError for what somebody has made of it meanwhile.
        """
        data = rendered([entry.text for entry in plan.entries], like=state.data)
        changed = self.changed(sheet, change, plan, told, before=state.data, after=data)
        if saying(plan.entries) == saying(state.entries):  # what the file says stays as it is
            number = await self.tell(structs.replace(changed, after=digest(state.data)))
        else:
            number = await self._exchange(sheet, state.data, data, changed)
        self.books.save()
        return number

    async def _exchange(self, sheet: Sheet, before: bytes, data: bytes, changed: Changed) -> int:
        base = self.books.book(sheet.key).entries

        def prepare() -> Path:
            if not texts_of(before)[1]:
                copy = keep_damaged(sheet.path, before)
                log.warning("%s held bytes that are no text: as it was, it is kept as %s", sheet.path, copy)
            return write_draft(sheet.path, changed.id, data)

        draft = await self._surely(sheet, prepare, "memory is as it was")
        try:
            number = await self.tell(changed)
        except StoreError:
            self.books.catch_up()
            book = self.books.book(sheet.key)
            if book.change != changed.id:
                draft.unlink(missing_ok=True)
                raise
            number = book.number
        theirs = await self._placed(sheet, draft, before)
        if theirs is not None:
            placed = draft.read_bytes() == theirs != data
            await self._carry(sheet, base, theirs, data if placed else theirs)
            draft.unlink(missing_ok=True)
        return number

    async def _finish(self, sheet: Sheet, draft: Path) -> None:
        """Go on with the last change of a file where a process was killed."""
        book, inside, now = self.books.book(sheet.key), draft.read_bytes(), read(sheet.path)
        mark = digest(inside)
        if mark == book.before and mark != book.after:
            return  # it was in place already
        if mark == book.after and digest(now) == book.before:
            if await self._placed(sheet, draft, now) is None:
                return
            inside, now = draft.read_bytes(), read(sheet.path)
            mark = digest(inside)
        if mark == book.after:  # somebody has saved the file before it could be replaced
            await self._carry(sheet, book.prior, now, now)
            return
        if digest(now) != book.after:
            await self._told_by_hand(sheet, now)
        await self._carry(sheet, book.prior, inside, now)

    async def _carry(self, sheet: Sheet, base: Sequence[MemoryEntry], theirs: bytes, now: bytes) -> None:
        """Merge what somebody has saved, who knew only the `base`, with what the ledger tells; the file holds `now`."""
        mine = self.books.book(sheet.key).entries
        try:
            texts, _ = texts_of(theirs)
        except UnusableError:
            if theirs == now:
                raise
            copy = keep_damaged(sheet.path, theirs)
            log.warning("what somebody has saved as %s is no text: it is kept as %s", sheet.path, copy)
            return
        his = edited(base, texts, target=sheet.target, gone=mine)
        plan = Plan(entries=merged(base, mine, his))
        data = rendered([entry.text for entry in plan.entries], like=now)
        told = rows(mine, plan, new="found")
        changed = self.changed(sheet, self._by_hand(sheet), plan, told, before=now, after=data)
        log.info("%s was edited while it was changed: both are kept", sheet.path)
        if texts_of(now)[0] != [entry.text for entry in plan.entries]:
            await self._exchange(sheet, now, data, changed)
        elif saying(plan.entries) != saying(mine) or self.books.book(sheet.key).after != digest(now):
            await self.tell(structs.replace(changed, after=digest(now)))

    async def _told_by_hand(self, sheet: Sheet, data: bytes) -> None:
        """Tell in the ledger what somebody has made of a file."""
        book = self.books.book(sheet.key)
        plan = Plan(entries=self._edited(sheet, book, data))
        if saying(plan.entries) == saying(book.entries):  # other blanks or line ends
            self._same[sheet.key] = book.change, digest(data)
            return
        if (base := self._base(sheet, book, plan.entries)) is not None:
            await self._carry(sheet, base, data, data)
            return
        told = rows(book.entries, plan, new="found")
        await self.tell(self.changed(sheet, self._by_hand(sheet), plan, told, before=data, after=data), durable=False)

    def _base(self, sheet: Sheet, book: Book, his: Sequence[MemoryEntry]) -> tuple[MemoryEntry, ...] | None:
        """What whoever has saved a file had before them, where that was not the latest."""
        if not sheet.path.exists():
            return None
        saved, there = datetime.fromtimestamp(sheet.path.stat().st_mtime, UTC), {entry.id for entry in his}
        found = [
            one.entries
            for one in reversed(book.earlier)
            if one.until and abs(saved - one.until) < OPEN and stale(one.entries, book.entries, his)
        ]
        return min(found, key=lambda entries: len({entry.id for entry in entries} - there), default=None)

    def _by_hand(self, sheet: Sheet) -> Noting:
        return Noting(target=sheet.target, operations=(), who=sheet.who, author="user", reason=FOUND)

    def changed(
        self, sheet: Sheet, change: Noting, plan: Plan, told: Sequence[Row], *, before: bytes, after: bytes
    ) -> Changed:
        """The change as the ledger is to tell it."""
        return Changed(
            id=new_id(), target=sheet.target, rows=(*told,), order=tuple(entry.id for entry in plan.entries),
            before=digest(before), after=digest(after), who=change.who, author=change.author, session=change.session,
            turn=change.turn, said=change.said, model=change.model, taint=change.taint, reason=change.reason,
        )  # fmt: skip

    async def tell(self, changed: Changed, *, durable: bool = True) -> int:
        """Tell a change in the ledger and return its number; raises StoreError."""
        fields: Mapping[str, object] = to_builtins(changed)
        number = await self._ledger.append(
            CHANGE, {name: value for name, value in fields.items() if name not in ("number", "at")}, durable=durable
        )
        self.books.catch_up()
        return number

    async def _placed(self, sheet: Sheet, draft: Path, before: bytes) -> bytes | None:
        kept = "the change is stored, and is made once this is mended"
        try:
            return await self._surely(sheet, lambda: place(draft, sheet.path, before), kept)
        except UnusableError as error:
            raise UnusableError(error.what, f"{error.next}; {kept}") from error

    async def _surely(self, sheet: Sheet, act: Callable[[], T], kept: str) -> T:
        try:
            return await surely(act)
        except OSError as error:
            raise StorageError(
                f"writing {sheet.path} failed: {error.strerror}", kept=kept, next="look at the disk and its permissions"
            ) from error
