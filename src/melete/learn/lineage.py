"""Where what is known came from: which facts of the ledger belong to a session or a lesson, and which change wrote a line. Pure."""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct

from melete.learn.facts import Decision, Review, Undo, facts_of
from melete.learn.inbox import Item, inbox, is_id

Row = Mapping[str, Any]
CHANGED: Final = frozenset({"skill.version", "memory.change"})
ARCHIVED: Final = "archived"
GOOD, BAD, SKIP = "good", "bad", "skip"
_WORD: Final = re.compile(r"[\w-]{2,}")
T = TypeVar("T")


class Meant(Struct, frozen=True, kw_only=True):
    """The changes that are meant by a session, a lesson, a change or an undo: their `numbers` in the ledger, and `about` in words.

    They were found among the facts `rows`. `items` are the lessons that go with them, `of` is the undo that is itself taken back.
    """

    about: str
    numbers: frozenset[int]
    rows: Sequence[Row] = ()
    session: str = ""
    items: tuple[Item, ...] = ()
    of: Undo | None = None


def is_change(row: Row) -> bool:
    """Whether a fact tells of a change that can be taken back."""
    return row["kind"] in CHANGED or (row["kind"] == "skill.state" and row.get("state") == ARCHIVED)


def sessions_of(rows: Sequence[Row], session: str) -> frozenset[str]:
    """A session, with those in which it was reviewed."""
    logs = {one.log for one in facts_of(Review, rows) if one.session == session and one.log}
    return frozenset({session, *logs})


def of_session(rows: Sequence[Row], session: str) -> Meant:
    """Everything that was learned in a session or from it, with what waits for a person."""
    ids = sessions_of(rows, session)
    numbers = {row["number"] for row in rows if is_change(row) and row.get("session") in ids}
    items = tuple(one for one in inbox(rows) if one.proposal.session in ids)
    numbers |= {number for item in items for number in made_by(rows, item)}
    told = with_undone(rows, numbers)
    return Meant(about=f"session {session}", numbers=told, rows=rows, session=session, items=items)


def named(rows: Sequence[Row], name: str) -> Meant | None:
    """What a number in the ledger means, or the beginning of the id of a lesson or an undo; None where it is nothing of these."""
    number = int(name) if name.isdecimal() else 0
    for item in inbox(rows):
        if number in item.numbers or is_id(name, item.proposal.id):
            made = with_undone(rows, made_by(rows, item))
            return Meant(
                about=f"lesson {item.number}", numbers=made, rows=rows, session=item.proposal.session, items=(item,)
            )
    for undo in facts_of(Undo, rows):
        if number == undo.number or is_id(name, undo.id):
            made = with_undone(rows, done_for(rows, undo))
            items = tuple(one for one in inbox(rows) if one.proposal.id in undo.proposals)
            return Meant(
                about=f"undo {undo.number}", numbers=made, rows=rows, session=undo.session, items=items, of=undo
            )
    for row in rows:
        if row["number"] == number and is_change(row):
            made = with_undone(rows, {number})
            return Meant(about=f"change {number}", numbers=made, rows=rows, session=row.get("session", ""))
    return None


def gone_with(rows: Sequence[Row], numbers: Collection[int]) -> list[Item]:
    """The lessons that became one of these changes."""
    changes = [row for row in rows if is_change(row)]
    return [item for item in inbox(rows) if not made_by(changes, item).isdisjoint(numbers)]


def made_by(rows: Sequence[Row], item: Item) -> set[int]:
    """The number of the change that a lesson became; empty while it is not in use."""
    wanted, kind = item.version, item.proposal.target
    if not wanted:
        return set()
    if kind == "memory":
        return {int(wanted)} if wanted.isdecimal() else set()
    told = item.decision.number if item.decision and item.decision.version else item.numbers[-1]
    found = [
        row["number"]
        for row in rows
        if row["kind"] == "skill.version" and row["skill"] == item.proposal.name and row["version"] == wanted
    ]
    before = [number for number in found if number <= told]
    return {max(before)} if before else set(found[:1])


