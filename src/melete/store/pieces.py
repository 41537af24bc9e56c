"""How a text is cut: into chunks between white space and punctuation, and each chunk into its pieces. Part of the store.

A chunk is what belongs together (`well-known`, `foo_bar.baz`, `john@example.com`, a run of Chinese); its pieces are the whole and
the parts, each with its place in the chunk.
"""

# ruff: noqa: RUF001 - letters of many scripts

import re
import unicodedata
from collections.abc import Iterator
from enum import Enum
from functools import cache

import msgspec

from melete.store import korean
from melete.store.function_words import CHINESE

LONGEST = 64
"""Characters of a term."""
COMPOUND = 128
"""A longer chunk is no name of anything: only its parts count."""

VERSION = 5
"""A version is found by so many of its numbers."""
DATE, YEAR = 3, 4
CAMEL = 3
"""Letters that the words of a fooBar have on average: fewer are no words."""
SHORTEST_KATAKANA = 3
PAIR = 2
MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u1ab0-\u1aff\u1dc0-\u1dff\u3099\u309a\ufe20-\ufe2f"
)
INDIC = "\u0900-\u0963\u0966-\u0dff"
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
HIRAGANA_FIRST, HIRAGANA_LAST = "\u3041", "\u309f"
HIRAGANA = f"{HIRAGANA_FIRST}-{HIRAGANA_LAST}"
KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
HANGUL = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"
ALPHABETS_WITHOUT_SPACES = "\u0e00-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u104c-\u109f\u1780-\u17d3\u17d7-\u17dd"
SYMBOLS = (
    "\xa2-\xa7\xa9\xac\xae\xb0\xb1\xb6\xd7\xf7\u20a0-\u20c0\u2100-\u214f\u2190-\u245f\u249c-\u24ff\u25a0-\u27bf\u27c0-\u27e5"
    "\u27f0-\u2982\u2999-\u29d7\u29dc-\u29fb\u29fe-\u2bff\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff"
)
"""What is a word by itself: money, arrows, mathematics, emoji; not lines, brackets and the colours of skins."""
FLAG = "\U0001f1e6-\U0001f1ff"

SUFFIXES = frozenset(("s", "m", "re", "ve", "ll", "d"))
NEGATED = {"can": "can", "won": "will", "shan": "shall"}
ELISIONS = (
    "l d j m t s n c qu jusqu lorsqu puisqu quoiqu quelqu presqu un dell nell all sull dall coll quell quest bell sant"
)
APOSTROPHES = "'’ʼ＇"


class Kind(Enum):
    """What is to become of a piece: a WORD is stemmed, a TERM stands as it is.

    So does a WHOLE, whose parts come behind it, and an ASIDE, which no query asks for.
    """

    WORD = 1
    TERM = 2
    ASIDE = 3
    WHOLE = 4


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a chunk and where in the chunk it stands; `name` for a word that begins with a capital.

    `also` is another way to read a number, empty for anything else.
    """

    start: int
    end: int
    text: str
    also: str = ""
    kind: Kind = Kind.TERM
    name: bool = False


@cache
def _ascii() -> re.Pattern[str]:
    return re.compile(
        r"(?<![\w.])[.@#](?=[A-Za-z_])\w+(?:[-.'@]\w+)*"
        r"|\d{1,3}(?:,\d{3})+(?![\w,])"
        r"|\w+(?:[-.'@]\w+)*(?:(?<=\b[A-Za-z])(?:\+\+|#))?",
        re.ASCII,
    )


@cache
def _any() -> re.Pattern[str]:
    word = rf"[\w{MARKS}{INDIC}{ALPHABETS_WITHOUT_SPACES}\u200c\u200d\xad]"
    joined = rf"{word}+(?:[-.'@’ʼ＇‐‑·]{word}+)*"
    return re.compile(
        rf"(?<![\w.])[.@#](?=[^\W\d]){joined}"
        rf"|\d{{1,3}}(?:,\d{{3}})+(?![\w,])"
        rf"|(?!_+\b)(?=[\w{INDIC}]){joined}(?:(?<=\b[A-Za-z])(?:\+\+|#))?"
        rf"|[{FLAG}]{{2}}|[{SYMBOLS}]"
    )


@cache
def _runs() -> re.Pattern[str]:
    other = HAN + HIRAGANA + KATAKANA + HANGUL + ALPHABETS_WITHOUT_SPACES
    return re.compile(
        rf"(?P<han>[{HAN}{HIRAGANA}]+)|(?P<katakana>[{KATAKANA}]+)|(?P<hangul>[{HANGUL}]+)"
        rf"|(?P<dense>[{ALPHABETS_WITHOUT_SPACES}]+)|(?P<other>[^{other}]+)"
    )


@cache
def _borders() -> re.Pattern[str]:
    return re.compile(f"[{HAN}{HIRAGANA}{KATAKANA}{HANGUL}{ALPHABETS_WITHOUT_SPACES}]")


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled when it is first asked for."""
    return re.compile(pattern)


