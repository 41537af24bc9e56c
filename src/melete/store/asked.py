"""What a search asks for: words that count, what must be in a message and what must not, and dates. Part of the store, pure.

Words beside one another are wishes: any may match, and more is better. Phrases, and what AND, OR and NOT join, are conditions. A
pasted text of several lines, or a long one, is words alone: what looks like an operator in it is none.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from melete.store import words
from melete.store.block import FULL, checksum, mask, sign

LONGEST_EXPRESSION = 300
"""A longer query holds no operators."""
SHORTEST_EXCLUDED = 3
"""`-la` is an option, `-java` excludes Java."""
FORMS = 12
LITERAL = 200
_OPERATORS = ("AND", "OR", "NOT")


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """A word that counts, in any of its `forms`: `match` finds its blocks in the index, `signs` its messages in a block."""

    forms: tuple[str, ...]
    match: str
    signs: tuple[bytes, ...]

    def mask(self, signs: bytes) -> int:
        """Which messages of a block hold it."""
        if len(self.signs) == 1:
            return mask(signs, self.signs[0])
        found = 0
        for one in self.signs:
            if one in signs:
                found |= mask(signs, one)
        return found


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A word or phrase of a condition: all of `terms`, and where there is a `pattern`, that in the text.

    `folded` is the same for a text in one spelling: where cases, ligatures and marks are written in more than one way.
    """

    terms: tuple[Sought, ...]
    pattern: str = ""
    folded: str = ""
    wanted: bool = True

    def mask(self, signs: bytes) -> int:
        """Which messages of a block may fulfil it; the text decides where there is a pattern."""
        if not self.wanted and self.pattern:
            return FULL
        found = FULL
        for term in self.terms:
            found &= term.mask(signs)
        return found if self.wanted else ~found & FULL

    def holds(self, text: str, found: int) -> bool:
        """Whether a message with this text fulfils it; `found` is its bit of the mask."""
        if not self.pattern:
            return bool(found)
        return self._stands_in(text) is self.wanted

    def _stands_in(self, text: str) -> bool:
        if compiled(self.pattern).search(text):
            return True
        if text.isascii() and self.pattern.isascii():
            return False
        return bool(compiled(self.folded).search(one_spelling(text)))


Clause = tuple[tuple[Leaf, ...], ...]
"""Alternatives, of which one must be fulfilled in all its leaves."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A query, read: `terms` that count, `clauses` that must all be fulfilled; `literal` is what stands for the
    query where it has no words. `one` tells that all terms are of one word, such as a name and its parts.
    """

    terms: tuple[Sought, ...] = ()
    clauses: tuple[Clause, ...] = ()
    literal: str = ""
    one: bool = False

    @property
    def to_verify(self) -> bool:
        """Whether texts decide."""
        return any(leaf.pattern for clause in self.clauses for leaves in clause for leaf in leaves)

    @property
    def demands(self) -> bool:
        """Whether something must be in a message, not only out of it."""
        return any(leaf.wanted for clause in self.clauses for leaves in clause for leaf in leaves)

    @property
    def match(self) -> str:
        """What finds the blocks in which the clauses may be fulfilled; empty where the index cannot tell."""
        return " AND ".join(found for clause in self.clauses if (found := _match(clause)))

    def mask(self, signs: bytes) -> int:
        """Which messages of a block may fulfil every clause."""
        found = FULL
        for clause in self.clauses:
            some = 0
            for leaves in clause:
                every = FULL
                for leaf in leaves:
                    every &= leaf.mask(signs)
                some |= every
            found &= some
        return found

    def holds(self, text: str, signs: bytes, bit: int) -> bool:
        """Whether the message with this text and bit fulfils every clause."""
        return all(
            any(all(leaf.holds(text, leaf.mask(signs) & bit) for leaf in leaves) for leaves in clause)
            for clause in self.clauses
        )


def read(text: str) -> Asked:
    """What a text asks for; any text will do."""
    if len(text) <= LONGEST_EXPRESSION and "\n" not in text.strip():
        asked = _expression(text)
        if asked is not None:
            return asked
    return _plain(text)


def sought(forms: Sequence[str], *, most: int = FORMS) -> Sought:
    """A word in any of these forms, the first `most` of them."""
    forms = tuple(forms[:most])
    match = " OR ".join(f'"{checksum(form):x}"' for form in forms)
    return Sought(forms=forms, match=f"({match})", signs=tuple(map(sign, forms)))


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, in any case."""
    return re.compile(pattern, re.IGNORECASE)


def one_spelling(text: str) -> str:
    """The text with all that differs in case, width or the way marks are put alike."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).casefold())


def _match(clause: Clause) -> str:
    """The clause without what is not wanted and what only a text can tell."""
    alternatives = [
        " AND ".join(term.match for leaf in leaves if leaf.wanted for term in leaf.terms) for leaves in clause
    ]
    return f"({' OR '.join(f'({found})' for found in alternatives)})" if all(alternatives) and alternatives else ""


