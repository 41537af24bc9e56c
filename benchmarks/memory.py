"""Four writers change the same memory at once and are killed at random: what is lost, doubled or half done, how long it takes.

Each writer adds, replaces, removes, and does several of that in one batch, in MEMORY.md and in the USER.md of two people. It
says what it is about to do, and that it was done; what was said to be done must be there, what was not may be there, whole. With
`--hand`, a person adds entries with an editor meanwhile.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.report import Row, chosen, parser, say, show
from melete.core.memory import Noting, Operation, Target
from melete.memory.files import drafts, parted
from melete.memory.notes import Notes
from melete.store import open_ledger

ROOT = Path(__file__).resolve().parents[1]
PROCESSES, OPERATIONS = 4, 10_000
FILES: tuple[tuple[Target, str], ...] = (("memory", ""), ("user", ""), ("user", "ann"))
PROGRESS = 20
MOST = {"memory": 8, "user": 4}
"""Entries that one writer keeps in a file."""
WORDS = ("garden", "kettle", "letter", "orange", "pebble", "quarry", "ribbon", "saddle", "umbrella", "velvet", "yellow")


class RealClock:
    """The time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def notes(home: Path) -> Notes:
    """The memory of a home."""
    return Notes(
        home / "memories", home / "state", ledger=open_ledger(home / "state", clock=RealClock()), clock=RealClock()
    )


def tell(*said: Any) -> None:
    """One line, with one system call."""
    os.write(1, (json.dumps(said) + "\n").encode())


# ---- a writer --------------------------------------------------------------------------------------------------------


async def own(kept: Notes, name: str) -> dict[str, dict[str, str]]:
    """What a writer finds of its own in each file: texts by the names that it has given them; raises for one that is doubled."""
    found: dict[str, dict[str, str]] = {}
    for target, who in FILES:
        texts = [entry.text for entry in await kept.entries(who, target) if entry.text.startswith(f"{name}-")]
        known = found[f"{target}:{who}"] = {text.split()[0]: text for text in texts}
        if len(known) != len(texts):
            raise RuntimeError(f"doubled in {target} {who}: {texts}")
    return found


async def write(home: Path, name: str, done: int, count: int) -> None:
    """Change the memory from operation `done` on."""
    kept, chance = notes(home), random.Random(f"{name}-{done}-{os.getpid()}")
    mine = await own(kept, name)
    tell("have", mine)
    for number in range(done, count):
        target, who = chance.choice(FILES)
        there = mine[f"{target}:{who}"]
        after, steps = dict(there), list[Operation]()
        for part in range(chance.choice((1, 1, 1, 2, 3))):
            steps.append(step(chance, after, f"{name}-{number}.{part}.{os.getpid()}", MOST[target]))
        tell("try", f"{target}:{who}", after)
        before = time.monotonic()
        noted = await kept.apply(
            Noting(target=target, operations=(*steps,), who=who, session=f"{name}.{os.getpid()}", turn=number)
        )
        if not noted.ok:
            raise RuntimeError(noted.reason)
        mine[f"{target}:{who}"] = after
        tell("done", number + 1, time.monotonic() - before)
    tell("end")


def step(chance: random.Random, there: dict[str, str], name: str, most: int) -> Operation:
    """One operation on what is there, which is changed along with it."""
    action = chance.choice(("add", "add", "replace", "remove")) if there else "add"
    if len(there) >= most and action == "add":
        action = "remove"
    old = chance.choice([*there]) if action != "add" else ""
    if action == "remove":
        del there[old]
        return Operation(action="remove", old_text=f"{old} ")
    made = old or name
    text = there[made] = f"{made} {' '.join(chance.choices(WORDS, k=2))} {chance.randrange(10**6)}"
    return Operation(action="replace" if old else "add", content=text, old_text=f"{old} " if old else "")


# ---- the one who kills -----------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What happened."""

    done: Counter[str] = field(default_factory=Counter[str])
    waits: list[float] = field(default_factory=list[float])
    errors: list[str] = field(default_factory=list[str])
    hand: list[str] = field(default_factory=list[str])
    expected: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict[str, dict[str, dict[str, str]]])
    kills: int = 0
    seconds: float = 0.0


