"""What a change makes of the entries of a file, worked out before anything is written: operations, a person's edit, both at once.

It reads nothing but the files that entries stand or fall with. Part of the memory.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from melete.core.memory import MemoryEntry, Noting, Operation, Target
from melete.core.plugin import Lazy
from melete.core.tool import ToolError
from melete.memory.files import MARK, anchored, lines_of, parted
from melete.memory.fold import Row, new_id, version_of

if TYPE_CHECKING:
    from difflib import SequenceMatcher

_matcher: "Lazy[type[SequenceMatcher[str]]]" = Lazy("difflib:SequenceMatcher")
ALIKE: Final = 0.6
"""How like two texts are at least, of which one is taken for the other after an edit by hand."""
PAIRS, LONG = 2_500, 4_000
"""Pairs of texts that are compared at most, and characters of one that is."""
SHOWN: Final = 80
LINES: Final = 4
"""Lines of an entry that an agent does not replace by a part of its text."""
ADDRESS: Final = ("http://", "https://")


class Plan(Struct, frozen=True, kw_only=True):
    """The entries that a file is to hold, and those that somebody stood by anew."""

    entries: tuple[MemoryEntry, ...]
    confirmed: frozenset[str] = frozenset()


class Unclear(ToolError):
    """It does not follow which entry is meant; `among` are those that it could be."""

    def __init__(self, message: str, among: Sequence[MemoryEntry]) -> None:
        super().__init__(message)
        self.among = (*among,)


def folded(text: str) -> str:
    """The text as it is compared: without regard to case, width and spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def excerpt(text: str) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def planned(change: Noting, entries: Sequence[MemoryEntry]) -> Plan:
    """What the operations make of the entries, one after the other; raises ToolError that says which cannot be done, and why."""
    if not change.operations:
        raise ToolError("there is no operation")
    left, confirmed = [*entries], set[str]()
    for number, operation in enumerate(change.operations, 1):
        try:
            confirmed |= {_done(operation, left, change)}
        except ToolError as error:
            if len(change.operations) == 1:
                raise
            said = f"operation {number} of {len(change.operations)}, so none was done: {error}"
            raise Unclear(said, error.among if isinstance(error, Unclear) else ()) from error
    return Plan(entries=(*left,), confirmed=frozenset(confirmed & {entry.id for entry in entries}))


def _done(operation: Operation, left: list[MemoryEntry], change: Noting) -> str:
    """Do one operation; returns the id of an entry that it only confirms."""
    at = -1 if operation.action == "add" else _chosen(operation.old_text, left)
    if at >= 0 and change.author == "agent":
        _sparing(operation, left[at])
    if operation.action == "remove":
        del left[at]
        return ""
    text = formed(operation)
    same = [place for place, entry in enumerate(left) if folded(entry.text) == folded(text) and place != at]
    if same and at >= 0:
        raise Unclear(f"entry [{left[same[0]].id}] says that already: remove the other one instead", [left[same[0]]])
    if same:
        at, text = same[0], left[same[0]].text
    elif at < 0:
        at = len(left)
        left.append(_entry(change.target, new_id(), text))
    known, until, anchor = left[at], operation.until, operation.anchor
    if stays := known.text == text:
        until, anchor = until or known.until, anchor or known.anchor
    left[at] = structs.replace(
        known, text=text, version=version_of(known.id, text), until=until, anchor=anchor, anchored=anchored(anchor)
    )
    return known.id if stays else ""


def _sparing(operation: Operation, entry: MemoryEntry) -> None:
    """Raise Unclear where one line of a long entry is named, and all would go: a file of another product is one entry."""
    lines = len(entry.text.splitlines())
    named = operation.old_text.strip() in (entry.id, entry.text)
    if not named and 2 * len(operation.content.splitlines()) < lines >= LINES:
        raise Unclear(
            f"that is in an entry of {lines} lines, which would all go: name it by its id if that is meant", [entry]
        )


def _entry(target: Target, name: str, text: str) -> MemoryEntry:
    return MemoryEntry(id=name, target=target, text=text, version=version_of(name, text))


