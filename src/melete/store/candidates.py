"""Which blocks a search looks at closely: those that hold most of what is asked for, at a bounded price. Part of the store.

For each word the index gives its newest blocks up to a bound. A list that ends before is known whole, and its word is rare; the
others are frequent, and are only looked for beside rare ones, or together.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import msgspec

from melete.store.asked import Asked, Sought, sought
from melete.store.block import checksum, mask, sound
from melete.store.scope import Scope
from melete.store.sqlite import Database

LIST = 1_000
"""Blocks of one word that are asked for."""
LISTS = 4_000
"""Blocks of all words together."""
SHORTEST_LIST = 250
TOGETHER = 300
"""Blocks that hold several frequent words."""
ENOUGH = 100
TRIES = 8
MOST = 1_000
"""Blocks of a pool."""
MORE_TO_VERIFY = 4
"""How many times as much is looked at where only texts tell what is right: a phrase."""
BESIDE = 0.7
"""What a word that stands right before a block can count for a message in it."""
SHARPNESS = 0.8
"""How much more a rare word counts than a frequent one: 1 for all of what theory says, 0 for nothing."""

_ANY = "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1"
_BY_NUMBER = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
_IN_SCOPE = (
    "SELECT words.rowid FROM words CROSS JOIN blocks b ON b.id = words.rowid CROSS JOIN sessions s ON s.number = b.session "
    "WHERE words MATCH ? AND {where} ORDER BY {order} LIMIT ?"
)


class Candidate(NamedTuple):
    """A block to look at: no message in it can score more than `bound`; `terms` are bits of the words that it may say."""

    bound: float
    block: int
    terms: int


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks to look at, the most promising first; the weight of each word; `near` are words by block, as bits.

    `unsure` are the words that more blocks may hold than is known.
    """

    candidates: Sequence[Candidate]
    weights: Sequence[float] = ()
    near: Mapping[int, int] = {}
    unsure: int = 0


