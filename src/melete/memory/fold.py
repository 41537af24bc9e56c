"""What the ledger says of memory, folded: the entries of each file as they were written last, and what is known about them.

The fold is kept in a file with the number of the last fact in it, and can be dropped at any time. Part of the memory.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from melete.core.memory import MemoryEntry, Target
from melete.core.message import Taint
from melete.core.ports import Ledger
from melete.memory.files import digest

CHANGE: Final = "memory.change"
SCHEMA: Final = 1
SAVE_EVERY: Final = 64
"""Facts that may have to be folded again at the next start."""
LENGTH: Final = 12
MOST_EARLIER: Final = 6
"""States of a file that are remembered, so that an editor which was opened before the latest changes is understood."""
GONE: Final = frozenset({"removed", "forgotten"})
SURE: Final[Mapping[str, float]] = {"none": 0.9, "tool": 0.7, "web": 0.5, "import": 0.5}
"""How far an entry of the agent's is trusted, by where the conversation's texts were from; a person's own is certain."""
NOTHING: Final = digest(b"")


def version_of(entry: str, text: str) -> str:
    """What stands for a text of an entry."""
    return hashlib.sha256(f"{entry}\0{text}".encode()).hexdigest()[:LENGTH]


def new_id() -> str:
    """A name for an entry or a change that no other one has."""
    return os.urandom(LENGTH // 2).hex()


def key_of(target: Target, who: str) -> str:
    """What stands for a file: one about the work, and one about each person."""
    return f"user:{who}" if target == "user" else "memory:"


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a change does to one entry; `was` is an older form that comes back as it was."""

    entry: str
    did: str
    text: str = ""
    until: str = ""
    anchor: str = ""
    anchored: str = ""
    was: MemoryEntry | None = None


class Changed(Struct, frozen=True, kw_only=True):
    """A change of one file as the ledger tells it: its rows, the order of the entries, and the file's digests before and after."""

    id: str
    target: Target
    rows: tuple[Row, ...]
    order: tuple[str, ...]
    before: str
    after: str
    who: str = ""
    author: str = "user"
    session: str = ""
    turn: int = 0
    said: str = ""
    model: str = ""
    taint: Taint = "none"
    reason: str = ""
    number: int = 0
    at: datetime | None = None

    @property
    def key(self) -> str:
        """The file that it is about."""
        return key_of(self.target, self.who)


class Earlier(Struct, frozen=True, kw_only=True, array_like=True):
    """What a file said until a change was made."""

    until: datetime | None
    entries: tuple[MemoryEntry, ...]


class Book(Struct, frozen=True, kw_only=True):
    """A file as the ledger knows it: the entries after its last `change`, those `earlier`, and its digests before and after."""

    entries: tuple[MemoryEntry, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    change: str = ""
    number: int = 0
    before: str = NOTHING
    after: str = NOTHING

    @property
    def prior(self) -> tuple[MemoryEntry, ...]:
        """The entries before the last change."""
        return self.earlier[-1].entries if self.earlier else ()


class _Fold(Struct, kw_only=True):
    schema: int = SCHEMA
    number: int = 0
    at: str = ""
    mark: str = ""
    books: dict[str, Book] = {}
    judged: dict[str, str] = {}


_fold = msgspec.msgpack.Decoder(_Fold)


def after(book: Book, changed: Changed) -> Book:
    """The file once a change is made."""
    known = {entry.id: entry for entry in book.entries}
    for row in changed.rows:
        if row.did in GONE:
            known.pop(row.entry, None)
        else:
            known[row.entry] = _entry(row, changed, known.get(row.entry))
    order = {name: place for place, name in enumerate(changed.order)}
    entries = sorted(known.values(), key=lambda entry: order.get(entry.id, len(order)))
    earlier = (*book.earlier[1 - MOST_EARLIER :], Earlier(until=changed.at, entries=book.entries))
    return Book(
        entries=(*entries,), earlier=earlier, change=changed.id, number=changed.number, before=changed.before,
        after=changed.after,
    )  # fmt: skip


def _entry(row: Row, changed: Changed, known: MemoryEntry | None) -> MemoryEntry:
    if row.was is not None:
        return structs.replace(row.was, id=row.entry, confirmed=changed.at)
    sure = 1.0 if changed.author == "user" else SURE.get(changed.taint, 0.5)
    if row.did == "confirmed" and known is not None:
        return structs.replace(
            known, confirmed=changed.at, confidence=max(sure, (1 + known.confidence) / 2), until=row.until,
            anchor=row.anchor, anchored=row.anchored,
        )  # fmt: skip
    return MemoryEntry(
        id=row.entry, target=changed.target, text=row.text, version=version_of(row.entry, row.text), who=changed.who,
        author=changed.author, session=changed.session, turn=changed.turn, said=changed.said, model=changed.model,
        taint=changed.taint, at=changed.at, confirmed=changed.at, confidence=sure, until=row.until, anchor=row.anchor,
        anchored=row.anchored,
    )  # fmt: skip


def read_changes(facts: Sequence[Mapping[str, Any]]) -> Iterator[Changed]:
    """The changes among facts of the ledger; what cannot be read as one is left out."""
    for fact in facts:
        if fact["kind"] == CHANGE:
            with suppress(msgspec.ValidationError):  # a later version has written it
                yield msgspec.convert(fact, Changed)


class Books:
    """The fold of the ledger's facts about memory, kept in the file `path`; `mark` stands for the rules that judge entries."""

    def __init__(self, ledger: Ledger, path: Path, *, mark: str) -> None:
        self._ledger = ledger
        self._path = path
        self._fold = _load(path)
        self._saved = self._fold.number
        self._known = len(self._fold.judged)
        if self._fold.mark != mark:
            self._fold.mark, self._fold.judged = mark, {}

    def catch_up(self) -> None:
        """Fold what the ledger has got since. Raises StoreError."""
        facts = self._ledger.read(after=max(0, self._fold.number - 1))
        if self._fold.number and (not facts or facts[0]["at"] != self._fold.at):
            self._fold = _Fold(mark=self._fold.mark, judged=self._fold.judged)  # another ledger than the one folded
            facts = self._ledger.read()
        fresh = [fact for fact in facts if fact["number"] > self._fold.number]
        for changed in read_changes(fresh):
            self._fold.books[changed.key] = after(self.book(changed.key), changed)
        if fresh:
            self._fold.number, self._fold.at = fresh[-1]["number"], fresh[-1]["at"]

    def book(self, key: str) -> Book:
        """A file as the ledger knows it."""
        return self._fold.books.get(key, EMPTY)

    def whose(self) -> Iterator[tuple[Target, str]]:
        """The files that the ledger knows: what each is about, and whose it is."""
        for key in self._fold.books:
            target, _, who = key.partition(":")
            yield "user" if target == "user" else "memory", who

    @property
    def judged(self) -> dict[str, str]:
        """What was found in the texts of versions, by what it was looked for; empty where nothing was."""
        return self._fold.judged

    @property
    def worth_saving(self) -> bool:
        """Whether the next start would have much to fold."""
        return self._fold.number - self._saved >= SAVE_EVERY or len(self._fold.judged) > self._known

    def save(self) -> None:
        """Keep the fold for the next start; where that cannot be, the next start folds anew. Call it while the lock is held."""
        self._saved = self._fold.number
        there = {entry.version for book in self._fold.books.values() for entry in book.entries}
        for judged in [one for one in self._fold.judged if one.partition(":")[0] not in there]:
            del self._fold.judged[judged]
        self._known = len(self._fold.judged)
        draft = self._path.with_name(f".{self._path.name}.new")
        with suppress(OSError):
            draft.write_bytes(msgspec.msgpack.encode(self._fold))
            draft.chmod(0o600)
            draft.replace(self._path)


EMPTY = Book()


def _load(path: Path) -> _Fold:
    with suppress(OSError, msgspec.MsgspecError):  # what cannot be read is folded anew
        found = _fold.decode(path.read_bytes())
        return found if found.schema == SCHEMA else _Fold()
    return _Fold()
