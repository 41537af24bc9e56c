"""Which languages a text is likely to be in, told from its function words and letters. Part of the store."""

from collections.abc import Sequence
from functools import cache

import msgspec

from melete.store.function_words import CHINESE, JAPANESE, JAPANESE_PARTICLES, LATIN, LETTERS, OTHERS

LOOKED_AT = 120
"""Chunks of a text that are looked at."""
SHORT = 8
"""A text of no more chunks that shows no language could be in any."""
FEW = 12
"""A query of no more chunks that shows no language is looked for in all."""
SURE = 1.5
SURE_ENGLISH = 1.0
DENSE = 0.05
"""A language is known by this score, and by this score a chunk; otherwise English is thought of as well."""
CLOSE = 0.7
"""A language that scores so much of the best is thought of as well."""
PAIR = 2
KANA = "\u30ff"
WIDESPREAD = 4
"""A word that is a function word of so many languages says little in any."""


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """The languages whose stems a text's words get, the likeliest first; `known` when its function words or letters say so."""

    languages: tuple[str, ...]
    known: bool = True

    @property
    def exact(self) -> bool:
        """Whether names are to stand unstemmed as well: a question in English may ask for them."""
        return self.languages[0] != "en"


EVERY = Spoken(languages=tuple(code for code in LATIN if code != "vi"), known=False)
ENGLISH = Spoken(languages=("en",), known=False)


def of_text(chunks: Sequence[str]) -> Spoken:
    """What a text that is to be found is in."""
    looked_at = chunks[:LOOKED_AT]
    scores = _scores(looked_at)
    if not scores:
        return EVERY if len(chunks) <= SHORT else ENGLISH
    best = _best(scores, 2)
    if _sure(scores, best[0], len(looked_at)):
        return _spoken(best[:1] if best[0] == "en" else best, known=True)
    if len(chunks) <= SHORT:
        return EVERY
    return _spoken((*(code for code in best if code != "en"), "en"), known=False)


def of_query(chunks: Sequence[str]) -> Spoken:
    """What a question is in, English with it; every language when a few words do not tell."""
    scores = _scores(chunks)
    if not scores:
        return EVERY if len(chunks) <= FEW else ENGLISH
    best = _best(scores, 4)
    sure = _sure(scores, best[0], len(chunks))
    if not sure and len(chunks) <= FEW:
        return EVERY
    return _spoken((*best, *(("en",) if "en" not in best else ())), known=sure)


def is_stop(word: str, spoken: Spoken) -> bool:
    """Whether a folded word, or a pair of characters, says little by itself in the languages of its text."""
    if word in _elsewhere() or (len(word) == PAIR and _is_weak(word)):
        return True
    whose = _whose().get(word, ())
    if spoken.known:
        return any(language in spoken.languages for language in whose)
    return "en" in whose or len(whose) >= WIDESPREAD


def _is_weak(pair: str) -> bool:
    """Whether a pair of characters holds a Chinese one that says little, or a Japanese particle beside a noun."""
    first, second = pair
    if not _weak().isdisjoint(pair):
        return True
    return (first in JAPANESE_PARTICLES and (second > KANA or second in JAPANESE_PARTICLES)) or (
        second in JAPANESE_PARTICLES and first > KANA
    )


@cache
def _weak() -> frozenset[str]:
    return frozenset(word for word in CHINESE.split() if len(word) == 1)


@cache
def _elsewhere() -> frozenset[str]:
    return frozenset(word for words in (*OTHERS.values(), CHINESE, JAPANESE) for word in words.split())


@cache
def _spoken(languages: tuple[str, ...], *, known: bool) -> Spoken:
    return Spoken(languages=languages, known=known)


@cache
def _whose() -> dict[str, tuple[str, ...]]:
    """A function word's languages."""
    whose: dict[str, list[str]] = {}
    for language, words in LATIN.items():
        for word in words.split():
            whose.setdefault(word, []).append(language)
    return {word: tuple(languages) for word, languages in whose.items()}


@cache
def _votes() -> dict[str, tuple[tuple[str, float], ...]]:
    """What a chunk says of the language it stands in: less where several share the word."""
    votes = {word: tuple((code, 1 / len(codes)) for code in codes) for word, codes in _whose().items()}
    return votes | {word.capitalize(): vote for word, vote in votes.items()}


def _scores(chunks: Sequence[str]) -> dict[str, float]:
    votes = _votes()
    seen = set(chunks)
    scores: dict[str, float] = {}
    for chunk in votes.keys() & seen:
        for language, vote in votes[chunk]:
            scores[language] = scores.get(language, 0.0) + vote
    foreign = "".join(chunk for chunk in seen if not chunk.isascii()).lower()
    for letter in LETTERS.keys() & set(foreign):
        for language in (codes := LETTERS[letter].split()):
            scores[language] = scores.get(language, 0.0) + 1 / len(codes)
    return scores


def _best(scores: dict[str, float], count: int) -> tuple[str, ...]:
    """The likeliest languages, as many as come close to the first."""
    ranked = sorted(scores, key=lambda language: (-scores[language], language))
    return tuple(language for language in ranked[:count] if scores[language] >= CLOSE * scores[ranked[0]])


def _sure(scores: dict[str, float], language: str, chunks: int) -> bool:
    return scores[language] >= max(SURE_ENGLISH if language == "en" else SURE, DENSE * chunks)
