"""Searching the index: from a query to hits. Part of the store."""

from collections.abc import Iterator, Sequence

from melete.core.session import Hit, Query
from melete.store import dates
from melete.store.asked import read
from melete.store.block import unpack_texts
from melete.store.candidates import Candidate, Gatherer, Pool, present
from melete.store.ranking import MOST_BLOCKS, Found, Ranking
from melete.store.scope import Scope, scope_of
from melete.store.snippet import snippet
from melete.store.sqlite import Database
from melete.store.tables import moment

MANY = 1_000
"""Messages from which those with a phrase are taken at first."""
SHARE_FOR_TIME = 0.5
"""What a message's words must count, of what those of the best count, when the newest or oldest come first."""
LONGEST_DATED = 300
LONGEST_CHAIN = 1_000
_LAST_RESORT = (
    "SELECT b.id FROM blocks b CROSS JOIN sessions s ON s.number = b.session WHERE {where} ORDER BY {order} LIMIT ?"
)
_ORIGIN = (
    "SELECT s.origin FROM sessions s LEFT JOIN sessions o ON o.id = s.origin "
    "WHERE s.id = ? AND s.origin <> '' AND ? IN ('', coalesce(o.owner, s.owner))"
)


def find(database: Database, query: Query) -> list[Hit]:
    """Messages that answer the query, the best first unless it says otherwise; any text is a valid query."""
    if not query.text.strip() or query.limit < 1:
        return []
    return _Search(database, query).hits()


