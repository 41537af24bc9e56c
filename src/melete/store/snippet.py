"""The part of a message that a search shows, with what matched marked in it. Part of the store, pure."""

import re
from collections.abc import Iterable, Sequence

from melete.store import words
from melete.store.asked import Asked, compiled

CHARACTERS = 160
PIECE = 1_500
"""A longer text is searched for the part that is worth a close look."""
SHORTEST = 3
BEFORE = 30
"""Characters shown before the first match."""
WORD = 400
"""Characters of a longer word that are shown at most beyond what fits."""
CUT = "…"

Marks = tuple[tuple[int, int], ...]


def snippet(text: str, asked: Asked, query: str) -> tuple[str, Marks]:
    """About 160 characters of the text where most of what is asked for stands, on one line, and the marks in them."""
    start = _likely(text, query)
    places = _places(text[start : start + PIECE], asked)
    at, end = _window(places)
    first, last = _borders(text, start + at, start + end)
    marks = [
        (start + left, start + right) for left, right, _ in places if first <= start + left and start + right <= last
    ]
    return _on_one_line(text, (first, last), _merged(marks))


def _likely(text: str, query: str) -> int:
    """Where the part of a long text begins that holds most words of the query, as far as one sees from their beginnings."""
    if len(text) <= PIECE:
        return 0
    beginnings = {word[:4] for word in re.findall(r"\w+", query.lower()) if len(word) >= SHORTEST or not word.isascii()}
    lowered = text.lower() if len(text.lower()) == len(text) else text
    best, most = 0, 0
    for start in range(0, len(text), PIECE // 2):
        piece = lowered[start : start + PIECE]
        held = sum(beginning in piece for beginning in beginnings)
        if held > most:
            best, most = start, held
    return best


def _places(text: str, asked: Asked) -> list[tuple[int, int, int]]:
    """Where something matches, and the number of what does."""
    numbers = {form: number for number, term in enumerate(asked.terms) for form in term.forms}
    found: list[tuple[int, int, int]] = []
    for start, end, terms in words.spans(text):
        for term in terms:
            if term in numbers:
                found.append((start, end, numbers[term]))
                break
    for clause in asked.clauses:
        for leaf in (leaf for leaves in clause for leaf in leaves if leaf.pattern and leaf.wanted):
            found += [(*match.span(), -1) for match in compiled(leaf.pattern).finditer(text) if match.group()]
    if asked.literal and (at := text.find(asked.literal)) >= 0:
        found.append((at, at + len(asked.literal), -1))
    return sorted(found)


def _window(places: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """The stretch that holds most different matches, the first of the best."""
    best, most = (0, 0), (0, 0)
    for index, (start, _, _) in enumerate(places):
        inside = [place for place in places[index : index + 40] if place[1] <= start + CHARACTERS - BEFORE]
        held = (len({number for _, _, number in inside}), len(inside))
        if held > most:
            best, most = (start, inside[-1][1]), held
    return best


def _borders(text: str, start: int, end: int) -> tuple[int, int]:
    """From where to where the text is shown: not from within a word; half a key would not be known as one later on."""
    first = max(0, min(start - BEFORE, len(text) - CHARACTERS))
    last = min(len(text), max(end, first + CHARACTERS))
    before = (*range(first, start + 1), *range(first, max(-1, first - WORD), -1))
    after = (*range(last, end - 1, -1), *range(last, min(len(text) + 1, last + WORD)))
    return (
        next((at for at in before if not _within_word(text, at)), first),
        next((at for at in after if not _within_word(text, at)), last),
    )


def _within_word(text: str, at: int) -> bool:
    """Whether visible ASCII stands on both sides; other scripts may be cut anywhere, or they would not be cut at all."""
    return 0 < at < len(text) and "!" <= text[at - 1] <= "~" and "!" <= text[at] <= "~"


def _merged(marks: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in marks:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _on_one_line(text: str, part: tuple[int, int], marks: Sequence[tuple[int, int]]) -> tuple[str, Marks]:
    """The part with each stretch of white space as one space, cut ends shown, and the marks where they then are."""
    first, last = part
    shown = CUT if first else ""
    moved: list[tuple[int, int]] = []
    at = first
    for start, end in marks:
        shown += _spaced(text[at:start], shown)
        begin = len(shown)
        shown += _spaced(text[start:end], shown)
        moved.append((begin, len(shown)))
        at = end
    shown += _spaced(text[at:last], shown).rstrip()
    return shown + (CUT if last < len(text) else ""), tuple(moved)


def _spaced(text: str, before: str) -> str:
    spaced = re.sub(r"\s+", " ", text)
    return spaced.lstrip() if not before or before.endswith((" ", CUT)) else spaced
