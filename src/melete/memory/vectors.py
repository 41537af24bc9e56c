"""The memory `vectors`: past messages by what they mean, beside the search by words. Part of memory; needs the extra `vectors`.

A message's vector is the mean of its tokens' vectors. In a query, a token counts the less the more often it was said (Arora and
others, "A simple but tough-to-beat baseline for sentence embeddings", 2017). The file holds vectors and places, no texts, and is
made anew from the conversations when it is damaged.
"""

import asyncio
import importlib.util
import logging
import math
import sqlite3
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType] - it has no types
from tokenizers import Tokenizer

from melete.core.errors import ConfigError
from melete.core.memory import Recalled
from melete.core.ports import ProviderStart
from melete.core.session import Hit, Line, Query, Which

T = TypeVar("T")
Vectors = NDArray[np.float32]
Place = tuple[str, int]
"""A message: its session, and the fact that holds it."""
log = logging.getLogger("melete.memory")
PACKAGE = "wordllama"
WEIGHTS, TOKENS = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"
SIZE = 128
"""Numbers of a vector that are kept; the model is trained so that the first of them say most."""
RARE = 1e-3
"""How often a token is said that counts half in a query."""
FEW = 10_000
"""Tokens that are thought to have been said at least: of a few, each would seem frequent."""
ROUND, REACH = 0.25, 2
"""What the messages round one count for it, and how many on each side."""
LONGEST = 2_000
"""Characters of a message that its vector is made from."""
BATCH = 500
"""Messages that are written at a time."""
UNKNOWN = -1
"""The size of a log that there may be more in."""
FORMAT = 1
SHARE = 0.3
"""What the best in meaning counts beside the best in words."""
DEPTH = 30
"""Messages of each kind that are considered."""
NEAR, CHANCE = 0.3, 0.03
"""How near in meaning a message must be that has none of the words; more for each tenfold of messages: some are near by chance."""
BEARS = 1.0
"""What words and meaning of a message must come to, for it to be recalled unasked; 2 is all."""
TELLING, FEWEST = 0.5, 2.0
"""The weight of a word that says something, and of how many a message must be for anything to be recalled."""
SHOWN = 400
_TABLES = """
CREATE TABLE chunks (id INTEGER PRIMARY KEY AUTOINCREMENT, who TEXT NOT NULL, session TEXT NOT NULL, seqs BLOB NOT NULL,
    vectors BLOB NOT NULL);
CREATE TABLE places (session TEXT PRIMARY KEY, who TEXT NOT NULL, last INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE TABLE tokens (token INTEGER PRIMARY KEY, said INTEGER NOT NULL);
CREATE TABLE dropped (times INTEGER NOT NULL);
INSERT INTO dropped VALUES (0);
"""


# ---- the model


class Model:
    """Texts to vectors, with weights that come in a package: no network."""

    def __init__(self, folder: Path) -> None:
        weights = load_file(folder / WEIGHTS)
        self._weights: Vectors = weights["embedding.weight"][:, :SIZE].astype(np.float32)
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENS))
        self._tokenizer.no_padding()
        self.tokens = len(self._weights)

    def read(self, text: str) -> NDArray[np.int64]:
        """The tokens of a text. One at a time: the batches of the tokenizer start threads that processes cannot be forked from."""
        return np.array(self._tokenizer.encode(text[:LONGEST], add_special_tokens=False).ids, dtype=np.int64)

    def vector(self, tokens: NDArray[np.int64], weights: Vectors | None = None) -> Vectors:
        """The mean of the tokens' vectors, of length 1; zeros for no tokens."""
        if not len(tokens):
            return np.zeros(SIZE, dtype=np.float32)
        rows = self._weights[tokens]
        made: Vectors = rows.mean(axis=0) if weights is None else (rows * weights[tokens][:, None]).sum(axis=0)
        return made / max(float(np.linalg.norm(made)), 1e-9)