# ---- plain text


def _plain(text: str) -> Asked:
    terms = _counting(words.query(text))
    literal = " ".join(text.split())[:LITERAL]
    return Asked(terms=terms, literal="" if terms else literal, one=text.isascii() and len(text.split()) == 1)


def _counting(terms: Sequence[words.Term]) -> tuple[Sought, ...]:
    """The words that count: all but stop words, unless there is nothing else."""
    kept = [term for term in terms if not term.stop] or terms
    return tuple(sought(term.forms) for term in kept)


# ---- operators


class _Item(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    kind: str = "word"
    wanted: bool = True


@cache
def _items() -> re.Pattern[str]:
    return re.compile(r'(?<!\S)(-?)["“„«]([^"“”„«»]+)["”“»](?=[\s,.;:!?)]|$)|(\S+)')


def _expression(text: str) -> Asked | None:
    """The query as an expression, None where it holds no operator that makes sense."""
    items = list(_read_items(text))
    if all(item.kind == "word" and item.wanted for item in items):
        return None
    groups = _grouped(items)
    clauses = tuple(clause for group in groups if (clause := _clause(group)))
    positive = [item for group in groups for alternative in group for item in alternative if item.wanted]
    terms = _counting(words.query(" ".join(item.text for item in positive if item.kind != "start")))
    return Asked(terms=terms, clauses=clauses) if positive else None


def _read_items(text: str) -> Iterator[_Item]:
    for match in _items().finditer(text):
        minus, phrase, word = match.groups()
        if phrase is not None:
            yield _Item(text=phrase, kind="phrase", wanted=not minus)
        elif word in _OPERATORS:
            yield _Item(text=word, kind="operator")
        elif _excludes(word):
            yield _Item(text=word[1:], wanted=False)
        elif re.fullmatch(r"\w{2,}\*", word):
            yield _Item(text=word, kind="start")
        else:
            yield _Item(text=word)


def _excludes(word: str) -> bool:
    return word.startswith("-") and len(word) > SHORTEST_EXCLUDED and word[1].isalpha() and "=" not in word


def _grouped(items: Sequence[_Item]) -> list[list[list[_Item]]]:
    """Groups of alternatives of items that belong together; an operator with nothing beside it is left out."""
    groups: list[list[list[_Item]]] = []
    link, negated = "", False
    for item in items:
        if item.kind == "operator":
            negated = negated or item.text == "NOT"
            link = item.text if item.text != "NOT" and groups else link
            continue
        if negated:
            item = msgspec.structs.replace(item, wanted=False)
        if link == "AND" and groups:
            groups[-1][-1].append(item)
        elif link == "OR" and groups:
            groups[-1].append([item])
        else:
            groups.append([[item]])
        link, negated = "", False
    return groups


def _clause(group: Sequence[Sequence[_Item]]) -> Clause:
    """The condition that a group makes; none for a word by itself."""
    joined = len(group) > 1 or len(group[0]) > 1
    if not joined and group[0][0].kind == "word" and group[0][0].wanted:
        return ()
    if not joined and group[0][0].kind == "start":
        return ((_leaf(group[0][0]),),)
    return tuple(tuple(_leaf(item) for item in alternative) for alternative in group)


def _leaf(item: _Item) -> Leaf:
    if item.kind == "start":
        return Leaf(terms=(), pattern=_start(item.text), folded=_start(one_spelling(item.text)), wanted=item.wanted)
    terms = words.query(item.text)
    if item.kind == "phrase" or len(terms) != 1:
        parts = tuple(sought(term.forms) for term in terms if not term.whole)
        folded = _phrase(one_spelling(item.text))
        return Leaf(terms=parts, pattern=_phrase(item.text), folded=folded, wanted=item.wanted)
    return Leaf(terms=tuple(sought(term.forms) for term in terms), wanted=item.wanted)


def _phrase(text: str) -> str:
    """The words of a phrase with whatever stands between words between them; signs alone stand as they are."""
    parts = re.findall(r"\w+", text)
    if not parts:
        return re.escape(text.strip())
    inside = r"[\W_]+".join(map(re.escape, parts))
    return f"{_border(parts[0][0], ahead=False)}{inside}{_border(parts[-1][-1], ahead=True)}"


def _start(text: str) -> str:
    return f"{_border(text[0], ahead=False)}{re.escape(text.rstrip('*'))}"


def _border(letter: str, *, ahead: bool) -> str:
    """Where a word must end: in scripts without spaces, nowhere."""
    if not letter.isascii() and not letter.islower() and not letter.isupper():
        return ""
    return r"(?![^\W_])" if ahead else r"(?<![^\W_])"