def chunks(text: str) -> list[str]:
    """The chunks of a text, in its order."""
    return (_ascii() if text.isascii() else _any()).findall(text)


def matches(text: str) -> Iterator[re.Match[str]]:
    """The same chunks, each with its place."""
    return (_ascii() if text.isascii() else _any()).finditer(text)


def of(chunk: str) -> Iterator[Piece]:
    """The pieces of a chunk, a whole before its parts; none for one that only looks like a word."""
    text = chunk if chunk.isascii() else unicodedata.normalize("NFKC", chunk)
    if text == chunk:
        yield from _of_normal(text, 0)
        return
    for match in matches(text):
        for piece in _of_normal(match.group(), match.start()):
            yield piece if len(text) == len(chunk) else msgspec.structs.replace(piece, start=0, end=len(chunk))


def _of_normal(text: str, at: int) -> Iterator[Piece]:
    if text.isascii() or not _borders().search(text):
        return _western(text, at)
    return _by_script(text, at)


def fold(text: str) -> str:
    """The text in small letters and one spelling of each character; at most 64 characters."""
    if text.isascii():
        return text[:LONGEST].lower()
    text = compiled(_IGNORED).sub("", unicodedata.normalize("NFKC", text[:LONGEST]).casefold())
    text = compiled(_DIGIT).sub(lambda digit: str(unicodedata.digit(digit.group())), text)
    return unicodedata.normalize("NFC", text)[:LONGEST]


_IGNORED = "[\xad\u0640\u064b-\u065f\u0670\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u200b-\u200f\u2060\ufe0e\ufe0f\ufeff]"
_DIGIT = r"[^\D0-9]"
_WORDS_IN_CAMEL = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
_SEPARATORS = ("@", ".", "-_‐‑·")
_NUMBERED = r"(\d{1,6})([^\W\d_]{1,3})|([^\W\d_]{2,})(\d{1,6})"
_DOTTED_NUMBER = r"[vV]?(\d+(?:\.\d+)+)"
_THOUSANDS = r"\d{1,3}(?:[.,]\d{3})+"
_JOINTS = r"[-_'’ʼ＇‐‑·\u200c\u200d]"


def _western(text: str, at: int) -> Iterator[Piece]:
    """Pieces of a chunk in a script that parts its words."""
    bare = text.strip("_-'.\u200c\u200d")
    if not any(map(str.isalnum, bare)):
        if bare and unicodedata.category(bare[0]).startswith("S"):
            yield Piece(start=at, end=at + len(text), text=fold(bare))
        return
    at += text.index(bare)
    if bare[0] in "@#" or (text[0] == "." and bare.isalpha()):
        lead = bare if bare[0] in "@#" else f".{bare}"
        yield Piece(start=at + len(bare) - len(lead), end=at + len(bare), text=_joined(lead), kind=Kind.WHOLE)
        at, bare = at + (bare[0] in "@#"), bare.lstrip("@#")
    if bare[-1] in "+#":
        yield Piece(start=at, end=at + len(bare), text=fold(bare))
        bare = bare.rstrip("+#")
    yield from _atom(bare, at)


