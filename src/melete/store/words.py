"""From any text to the terms that stand for it: what messages are indexed under and what a query asks for. Part of the store.

One analysis serves both sides, so what was written and what is asked meet: `terms` for a message, `query` for a question, `spans`
for the places in a text that a term comes from. A term holds no white space, no control character, no quote and no capital letter
of ASCII; of ASCII's punctuation only `.`, `@`, `+` and `#`; it has at most 64 characters and the mark of a foreign stem.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from melete.store import languages, pieces, stems

ANALYSIS = 1
"""Raised when the same text gives other terms than before: an index of another number is to be built anew."""
LONGEST_QUERY = 1_000
"""Characters of a query that are looked at."""
TERMS = 32
"""How many terms of a query are looked for."""
REMEMBERED = 2**15
REMEMBERED_LENGTH = 24


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A word of a query: any of its `forms` in an index counts as it, the likeliest first; `stop` for a word that says little.

    `whole` for a name of several parts, which are terms as well: a text that says more parts in one name holds only these.
    """

    text: str
    forms: tuple[str, ...]
    stop: bool = False
    whole: bool = False


def terms(text: str) -> list[str]:
    """The terms a text is indexed under, in its order, repeats kept; any string will do."""
    found = pieces.chunks(text)
    spoken = languages.of_text(found)
    result: list[str] = []
    for chunk in found:
        result += _known(chunk, spoken) if len(chunk) <= REMEMBERED_LENGTH else _terms(chunk, spoken)
    return result


def spans(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Where the terms of a text stand: start, end and terms, ordered by start; a compound comes before its parts."""
    spoken = languages.of_text(pieces.chunks(text))
    for match in pieces.matches(text):
        chunk, start = match.group(), match.start()
        if len(chunk) <= REMEMBERED_LENGTH and len(known := _known(chunk, spoken)) == 1:
            yield start, match.end(), known
            continue
        for piece in pieces.of(chunk):
            yield start + piece.start, start + piece.end, _of_piece(piece, spoken)


def query(text: str) -> list[Term]:
    """What a query looks for, in its order: at most 32 terms of its first 1,000 characters, those that say most."""
    found = pieces.chunks(text[:LONGEST_QUERY])
    spoken = languages.of_query(found)
    asked = {term.forms: term for chunk in found for term in _asked(chunk, spoken)}
    return _weightiest(asked.values())


def _terms(chunk: str, spoken: languages.Spoken) -> tuple[str, ...]:
    return tuple(term for piece in pieces.of(chunk) for term in _of_piece(piece, spoken))


_known = lru_cache(maxsize=REMEMBERED)(_terms)


def _of_piece(piece: pieces.Piece, spoken: languages.Spoken) -> tuple[str, ...]:
    if piece.kind is not pieces.Kind.WORD:
        return (piece.text, piece.also) if piece.also else (piece.text,)
    forms = stems.forms(piece.text, spoken.languages)
    if spoken.exact and piece.name:
        forms = tuple(dict.fromkeys((*forms, stems.plain(piece.text))))
    return forms


def _asked(chunk: str, spoken: languages.Spoken) -> Iterator[Term]:
    for piece in pieces.of(chunk):
        if piece.kind is pieces.Kind.WORD:
            forms = stems.asked(piece.text, spoken.languages)
            yield Term(text=piece.text, forms=forms, stop=languages.is_stop(piece.text, spoken))
        elif piece.kind is not pieces.Kind.ASIDE:
            yield Term(
                text=piece.text,
                forms=_of_piece(piece, spoken),
                stop=languages.is_stop(piece.text, spoken),
                whole=piece.kind is pieces.Kind.WHOLE,
            )


def _weightiest(asked: Iterable[Term]) -> list[Term]:
    every = list(asked)
    if len(every) <= TERMS:
        return every
    best = sorted(range(len(every)), key=lambda at: (every[at].stop, -len(every[at].text), at))[:TERMS]
    return [every[at] for at in sorted(best)]
