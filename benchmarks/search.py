"""Finding what was said: questions about conversations, each asked as it stands, in one index with all of them.

`--corpus` is a folder with `turns.jsonl.gz` (conv, session, dia_id, speaker, date, text) and `questions.jsonl.gz` (conv, question,
evidence). A question counts as answered when one of its evidence's messages is among the first ten hits. `--filler` adds messages
that are about nothing: of words drawn by rank from the corpus and far beyond it, or resampled from the corpus itself, so that every
word asked for is frequent. Beside it, plain full text with the same questions, and the peer with their words joined by OR.
"""

import argparse
import asyncio
import gzip
import json
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks.report import Row, chosen, parser, quantile, say, show
from melete.app.memory_provider import PersonsPast, mixed
from melete.core.event import Fact, Opened, Said
from melete.core.message import user
from melete.core.ports import ProviderStart
from melete.core.session import Query, Store
from melete.memory.providers import Hosted
from melete.memory.vectors import VectorMemory
from melete.store import open_store

FIRST = 10
FIRST_FEW = 5
SESSION = 100
VOCABULARY = 200_000
WARM = 30
MOST_FOR_PEERS = 20_000
PLAIN = "plain FTS5"
FUSED = "melete, vectors"
DATE = "%I:%M %p on %d %B, %Y"
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by did do does for from had has have how i if in into is it its me my not of on or our "
        "so than that the their them then there these they this to was we were what when where which who why will with you "
        "your s",
    )
)
PEER = """
import json, sys, time
from pathlib import Path
from hermes_state import SessionDB
db = SessionDB(db_path=Path(sys.argv[1]) / "state.db")
given = json.loads(Path(sys.argv[2]).read_text())
for name, texts in given["sessions"]:
    db.create_session(name, "cli")
    for text in texts:
        db.append_message(name, "user", content=text)
found, seconds = [], []
for query in given["queries"]:
    before = time.perf_counter()
    rows = db.search_messages(query, limit=10)
    seconds.append(time.perf_counter() - before)
    found.append([[row["session_id"], row["id"]] for row in rows])
db.close()
print(json.dumps([found, seconds]))
"""


