"""Many children on two levels, round after round, and stopped in the middle: what is left of them.

A parent asks for so many orchestrators at once, each of these for so many leaves, and each leaf runs one command. With 8 and 7
these are 64 children, at most 8 of one agent at a time. All of it is one process, the model's server as well, so that both ends of
a connection are counted; tasks, listeners and streams of events are those of the application.
"""

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import Row, say
from melete import load, user
from melete.app.opening import Options
from melete.app.service import Conversation, open_conversation
from melete.app.wire import Melete, open_melete
from melete.core.event import RunEnded
from melete.core.session import SessionRef, Which
from melete.core.transcript import Transcript
from melete.testing import Call, Reply, ScriptedModel
from melete.testing.leaks import Held, left_behind

PAGE = os.sysconf("SC_PAGE_SIZE")
QUICK, LONG = "true", "sleep 60"


class Families:
    """The replies of parent, orchestrators and leaves; `command` is what each leaf runs."""

    def __init__(self, *, leads: int, leaves: int) -> None:
        self.leads, self.leaves = leads, leaves
        self.command = QUICK

    def __call__(self, request: dict[str, Any], index: int) -> Reply | str:
        """One reply."""
        del index
        said = next(str(one["content"]) for one in request["messages"] if one["role"] == "user")
        if any(one["role"] == "tool" for one in request["messages"]):
            return "It is done."
        kind, _, name = said.partition(" ")
        if kind == "Leaf":
            return Call("terminal", {"command": self.command})
        goals = (
            [f"Leaf {name}.{n}" for n in range(self.leaves)]
            if kind == "Lead"
            else [f"Lead {n}" for n in range(self.leads)]
        )
        role = "leaf" if kind == "Lead" else "orchestrator"
        return Call("delegate_task", {"tasks": [{"goal": goal, "role": role} for goal in goals]})


@dataclass(kw_only=True)
class Left:
    """What was found: seconds, megabytes after each round, and one line for each thing that was left behind."""

    rounds: list[float] = field(default_factory=list[float])
    resident: list[float] = field(default_factory=list[float])
    stops: list[float] = field(default_factory=list[float])
    running: list[int] = field(default_factory=list[int])
    children: int = 0
    behind: list[str] = field(default_factory=list[str])
    endless: list[str] = field(default_factory=list[str])


class Counted:
    """What the application and this process hold at one moment."""

    def __init__(self, app: Melete, folder: Path) -> None:
        self._app = app
        self._held = Held.now(folder)
        self._own = self._now()

    def _now(self) -> dict[str, int]:
        app = self._app
        return {"tasks": len(asyncio.all_tasks()), "listeners": len(app.listeners), "streams": len(app.hubs)}

    async def more(self) -> list[str]:
        """One line for each thing that is held now and was not; what is just ending is given a few seconds."""
        for _ in range(20):
            if self._now() == self._own:
                break
            await asyncio.sleep(0.05)
        own = [
            f"{name}: {self._own[name]}, now {count}" for name, count in self._now().items() if count > self._own[name]
        ]
        return [*own, *await asyncio.to_thread(left_behind, self._held, but=("files", "threads"))]


