"""How well messages answer a search: their own words, and those said right before and after. Part of the store.

A word counts fully where it stands, and less in the messages round it: an answer seldom repeats the question before it.
"""

import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from melete.store import dates
from melete.store.asked import Asked
from melete.store.block import FULL, SIZE, Entry, mask, role_term, sign, sound, unpack_entries
from melete.store.candidates import Candidate, Pool
from melete.store.scope import Scope
from melete.store.sqlite import Database
from melete.store.tables import moment

ROUND = ((0, 1.0), (-1, 0.7), (-2, 0.49), (1, 0.4), (2, 0.28))
"""What a word counts for a message when it stands in it, or that many messages away from it."""
REACH = 2
EDGE = 0b11
BATCH = 32
ENOUGH_BLOCKS = 128
"""After so many blocks what else there is seldom is better, though it might be."""
MOST_BLOCKS = 4_000
"""Blocks that one search looks at in the end: 32,000 messages."""
BEHIND = frozenset({"subagent", "tool", "cron", "batch", "review"})
"""Sources of sessions that nobody talked in."""
BEHIND_FACTOR = 0.5
TOOL_FACTOR = 0.7
LONG = 1_000
"""Characters from which on a message is the less likely meant the longer it is: it holds many words."""
NEWEST_BONUS = 0.1
HALF_LIFE_DAYS = 14.0
DATE_SHARE = 0.5
"""What the right time counts, in the mean weight of a word, for each word of the query up to four."""
DAY = 86_400.0


_WHOLE = (
    "SELECT b.id, b.session, h.signs, h.entries, "
    "coalesce((SELECT id FROM blocks WHERE session = b.session AND place = b.place - 1), 0), "
    "coalesce((SELECT id FROM blocks WHERE session = b.session AND place = b.place + 1), 0) "
    "FROM json_each(?) j CROSS JOIN blocks b ON b.id = j.value CROSS JOIN heads h ON h.block = b.id"
)
_SIGNS = "SELECT h.block, h.signs FROM json_each(?) j CROSS JOIN heads h ON h.block = j.value"


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """What the index knows of a session that may be found."""

    number: int
    id: str
    source: str
    origin: str
    copied: int
    name: str


class Found(NamedTuple):
    """A message that answers: higher `score` is better; `bit` is its place in its block.

    `words` is what its words alone count: 1 for all that is asked for.
    """

    score: float
    words: float
    at: float
    entry: Entry
    session: Session
    block: int
    bit: int
    signs: bytes


class _Block(NamedTuple):
    id: int
    session: int
    signs: bytes
    entries: bytes
    before: int
    after: int


class _Rough(NamedTuple):
    """A message before its entry is read."""

    score: float
    words: float
    bit: int
    block: _Block