def _atom(text: str, at: int) -> Iterator[Piece]:
    if not any(map(str.isalnum, text)):
        return
    if text.isalpha() and (
        text[1:].islower() or len(text) == 1 or not text.isascii() or text.isupper() or len(text) > LONGEST
    ):
        yield _word(text, at)
    elif any(mark in text for mark in APOSTROPHES):
        yield from _apostrophe(text, at)
    elif compiled(_THOUSANDS).fullmatch(text) and ("," in text or len(text) > LONGEST or text.count(".") > 1):
        yield Piece(start=at, end=at + len(text), text=fold(re.sub(r"\D", "", text)))
    elif number := compiled(_DOTTED_NUMBER).fullmatch(text):
        yield from _dotted(number.group(1), at, len(text))
    else:
        yield from _compound(text, at)


def _word(text: str, at: int) -> Piece:
    return Piece(start=at, end=at + len(text), text=fold(text), kind=Kind.WORD, name=text[0].isupper())


def _apostrophe(text: str, at: int) -> Iterator[Piece]:
    """don't, Maria's, l'homme, O'Brien."""
    cut = max(text.rfind(mark) for mark in APOSTROPHES)
    left, right = text[:cut], text[cut + 1 :]
    ending = right.lower()
    if ending in SUFFIXES:
        yield from _whole(_atom(left, at), at, len(text))
    elif ending == "t" and left[-1:].lower() == "n":
        base = NEGATED.get(left.lower(), left[:-1] or left)
        yield Piece(start=at, end=at + len(text), text=fold(base), kind=Kind.WORD)
    elif left.lower() in ELISIONS.split() and len(right) > 1:
        yield from _atom(right, at + cut + 1)
    else:
        if len(text) <= COMPOUND:
            yield Piece(start=at, end=at + len(text), text=_joined(text), kind=Kind.WHOLE)
        yield from (piece for piece in _atom(left, at) if piece.end - piece.start > 1)
        yield from (piece for piece in _atom(right, at + cut + 1) if piece.end - piece.start > 1)


def _whole(found: Iterator[Piece], at: int, length: int) -> Iterator[Piece]:
    """The pieces; a single one takes the whole length."""
    pieces = list(found)
    if len(pieces) == 1:
        pieces = [msgspec.structs.replace(pieces[0], start=at, end=at + length)]
    yield from pieces


def _dotted(number: str, at: int, length: int) -> Iterator[Piece]:
    """1.2.3 is found as 1.2 too; 1.000 is 1000 for many readers."""
    end = at + length
    thousands = number.replace(".", "")[:LONGEST] if compiled(_THOUSANDS).fullmatch(number) else ""
    yield Piece(start=at, end=end, text=number[:LONGEST], also=thousands)
    parts = number.split(".")
    for count in range(2, min(len(parts), VERSION)):
        yield Piece(start=at, end=end, text=".".join(parts[:count])[:LONGEST], kind=Kind.ASIDE)
    if len(parts) == DATE and len(parts[-1]) == YEAR:
        yield Piece(start=end - YEAR, end=end, text=parts[-1])


def _compound(text: str, at: int) -> Iterator[Piece]:
    for separators in _SEPARATORS:
        if any(separator in text for separator in separators):
            if len(text) <= COMPOUND:
                yield Piece(start=at, end=at + len(text), text=_joined(text), kind=Kind.WHOLE)
            for part in re.finditer(f"[^{re.escape(separators)}]+", text):
                yield from _atom(part.group(), at + part.start())
            return
    yield from _mixed(text, at)


def _mixed(text: str, at: int) -> Iterator[Piece]:
    """Letters with digits, or with capitals inside."""
    end = at + len(text)
    if text.isdecimal():
        digits = fold(text)
        yield Piece(start=at, end=end, text=(digits.lstrip("0") or "0") if len(text) == PAIR else digits)
    elif text.isalpha():
        yield from _camel(text, at)
    else:
        yield Piece(start=at, end=end, text=fold(text), kind=Kind.TERM if _has_digit(text) else Kind.WORD)
        if found := compiled(_NUMBERED).fullmatch(text):
            for group in (part for part in (1, 2, 3, 4) if found.group(part)):
                start, stop = found.span(group)
                yield Piece(start=at + start, end=at + stop, text=fold(found.group(group)).lstrip("0") or "0")


