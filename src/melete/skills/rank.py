"""Which skills match a text: BM25 over name and description, and over the whole text, fused. SQLite's FTS5 does the scoring.

The index is a file of its own that all processes share and that can be dropped at any time. It holds no texts, only what is
needed to find them: a row that is out of date stays in it without its document, until too many have.
"""

import math
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from melete.skills.catalogue import LONGEST_FILE, Row, read_file
from melete.skills.folders import Stamp
from melete.skills.format import read_skill
from melete.skills.frontmatter import FrontMatterError
from melete.skills.words import split, words

T = TypeVar("T")
SCHEMA: Final = 1
SHORT_SHARE: Final = 0.5
"""What name and description alone count beside the whole text."""
DEEP: Final = 200
"""How many of the best of each list are fused."""
MOST_TERMS: Final = 32
MOST_HITS: Final = (1_500, 2_500)
"""How many names and descriptions, and how many texts, the terms of a query may be in together: what bounds its time."""
LONGEST_TEXT: Final = 8_000
"""How much of a skill's text is indexed: what it is for is said at its beginning."""
SHORTEST_TEXT: Final = 200
READ, BRIEF = 1, 2
"""What is known of the text of a skill: it was indexed, or was, and says too little to be held against others."""
SLICE_SECONDS: Final = 0.03
BATCH: Final = 50
STALE: Final = 1_000
COMMON: Final = 30
TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS doc(
    id INTEGER PRIMARY KEY AUTOINCREMENT, folder TEXT NOT NULL UNIQUE, file TEXT NOT NULL, changed INTEGER NOT NULL,
    size INTEGER NOT NULL, whole INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS common(term TEXT PRIMARY KEY, short INTEGER NOT NULL, whole INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS synced(shelves TEXT PRIMARY KEY, mark TEXT NOT NULL);
CREATE VIRTUAL TABLE IF NOT EXISTS short USING fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE IF NOT EXISTS whole USING fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE IF NOT EXISTS whole_terms USING fts5vocab(whole, 'row');
CREATE VIRTUAL TABLE IF NOT EXISTS short_terms USING fts5vocab(short, 'row');
CREATE VIRTUAL TABLE temp.asked USING fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE temp.stems USING fts5vocab(temp, asked, 'instance');
"""
FIND = (
    "SELECT doc.folder, -hit.score, doc.whole FROM (SELECT rowid, bm25({table}) AS score FROM {table} WHERE {table} MATCH ? \
ORDER BY score LIMIT ?) AS hit JOIN doc ON doc.id = hit.rowid"
)

KNOWN = "SELECT folder, file, changed, size FROM doc"
ADD = "INSERT INTO doc(folder, file, changed, size) VALUES (?, ?, ?, ?)"
SPREAD = "SELECT stems.doc, coalesce(common.short, (SELECT doc FROM short_terms WHERE term = stems.term)), \
coalesce(common.whole, (SELECT doc FROM whole_terms WHERE term = stems.term)) \
FROM temp.stems AS stems LEFT JOIN common ON common.term = stems.term"
COUNT = "INSERT INTO common SELECT whole_terms.term, coalesce(short_terms.doc, 0), whole_terms.doc FROM whole_terms \
LEFT JOIN short_terms ON short_terms.term = whole_terms.term WHERE whole_terms.doc > ?"


Entry = tuple[str, Row]
"""A skill to be found: its absolute folder, and what is known of it."""


class Search:
    """The index in the file `path`, opened when it is first used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._mark = ""
        self._spread: dict[str, tuple[int, int]] = {}

    def sync(self, shelves: str, mark: str, entries: Callable[[], Iterable[Entry]]) -> None:
        """Bring names and descriptions up to date with these shelves, whose entries are looked at when the mark is a new one."""
        with self._lock:
            if mark and mark == self._mark:
                return
            if self._safely(lambda base: self._sync(base, (shelves, mark), entries), busy=False):
                self._mark = mark

    def find(self, query: str) -> list[tuple[str, float]]:
        """The folders of what matches, with scores from 0 to 1.5, the best first."""
        asked = words(query)
        with self._lock:
            return self._safely(lambda base: self._find(base, asked), busy=[]) if asked else []

    def fill(self) -> bool:
        """Index the texts of some more; whether any are left."""
        with self._lock:
            return self._safely(self._fill, busy=True)

    def close(self) -> None:
        """Close the file; it is opened again when it is used."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._mark = None, ""

    # ---- the file

    def _safely(self, act: Callable[[sqlite3.Connection], T], *, busy: T) -> T:
        """Do `act`; where the file is damaged, from another version or not to be written, with an empty one.

        While another process writes for longer than one waits, the answer is `busy`.
        """
        for place in (str(self._path), "", ":memory:"):
            try:
                if not place:
                    self._drop()
                self._connection = self._connection or self._open(place or str(self._path))
                return act(self._connection)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    return busy
                if self._connection is not None:
                    self._connection.close()
                self._connection, self._mark = None, ""
                if place == ":memory:":
                    raise
        return busy

    def _open(self, place: str) -> sqlite3.Connection:
        with suppress(OSError):  # what cannot be made is told by the next line
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place != ":memory:":
                self._path.touch(mode=0o600)
        base = sqlite3.connect(place, timeout=2.0, isolation_level=None, check_same_thread=False)
        try:
            found = base.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, SCHEMA):
                raise sqlite3.DatabaseError("another version made it")
            base.executescript(f"{TABLES}; PRAGMA user_version = {SCHEMA}")
        except sqlite3.Error:
            base.close()
            raise
        return base

    def _drop(self) -> None:
        with suppress(OSError):  # what cannot be removed is told by the next line
            for suffix in ("-wal", "-shm", ""):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    # ---- writing

    def _sync(self, base: sqlite3.Connection, mark: tuple[str, str], entries: Callable[[], Iterable[Entry]]) -> bool:
        """Take in what is new and drop what is gone, of these shelves alone."""
        if mark[1] and base.execute("SELECT 1 FROM synced WHERE (shelves, mark) = (?, ?)", mark).fetchone():
            return True
        known = {folder: (file, Stamp(*stamp)) for folder, file, *stamp in base.execute(KNOWN)}
        found = dict(entries())
        roots = tuple(f"{key.partition(':')[2]}/" for key in mark[0].split("\n"))
        gone = [folder for folder in known if folder not in found and f"{folder}/".startswith(roots)]
        fresh = {folder: row for folder, row in found.items() if known.get(folder) != (row.file, row.stamp)}
        with _writing(base):
            base.executemany("DELETE FROM doc WHERE folder = ?", [(folder,) for folder in (*gone, *fresh)])
            for folder, row in fresh.items():
                skill = row.decoded()
                number = base.execute(ADD, (folder, row.file, *row.stamp)).lastrowid
                text = split(f"{skill.name} {skill.description}")
                base.execute("INSERT INTO short(rowid, text) VALUES (?, ?)", (number, text))
            base.execute("INSERT OR REPLACE INTO synced VALUES (?, ?)", mark)
        self._spread = {}
        self._tidy(base)
        return True

    def _tidy(self, base: sqlite3.Connection) -> None:
        """Begin anew once more is out of date than in use."""
        rows = base.execute("SELECT count(*), max(id) FROM doc").fetchone()
        if (rows[1] or 0) > 2 * rows[0] + STALE:
            raise sqlite3.DatabaseError("most of it is out of date")

    def _fill(self, base: sqlite3.Connection) -> bool:
        stop = time.monotonic() + SLICE_SECONDS
        while rows := base.execute("SELECT id, folder, file FROM doc WHERE NOT whole LIMIT ?", (BATCH,)).fetchall():
            if time.monotonic() > stop:
                return True
            texts = [(number, *_whole(folder, file)) for number, folder, file in rows]
            with _writing(base):
                for number, said, text in texts:
                    read = READ if len(text) >= SHORTEST_TEXT else BRIEF
                    done = base.execute("UPDATE doc SET whole = ? WHERE id = ? AND NOT whole", (read, number))
                    if done.rowcount:
                        base.execute("INSERT INTO whole(rowid, text) VALUES (?, ?)", (number, f"{said} {text}"))
            self._spread = {}
        self._count(base)
        return False

    def _count(self, base: sqlite3.Connection) -> None:
        """Note in how many texts the commonest words are, which FTS5 counts anew each time; again when a tenth has changed."""
        (last,) = base.execute("SELECT coalesce(max(id), 0) FROM doc").fetchone()
        (then,) = base.execute("SELECT coalesce(sum(whole), 0) FROM common WHERE term = ''").fetchone()
        if last - then > max(STALE, then // 10):
            with _writing(base):
                base.execute("DELETE FROM common")
                base.execute(COUNT, (COMMON,))
                base.execute("INSERT INTO common VALUES ('', 0, ?)", (last,))

    # ---- reading

    def _find(self, base: sqlite3.Connection, asked: Counter[str]) -> list[tuple[str, float]]:
        terms = self._telling(base, asked)
        found: dict[str, list[float]] = {}
        lacking: set[str] = set()
        for at, table in enumerate(("short", "whole")):
            query = " OR ".join(f'"{term}"' for term in self._within(terms, at))
            hits = base.execute(FIND.format(table=table), (query, DEEP)).fetchall() if query else []
            most = max((score for _, score, _ in hits), default=0.0) or 1.0
            for folder, score, whole in hits:
                found.setdefault(folder, [0.0, 0.0])[at] = score / most
                if whole != READ:
                    lacking.add(folder)
        fused = {
            # Where there is no text to speak of, or none yet, name and description stand for it: that is no fault.
            folder: SHORT_SHARE * short + (max(short, whole) if folder in lacking else whole)
            for folder, (short, whole) in found.items()
        }
        return sorted(fused.items(), key=lambda one: (-one[1], one[0]))

    def _telling(self, base: sqlite3.Connection, asked: Counter[str]) -> Sequence[str]:
        """The words that tell most; those that names and descriptions use come first."""
        self._learn(base, [word for word in asked if word not in self._spread])
        total = 1 + base.execute("SELECT count(*) FROM doc").fetchone()[0]

        def weight(word: str) -> float:
            spread = max(self._spread[word])
            return math.log(1 + (total - spread + 0.5) / (spread + 0.5)) * (1 + math.log(asked[word]))

        there = [word for word in asked if any(self._spread[word])]
        there.sort(key=lambda word: (not self._spread[word][0], -weight(word), word))
        return there[:MOST_TERMS]

    def _within(self, terms: Sequence[str], table: int) -> Iterator[str]:
        """As many of the terms as can be looked up in time."""
        room, some = MOST_HITS[table], False
        for term in terms:
            spread = self._spread[term][table]
            room -= spread
            if some and room < 0:
                return
            if spread:
                some = True
                yield term

    def _learn(self, base: sqlite3.Connection, unknown: Sequence[str]) -> None:
        """Ask in how many names and descriptions, and in how many texts, words occur, as SQLite stems them."""
        if not unknown:
            return
        with _writing(base, "DEFERRED"):
            base.execute("INSERT INTO temp.asked(asked) VALUES ('delete-all')")
            base.executemany("INSERT INTO temp.asked(rowid, text) VALUES (?, ?)", enumerate(unknown))
        found = dict.fromkeys(unknown, (0, 0))
        for at, short, whole in base.execute(SPREAD):
            found[unknown[int(at)]] = (short or 0, whole or 0)
        self._spread |= found


@contextmanager
def _writing(base: sqlite3.Connection, how: str = "IMMEDIATE") -> Generator[None]:
    """A transaction that is kept when the block ends well."""
    base.execute(f"BEGIN {how}")
    try:
        yield
    except BaseException:
        base.rollback()
        raise
    base.execute("COMMIT")


def _whole(folder: str, file: str) -> tuple[str, str]:
    """What a skill says of itself, and its text; empty for what cannot be read any more."""
    try:
        data, _ = read_file(f"{folder}/{file}", most=LONGEST_FILE)
        skill, body = read_skill(data, folder=folder.rpartition("/")[2])
    except (OSError, FrontMatterError):
        return "", ""
    said = " ".join((skill.name, skill.description, skill.trigger, *skill.tags))
    return split(said), split(body[:LONGEST_TEXT])
