"""From a word to the stem that its inflections share, by Snowball's rules and a language's facts. Part of the store."""

# ruff: noqa: RUF001 - letters of many scripts

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from melete.core.plugin import Lazy
from melete.store import endings, english, korean
from melete.store.pieces import compiled

SNOWBALL = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
SCRIPTS = (
    ("\u0370", "\u03ff", ("el",)),
    ("\u1f00", "\u1fff", ("el",)),
    ("\u0400", "\u052f", ("ru",)),
    ("\u0530", "\u058f", ("hy",)),
    ("\u0600", "\u077f", ("ar", "fa")),
    ("\u0900", "\u097f", ("hi",)),
    ("\u0b80", "\u0bff", ("ta",)),
)
"""Scripts that say by themselves which stems their words get."""
BY_SCRIPT = frozenset(code for _, _, codes in SCRIPTS for code in codes)
FORMS = 12
LATIN_ENDS = "\u024f"
ABROAD = "+"
"""Ends a stem of a language in Latin letters that is not English: `part+` of the French partie is no English part."""
TURKISH = 5
"""A Turkish word of many endings is found by so many letters of its beginning as well."""
REMEMBERED = 2**15
LETTERS = str.maketrans(
    {"ł": "l", "đ": "d", "ı": "i", "ħ": "h", "ø": "o", "œ": "oe", "æ": "ae", "ð": "d", "þ": "th"}
    | dict(zip("أإآٱىیکةؤئё", "ااااييكهويе", strict=True))
)
"""Letters that readers write in more than one way, and that are not made of a letter and a mark."""
MARK = "(?<![иіуИІУ\u3040-\u30ff])[\u0300-\u036f]+"
"""Marks that readers leave out; not those that make another letter (й, ї, ў)."""
HEBREW = ("^[הובלמשכ](?=.{3})", "(?<=.{3})(?:ים|ות)$")
"""What stands before a Hebrew word, and its plurals."""


def forms(word: str, languages: Sequence[str]) -> tuple[str, ...]:
    """The stems of a folded word, without repeats: in these languages if it is Latin, else by its script."""
    first = word[:1]
    if first > LATIN_ENDS and not "\u1e00" <= first <= "\u1eff":
        return _by_script(word)
    if len(languages) == 1:
        return _stems(word, languages[0])
    return tuple(dict.fromkeys(form for language in languages for form in _stems(word, language)))


def asked(word: str, languages: Sequence[str]) -> tuple[str, ...]:
    """What texts may hold of a folded word, at most 12: its stems, and itself as it stands; the likeliest first."""
    bare = plain(word)
    found = [form for language in languages for form in forms(word, (language,))]
    if bare[:1] > LATIN_ENDS:
        return tuple(dict.fromkeys((*found, bare)))[:FORMS]
    at_home = [form for form in found if not form.endswith(ABROAD)]
    shared = sorted(dict.fromkeys(found), key=lambda form: -found.count(form))
    abroad = [form + ABROAD for form in (bare, *at_home)]
    return tuple(dict.fromkeys((*at_home, bare, *shared, *abroad)))[:FORMS]


def plain(word: str) -> str:
    """The folded word without the marks that readers leave out."""
    if word.isascii():
        return word
    return unicodedata.normalize("NFC", compiled(MARK).sub("", unicodedata.normalize("NFD", word.translate(LETTERS))))


def _by_script(word: str) -> tuple[str, ...]:
    first = word[0]
    if "\uac00" <= first <= "\ud7a3":
        return korean.forms(word)
    if "\u05d0" <= first <= "\u05ea":
        alone = compiled(HEBREW[0]).sub("", word)
        return tuple(dict.fromkeys((word, alone, compiled(HEBREW[1]).sub("", alone))))
    languages = next((codes for low, high, codes in SCRIPTS if low <= first <= high), ())
    return tuple(dict.fromkeys(form for language in languages for form in _stems(word, language))) or (plain(word),)


@lru_cache(maxsize=REMEMBERED)
def _stems(word: str, language: str) -> tuple[str, ...]:
    """A word's stems in one language, marks left out; two where it has two readings."""
    if language not in SNOWBALL:
        return (plain(word) + ABROAD,)
    stemmer: Lazy[Any] = Lazy(f"melete.store.snowball.{SNOWBALL[language]}_stemmer:{SNOWBALL[language].title()}Stemmer")
    stem = stemmer.load()().stemWord
    if language == "en":
        return tuple(dict.fromkeys(english.spelling(stem(base)) for base in english.bases(plain(word))))
    found = (plain(endings.after(stem(endings.before(word, language)), language)) or plain(word),)
    if language == "tr" and len(word) > TURKISH:
        found = (*found, plain(word[:TURKISH]))
    return found if language in BY_SCRIPT else tuple(dict.fromkeys(form + ABROAD for form in found))