def _camel(text: str, at: int) -> Iterator[Piece]:
    parts = list(compiled(_WORDS_IN_CAMEL).finditer(text)) if text.isascii() and len(text) <= LONGEST else []
    if not 1 < len(parts) <= len(text) // CAMEL:
        yield _word(text, at)
        return
    yield Piece(start=at, end=at + len(text), text=fold(text), kind=Kind.WORD, name=True)
    yield from (_word(part.group(), at + part.start()) for part in parts if len(part.group()) > 1)


def _has_digit(text: str) -> bool:
    return any(character.isdecimal() for character in text)


def _joined(text: str) -> str:
    """One spelling for foo_bar, foo-bar and fooBar."""
    return compiled(_JOINTS).sub("", fold(text))


def _by_script(text: str, at: int) -> Iterator[Piece]:
    for run in _runs().finditer(text):
        yield from _RUNS[run.lastgroup or "other"](run.group(), at + run.start())


def _han(run: str, at: int) -> Iterator[Piece]:
    """Chinese, and Japanese with its endings: each pair; each Chinese character as well, for a query of one.

    A query asks for a single character only where none of the pairs can hold its word.
    """
    yield from _pairs(run, at)
    if len(run) == 1:
        return
    weak = _weak_places(run)
    for offset, character in enumerate(run):
        if not HIRAGANA_FIRST <= character <= HIRAGANA_LAST:
            alone = weak[offset : offset + 3] == [True, False, True]
            kind = Kind.TERM if alone else Kind.ASIDE
            yield Piece(start=at + offset, end=at + offset + 1, text=character, kind=kind)


def _weak_places(run: str) -> list[bool]:
    """Which characters of a run, and both its borders, say little or belong to a pair that does."""
    little = _little()
    weak = [True, *(character in little or HIRAGANA_FIRST <= character <= HIRAGANA_LAST for character in run), True]
    for offset in range(len(run) - 1):
        if run[offset : offset + PAIR] in little:
            weak[offset + 1] = weak[offset + 2] = True
    return weak


@cache
def _little() -> frozenset[str]:
    return frozenset(CHINESE.split())


def _dense(run: str, at: int) -> Iterator[Piece]:
    """Thai and its like: every three letters, and every two for a query of no more."""
    if len(run) <= PAIR:
        yield Piece(start=at, end=at + len(run), text=run)
        return
    for offset in range(len(run) - 1):
        yield Piece(start=at + offset, end=at + offset + 2, text=run[offset : offset + 2], kind=Kind.ASIDE)
    for offset in range(len(run) - 2):
        yield Piece(start=at + offset, end=at + offset + 3, text=run[offset : offset + 3])


def _katakana(run: str, at: int) -> Iterator[Piece]:
    whole = run.rstrip("ー") if len(run) > SHORTEST_KATAKANA else run
    if len(whole) >= SHORTEST_KATAKANA:
        yield Piece(start=at, end=at + len(run), text=whole[:LONGEST])
    yield from _pairs(run, at)


def _pairs(run: str, at: int) -> Iterator[Piece]:
    if len(run) == 1:
        yield Piece(start=at, end=at + 1, text=run)
    for offset in range(len(run) - 1):
        yield Piece(start=at + offset, end=at + offset + 2, text=run[offset : offset + 2])


def _hangul(run: str, at: int) -> Iterator[Piece]:
    yield Piece(start=at, end=at + len(run), text=run[:LONGEST], kind=Kind.WORD)
    base = min(korean.forms(run), key=len)
    if len(base) > PAIR:
        yield from _pairs(base, at)


_RUNS = {"han": _han, "katakana": _katakana, "hangul": _hangul, "dense": _dense, "other": _western}