def folder_of_model() -> Path | None:
    """Where the package is, without importing it: it changes how the whole process logs. None where it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    return Path(found.origin).parent if found and found.origin else None


@cache
def model() -> Model:
    """The model, loaded once in a process; raises ConfigError where its package is not installed."""
    folder = folder_of_model()
    if folder is None:
        raise ConfigError(f"the package {PACKAGE} is not installed", next='pip install "melete[vectors]"')
    return Model(folder)


# ---- the file


class _Held(NamedTuple):
    """The vectors of one person in memory: `own` of each message alone, `around` with those beside it."""

    dropped: int
    last: int
    at: Mapping[Place, int]
    places: Sequence[Place]
    own: NDArray[np.float16]
    around: Vectors
    sessions: NDArray[np.str_]


class Nearest(NamedTuple):
    """How near messages are to a query: `around` with those beside them, of those asked for and the best; `own` alone.

    `telling` is what the words of the query weigh together, and from `near` on a message is near in meaning.
    """

    around: Mapping[Place, float]
    own: Mapping[Place, float]
    telling: float
    near: float


class Index:
    """The file of vectors; what other processes write is seen at once, and a damaged one is begun anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._held: dict[str, _Held] = {}
        self._counted: tuple[int, Vectors] | None = None

    def places(self, who: str) -> dict[str, tuple[int, int]]:
        """How far each session of a person is held: the last fact, and how large its log was."""

        def read(database: sqlite3.Connection) -> dict[str, tuple[int, int]]:
            rows = database.execute("SELECT session, last, size FROM places WHERE who = ?", (who,))
            return {session: (last, size) for session, last, size in rows}

        return self._do(read)

    def add(self, who: str, session: str, lines: Sequence[Line], *, last: int, size: int) -> None:
        """Take in messages of a session, and that it is held up to the fact `last`; what another process took in stays."""
        made = [(line.seq, model().read(line.text)) for line in lines]
        vectors = np.array([model().vector(tokens) for _, tokens in made], dtype=np.float16)
        said = np.concatenate([tokens for _, tokens in made]) if made else np.array([], dtype=np.int64)
        counted = [(int(token), int(times)) for token, times in zip(*np.unique(said, return_counts=True), strict=True)]

        def write(database: sqlite3.Connection) -> None:
            row = database.execute("SELECT last FROM places WHERE session = ?", (session,)).fetchone()
            if row and row[0] >= last and made:
                return
            if made:
                seqs = np.array([seq for seq, _ in made], dtype=np.int64)
                values = (who, session, seqs.tobytes(), vectors.tobytes())
                database.execute("INSERT INTO chunks (who, session, seqs, vectors) VALUES (?, ?, ?, ?)", values)
            sql = "INSERT INTO tokens VALUES (?, ?) ON CONFLICT DO UPDATE SET said = said + excluded.said"
            database.executemany(sql, counted)
            database.execute("REPLACE INTO places VALUES (?, ?, ?, ?)", (session, who, last, size))

        self._do(write, writes=True)

    def drop(self, sessions: Collection[str]) -> None:
        """Forget sessions."""

        def write(database: sqlite3.Connection) -> None:
            for table in ("chunks", "places"):
                sql = f"DELETE FROM {table} WHERE session = ?"  # noqa: S608 - ours
                database.executemany(sql, [(session,) for session in sessions])
            database.execute("UPDATE dropped SET times = times + 1")

        if sessions:
            self._do(write, writes=True)

    def nearest(self, who: str, query: str, among: Iterable[Place], *, without: Collection[str] = ()) -> Nearest:
        """How near these messages are to a query, and which of all are the nearest, those of some sessions left out."""
        with self._lock:
            held, weights = self._do(lambda database: (self._read(database, who), self._weights(database)))
            tokens = model().read(query)
            telling = float(sum(weight for weight in weights[np.unique(tokens)] if weight >= TELLING))
            if not held.places:
                return Nearest({}, {}, telling, NEAR)
            vector = model().vector(tokens, weights)
            around = held.around @ vector
            there = around.copy()
            for session in without:
                there[held.sessions == session] = -1.0
            best = np.argpartition(-there, min(DEPTH, len(there) - 1))[:DEPTH]
            rows = {held.at[place] for place in among if place in held.at}
            rows |= {int(row) for row in best if there[row] > 0.0}
            return Nearest(
                {held.places[row]: float(around[row]) for row in rows},
                {held.places[row]: float(held.own[row].astype(np.float32) @ vector) for row in rows},
                telling,
                NEAR + CHANCE * math.log10(len(around)),
            )

    def _weights(self, database: sqlite3.Connection) -> Vectors:
        """What each token counts in a query; counted anew when there are messages that were not counted."""
        (version,) = database.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence").fetchone()
        if self._counted and self._counted[0] == version:
            return self._counted[1]
        said = np.zeros(model().tokens, dtype=np.float32)
        rows = np.array(database.execute("SELECT token, said FROM tokens").fetchall(), dtype=np.int64).reshape(-1, 2)
        said[rows[:, 0]] = rows[:, 1]
        weights: Vectors = RARE / (RARE + said / max(FEW, float(said.sum())))
        self._counted = (version, weights)
        return weights

    def _read(self, database: sqlite3.Connection, who: str) -> _Held:
        """The vectors as they are now: what came since they were read last is added."""
        held = self._held.get(who)
        (dropped,) = database.execute("SELECT times FROM dropped").fetchone()
        if held is None or held.dropped != dropped:
            empty = np.zeros((0, SIZE), dtype=np.float16)
            held = _Held(dropped, 0, {}, (), empty, empty.astype(np.float32), np.array([], dtype=np.str_))
        sql = "SELECT id, session, seqs, vectors FROM chunks WHERE who = ? AND id > ? ORDER BY id"
        rows = database.execute(sql, (who, held.last)).fetchall()
        if rows:
            held = _joined(held, rows)
        self._held[who] = held
        return held

    # ---- reaching it

    def _do(self, work: Callable[[sqlite3.Connection], T], *, writes: bool = False) -> T:
        """Do something in one transaction; a damaged file is put aside once, and begun anew."""
        with self._lock:
            try:
                with self._open(writes=writes) as database:
                    return work(database)
            except (sqlite3.DatabaseError, ValueError) as error:
                if isinstance(error, sqlite3.OperationalError | sqlite3.ProgrammingError):
                    raise  # locked, full or not ours: nothing that a new file would mend
                log.warning("%s is damaged (%s): it is made anew from the conversations", self._path.name, error)
                self._held.clear()
                self._counted = None
                for end in ("", "-journal"):
                    Path(f"{self._path}{end}").unlink(missing_ok=True)
                with self._open(writes=writes) as database:
                    return work(database)

    @contextmanager
    def _open(self, *, writes: bool) -> Generator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with closing(sqlite3.connect(self._path, timeout=2.0, isolation_level=None)) as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version not in (0, FORMAT):
                raise ValueError(f"it has the format {version}")
            database.execute("BEGIN IMMEDIATE" if writes or not version else "BEGIN")
            if not version and not database.execute("PRAGMA user_version").fetchone()[0]:
                for statement in _TABLES.split(";\n"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {FORMAT}")
                self._path.chmod(0o600)
            yield database
            database.execute("COMMIT")


def _joined(held: _Held, rows: Sequence[tuple[int, str, bytes, bytes]]) -> _Held:
    """What is held with more rows, in the order of the conversations; raises ValueError for rows that are damaged."""
    places, vectors = [*held.places], [held.own]
    for _, session, seqs, data in rows:
        numbers = np.frombuffer(seqs, dtype=np.int64)
        vectors.append(np.frombuffer(data, dtype=np.float16).reshape(len(numbers), SIZE))
        places += [(session, int(seq)) for seq in numbers]
    order = sorted(range(len(places)), key=places.__getitem__)
    places = [places[row] for row in order]
    own = np.concatenate(vectors)[order]
    names = np.array([session for session, _ in places])
    around = own.astype(np.float32)
    for step in range(1, min(REACH, len(own) - 1) + 1):
        beside = (names[step:] == names[:-step])[:, None] * ROUND
        around[step:] += beside * own[:-step]
        around[:-step] += beside * own[step:]
    at = {place: row for row, place in enumerate(places)}
    return _Held(held.dropped, rows[-1][0], at, places, own, around, names)


@cache
def index(path: Path) -> Index:
    """The index of a file, one in a process: conversations share what is in memory."""
    return Index(path)


# ---- the provider


class VectorMemory:
    """Recalls what was said in other conversations, by words and by meaning, and orders searches by both."""

    def __init__(self, start: ProviderStart) -> None:
        self._past = start.past
        self._index = index(Path(start.folder, "vectors.db"))
        self._session = self._who = ""
        self._roots: dict[str, str] = {}
        self._taking = asyncio.Lock()
        if folder_of_model():
            model()  # now, while nothing waits for it

    def available(self) -> str:
        """Whether the model is there."""
        missing = folder_of_model() is None
        return f'the package {PACKAGE} is not installed: pip install "melete[vectors]"' if missing else ""

    async def open(self, *, session: str, who: str, **_: Any) -> None:
        """Note whose conversation it is."""
        self._session, self._who = session, who

    async def queue_prefetch(self, query: str) -> None:  # noqa: ARG002 - the index is the same for every message
        """Take in what was said elsewhere meanwhile."""
        await self._take_in()

    async def sync_turn(self, user: str, assistant: str) -> None:  # noqa: ARG002 - the log has them, with their places
        """Take in the turn, from the log."""
        async with self._taking:
            last, _ = self._index.places(self._who).get(self._session, (0, 0))
            await self._take(self._session, after=last, size=UNKNOWN)

    async def _take_in(self) -> None:
        """Bring the index up to the conversations as they are; what is done stays, however this ends."""
        async with self._taking:
            held, there = self._index.places(self._who), await self._past.sessions()
            self._roots = {info.id: info.root for info in there}
            self._index.drop(held.keys() - self._roots.keys())
            for info in there:
                last, size = held.get(info.id, (0, UNKNOWN))
                if info.size != size:
                    await self._take(info.id, after=last, size=info.size)

    async def _take(self, session: str, *, after: int, size: int) -> None:
        lines = await self._past.lines(session, after=after)
        talked = [line for line in lines if line.role in ("user", "assistant") and line.text.strip()]
        for start in range(0, len(talked), BATCH):
            batch = talked[start : start + BATCH]
            whole = start + BATCH >= len(talked)
            self._index.add(self._who, session, batch, last=batch[-1].seq, size=size if whole else UNKNOWN)
            await asyncio.sleep(0)  # what somebody waits for goes first
        if not talked:
            self._index.add(self._who, session, (), last=after, size=size)

    async def prefetch(self, query: str, *, limit: int = 5) -> Sequence[Recalled]:
        """The messages of other conversations that bear on this one; nothing where it says too little to tell."""
        asked = Query(text=query, which=Which(without=self._session), each=2, limit=DEPTH)
        wide = structs.replace(asked, roles=("user", "assistant"))
        hits: Sequence[Hit] = await self._past.search(wide)
        found = self._index.nearest(self._who, query, map(_place, hits), without=self._chain(self._session))
        if found.telling < FEWEST:
            return ()
        words = {_place(hit): min(1.0, hit.score) for hit in hits}
        made: dict[str, Recalled] = {}
        for hit, score in await self._fused(asked, hits, found):
            own = found.own.get(_place(hit), 0.0)
            if own >= found.near or words.get(_place(hit), 0.0) + own >= BEARS:
                one = await self._recalled(hit, score)
                same = " ".join(one.text.casefold().split())
                if same != " ".join(query.casefold().split()):  # the same question brings no answer
                    made.setdefault(same, one)
            if len(made) >= limit:
                break
        return list(made.values())

    async def _recalled(self, hit: Hit, score: float) -> Recalled:
        lines = [line for line in await self._past.lines(hit.session, after=hit.seq - 1) if line.seq == hit.seq]
        return Recalled(
            text=lines[0].text if lines and len(lines[0].text) <= SHOWN else hit.snippet,
            source=f"{hit.role}, {hit.at:%Y-%m-%d}" + (f", {hit.title}" if hit.title else ""),
            score=score,
            taint=lines[0].taint if lines else "tool",
            about={"session": hit.session, "seq": hit.seq},
        )

    async def rank(self, query: Query, hits: Sequence[Hit]) -> Sequence[Hit]:
        """The hits by words and meaning; where nothing narrows the query, with those that are near in meaning alone."""
        if query.order != "best":
            return hits
        found = self._index.nearest(self._who, query.text, map(_place, hits), without=self._chain(query.which.without))
        return [hit for hit, _ in await self._fused(query, hits, found)]

    async def _fused(self, query: Query, hits: Sequence[Hit], found: Nearest) -> list[tuple[Hit, float]]:
        by_place = {_place(hit): hit for hit in hits}
        alone = (
            {place: near for place, near in found.around.items() if found.own[place] >= found.near}
            if _open(query)
            else {}
        )
        words = max((hit.score for hit in hits), default=0.0) or 1.0
        meaning = max((near for near in found.around.values()), default=0.0) or 1.0

        def score(place: Place) -> float:
            hit = by_place.get(place)
            return (hit.score / words if hit else 0.0) + SHARE * max(0.0, found.around.get(place, 0.0)) / meaning

        fused: list[tuple[Hit, float]] = []
        for place in sorted({**by_place, **alone}, key=score, reverse=True):
            hit = by_place.get(place)
            if hit is None and len(fused) < query.limit:
                hit = await self._past.hit(*place)
            if hit is not None:
                fused.append((hit, score(place)))
        return fused

    def _chain(self, session: str) -> set[str]:
        """The sessions that one belongs together with."""
        root = self._roots.get(session, session)
        return {session, *(one for one, other in self._roots.items() if other == root)} if session else set()


def _place(hit: Hit) -> Place:
    return (hit.session, hit.seq)


def _open(query: Query) -> bool:
    """Whether nothing narrows a query: whatever is near in meaning may be found."""
    narrowed: list[Any] = [query.roles, query.tools, '"' in query.text]
    words = query.text.split()
    narrowed += [word in ("AND", "OR", "NOT") or (word.startswith("-") and len(word) > 1) for word in words]
    return not any(narrowed) and query.which in (Which(), Which(without=query.which.without))
