"""What the log costs: appends a second and bytes a message beside the peer's database; opening, inbox and ledger alone.

Both append the same user messages of 400 characters through their own library, each message committed by itself. The peer
stands in the row that its setting of SQLite's `synchronous` belongs to.
"""

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.report import Row, chosen, parser, show
from melete.core.event import Fact, Opened, Reply, RunEnded, RunStarted, Said, Spent, ToolEnded, ToolStarted
from melete.core.message import Message, Text, ToolCall, ToolResult, Usage, user
from melete.core.policy import Allowance
from melete.core.session import Query, SessionRef, Store
from melete.store import open_ledger, open_store

MESSAGE_CHARACTERS = 400
APPENDS = "messages appended, a second"
DURABLE = "messages appended each on the disk, a second"
BYTES = "bytes a message"
WAITS_FOR_THE_DISK = 2

PEER = """
import json, sys, time
from pathlib import Path
from hermes_state import SessionDB
folder, count, length = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
db = SessionDB(db_path=folder / "state.db")
db.create_session("s-1", "cli")
synchronous = db._conn.execute("PRAGMA synchronous").fetchone()[0]
before = time.perf_counter()
for number in range(count):
    db.append_message("s-1", "user", content="x" * length)
taken = time.perf_counter() - before
db.close()
size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
print(json.dumps([count / taken, size / count, synchronous]))
"""
MESSAGES_A_TURN = 4


class RealClock:
    """The time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def turn(number: int) -> Sequence[Fact]:
    """A question, a call, its result and an answer, each message of 400 characters, with all facts that a run stores."""
    text = f"{number:<8}".ljust(MESSAGE_CHARACTERS, "x")
    call = ToolCall(id=f"call_{number}", name="terminal", arguments=json.dumps({"command": text}))
    return (
        RunStarted(model="m-1", pid=1),
        Said(message=user(text)),
        Reply(message=Message(role="assistant", parts=(call,)), stop="tool_calls", usage=Usage(input=9, output=9)),
        Spent(usage=Usage(input=9, output=9), model="m-1", usd=0.001),
        ToolStarted(call=call),
        ToolEnded(result=ToolResult(call=call.id, name="terminal", content=text)),
        Reply(message=Message(role="assistant", parts=(Text(text=text),)), usage=Usage(input=9, output=9)),
        Spent(usage=Usage(input=9, output=9), model="m-1", usd=0.001),
        RunEnded(stop="done", text="done", steps=2),
    )


async def seconds(act: Callable[[], Awaitable[object]], times: int) -> float:
    """The mean time of one `act`."""
    before = time.perf_counter()
    for _ in range(times):
        await act()
    return (time.perf_counter() - before) / times


async def measure(state: Path, facts: int) -> dict[str, float]:
    """All figures, by what they tell."""
    store = open_store(state, clock=RealClock())
    ref = await store.create(Opened(cwd="/here"))
    found: dict[str, float] = {}
    turns = max(1, facts // len(turn(0)))
    async with store.claim(ref) as session:
        said = Said(message=user("x" * MESSAGE_CHARACTERS))
        found[APPENDS] = 1 / await seconds(lambda: session.record(said), facts)
        size = (state / "sessions" / f"{ref.id}.log").stat().st_size
        found[BYTES] = size / facts
        found[DURABLE] = 1 / await seconds(lambda: session.record(said, durable=True), facts // 5)

        async def look() -> None:
            session.pending()

        found["a look into an empty inbox, µs"] = 1e6 * await seconds(look, 2000)
    await store.delete(ref)
    ref = await store.create(Opened(cwd="/here"))
    async with store.claim(ref) as session:
        for number in range(turns):
            await session.record(*turn(number))
    size = (state / "sessions" / f"{ref.id}.log").stat().st_size
    found["bytes a message, with all facts of its run"] = size / (turns * MESSAGES_A_TURN)
    found[f"claiming a session of {turns * len(turn(0))} facts, ms"] = 1e3 * await seconds(lambda: claim(store, ref), 5)
    found["first listing, ms"] = 1e3 * await seconds(store.list, 1)
    found["listing again, ms"] = 1e3 * await seconds(store.list, 20)
    found["first search, ms"] = 1e3 * await seconds(lambda: store.search(Query(text="question")), 1)
    ledger = open_ledger(state, clock=RealClock())

    async def spend() -> None:
        held = await ledger.reserve("run", Allowance(tokens=9), Allowance())
        await ledger.settle(held, usage=Usage(input=9), usd=None)

    found["reserving and settling, µs"] = 1e6 * await seconds(spend, 300)
    await store.aclose()
    return found


async def claim(store: Store, ref: SessionRef) -> None:
    async with store.claim(ref):
        pass


def peer(program: Path, folder: Path, facts: int) -> dict[str, float]:
    """The peer's figures, from its own Python."""
    folder.mkdir()
    done = subprocess.run(
        [str(program.parent / "python"), "-c", PEER, str(folder), str(facts), str(MESSAGE_CHARACTERS)],
        env={"HOME": str(folder), "HERMES_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    appends, size, synchronous = json.loads(done.stdout.splitlines()[-1])
    return {DURABLE if synchronous >= WAITS_FOR_THE_DISK else APPENDS: appends, BYTES: size}


def main() -> None:
    """Measure and print."""
    options = parser(__doc__ or "", rounds=2000).parse_args()
    found = chosen(options)
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, program in found.items():
            if name == "hermes":
                figures[name] = peer(program, Path(folder) / name, options.rounds)
            else:
                figures[name] = asyncio.run(measure(Path(folder) / name / "state", options.rounds))
    names = dict.fromkeys(what for values in figures.values() for what in values)
    rows = [
        Row(
            what=what.partition(",")[0],
            unit=what.partition(",")[2].strip() or "-",
            values={name: values[what] for name, values in figures.items() if what in values},
            less_is_better="a second" not in what,
            digits=1,
        )
        for what in names
    ]
    show(rows, found, as_json=options.json)


if __name__ == "__main__":
    main()
