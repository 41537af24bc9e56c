"""A home with many sessions: opening it, listing them, the command as a whole process, and remaking what is derived.

The sessions are made through the store, each with a question, a call, its result and an answer. Every figure but the first is of a
process that starts cold in a home that was caught up with once. The peer's sessions are made through its own library.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from benchmarks.measure import run
from benchmarks.report import Row, chosen, parser, say, show
from benchmarks.subjects import Subject, make
from melete.core.event import Fact, Opened, Reply, RunEnded, RunStarted, Said, Spent, ToolEnded, ToolStarted
from melete.core.message import Message, Text, ToolCall, ToolResult, Usage, user
from melete.core.session import Query, Store
from melete.store import open_store

START = datetime(2026, 1, 1, tzinfo=UTC)
SESSIONS = 10_000
COLD = """
import asyncio, sys, time
from datetime import UTC, datetime
from pathlib import Path
from melete.core.session import Query
from melete.store import open_store
class Clock:
    def now(self): return datetime.now(UTC)
async def main():
    before = time.perf_counter()
    store = open_store(Path(sys.argv[1]), clock=Clock())
    rows = await store.list()
    listed = time.perf_counter()
    await store.list()
    again = time.perf_counter()
    await store.search(Query(text="what was wrong with the kettle"))
    searched = time.perf_counter()
    assert len(rows) == 50
    print(listed - before, again - listed, searched - again)
    await store.aclose()
asyncio.run(main())
"""
PEER = """
import sys
from pathlib import Path
from hermes_state import SessionDB
db = SessionDB(db_path=Path(sys.argv[1]) / "state.db")
for number in range(int(sys.argv[2])):
    name = f"s-{number:06}"
    db.create_session(name, "cli")
    db.append_message(name, "user", content=f"Question {number}: what was wrong with the kettle?")
    db.append_message(name, "assistant", content=f"Answer {number}: its cord was loose.")
db.close()
"""


class RealClock:
    """The time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def facts(number: int) -> Sequence[Fact]:
    """A session of ten facts, four of them messages."""
    at = START + timedelta(minutes=number)
    call = ToolCall(id=f"call_{number}", name="read_file", arguments=json.dumps({"path": f"kettle-{number}.md"}))
    answer = Message(role="assistant", parts=(Text(text=f"Answer {number}: its cord was loose."),))
    spent = Spent(at=at, usage=Usage(input=9, output=9), model="m-1", usd=0.001)
    return (
        Opened(at=at, source="cli", cwd=f"/home/me/project-{number % 40}", title=f"The kettle, part {number}"),
        RunStarted(at=at, model="m-1", pid=1),
        Said(at=at, message=user(f"Question {number}: what was wrong with the kettle?")),
        Reply(
            at=at, message=Message(role="assistant", parts=(call,)), stop="tool_calls", usage=Usage(input=9, output=9)
        ),
        spent,
        ToolStarted(at=at, call=call),
        ToolEnded(at=at, result=ToolResult(call=call.id, name="read_file", content="The cord hangs out at the back.")),
        Reply(at=at, message=answer, usage=Usage(input=9, output=9)),
        spent,
        RunEnded(at=at, stop="done", text="done", steps=2),
    )


async def fill(store: Store, sessions: int) -> None:
    """Make the sessions."""
    for number in range(sessions):
        await store.add(facts(number), id=f"s-{number:06}")


async def prepare(state: Path, sessions: int) -> dict[str, float]:
    """A home that was caught up with, and what that took."""
    store = open_store(state, clock=RealClock())
    found: dict[str, float] = {}
    before = time.perf_counter()
    await fill(store, sessions)
    found["making the sessions, s"] = time.perf_counter() - before
    before = time.perf_counter()
    await store.list()
    found["catching the tables up, s"] = time.perf_counter() - before
    before = time.perf_counter()
    await store.search(Query(text="kettle"))
    found["catching the index up, s"] = time.perf_counter() - before
    before = time.perf_counter()
    await store.rebuild()
    found["rebuild, s"] = time.perf_counter() - before
    await store.aclose()
    messages = sessions * 4
    found["bytes a message of the logs, -"] = sum(path.stat().st_size for path in state.rglob("*.log")) / messages
    for name in ("sessions.db", "search.db"):
        found[f"bytes a message of {name}, -"] = (state / name).stat().st_size / messages
    return found


def cold(state: Path, rounds: int) -> dict[str, float]:
    """Medians of what fresh processes took."""
    taken: list[list[float]] = []
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", COLD, str(state)], capture_output=True, text=True, check=True)
        taken.append([1000 * float(word) for word in done.stdout.split()])
    names = ("open and list 50, ms", "list again, ms", "first search, ms")
    return {name: median(values) for name, values in zip(names, zip(*taken, strict=True), strict=True)}


def whole(subject: Subject, command: list[str], rounds: int) -> float:
    """The median of a whole process, in milliseconds."""
    return median(1000 * run(command, env=subject.env, cwd=subject.cwd).wall for _ in range(rounds))


def melete(root: Path, program: Path, *, sessions: int, rounds: int) -> dict[str, float]:
    """Our figures."""
    empty = make("melete", root / "empty", program=program, base_url="http://127.0.0.1:9/v1")
    subject = make("melete", root / "full", program=program, base_url="http://127.0.0.1:9/v1")
    state = Path(subject.env["MELETE_HOME"]) / "state"
    say(f"making {sessions} sessions")
    found = asyncio.run(prepare(state, sessions))
    command = [str(program), "sessions", "list"]
    found["sessions list in an empty home, ms"] = whole(empty, command, rounds)
    found |= cold(state, rounds)
    found["sessions list, ms"] = whole(subject, command, rounds)
    found["sessions list --json, ms"] = whole(subject, [*command, "--json"], rounds)
    found["sessions search, ms"] = whole(subject, [str(program), "sessions", "search", "loose cord"], rounds)
    return found


def hermes(root: Path, program: Path, *, sessions: int, rounds: int) -> dict[str, float]:
    """The peer's figures."""
    subject = make("hermes", root, program=program, base_url="http://127.0.0.1:9/v1")
    say(f"making {sessions} of the peer's sessions")
    subprocess.run(
        [str(program.parent / "python"), "-c", PEER, subject.env["HERMES_HOME"], str(sessions)],
        env=subject.env,
        capture_output=True,
        check=True,
    )
    command = [str(program), "sessions", "list"]
    run(command, env=subject.env, cwd=subject.cwd)
    return {"sessions list, ms": whole(subject, command, rounds)}


def main() -> None:
    """Measure and print."""
    options = parser(__doc__ or "", rounds=7)
    options.add_argument("--sessions", type=int, default=SESSIONS, help="how many sessions the home holds")
    given = options.parse_args()
    found = chosen(given)
    measures: dict[str, Callable[..., dict[str, float]]] = {"melete": melete, "hermes": hermes}
    with tempfile.TemporaryDirectory() as folder:
        figures = {
            name: measures[name](Path(folder), program, sessions=given.sessions, rounds=given.rounds)
            for name, program in found.items()
        }
    rows = [
        Row(
            what=what.rpartition(",")[0],
            unit=what.rpartition(",")[2].strip(),
            values={name: values[what] for name, values in figures.items() if what in values},
            digits=1,
        )
        for what in dict.fromkeys(what for values in figures.values() for what in values)
    ]
    show(rows, found, as_json=given.json)


if __name__ == "__main__":
    main()