def done_for(rows: Sequence[Row], undo: Undo) -> set[int]:
    """The numbers of the changes that an undo has made."""
    return {row["number"] for row in rows if is_change(row) and str(row.get("reason", "")).startswith(undo.tag)}


def with_undone(rows: Sequence[Row], numbers: Collection[int]) -> frozenset[int]:
    """These changes with those that took them back, or brought them back, before."""
    found = set(numbers)
    for undo in facts_of(Undo, rows):
        if found & {*undo.took}:
            found |= done_for(rows, undo)
    return frozenset(found)


def begun(rows: Sequence[Row], what: Meant) -> Undo | None:
    """The last undo, where it was of just this: what was cut off goes on under its name."""
    undo = next(iter(reversed([*facts_of(Undo, rows)])), None)
    of = what.of.id if what.of else ""
    same = undo is not None and undo.of == of and frozenset({*undo.took, *done_for(rows, undo)}) == what.numbers
    return undo if same else None


def decisions(rows: Sequence[Row], item: Item) -> list[Decision]:
    """What was decided about a lesson, in order."""
    return [one for one in facts_of(Decision, rows) if one.proposal == item.proposal.id]


# ---- lines -----------------------------------------------------------------------------------------------------------


def blamed(texts: Sequence[tuple[T, str]]) -> list[tuple[T, str]]:
    """Each line of the last text with what stands for the text in which it came in; the texts are in order, oldest first.

    Where a text comes back, its lines are as old as they were.
    """
    known: list[tuple[T, str]] = []
    before: dict[str, list[tuple[T, str]]] = {}
    for name, text in texts:
        if text in before:
            known = before[text]
            continue
        lines = text.splitlines()
        match = difflib.SequenceMatcher(None, [line for _, line in known], lines, autojunk=False)
        after: list[tuple[T, str]] = []
        for kind, low, high, start, stop in match.get_opcodes():
            after += known[low:high] if kind == "equal" else ((name, line) for line in lines[start:stop])
        known = before[text] = after
    return known


def likeliest(line: str, sources: Sequence[tuple[T, str]], *, least: float = 0.3) -> T | None:
    """The source whose text holds most of a line's words, the last of several; None where none holds enough of them.

    One that stands in the line as a whole, with two words or more, is as good as one that holds all of the line.
    """
    words = set(_WORD.findall(line.casefold()))
    best: tuple[float, T | None] = (least, None)
    for source, text in sources:
        theirs = set(_WORD.findall(text.casefold()))
        whole = len(theirs) > 1 and theirs <= words
        share = 1.0 if whole else len(words & theirs) / len(words) if words else 0.0
        if share >= best[0]:
            best = share, source
    return best[1]


# ---- which version broke it ------------------------------------------------------------------------------------------


class Bisect:
    """The search for the first bad one of `count` things in order, of which the first is good and the last is bad.

    `next` is the one to try, `told` takes the answer; once `next` is None, `first` is the first bad one. With those that were
    skipped, it is one of `left`.
    """

    def __init__(self, count: int) -> None:
        self._good, self._bad = 0, count - 1
        self._skipped: set[int] = set()

    @property
    def left(self) -> range:
        """Those that may be the first bad one."""
        return range(self._good + 1, self._bad + 1)

    @property
    def first(self) -> int:
        """The first that is known to be bad."""
        return self._bad

    @property
    def next(self) -> int | None:
        """The one to try now; None when the search is over."""
        open_ = [one for one in range(self._good + 1, self._bad) if one not in self._skipped]
        middle = (self._good + self._bad) / 2
        return min(open_, key=lambda one: abs(one - middle), default=None)

    def told(self, at: int, answer: str) -> None:
        """Take in what became of one: good, bad or skip."""
        if answer == GOOD:
            self._good = max(self._good, at)
        elif answer == BAD:
            self._bad = min(self._bad, at)
        else:
            self._skipped.add(at)