class RealClock:
    """The time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One message: `ref` names it among all, None for filler."""

    ref: str | None
    text: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question and the names of the messages that answer it."""

    text: str
    evidence: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """For each question the names of what was found, and how long it took."""

    found: Sequence[Sequence[str | None]]
    seconds: Sequence[float]


def corpus(folder: Path) -> tuple[list[list[Turn]], list[Asked]]:
    """The sessions and the questions."""
    sessions: dict[tuple[str, int], list[Turn]] = {}
    for row in _rows(folder / "turns.jsonl.gz"):
        turns = sessions.setdefault((row["conv"], row["session"]), [])
        at = datetime.strptime(row["date"], DATE).replace(tzinfo=UTC) + timedelta(seconds=len(turns))
        turns.append(Turn(ref=f"{row['conv']} {row['dia_id']}", text=f"{row['speaker']}: {row['text']}", at=at))
    asked = [
        Asked(text=row["question"], evidence=frozenset(f"{row['conv']} {name}" for name in row["evidence"]))
        for row in _rows(folder / "questions.jsonl.gz")
    ]
    return list(sessions.values()), asked


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def filler(sessions: Sequence[Sequence[Turn]], count: int, *, kind: str) -> Iterator[list[Turn]]:
    """Sessions of `count` messages in all, as long as those of the corpus and of the same times."""
    chance = random.Random(1)
    turns = [turn for session in sessions for turn in session]
    words = [word for turn in turns for word in turn.text.split()]
    lengths = [len(turn.text.split()) for turn in turns]
    times = [turn.at for turn in turns]
    draw: Callable[[int], list[str]] = lambda length: chance.choices(words, k=length)  # noqa: E731
    if kind == "zipf":
        known = [word for word, _ in Counter(words).most_common()]
        letters = "bcdfghjklmnprstvwz"
        while len(known) < VOCABULARY:
            known.append("".join(chance.choice(letters) + chance.choice("aeiou") for _ in range(chance.randint(2, 5))))
        weights = list(accumulate(1 / rank for rank in range(1, len(known) + 1)))
        draw = lambda length: chance.choices(known, cum_weights=weights, k=length)  # noqa: E731
    for start in range(0, count, SESSION):
        at = chance.choice(times)
        yield [
            Turn(ref=None, text=" ".join(draw(chance.choice(lengths))), at=at + timedelta(seconds=number))
            for number in range(min(SESSION, count - start))
        ]


# ---- Melete


async def melete(
    state: Path, sessions: Sequence[Sequence[Turn]], asked: Sequence[Asked], *, vectors: bool = False
) -> dict[str, tuple[Answers, dict[str, float]]]:
    """The answers through the store, and what the index costs; with `vectors` also those that the memory of that name orders."""
    store = open_store(state, clock=RealClock())
    count = 0
    for number, turns in enumerate(sessions):
        await store.add(_facts(turns), id=f"s-{number:06}")
        count += len(turns)
    say(f"{len(sessions)} sessions of {count} messages are written; the index is made")
    before = time.perf_counter()
    await store.rebuild()
    costs = {"remaking tables and index, s": time.perf_counter() - before}
    sizes = {name: sum(path.stat().st_size for path in state.glob(f"{name}.db*")) for name in ("sessions", "search")}
    logs = sum(path.stat().st_size for path in (state / "sessions").glob("*.log"))
    costs["bytes a message, index"] = sizes["search"] / count
    costs["bytes a message, tables"] = sizes["sessions"] / count
    costs["bytes a message, logs"] = logs / count
    await _answers(store, asked[:WARM])
    found = {"melete": (await _answers(store, asked), costs)}
    if vectors:
        found[FUSED] = await _fused(store, state.parent / "memories", asked)
    await store.aclose()
    return found


async def _fused(store: Store, folder: Path, asked: Sequence[Asked]) -> tuple[Answers, dict[str, float]]:
    """The answers that the memory `vectors` orders, as `session_search` has them, and what its index costs."""
    start = ProviderStart(folder=str(folder), past=PersonsPast(store, ""))
    about = {"session": "", "who": "", "home": "", "surface": "", "cwd": ""}
    hosted = Hosted(lambda: VectorMemory(start), name="vectors", about=about, deadline=60.0)
    before = time.perf_counter()
    await hosted.ask("queue_prefetch", "", kind=type(None), seconds=3_600.0)
    costs = {"taking in all vectors, s": time.perf_counter() - before}
    ordered = mixed(store, hosted)
    await _answers(ordered, asked[:WARM])
    answers = await _answers(ordered, asked)
    await hosted.aclose()
    costs["bytes a message, index"] = (folder / "vectors.db").stat().st_size / sum(
        info.messages for info in await store.list(limit=1 << 30)
    )
    if problems := hosted.problems():
        raise RuntimeError("; ".join(problems))
    return answers, costs


def _facts(turns: Sequence[Turn]) -> list[Fact]:
    said = [Said(at=turn.at, message=user(turn.text), ref=turn.ref or "") for turn in turns]
    return [Opened(at=turns[0].at, source="import"), *said]


async def _answers(store: Store, asked: Sequence[Asked]) -> Answers:
    found: list[Sequence[str | None]] = []
    seconds: list[float] = []
    for question in asked:
        before = time.perf_counter()
        hits = await store.search(Query(text=question.text, limit=FIRST))
        seconds.append(time.perf_counter() - before)
        found.append([hit.ref for hit in hits])
    return Answers(found=found, seconds=seconds)


# ---- others


def words_of(question: str) -> list[str]:
    """The words of a question without those that say little."""
    words = list(dict.fromkeys(re.findall(r"\w+", question.lower())))
    return [word for word in words if word not in STOP_WORDS] or words


def plain(sessions: Sequence[Sequence[Turn]], asked: Sequence[Asked]) -> Answers:
    """Full text with stems, any of the words, ranked by bm25."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE turns USING fts5 (text, tokenize = 'porter unicode61')")
    turns = [turn for session in sessions for turn in session]
    database.executemany("INSERT INTO turns VALUES (?)", [(turn.text,) for turn in turns])
    found: list[Sequence[str | None]] = []
    seconds: list[float] = []
    for question in asked:
        before = time.perf_counter()
        match = " OR ".join(f'"{word}"' for word in words_of(question.text))
        rows = database.execute(
            "SELECT rowid, snippet(turns, 0, '', '', '', 24) FROM turns WHERE turns MATCH ? ORDER BY bm25(turns) LIMIT ?",
            (match, FIRST),
        ).fetchall()
        seconds.append(time.perf_counter() - before)
        found.append([turns[row[0] - 1].ref for row in rows])
    database.close()
    return Answers(found=found, seconds=seconds)


