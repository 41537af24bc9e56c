"""Why an entry should be doubted: its day is past, its file has changed, a newer one says otherwise. Part of the memory."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import structs

from melete.core.memory import MemoryEntry
from melete.memory.files import anchored
from melete.memory.plan import ADDRESS, excerpt, folded

UNSEEN: Final = timedelta(days=90)
"""After this time without a word an address should be looked at again."""
FEW, COMMON = 2, 0.7
"""Words that two entries about the same thing share at least, and their part of all the words that either has."""
MOST: Final = 200
"""Entries of a file that are compared with one another; no prompt shows so many."""
SERIES: Final = 3
"""Entries that differ from one in the same way, and then do not contradict it: each is about another thing of a kind."""
_DAY: Final = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_NUMBER: Final = re.compile(r"v?\d+(?:[.,:/-]\d+)*")
_WORD: Final = re.compile("[\u3040-\u30ff\u4e00-\u9fff]|[^\\W\\d_](?:[\\w'’.-]*[\\w])?")
_VALUE: Final = re.compile(
    r"(?P<head>.+)(?:[:=]| (?:is|are|in|at|called|named|ist|sind|heißt|est|sont|es|está|son|é|è))\s+(?P<value>\S+)",
    re.DOTALL,
)
"""A text that ends in one word for what something is."""
_NOT: Final = frozenset(
    re.split(
        r"\s+",
        """no not never don't doesn't didn't isn't aren't wasn't won't can't cannot without nicht kein keine keinen nie niemals ohne
    ne pas jamais sans nunca sin não sem non mai senza не нет никогда без 不 没 無 别 未 ない""",
    )
)
_SMALL: Final = frozenset(
    re.split(
        r"\s+",
        """a an the is are was were be of to in on at for and or with by it its this that as from der die das den dem ein eine ist
    sind war im am zu und oder mit für von le la les un une est sont du de des et ou avec pour el los las es y con para en""",
    )
)


def doubted(entries: Sequence[MemoryEntry], now: datetime) -> tuple[MemoryEntry, ...]:
    """The entries, each with what speaks against it at this time."""
    said = [_said(entry.text) for entry in entries[:MOST]]
    marked: list[MemoryEntry] = []
    for place, entry in enumerate(entries):
        marks = [*_aged(entry, now)]
        others = [at for at, other in enumerate(said) if at != place < MOST and _otherwise(said[place], other)]
        newer = [entries[at] for at in others if _newer(entries[at], at, entry, place)]
        if newer and len(others) < SERIES:
            marks.append(f"a newer entry says otherwise: {excerpt(newer[-1].text)}")
        marked.append(structs.replace(entry, marks=(*marks,), state="stale") if marks else entry)
    return (*marked,)


def contradicted(text: str, entries: Sequence[MemoryEntry]) -> list[MemoryEntry]:
    """The entries about the same thing that seem to say otherwise than a text."""
    said = _said(text)
    found = [entry for entry in entries if _otherwise(said, _said(entry.text))]
    return found if len(found) < SERIES else []


def _newer(one: MemoryEntry, at: int, other: MemoryEntry, place: int) -> bool:
    """Whether somebody stood by one after the other; of two at the same time the later in the file counts as newer."""
    if one.confirmed is None or other.confirmed is None or one.confirmed == other.confirmed:
        return at > place
    return one.confirmed > other.confirmed


def _aged(entry: MemoryEntry, now: datetime) -> list[str]:
    marks: list[str] = []
    if entry.until and now.date().isoformat() > entry.until:
        marks.append(f"held until {entry.until}")
    if entry.anchor.startswith(ADDRESS):
        if entry.confirmed and now - entry.confirmed > UNSEEN:
            marks.append(f"not confirmed since {entry.confirmed:%Y-%m-%d}, see {entry.anchor}")
    elif entry.anchored and (found := anchored(entry.anchor)) != entry.anchored:
        marks.append(f"{entry.anchor} {'has changed' if found else 'is gone'} since")
    return marks


class _Said(NamedTuple):
    """A text without its small words: the others, its numbers, whether it denies something, and the value that it ends with."""

    words: frozenset[str]
    numbers: tuple[str, ...]
    denies: bool
    head: tuple[str, ...]
    value: str


@lru_cache(1_000)
def _said(text: str) -> _Said:
    text = _DAY.sub(" ", folded(text)).strip(" .!")
    found = _words(text)
    value = _VALUE.fullmatch(text)
    return _Said(
        words=frozenset(found) - _NOT,
        numbers=(*_NUMBER.findall(text),),
        denies=not _NOT.isdisjoint(found),
        head=(*_words(value["head"]),) if value else (),
        value=value["value"] if value else "",
    )


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(_NUMBER.sub(" ", text)) if word not in _SMALL]


def _otherwise(one: _Said, other: _Said) -> bool:
    """Whether two texts give another value to the same thing, or share most words and differ in a number or a denial."""
    if len(one.head) >= FEW and one.head == other.head and one.value != other.value:
        return True
    shared = len(one.words & other.words)
    if shared < max(FEW, COMMON * len(one.words | other.words)):
        return False
    # Of several numbers the last one is the value; those before it tell what it is the value of.
    renumbered = len(one.numbers) == len(other.numbers) and one.numbers[:-1] == other.numbers[:-1]
    return (renumbered and one.numbers != other.numbers) or one.denies != other.denies
