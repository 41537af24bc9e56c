"""Eight writers, a reader and a checker in one home, any of them killed at random: what is lost, who waits, and how long.

Each writer records messages in sessions of its own, in turn in one session that all share, and in the ledger, and acknowledges
them once they are on the disk; now and then it lists and searches. At the end every acknowledged message must be in its log, the
tables and the index must hold what a rebuild makes of the logs, row by row, and nobody may have seen an error.
"""

import asyncio
import json
import os
import random
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.report import Row, chosen, parser, say, show
from melete.core.errors import SessionBusyError, SessionNotFoundError
from melete.core.event import Fact, Opened, Reply, Said, Spent
from melete.core.message import Message, Text, Usage, user
from melete.core.session import Query, SessionRef, Store, Which
from melete.store import lines, open_ledger, open_store

ROOT = Path(__file__).resolve().parents[1]
WRITERS = 8
MESSAGES = 10_000
SESSION_MESSAGES = 400
BATCH = 20
SHARED = "shared"
WORDS = ("garden", "kettle", "letter", "orange", "pebble", "quarry", "ribbon", "saddle", "umbrella", "velvet", "yellow")
QUERY = Query(text="what became of the yellow umbrella", limit=10)
READERS = ("list", "verify")
SLOWEST = 20
"""Messages a second below which something hangs."""