def peer(program: Path, folder: Path, sessions: Sequence[Sequence[Turn]], asked: Sequence[Asked]) -> Answers:
    """The peer's own search, from its own Python; a raw question is a syntax error there."""
    folder.mkdir()
    given = folder / "given.json"
    named = [(f"s-{number}", [turn.text for turn in turns]) for number, turns in enumerate(sessions)]
    queries = [" OR ".join(words_of(question.text)) for question in asked]
    given.write_text(json.dumps({"sessions": named, "queries": queries}))
    done = subprocess.run(
        [str(program.parent / "python"), "-c", PEER, str(folder), str(given)],
        env={"HOME": str(folder), "HERMES_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    found, seconds = json.loads(done.stdout.splitlines()[-1])
    refs = [turn.ref for turns in sessions for turn in turns]
    return Answers(found=[[refs[id - 1] for _, id in rows] for rows in found], seconds=seconds)


# ---- figures


def figures(answers: Answers, asked: Sequence[Asked]) -> dict[str, float]:
    """What share of the questions was answered, and how fast."""

    def share(first: int) -> float:
        pairs = zip(answers.found, asked, strict=True)
        return sum(not question.evidence.isdisjoint(found[:first]) for found, question in pairs) / len(asked)

    recalled = [
        len(question.evidence.intersection(found)) / max(1, len(question.evidence))
        for found, question in zip(answers.found, asked, strict=True)
    ]
    return {
        "answered within the first 5, share": share(FIRST_FEW),
        "answered within the first 10, share": share(FIRST),
        "evidence within the first 10, share": sum(recalled) / len(recalled),
        "a search, median, ms": 1e3 * quantile(answers.seconds, 0.5),
        "a search, p95, ms": 1e3 * quantile(answers.seconds, 0.95),
        "a search, longest, ms": 1e3 * max(answers.seconds),
    }


def options() -> argparse.Namespace:
    made = parser((__doc__ or "").partition("\n")[0], rounds=1)
    made.add_argument("--corpus", type=Path, required=True, help="the folder with turns and questions")
    made.add_argument("--filler", type=int, default=0, help="messages that are added to those of the corpus")
    made.add_argument("--kind", choices=["zipf", "resampled"], default="zipf", help="what the filler is made of")
    made.add_argument("--vectors", action="store_true", help="measure the search ordered by the memory vectors too")
    made.add_argument("--home", type=Path, help="a folder to make the home in and leave it there")
    return made.parse_args()


def main() -> None:
    """Measure and print."""
    given = options()
    found = chosen(given)
    sessions, asked = corpus(given.corpus)
    every = [*sessions, *filler(sessions, given.filler, kind=given.kind)]
    random.Random(2).shuffle(every)
    values: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, program in found.items():
            if name == "melete":
                state = (given.home or Path(folder)) / name / "state"
                done = asyncio.run(melete(state, every, asked, vectors=given.vectors))
                values |= {one: figures(answers, asked) | costs for one, (answers, costs) in done.items()}
            elif given.filler <= MOST_FOR_PEERS:
                values[name] = figures(peer(program, Path(folder) / name, every, asked), asked)
    if given.filler <= MOST_FOR_PEERS and given.only is None:
        values[PLAIN] = figures(plain(every, asked), asked)
    shown = {name: program for name, program in found.items() if name in values}
    shown |= {name: Path(sys.executable) for name in (FUSED, PLAIN) if name in values}
    rows = [
        Row(
            what=what.rpartition(",")[0],
            unit=what.rpartition(",")[2].strip(),
            values={name: row[what] for name, row in values.items() if what in row},
            less_is_better=not what.endswith("share"),
            digits=3 if what.endswith("share") else 1,
        )
        for what in dict.fromkeys(what for row in values.values() for what in row)
    ]
    show(rows, shown, as_json=given.json)


if __name__ == "__main__":
    main()