class Ranking:
    """Scores the messages of a pool's blocks for one search."""

    def __init__(
        self, database: Database, scope: Scope, asked: Asked, *, spans: Sequence[dates.Span], pool: Pool
    ) -> None:
        self._database = database
        self._scope = scope
        self._asked = asked
        self._spans = spans
        self._pool = pool
        self._ideal = sum(pool.weights) or 1.0
        self._sessions: dict[int, Session | None] = {}
        self._signs: dict[int, bytes] = {}
        self._tool = sign(role_term("tool"))
        self._newest = moment(database.read("SELECT coalesce(max(last), 0) FROM blocks")[0][0]).timestamp()

    def best(self, wanted: int) -> Iterator[list[Found]]:
        """About as many of the best messages as are wanted; then more, each time with those before, until there are none."""
        rough: list[_Rough] = []
        candidates = self._pool.candidates[:MOST_BLOCKS]
        start, size = 0, BATCH
        while start < len(candidates):
            rough += self._rough(candidates[start : start + size])
            start, size = start + size, start + size
            rough.sort(key=lambda one: -one.score)
            if start >= len(candidates):
                break
            if len(rough) >= wanted and (start >= ENOUGH_BLOCKS or rough[wanted - 1].score >= candidates[start].bound):
                yield self._exact(rough[:wanted])
                wanted *= 4
        while wanted < len(rough):
            yield self._exact(rough[:wanted])
            wanted *= 4
        yield self._exact(rough)

    def fitting(self, share: float) -> list[Found]:
        """All messages of the pool whose words count at least this share of what those of the best count."""
        candidates = self._pool.candidates[:MOST_BLOCKS]
        rough = [one for at in range(0, len(candidates), BATCH) for one in self._rough(candidates[at : at + BATCH])]
        first = share * max((one.words for one in rough), default=0.0)
        found = self._exact([one for one in rough if one.words >= first])
        least = share * max((one.words for one in found), default=0.0)  # the best of all may be of another time
        return found + self._exact([one for one in rough if least <= one.words < first])

    def _rough(self, candidates: Sequence[Candidate]) -> list[_Rough]:
        """The messages in these blocks that may be found, but for their times."""
        blocks = self._read(candidates)
        found: list[_Rough] = []
        conditions = bool(self._scope.kinds or self._asked.clauses)
        for candidate in candidates:
            block = blocks.get(candidate.block)
            session = None if block is None else self._sessions.get(block.session)
            if block is None or session is None:
                continue
            totals, allowed = self._words(block, candidate.terms)
            if conditions:
                allowed &= self._scope.mask(block.signs) & self._asked.mask(block.signs)
            tools = mask(block.signs, self._tool)
            factor = BEHIND_FACTOR if session.source in BEHIND else 1.0
            for place, total in enumerate(totals):
                if allowed >> place & 1:
                    words = total / self._ideal
                    behind = factor * (TOOL_FACTOR if tools >> place & 1 else 1.0)
                    found.append(_Rough(words * behind, words, 1 << place, block))
        return found

    def _words(self, block: _Block, terms: int) -> tuple[list[float], int]:
        """What the words count for each message, and which messages hold a word or stand by two of them."""
        if not self._asked.terms:
            return [1.0] * SIZE, FULL
        signs, before, after = block.signs, self._signs.get(block.before, b""), self._signs.get(block.after, b"")
        near, unsure = self._pool.near, self._pool.unsure
        said_before = near.get(block.before, 0) | unsure if before else 0
        said_after = near.get(block.after, 0) | unsure if after else 0
        totals = [0.0] * SIZE
        own = one = two = 0
        bit = 1
        for term, weight in zip(self._asked.terms, self._pool.weights, strict=True):
            window = here = term.mask(signs) if terms & bit else 0
            window <<= REACH
            if said_before & bit:
                window |= term.mask(before) >> (SIZE - REACH)
            if said_after & bit:
                window |= (term.mask(after) & EDGE) << (SIZE + REACH)
            bit <<= 1
            if window:
                shares, round_it = _shares(window)
                totals = [total + weight * share for total, share in zip(totals, shares)]  # noqa: B905 - both have eight
                own, two, one = own | here, two | one & round_it, one | round_it
        return totals, own if self._asked.one else own | two

    def _exact(self, rough: Sequence[_Rough]) -> list[Found]:
        entries: dict[int, list[Entry]] = {}
        found: list[Found] = []
        for score, words, bit, block in rough:
            if block.id not in entries:
                entries[block.id] = unpack_entries(block.entries)
            place = bit.bit_length() - 1
            entry = entries[block.id][place] if place < len(entries[block.id]) else None
            session = self._sessions[block.session]
            if entry is not None and session is not None and self._scope.in_time(entry.at):
                score = self._judge(score, entry)
                found.append(Found(score, words, entry.at, entry, session, block.id, bit, block.signs))
        return found

    def _judge(self, score: float, entry: Entry) -> float:
        """The score with what speaks for and against a message beside its words."""
        if entry.size > LONG:
            score /= 1 + 0.1 * math.log2(entry.size / LONG)
        if any(since <= entry.at < until for since, until in self._spans):
            score += DATE_SHARE * min(1.0, 4 / max(1, len(self._asked.terms)))
        age = max(0.0, self._newest - entry.at) / DAY / HALF_LIFE_DAYS
        return score + round(NEWEST_BONUS * 0.5 ** min(age, 60.0), 2)

    # ---- reading

    def _read(self, candidates: Sequence[Candidate]) -> dict[int, _Block]:
        """These blocks by number; what matters of their neighbours and sessions is then known as well."""
        chosen = {
            block.id: block for block in map(_Block._make, self._fetch(_WHOLE, [one.block for one in candidates]))
        }
        near, unsure = self._pool.near, self._pool.unsure
        around = {beside for block in chosen.values() for beside in (block.before, block.after) if beside}
        self._signs.update((block.id, sound(block.signs)) for block in chosen.values())
        beside = [one for one in around - self._signs.keys() if unsure or one in near]
        self._signs.update((block, sound(signs)) for block, signs in self._fetch(_SIGNS, beside))
        self._learn({block.session for block in chosen.values()} - self._sessions.keys())
        return chosen

    def _fetch(self, sql: str, blocks: Sequence[int]) -> list[tuple[Any, ...]]:
        return self._database.read(sql, (json.dumps(blocks),)) if blocks else []

    def _learn(self, numbers: set[int]) -> None:
        """Learn of sessions; of those that are outside the scope, that they are."""
        sql = (
            "SELECT s.number, s.id, s.source, s.origin, s.copied, s.name "  # noqa: S608 - ours
            "FROM json_each(?) j CROSS JOIN sessions s ON s.number = j.value "
            f"WHERE {self._scope.sessions or '1'}"
        )
        self._sessions.update(dict.fromkeys(numbers))
        for row in self._database.read(sql, (json.dumps(sorted(numbers)), *self._scope.of_sessions)):
            values = dict(zip(Session.__struct_fields__, row, strict=True))
            self._sessions[row[0]] = msgspec.convert(values, Session)


@cache
def _shares(window: int) -> tuple[tuple[float, ...], int]:
    """What a word counts for each message of a block, and for which it counts at all.

    The word's places are the bits of `window`: two messages before the block, its own, and two behind.
    """
    shares = tuple(
        max(share if window >> (place + REACH + step) & 1 else 0.0 for step, share in ROUND) for place in range(SIZE)
    )
    return shares, sum(1 << place for place, share in enumerate(shares) if share)
