"""Shell words: what a word of a command becomes after escapes, variables, braces and splitting. Pure.

An unknown part of a word is the character NUL, which no argument can hold.
"""

import re
import sys
import unicodedata
from typing import Final

from msgspec import Struct

UNKNOWN: Final = "\0"
HERE: Final = "~+"
"""The folder where the whole text begins to run."""
MOST_WORDS = 600
LONGEST_BRACES = 1_000
_ACTIVE: Final = "{,}*?[ ~"
"""Characters that mean something where they stand unquoted; in a marked text they are private-use characters."""
_MARK: Final = {ord(c): 0xE000 + i for i, c in enumerate(_ACTIVE)}
_PLAIN: Final = {0xE000 + i: c for i, c in enumerate(_ACTIVE)} | {0xE008: "", 0xE009: ""}
_GLOBS: Final = "\ue003\ue004\ue005"
FIELD: Final = "\ue006"
"""Divides the fields of a value that is split into words even between quotes."""
_EMPTY: Final = "\ue008"
_LOOSE: Final = "\ue009"
"""An unquoted value that is empty, and one that may be."""
_BRACES = re.compile("\ue000([^\ue000\ue002]*)\ue002")
_SEQUENCE = re.compile(r"(-?\d{1,6}|[A-Za-z])\.\.(-?\d{1,6}|[A-Za-z])(?:\.\.-?(\d{1,4}))?\Z")
_ANSI_C = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|0?[0-7]{1,3}|c.|.)", re.DOTALL)
_LETTERS: Final = dict(zip("ntrabeEfv", "\n\t\r\a\b\x1b\x1b\f\v", strict=True))


def names(text: str) -> frozenset[str]:
    """A set of words, written with blanks between them."""
    return frozenset(text.split())


class Word(Struct, frozen=True, kw_only=True):
    """One argument: its text, with NUL where a part is unknown, whether the shell matches it against file names,
    whether words behind it were left out, as too many, and whether it is no word at all when what is unknown is empty."""

    text: str
    glob: bool = False
    cut: bool = False
    loose: bool = False


def unescape(text: str) -> str:
    r"""What `$'…'`, `printf` and `echo -e` make of backslash escapes."""

    def letter(match: re.Match[str]) -> str:
        found = match[1]
        if found[0] in "xuU" and len(found) > 1:
            return _character(int(found[1:], 16))
        if found[0] in "01234567":
            return _character(int(found, 8) & 0xFF)
        return _LETTERS.get(found, "" if len(found) > 1 else found)

    return _ANSI_C.sub(letter, text)


def _character(number: int) -> str:
    made = chr(number) if 0 < number <= sys.maxunicode else UNKNOWN
    return UNKNOWN if unicodedata.category(made) == "Cs" else made


def unquoted(text: str) -> str:
    """A bare part of a word, backslashes resolved and active characters marked."""
    made: list[str] = []
    parts = iter(re.split(r"(\\.|\\$)", text, flags=re.DOTALL))
    for part in parts:
        if part.startswith("\\"):
            made.append("" if part in ("\\\n", "\\") else part[1:])
        else:
            made.append(part.translate(_MARK))
    return "".join(made)


def expanded(value: str, separators: str) -> str:
    """An unquoted variable or substitution: split at the separators (IFS), matched against file names."""
    return vanishing(
        value.translate({ord(c): 0xE006 for c in separators})
        .replace("*", "\ue003")
        .replace("?", "\ue004")
        .replace("[", "\ue005")
    )


def vanishing(value: str) -> str:
    """A value that leaves no word behind when it is empty."""
    return value.replace(UNKNOWN, UNKNOWN + _LOOSE) or _EMPTY


def double_quoted(text: str) -> str:
    """A literal part between double quotes."""
    return re.sub(r'\\(["\\$`])|\\\n', r"\1", text)


def words_of(marked: str) -> list[Word]:
    """The words that a marked text becomes: braces expanded, fields split, `~` at the front kept as it is."""
    made: list[Word] = []
    if len(marked) > LONGEST_BRACES and "\ue000" in marked:
        return [Word(text=UNKNOWN, cut=True)]
    for whole in _brace(marked):
        fields = [field for field in whole.split(FIELD) if field.strip(_EMPTY) or not whole]
        made += [_word(field) for field in fields]
    return made if len(made) <= MOST_WORDS else [*made[:MOST_WORDS], Word(text=UNKNOWN, cut=True)]


def _word(field: str) -> Word:
    loose = _LOOSE in field and not field.replace(UNKNOWN + _LOOSE, "").strip(_EMPTY)
    return Word(text=field.translate(_PLAIN), glob=any(c in field for c in _GLOBS), loose=loose)


def plain(marked: str) -> str:
    """The marked text as one string."""
    return marked.translate(_PLAIN)


def _brace(marked: str) -> list[str]:
    done: list[str] = []
    waiting = [marked]
    while waiting and len(done) + len(waiting) <= MOST_WORDS:
        text = waiting.pop(0)
        match = _BRACES.search(text)
        choices = _choices(match[1]) if match else []
        if match is None:
            done.append(text)
        elif choices:
            waiting[:0] = [text[: match.start()] + choice + text[match.end() :] for choice in choices]
        else:
            waiting.insert(0, f"{text[: match.start()]}{{{match[1]}}}{text[match.end() :]}")
    return done + waiting


def _choices(inside: str) -> list[str]:
    sequence = _SEQUENCE.match(inside)
    if sequence and sequence[1].isalpha() == sequence[2].isalpha():
        letters = sequence[1].isalpha()
        first, last = (ord(sequence[1]), ord(sequence[2])) if letters else (int(sequence[1]), int(sequence[2]))
        step = max(1, int(sequence[3] or 1)) * (1 if last >= first else -1)
        numbers = list(range(first, last + (1 if step > 0 else -1), step)[: MOST_WORDS + 1])
        return [chr(number) if letters else str(number) for number in numbers]
    return inside.split("\ue001") if "\ue001" in inside else []