class _Search:
    """One search."""

    def __init__(self, database: Database, query: Query) -> None:
        self._database = database
        self._query = query
        asked = read(query.text)
        self._asked = present(database, asked)
        self._nowhere = bool(asked.terms) and not self._asked.terms and not asked.clauses
        self._scope: Scope = scope_of(database, query)
        spans = _spans(database, query.text)
        self._pool = self._gather(spans)
        self._ranking = Ranking(database, self._scope, self._asked, spans=spans, pool=self._pool)
        self._texts: dict[tuple[int, int], str] = {}
        self._held: dict[int, int] = {}
        self._roots: dict[str, str] = {}

    def hits(self) -> list[Hit]:
        """The hits in the order that the query asks for."""
        if self._query.order != "best":
            # Where something is demanded, that alone decides: "a OR b" is fulfilled by either.
            fitting = self._ranking.fitting(0.0 if self._asked.demands else SHARE_FOR_TIME)
            return [self._hit(one) for one in self._chosen(fitting)]
        few = not self._asked.literal and not self._asked.to_verify
        wanted = self._query.limit * 2 + 10 if few else MANY
        chosen: list[Found] = []
        for found in self._ranking.best(wanted):
            chosen = self._chosen(found)
            if len(chosen) >= self._query.limit:
                break
        return [self._hit(one) for one in chosen]

    def _gather(self, spans: Sequence[dates.Span]) -> Pool:
        if self._nowhere:
            return Pool(candidates=())
        if self._asked.terms:
            return Gatherer(self._database, self._scope, self._asked, order=self._query.order).gather(spans)
        blocks = self._scope.few
        if blocks is None:
            by = {"newest": "b.last DESC", "oldest": "b.last"}.get(self._query.order, "b.id DESC")
            sql = _LAST_RESORT.format(where=self._scope.blocks or "1", order=by)
            blocks = [row[0] for row in self._database.read(sql, (*self._scope.of_blocks, MOST_BLOCKS))]
        return Pool(candidates=[Candidate(0.0, block, 0) for block in blocks])

    # ---- choosing

    def _chosen(self, found: Sequence[Found]) -> list[Found]:
        """As many as are asked for, each chain of sessions as often as it may, no copy of a message beside the original."""
        chosen: list[Found] = []
        chains: dict[str, int] = {}
        said: set[tuple[str, float, str]] = set()
        for one in self._ordered(found):
            if len(chosen) >= self._query.limit:
                break
            root = self._root(one)
            if (self._query.each and chains.get(root, 0) >= self._query.each) or not self._verified(one):
                continue
            same = (one.entry.role, one.at, self._text(one))
            if same in said:
                continue
            said.add(same)
            chains[root] = chains.get(root, 0) + 1
            chosen.append(one)
        return chosen

    def _ordered(self, found: Sequence[Found]) -> Iterator[Found]:
        """By time, or the best first; of equals, the one that says more, then the newer; a copy comes behind its original."""
        if self._query.order == "best":

            def rank(one: Found) -> tuple[float, ...]:
                return (-round(one.score, 6), -one.entry.size, -one.at, _is_copy(one), one.entry.seq)

            return iter(sorted(found, key=rank))
        newest = self._query.order == "newest"

        def when(one: Found) -> tuple[float, bool, str, int]:
            return (one.at, _is_copy(one) != newest, one.session.id, one.entry.seq)

        return iter(sorted(found, key=when, reverse=newest))

    def _verified(self, one: Found) -> bool:
        """Whether the text has what only a text can tell; that is found out for a whole block at once."""
        if not self._asked.literal and not self._asked.to_verify:
            return True
        held = self._held.get(one.block)
        if held is None:
            texts = self._read(one.block)
            held = sum(1 << place for place, text in enumerate(texts) if self._right(text, one.signs, 1 << place))
            self._held[one.block] = held
        return bool(held & one.bit)

    def _right(self, text: str, signs: bytes, bit: int) -> bool:
        literal = self._asked.literal
        if literal:
            return literal in (" ".join(text.split()) if " " in literal else text)
        return self._asked.holds(text, signs, bit)

    def _root(self, one: Found) -> str:
        """The first session of the chain; in a circle, the one with the least id."""
        if not one.session.origin:
            return one.session.id
        known = self._roots.get(one.session.id)
        if known is None:
            known = self._roots[one.session.id] = _root(self._database, one.session.id, self._query.owner)
        return known

    # ---- showing

    def _text(self, one: Found) -> str:
        key = (one.block, one.bit)
        if key not in self._texts:
            texts = self._read(one.block)
            place = one.bit.bit_length() - 1
            self._texts[key] = texts[place] if place < len(texts) else ""
        return self._texts[key]

    def _read(self, block: int) -> list[str]:
        rows = self._database.read("SELECT body FROM texts WHERE block = ?", (block,))
        return unpack_texts(rows[0][0]) if rows else []

    def _hit(self, one: Found) -> Hit:
        shown, marks = snippet(self._text(one), self._asked, self._query.text)
        tools = [tool for tool in one.entry.tools if tool in self._query.tools] or one.entry.tools
        return Hit(
            session=one.session.id,
            seq=one.entry.seq,
            role=one.entry.role,
            snippet=shown,
            marks=marks,
            source=one.session.source,
            tool=tools[0] if tools else "",
            ref=one.entry.ref,
            name=one.session.name,
            root=self._root(one),
            at=moment(one.at),
            score=round(one.score, 4),
        )


def _spans(database: Database, text: str) -> list[dates.Span]:
    """The times that the query names; one without a year is of those in which there are messages."""
    if len(text) > LONGEST_DATED:
        return []
    # One of both at a time: only so SQLite looks no further than the ends of its index.
    ((first,),) = database.read("SELECT min(last) FROM blocks")
    ((last,),) = database.read("SELECT max(last) FROM blocks")
    if first is None:
        return []
    return dates.named(text, (moment(first).year, moment(last).year))


def _is_copy(one: Found) -> bool:
    """Whether a fork holds the message from its original."""
    return one.entry.seq <= one.session.copied


def _root(database: Database, session: str, owner: str) -> str:
    """The first session of the chain that the owner may know of."""
    seen: list[str] = []
    here = session
    while here not in seen and len(seen) < LONGEST_CHAIN:
        seen.append(here)
        rows = database.read(_ORIGIN, (here, owner))
        if not rows:
            return here
        here = str(rows[0][0])
    return min(seen[seen.index(here) :]) if here in seen else here