@asynccontextmanager
async def opened(home: Path, server: ScriptedModel, **settings: object) -> AsyncGenerator[Melete]:
    """The application in a home of its own, pointed at the model, with room for two levels of children."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "MELETE_ENV"}}
    own = {"HOME": str(home), "MELETE_HOME": str(home / ".melete"), "MELETE_LEARNING": "false"}
    model = {"MELETE_BASE_URL": server.base_url, "MELETE_MODEL": "scripted-model", "MELETE_CONTEXT_LENGTH": "128000"}
    given = {"delegation.max_concurrent_children": 8, "delegation.max_spawn_depth": 2, **settings}
    async with open_melete(load(given, environ={**kept, **own, **model})) as app:
        yield app


async def soak(folder: Path, *, leads: int, leaves: int, rounds: int, stops: int) -> Left:
    """So many rounds to the end and so many that are stopped, all in one application; `folder` is empty."""
    script, left = Families(leads=leads, leaves=leaves), Left()
    home, work = folder / "home", folder / "work"
    for one in (home, work):
        one.mkdir(parents=True)
    with ScriptedModel(script) as server:
        async with opened(home, server) as app:
            await _once(app, work, left=Left())  # what is loaded and kept for good
            before = Counted(app, work)
            for _ in range(rounds):
                await _once(app, work, left=left)
                left.behind += await before.more()
                server.requests.clear()
                server.replied_at.clear()
                gc.collect()
                left.resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6)
            script.command = LONG
            for _ in range(stops):
                await _stopped(app, work, left=left, leaves=leads * leaves)
                left.behind += await before.more()
            rows = await app.store.list(which=Which(sources=("subagent",)), limit=100_000)
            left.children = len(rows)
            for row in rows:
                if Transcript(await app.store.facts(SessionRef(id=row.id))).ended is None:
                    left.endless.append(row.id)
    return left


async def _once(app: Melete, work: Path, *, left: Left) -> None:
    began = time.monotonic()
    async with open_conversation(app, Options(cwd=str(work))) as conversation:
        ended = await conversation.run(user("Go."))
    if ended.text != "It is done.":
        raise RuntimeError(f"the run ended so: {ended}")
    left.rounds.append(time.monotonic() - began)


async def _stopped(app: Melete, work: Path, *, left: Left, leaves: int) -> None:
    """Stop the parent once all leaves are at their commands."""
    async with open_conversation(app, Options(cwd=str(work))) as conversation:
        run = app.group.create_task(_ran(conversation))
        left.running.append(await asyncio.to_thread(_sleeping, leaves))
        asked = time.monotonic()
        conversation.cancel()
        ended = await run
        left.stops.append(time.monotonic() - asked)
        if ended.stop != "cancelled":
            raise RuntimeError(f"the run ended so: {ended}")


async def _ran(conversation: Conversation) -> RunEnded:
    return await conversation.run(user("Go."))


def _sleeping(wanted: int) -> int:
    """How many of the leaves' commands run below this process, once it is so many, or after a minute."""
    words, until = LONG.split(), time.monotonic() + 60
    while True:
        lines = Held.now(Path("/nonexistent")).processes.values()
        count = sum(line.split() == words for line in lines)
        if count >= wanted or time.monotonic() > until:
            return count
        time.sleep(0.1)


def measure(*, rounds: int) -> tuple[list[Row], Sequence[str]]:
    """64 children a round; the rows, and what was left behind in words."""
    with tempfile.TemporaryDirectory() as folder:
        say(f"{rounds} rounds of 64 children, then 3 that are stopped")
        left = asyncio.run(soak(Path(folder), leads=8, leaves=7, rounds=rounds, stops=3))

    def row(what: str, unit: str, value: float, *, digits: int = 0, less: bool | None = True) -> Row:
        values: Mapping[str, float] = {"melete": float(value)}
        return Row(what=what, unit=unit, values=values, digits=digits, less_is_better=less)

    rows = [
        row("children in all", "", left.children, less=None),
        row("a round of 64, median", "s", median(left.rounds), digits=2),
        row("left behind after a round", "", len(left.behind)),
        row("sessions without an end", "", len(left.endless)),
        row("resident after the first round", "MB", left.resident[0], digits=1),
        row("resident in the middle", "MB", left.resident[len(left.resident) // 2], digits=1),
        row("resident at the end", "MB", left.resident[-1], digits=1),
        row("commands running when stopped", "", min(left.running), less=None),
        row("from stop to the end of the run, median", "s", median(left.stops), digits=3),
        row("from stop to the end of the run, worst", "s", max(left.stops), digits=3),
    ]
    return rows, [*left.behind, *left.endless]