def formed(operation: Operation) -> str:
    """The content as it will stand in the file; raises ToolError for what cannot."""
    text = lines_of(operation.content).strip()
    if not text:
        raise ToolError("content is empty" + (": to take an entry away, use remove" * (operation.action == "replace")))
    if any(unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t" for letter in text):
        raise ToolError("content holds control characters: write plain text")
    if parted(text) != [text]:
        raise ToolError(f"a line that holds {MARK} alone parts entries: make an operation of each")
    if operation.until:
        try:
            right = date.fromisoformat(operation.until).isoformat() == operation.until  # days are compared as texts
        except ValueError:
            right = False
        if not right:
            raise ToolError(f"until is no date: {operation.until!r}; write it as 2030-12-31")
    anchor = operation.anchor
    if anchor and not (
        anchor.isprintable() and (anchor.startswith((*ADDRESS, "~/")) or PurePath(anchor).is_absolute())
    ):
        raise ToolError(f"anchor is neither a whole path nor an address: {anchor!r}")
    return text


def _chosen(wanted: str, left: Sequence[MemoryEntry]) -> int:
    """The place of the one entry that is meant, the first of several that say just the same; raises Unclear that lists them."""
    wanted = lines_of(wanted).strip()
    if not wanted:
        raise Unclear("old_text is empty: give a part of the entry that is meant", left)
    for place, entry in enumerate(left):
        if entry.id == wanted:
            return place
    found = [place for place, entry in enumerate(left) if wanted in entry.text]
    found = found or [place for place, entry in enumerate(left) if folded(wanted) in folded(entry.text)]
    if not found:
        raise Unclear(f"no entry holds {excerpt(wanted)!r}", left)
    whole = [place for place in found if left[place].text == wanted]
    found = whole or found
    if len({left[place].text for place in found}) > 1:
        raise Unclear(
            f"{excerpt(wanted)!r} is in {len(found)} entries: give more of the one that is meant",
            [left[place] for place in found],
        )
    return found[0]


# ---- by hand ---------------------------------------------------------------------------------------------------------


def edited(
    known: Sequence[MemoryEntry], texts: Sequence[str], *, target: Target, gone: Iterable[MemoryEntry] = ()
) -> tuple[MemoryEntry, ...]:
    """The entries of a file that somebody has edited: each keeps its name where its text is the same, or is very like.

    One of those that have just `gone` comes back under its name.
    """
    waiting: dict[str, list[MemoryEntry]] = {}
    for entry in (*known, *(entry for entry in gone if entry.id not in {one.id for one in known})):
        waiting.setdefault(entry.text, []).append(entry)
    found = [waiting[text].pop(0) if waiting.get(text) else None for text in texts]
    taken = {entry.id for entry in found if entry}
    old = [entry for entry in known if entry.id not in taken]
    new = [place for place, entry in enumerate(found) if entry is None]
    for _, entry, place in sorted(_likeness(old, new, texts), key=lambda pair: -pair[0]):
        if entry.id not in taken and found[place] is None:
            taken.add(entry.id)
            text = texts[place]
            found[place] = structs.replace(entry, text=text, version=version_of(entry.id, text))
    return tuple(entry or _entry(target, new_id(), text) for entry, text in zip(found, texts, strict=True))


def stale(base: Sequence[MemoryEntry], now: Sequence[MemoryEntry], his: Sequence[MemoryEntry]) -> bool:
    """Whether who wrote `his` had the older `base` before them: he has kept some of it, and has nothing of what came since.

    Who has just the base wants it back, and who has changed or kept anything of what came since has seen it.
    """
    old, new, there = ({entry.id: entry.text for entry in entries} for entries in (base, now, his))
    texts = {*there.values()}
    since = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    unseen = all(old[name] in texts if name in old else name not in there for name in since)
    kept = {*old.values()} & texts
    return bool(since and kept and unseen) and sorted(old.values()) != sorted(there.values())


def _likeness(
    old: Sequence[MemoryEntry], new: Sequence[int], texts: Sequence[str]
) -> Iterable[tuple[float, MemoryEntry, int]]:
    if len(old) * len(new) > PAIRS:
        return
    for entry in old:
        match = _matcher.load()(b=entry.text[:LONG], autojunk=False)
        for place in new:
            match.set_seq1(texts[place][:LONG])
            if match.quick_ratio() >= ALIKE and (score := match.ratio()) >= ALIKE:
                yield score, entry, place


def merged(
    base: Sequence[MemoryEntry], ours: Sequence[MemoryEntry], theirs: Sequence[MemoryEntry]
) -> tuple[MemoryEntry, ...]:
    """Both changes of the `base`: nothing that one of them has written is lost. Where both changed an entry, both texts stay."""
    before = {entry.id: entry.text for entry in base}
    mine = {entry.id: entry for entry in ours}
    there = {entry.id for entry in theirs}
    result: list[MemoryEntry] = []
    late: list[MemoryEntry] = []
    for entry in theirs:
        own, old = mine.get(entry.id), before.get(entry.id)
        if old is None or (own and own.text == entry.text):
            result.append(own or entry)
        elif own is None or own.text == old:
            result += [entry] if own or entry.text != old else []
        elif entry.text == old:
            result.append(own)
        else:
            result.append(entry)
            late.append(_entry(own.target, new_id(), own.text))
    late += [entry for entry in ours if entry.id not in there and before.get(entry.id) != entry.text]
    said = {entry.text for entry in result}
    return (*result, *(entry for entry in late if entry.text not in said))


def rows(before: Sequence[MemoryEntry], plan: Plan, *, new: str = "added", gone: str = "removed") -> tuple[Row, ...]:
    """What there is to tell of a plan: what is new, what says something else, what was confirmed and what is gone."""
    old = {entry.id: entry for entry in before}
    told: list[Row] = []
    for entry in plan.entries:
        known = old.pop(entry.id, None)
        did = new if known is None else "replaced" if known.text != entry.text else ""
        if did or _about(entry) != _about(known) or entry.id in plan.confirmed:
            told.append(
                Row(
                    entry=entry.id, did=did or "confirmed", text=entry.text, until=entry.until, anchor=entry.anchor,
                    anchored=entry.anchored,
                )
            )  # fmt: skip
    return (*told, *(Row(entry=entry, did=gone) for entry in old))


def _about(entry: MemoryEntry | None) -> tuple[str, str]:
    return (entry.until, entry.anchor) if entry else ("", "")