class Writer(threading.Thread):
    """Starts a writer again for as long as it is killed, and compares what it finds with what was promised."""

    def __init__(self, home: Path, name: str, count: int, outcome: Outcome) -> None:
        super().__init__()
        self.home, self.tag, self.count, self.outcome = home, name, count, outcome
        self.process: subprocess.Popen[str] | None = None
        self.promised: dict[str, dict[str, str]] = {f"{target}:{who}": {} for target, who in FILES}
        self.tried: tuple[str, dict[str, str]] | None = None

    def run(self) -> None:
        """Until its work is done, or something is wrong."""
        command = [sys.executable, "-m", "benchmarks.memory", "--home", str(self.home), "--writer", self.tag]
        while not self.outcome.errors:
            counts = ["--operations", str(self.count), "--done", str(self.outcome.done[self.tag])]
            with subprocess.Popen(
                [*command, *counts], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
                self.process = process
                assert process.stdout is not None
                assert process.stderr is not None
                ended = any([self._heard(line) for line in process.stdout if line.endswith("\n")])
                said = process.stderr.read().strip()
            if ended and process.returncode == 0:
                break
            if process.returncode != -signal.SIGKILL:
                self.outcome.errors.append(f"{self.tag}: {said[-2000:]}")
        self.outcome.expected[self.tag] = self.promised

    def _heard(self, line: str) -> bool:
        match json.loads(line):
            case ["have", found]:
                self._compare(found)
            case ["try", where, after]:
                self.tried = where, after
            case ["done", number, seconds]:
                assert self.tried is not None
                self.promised[self.tried[0]] = self.tried[1]
                self.tried = None
                self.outcome.done[self.tag] = number
                self.outcome.waits.append(seconds)
            case _:
                return True
        return False

    def _compare(self, found: dict[str, dict[str, str]]) -> None:
        if self.tried and found == self.promised | {self.tried[0]: self.tried[1]}:
            self.promised = found
        elif found != self.promised:
            self.outcome.errors.append(f"{self.tag}: {found} instead of {self.promised} or with {self.tried}")
        self.tried = None


def campaign(
    home: Path, *, processes: int, operations: int, seed: int, progress: int, by_hand: bool = False
) -> Outcome:
    """Let them all write until each has done its part, and kill one after about `progress` changes; then look at what is there."""
    outcome, chance = Outcome(), random.Random(seed)
    writers = [Writer(home, f"w{number}", operations // processes, outcome) for number in range(processes)]
    begun = time.monotonic()
    for writer in writers:
        writer.start()
    enough = 0
    while any(writer.is_alive() for writer in writers):
        time.sleep(chance.uniform(0, 0.05))
        if outcome.done.total() < enough:
            continue
        enough = outcome.done.total() + chance.randint(1, 2 * progress)
        if by_hand:
            add_by_hand(home / "memories" / "MEMORY.md", f"hand-{len(outcome.hand)}", outcome.hand)
        alive = [writer.process for writer in writers if writer.process and writer.process.poll() is None]
        if alive:
            chance.choice(alive).kill()
            outcome.kills += 1
    outcome.seconds = time.monotonic() - begun
    outcome.errors += asyncio.run(wrong(home, outcome))
    return outcome


def add_by_hand(path: Path, text: str, told: list[str]) -> None:
    """Add an entry as an editor does, which knows the file as it was when it was opened."""
    if len(told) < MOST["memory"] and path.exists():
        opened = path.read_text()
        time.sleep(0.002)
        path.with_name("new").write_text(f"{opened}§\n{text}\n")
        path.with_name("new").replace(path)
        told.append(text)


async def wrong(home: Path, outcome: Outcome) -> list[str]:
    """Where the files, the ledger and what was promised differ in the end."""
    kept, told = notes(home), list[str]()
    for tag, promised in outcome.expected.items():
        if (found := await own(kept, tag)) != promised:
            told.append(f"{tag}: {found} instead of {promised}")
    for target, who in FILES:
        path, entries = kept.path(target, who), await kept.entries(who, target)
        texts = parted(path.read_text()) if path.exists() else []
        if texts != [entry.text for entry in entries]:
            told.append(f"{path.name} and the ledger differ")
        if left := drafts(path):
            told.append(f"left beside {path.name}: {left}")
        if len({entry.id for entry in entries}) != len(entries):
            told.append(f"an entry is doubled in {path.name}")
        steps = Counter((step.session, step.turn, step.entry) for step in await kept.history(who=who) if step.session)
        told += [f"{step} was done {times} times" for step, times in steps.items() if times > 1]
        told += [f"by hand, and gone: {text}" for text in outcome.hand if target == "memory" and text not in texts]
    return told


def main() -> None:
    """Measure and print, or be one of the writers."""
    options = parser(__doc__ or "", rounds=1)
    options.add_argument("--processes", type=int, default=PROCESSES)
    options.add_argument("--operations", type=int, default=OPERATIONS, help="of all writers together")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--hand", action="store_true", help="a person writes as well")
    options.add_argument("--writer", help="be this writer")
    options.add_argument("--home", type=Path)
    options.add_argument("--done", type=int, default=0)
    given = options.parse_args()
    if given.writer:
        asyncio.run(write(given.home, given.writer, given.done, given.operations))
        return
    given.alone = True
    found = chosen(given)
    with tempfile.TemporaryDirectory() as folder:
        outcome = campaign(
            Path(folder), processes=given.processes, operations=given.operations, seed=given.seed, progress=PROGRESS,
            by_hand=given.hand,
        )  # fmt: skip
        size = sum(path.stat().st_size for path in Path(folder, "state").iterdir())
    for error in outcome.errors[:20]:
        say(error)
    waits = sorted(outcome.waits)
    figures = {
        ("changes", "number"): sum(outcome.done.values()),
        ("lost, doubled or half done", "number"): len(outcome.errors),
        ("kills", "number"): outcome.kills,
        ("changes a second", "number"): len(waits) / outcome.seconds,
        ("a change, median", "ms"): waits[len(waits) // 2] * 1e3,
        ("a change, the longest", "ms"): waits[-1] * 1e3,
        ("ledger and fold, a change", "bytes"): size / len(waits),
    }
    rows = [Row(what=what, unit=unit, values={"melete": value}, digits=1) for (what, unit), value in figures.items()]
    show(rows, found, as_json=given.json)


if __name__ == "__main__":
    main()