class Gatherer:
    """One search's way to its pool; `order` says which of too many blocks are taken: the newest, the oldest, or any."""

    def __init__(self, database: Database, scope: Scope, asked: Asked, *, order: str) -> None:
        self._database = database
        self._scope = scope
        self._terms = asked.terms
        self._base = " AND ".join(part for part in (scope.match, asked.match) if part)
        self._order = order
        self._known: dict[int, int] = {}
        self._newest = int(database.read("SELECT coalesce(max(id), 0) FROM blocks")[0][0])
        more = MORE_TO_VERIFY if asked.to_verify else 1
        self._bound = more * max(SHORTEST_LIST, min(LIST, LISTS // max(1, len(self._terms))))
        self._most = more * (MOST if order == "best" else LISTS)

    def gather(self, spans: Sequence[tuple[float, float]] = ()) -> Pool:
        """The pool; blocks of the times in `spans` are looked at in any case, unless they are too many."""
        few = self._scope.few
        if few is not None and not few:
            return Pool(candidates=())
        lists = [self._blocks(term.match, self._bound + 1, everywhere=few is not None) for term in self._terms]
        weights = [self._weight(found) for found in lists]
        unsure = 0
        if few is not None:
            self._look_into(few)
        else:
            unsure = sum(1 << number for number, found in enumerate(lists) if len(found) > self._bound)
            self._learn(lists, weights)
            self._look_into(self._of_times(spans))
        return Pool(candidates=self._candidates(weights, unsure), weights=weights, near=self._known, unsure=unsure)

    def _learn(self, lists: Sequence[Sequence[int]], weights: Sequence[float]) -> None:
        rare: list[int] = []
        frequent: list[int] = []
        for number, found in enumerate(lists):
            known_whole = len(found) <= self._bound
            (rare if known_whole else frequent).append(number)
            if not known_whole and self._order != "best":
                found = self._blocks(self._terms[number].match, self._bound, order=self._order)
            self._add(found, 1 << number)
        if rare and frequent:
            beside = " OR ".join(self._terms[number].match for number in rare)
            most = sum(len(lists[number]) for number in rare)
            for number in frequent:
                self._add(self._blocks(f"({beside}) AND {self._terms[number].match}", most), 1 << number)
        if not self._better_known(weights, sum(weights[number] for number in frequent)):
            self._together(sorted(frequent, key=lambda number: -weights[number]))

    def _better_known(self, weights: Sequence[float], least: float) -> bool:
        """Whether enough blocks are known that hold words of this weight."""
        counts = Counter(self._known.values())
        return sum(count for terms, count in counts.items() if _worth(terms, weights) >= least) >= ENOUGH

    def _together(self, frequent: Sequence[int]) -> None:
        """Blocks that hold all of the frequent words, or all but a few that say least."""
        found = tries = 0
        for left_out in range(len(frequent) - 1):
            for chosen in combinations(frequent, len(frequent) - left_out):
                if found >= ENOUGH or tries >= TRIES:
                    return
                match = " AND ".join(self._terms[number].match for number in chosen)
                blocks = self._blocks(match, TOGETHER, order=self._order)
                self._add(blocks, sum(1 << number for number in chosen))
                found += len(blocks)
                tries += 1

    def _look_into(self, blocks: Sequence[int]) -> None:
        """See for each of the blocks itself which words it holds."""
        if not blocks:
            return
        sql = "SELECT h.block, h.signs FROM json_each(?) j CROSS JOIN heads h ON h.block = j.value"
        for block, signs in self._database.read(sql, (json.dumps(blocks),)):
            known = sum(1 << number for number, term in enumerate(self._terms) if holds(sound(signs), term))
            if known:
                self._known[block] = known

    def _of_times(self, spans: Sequence[tuple[float, float]]) -> list[int]:
        found: list[int] = []
        for since, until in spans:
            sql = "SELECT id FROM blocks WHERE last >= ? AND first < ? LIMIT ?"
            rows = self._database.read(sql, (since, until, self._bound + 1))
            found += [row[0] for row in rows] if len(rows) <= self._bound else []
        return found

    def _blocks(self, match: str, limit: int, *, order: str = "best", everywhere: bool = False) -> list[int]:
        """The newest blocks that match, or the oldest where `order` says so, within the scope or everywhere."""
        if everywhere:
            return [row[0] for row in self._database.read(_BY_NUMBER, (match, limit))]
        whole = f"{match} AND {self._base}" if self._base else match
        values: tuple[Any, ...] = (whole, limit)
        sql = _BY_NUMBER
        if self._scope.blocks or order != "best":
            by = {"newest": "b.last DESC", "oldest": "b.first"}.get(order, "words.rowid DESC")
            sql = _IN_SCOPE.format(where=self._scope.blocks or "1", order=by)
            values = (whole, *self._scope.of_blocks, limit)
        return [row[0] for row in self._database.read(sql, values)]

    def _weight(self, found: Sequence[int]) -> float:
        """What a word counts whose newest blocks these are: the fewer hold it, the more."""
        count = float(len(found))
        if len(found) > self._bound:
            count *= self._newest / (self._newest - found[-1] + 1)
        return math.log(1 + self._newest / max(count, 1.0)) ** SHARPNESS

    def _add(self, blocks: Sequence[int], bits: int) -> None:
        known = self._known
        for block in blocks:
            known[block] = known.get(block, 0) | bits

    def _candidates(self, weights: Sequence[float], unsure: int) -> list[Candidate]:
        """The blocks with what they may be worth; words beside a block count less than those in it."""
        known = self._known

        @cache
        def worth(terms: int) -> float:
            return _worth(terms, weights)

        ideal = worth((1 << len(weights)) - 1) or 1.0
        found: list[Candidate] = []
        oldest = self._order == "oldest"
        for block in _first(known, worth, self._most, oldest=oldest):
            own = known[block]
            beside = (known.get(block - 1, 0) | known.get(block + 1, 0)) & ~own
            found.append(Candidate((worth(own) + BESIDE * worth(beside)) / ideal, block, own | unsure))
        found.sort(key=lambda one: (-one.bound, one.block if oldest else -one.block))
        return found


def _worth(terms: int, weights: Sequence[float]) -> float:
    return sum(weight for number, weight in enumerate(weights) if terms >> number & 1)


def _first(known: Mapping[int, int], worth: Callable[[int], float], most: int, *, oldest: bool) -> list[int]:
    """The blocks that hold most; of those that hold the same, the newest or the oldest."""
    counts = Counter(known.values())
    kept: set[int] = set()
    left = most
    for terms in sorted(counts, key=worth, reverse=True):
        if counts[terms] > left:
            last = sorted((block for block, held in known.items() if held == terms), reverse=not oldest)[:left]
            return [block for block, held in known.items() if held in kept] + last
        kept.add(terms)
        left -= counts[terms]
    return list(known)


def present(database: Database, asked: Asked) -> Asked:
    """The query with only those forms of its words that the index has, and only those words that have any."""
    terms: list[Sought] = []
    for term in asked.terms:
        forms = [form for form in term.forms if database.read(_ANY, (f'"{checksum(form):x}"',))]
        if forms:
            terms.append(term if len(forms) == len(term.forms) else sought(forms))
    return msgspec.structs.replace(asked, terms=tuple(terms))


def holds(signs: bytes, term: Sought) -> bool:
    """Whether a block holds the word."""
    return any(mask(signs, sign) for sign in term.signs)