class RealClock:
    """The time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


# ---- the processes ---------------------------------------------------------------------------------------------------


def tell(kind: str, *values: object) -> None:
    """One line, with one system call."""
    os.write(1, (json.dumps([kind, *values]) + "\n").encode())


def facts_of(name: str, first: int, count: int) -> list[Fact]:
    """Messages `first` and so on of a writer; each tells its own name."""
    chance = random.Random(f"{name}-{first}")
    facts: list[Fact] = []
    for number in range(first, first + count):
        text = f"{name}-{number} " + " ".join(chance.choices(WORDS, k=12))
        usage = Usage(input=chance.randrange(900), output=chance.randrange(90))
        if number % 2:
            message = Message(role="assistant", parts=(Text(text=text),))
            facts += [Reply(message=message, usage=usage, model="m-1"), Spent(usage=usage, model="m-1", usd=0.001)]
        else:
            facts.append(Said(message=user(text)))
    return facts


async def write(state: Path, name: str, done: int, messages: int) -> None:
    """Record messages from number `done` on, and acknowledge them."""
    store = open_store(state, clock=RealClock())
    ledger = open_ledger(state, clock=RealClock())
    chance = random.Random(f"{name}-{done}-{os.getpid()}")
    while done < messages:
        session = f"{name}-{done // SESSION_MESSAGES}"
        stop = min(messages, done + chance.randint(1, BATCH), (done // SESSION_MESSAGES + 1) * SESSION_MESSAGES)
        await record(store, session, facts_of(name, done, stop - done))
        done = stop
        tell("done", done)
        if chance.random() < 0.3:
            number = await ledger.append("note", {"text": f"{name}-{done}"})
            tell("ledger", number, f"{name}-{done}")
            await record(store, SHARED, [Said(message=user(f"shared-{name}-{done} velvet"))])
        if chance.random() < 0.05:
            await store.list(limit=5)
            await store.search(QUERY)
    await store.aclose()
    tell("end")


async def record(store: Store, session: str, facts: Sequence[Fact]) -> None:
    """Record facts in a session that may not be there yet, and that others may own for a moment."""
    ref = SessionRef(id=session)
    while True:
        try:
            async with store.claim(ref) as owned:
                stored = await owned.record(*facts, durable=True)
        except SessionBusyError:
            await asyncio.sleep(0.01)
        except SessionNotFoundError:
            try:
                await store.create(Opened(cwd="/here", title=session), id=session)
            except SessionBusyError:
                await asyncio.sleep(0.01)
        else:
            said = [[line.seq, line.text.split()[0]] for line in lines.of(stored)]
            tell("stored", session, said)
            return


async def read(state: Path) -> None:
    """List and search for ever, and tell how long each took."""
    store = open_store(state, clock=RealClock())
    while True:
        for what, act in (
            ("list", lambda: store.list(limit=1000)),
            ("list", lambda: store.list(limit=5, which=Which(cwd="/here"))),
            ("search", lambda: store.search(QUERY)),
        ):
            before = time.monotonic()
            await act()
            tell("took", what, time.monotonic() - before)
            await asyncio.sleep(0.005)


async def check(state: Path) -> None:
    """Verify for ever, and tell what is wrong beyond what a kill may leave."""
    store = open_store(state, clock=RealClock())
    while True:
        before = time.monotonic()
        for problem in await store.verify():
            if not problem.harmless:
                tell("problem", f"{problem.path}: {problem.what}")
        tell("took", "verify", time.monotonic() - before)
        await asyncio.sleep(0.05)


# ---- the one who kills -----------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What happened."""

    stored: dict[str, dict[int, str]] = field(default_factory=dict)
    ledger: dict[int, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    waits: dict[str, list[float]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    journal: int = 0

    @property
    def messages(self) -> int:
        """Acknowledged messages."""
        return sum(map(len, self.stored.values()))

    def wait(self, *what: str) -> float:
        """The longest of these waits."""
        return max((taken for name in what for taken in self.waits.get(name, ())), default=0.0)


class Process:
    """One process, restarted whenever it ends before its work is done."""

    def __init__(self, state: Path, role: str, outcome: Outcome, messages: int) -> None:
        self.role = role
        self.done = 0
        self.ended = False
        self._state = state
        self._outcome = outcome
        self._messages = messages
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this
        self._rest = b""
        self.start()

    def start(self) -> None:
        """Begin, or go on."""
        command = [sys.executable, "-m", "benchmarks.contention", "--role", self.role, "--state", str(self._state)]
        self.process = subprocess.Popen(
            [*command, "--messages", str(self._messages), "--done", str(self.done)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert self.process.stdout is not None
        self.pipe = self.process.stdout.fileno()
        os.set_blocking(self.pipe, False)

    def take(self) -> None:
        """Take in what the process has said."""
        while True:
            try:
                data = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self._gone()
                return
            *said, self._rest = (self._rest + data).split(b"\n")
            for line in said:
                self._hear(json.loads(line))

    def kill(self) -> None:
        """As the system does when it is out of memory."""
        self._outcome.kills[self.role.rstrip("0123456789")] += 1
        self.process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        """For good."""
        self.ended = True
        self.process.kill()
        self.process.wait()
        self._read_errors()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    def _hear(self, said: list[Any]) -> None:
        match said:
            case ["stored", session, messages]:
                self._outcome.stored.setdefault(session, {}).update(messages)
            case ["done", done]:
                self.done = done
            case ["ledger", number, text]:
                self._outcome.ledger[number] = text
            case ["took", what, seconds]:
                self._outcome.waits.setdefault(what, []).append(seconds)
            case ["problem", text]:
                self._outcome.errors.append(text)
            case _:
                self.ended = True

    def _gone(self) -> None:
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._rest = b""
        if self.process.returncode not in (0, -signal.SIGKILL):
            self._read_errors()
            self.ended = True
        if not self.ended:
            self.start()

    def _read_errors(self) -> None:
        self._errors.seek(0)
        if text := self._errors.read().decode("utf-8", "replace").strip():
            self._outcome.errors.append(f"{self.role}: {text[-2000:]}")


def contend(
    state: Path, *, writers: int, messages: int, seed: int, pause: tuple[float, float], progress: int = 0
) -> Outcome:
    """Let them all run until every writer has done its work.

    One is killed every `pause` seconds, but not before there are `progress` more messages than at the last kill.
    """
    outcome, chance = Outcome(), random.Random(seed)
    state.mkdir(parents=True, exist_ok=True)
    writing = [Process(state, f"writer{number}", outcome, messages) for number in range(writers)]
    everybody = [*writing, *(Process(state, role, outcome, messages) for role in READERS)]
    before = time.monotonic()
    next_kill = before + pause[1]
    enough = progress
    try:
        while not all(process.ended for process in writing):
            waiting = [process for process in everybody if not process.process.stdout.closed]  # type: ignore[union-attr]
            for pipe in select.select([process.pipe for process in waiting], [], [], 0.02)[0]:
                next(process for process in waiting if process.pipe == pipe).take()
            now = time.monotonic()
            if now >= next_kill and (not progress or outcome.messages >= enough):
                chance.choice([process for process in everybody if not process.ended]).kill()
                next_kill = now + chance.uniform(*pause)
                enough = outcome.messages + progress
                outcome.journal = max(outcome.journal, *map(size, state.glob("*.db-wal")), 0)
            if now - before > 60 + writers * messages / SLOWEST:
                raise RuntimeError(f"{sum(not process.ended for process in writing)} writers are not done yet")
        outcome.seconds = time.monotonic() - before
    finally:
        for process in everybody:
            process.stop()
    return outcome


def batched(data: bytes, length: int) -> Iterator[bytes]:
    """The data in pieces."""
    return (data[start : start + length] for start in range(0, len(data), length))


def size(path: Path) -> int:
    """Bytes of a file that may go meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


# ---- what must be true at the end ------------------------------------------------------------------------------------


async def lost(state: Path, outcome: Outcome) -> list[str]:
    """What was acknowledged and is not there."""
    store = open_store(state, clock=RealClock())
    gone: list[str] = []
    for session, said in outcome.stored.items():
        there = {line.seq: line.text.split()[0] for line in lines.of(await store.facts(SessionRef(id=session)))}
        gone += [f"{session} {seq} {text}" for seq, text in said.items() if there.get(seq) != text]
    rows = {row["number"]: row["text"] for row in open_ledger(state, clock=RealClock()).read()}
    return gone + [f"ledger {number} {text}" for number, text in outcome.ledger.items() if rows.get(number) != text]


async def differences(state: Path) -> list[str]:
    """Where the files that were caught up with by and by are not what a rebuild from the logs makes."""
    store = open_store(state, clock=RealClock())
    await store.list()
    await store.search(QUERY)
    before = dict(contents(state))
    await store.rebuild()
    await store.aclose()
    after = dict(contents(state))
    return [told for name in before for told in difference(name, before[name], after[name])]


def difference(name: str, before: Counter[Any], after: Counter[Any]) -> Iterator[str]:
    """One line for a table that is not the same."""
    extra, missing = before - after, after - before
    if extra or missing:
        samples = f"{list(extra)[:2]} instead of {list(missing)[:2]}"
        yield f"{name}: {extra.total()} rows too many, {missing.total()} missing: {samples[:1000]}"


def contents(state: Path) -> Iterator[tuple[str, Counter[Any]]]:
    """The rows of all tables; numbers that only say in which order something was taken in are left out."""
    with closing(sqlite3.connect(state / "sessions.db")) as tables:
        for (name,) in tables.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            yield f"sessions.db {name}", Counter(tables.execute(f"SELECT * FROM {name}"))
    with closing(sqlite3.connect(state / "search.db")) as index:
        yield "search.db sources", Counter(index.execute("SELECT * FROM sources"))
        columns = [row[1] for row in index.execute("PRAGMA table_info(sessions)")]
        yield "search.db sessions", Counter(index.execute(f"SELECT {', '.join(columns[1:])} FROM sessions"))
        blocks = (
            "FROM blocks JOIN sessions ON sessions.number = blocks.session JOIN heads ON heads.block = blocks.id "
            "JOIN texts ON texts.block = blocks.id"
        )
        rows = index.execute(f"SELECT signs, sessions.id, place, first, last, entries, body {blocks}")
        yield "search.db blocks", Counter((*sorted(batched(row[0], 4)), *row[1:]) for row in rows)
        index.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, words, instance)")
        places = dict(
            index.execute("SELECT blocks.id, sessions.id || ' ' || place FROM blocks JOIN sessions ON number = session")
        )
        yield (
            "search.db words",
            Counter((term, places.get(doc, doc)) for term, doc in index.execute("SELECT term, doc FROM temp.terms")),
        )


def main() -> None:
    """Measure and print, or be one of the processes."""
    options = parser(__doc__ or "", rounds=1)
    options.add_argument("--writers", type=int, default=WRITERS)
    options.add_argument("--messages", type=int, default=MESSAGES, help="of each writer")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keep", type=Path, help="a folder that the home is copied to")
    options.add_argument("--role", help="be one of the processes")
    options.add_argument("--state", type=Path)
    options.add_argument("--done", type=int, default=0)
    given = options.parse_args()
    if given.role:
        work = {"list": lambda: read(given.state), "verify": lambda: check(given.state)}
        asyncio.run(work.get(given.role, lambda: write(given.state, given.role, given.done, given.messages))())
        return
    given.alone = True
    found = chosen(given)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        outcome = contend(state, writers=given.writers, messages=given.messages, seed=given.seed, pause=(0.1, 0.5))
        say("checking")
        figures = asyncio.run(figures_of(state, outcome))
        if given.keep:
            shutil.copytree(state, given.keep)
    for error in outcome.errors:
        say(error)
    rows = [Row(what=what, unit=unit, values={"melete": value}, digits=1) for (what, unit), value in figures.items()]
    show(rows, found, as_json=given.json)


async def figures_of(state: Path, outcome: Outcome) -> dict[tuple[str, str], float]:
    """All figures, with their units."""
    gone, other = await lost(state, outcome), await differences(state)
    for text in (*gone[:20], *other[:20]):
        say(text)
    messages = outcome.messages
    logs = sum(path.stat().st_size for path in (state / "sessions").glob("*.log"))
    return {
        ("acknowledged messages", "number"): messages,
        ("of them lost", "number"): len(gone),
        ("tables that differ from a rebuild", "number"): len(other),
        ("errors that anybody saw", "number"): len(outcome.errors),
        ("kills", "number"): sum(outcome.kills.values()),
        ("messages acknowledged a second", "number"): messages / outcome.seconds,
        ("listings and searches", "number"): len(outcome.waits.get("list", ())) + len(outcome.waits.get("search", ())),
        ("longest listing", "s"): outcome.wait("list"),
        ("longest search", "s"): outcome.wait("search"),
        ("longest verify", "s"): outcome.wait("verify"),
        ("largest journal", "MB"): outcome.journal / 1e6,
        ("bytes a message of logs", "bytes"): logs / messages,
        ("bytes a message of tables", "bytes"): size(state / "sessions.db") / messages,
        ("bytes a message of index", "bytes"): size(state / "search.db") / messages,
    }


if __name__ == "__main__":
    main()
