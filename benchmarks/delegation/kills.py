"""A batch of three, its program killed at a random moment, and gone on with: what was done twice, lost or left open.

Each child runs two commands, which write their names into a file, and reports. `melete run` is killed (SIGKILL) at some moment
after its first request; `melete run -c` goes on. The parent's script resumes whoever was interrupted, and begins anew what had not
begun. Whoever had reported before the kill must be asked nothing more; no command may run a second time; every call must have
one result, and `melete verify` must find nothing.
"""

import asyncio
import json
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import run
from benchmarks.report import Row, say
from benchmarks.subjects import Melete
from melete.app.clock import SystemClock
from melete.core.event import Delegated, Fact, Reply, ToolEnded
from melete.core.session import SessionRef, Which
from melete.store import open_store
from melete.testing import Call, ScriptedModel
from melete.testing.replies import Calls
from melete.testing.replies import Reply as Played

CHILDREN, COMMANDS = 3, 2
SLOWEST = 0.25
LAST = "All told."


class Script:
    """The replies of parents (`Batch N`) and children (`Part N.M`), each after a random while; `asked` counts the children's."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.asked: Counter[str] = Counter()

    def __call__(self, request: dict[str, Any], index: int) -> Played | str:
        """One reply."""
        del index
        said = next(str(one["content"]) for one in request["messages"] if one["role"] == "user")
        kind, name, *_ = said.split()
        time.sleep(self._rng.uniform(0, SLOWEST))
        if kind == "Batch":
            return self._parent(name, [str(one["content"]) for one in request["messages"] if one["role"] == "tool"])
        self.asked[name] += 1
        done = sum(one["role"] == "assistant" for one in request["messages"])
        if done < COMMANDS:
            return Call("terminal", {"command": f"echo {name}.{done} >> done.txt"})
        return f"Part {name} is done"

    def _parent(self, name: str, told: Sequence[str]) -> Played | str:
        parts = [f"Part {name}.{number}" for number in range(CHILDREN)]
        if not told or "results" not in (last := json.loads(told[-1])):
            return Call("delegate_task", {"tasks": [{"goal": part} for part in parts]})
        rows: list[dict[str, Any]] = last["results"] if len(last["results"]) == CHILDREN else []
        again = [
            Call(
                "delegate_task",
                {"resume": row["session"]} if row.get("session") else {"goal": parts[row["task_index"]]},
            )
            for row in rows
            if row["status"] != "completed"
        ]
        return Calls(calls=again) if again else LAST


@dataclass(kw_only=True)
class Seen:
    """What was found, all kills together."""

    kills: int = 0
    at: list[float] = field(default_factory=list[float])
    reported: int = 0
    interrupted: int = 0
    not_begun: int = 0
    resumed: int = 0
    wrong: list[str] = field(default_factory=list[str])


def measure(program: Path, *, kills: int, seed: int, env: str) -> tuple[list[Row], Sequence[str]]:
    """So many kills in one home; the rows, and what went wrong in words."""
    rng, seen = random.Random(seed), Seen()
    script = Script(rng)
    with tempfile.TemporaryDirectory() as root, ScriptedModel(script) as server:
        subject = Melete(Path(root) / "melete", program=program, base_url=server.base_url)
        if env:
            subject.env["MELETE_ENV"] = env
        number = 0
        while seen.kills < kills:
            number += 1
            _one(subject, server, script, number=number, after=rng.uniform(0, 1.2), seen=seen)
        checked = subprocess.run(
            [program, "verify"], env=subject.env, cwd=subject.cwd, capture_output=True, text=True, check=False
        )
        if checked.returncode:
            seen.wrong.append(f"verify: {checked.stdout}{checked.stderr}")
    return _rows(seen), seen.wrong


def _one(subject: Melete, server: ScriptedModel, script: Script, *, number: int, after: float, seen: Seen) -> None:
    before = len(server.requests)
    process = subprocess.Popen(
        [subject.program, "run", f"Batch {number}"], env=subject.env, cwd=subject.cwd, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while len(server.requests) == before and process.poll() is None:
        time.sleep(0.005)
    time.sleep(after)
    process.kill()
    if process.wait() == 0:  # it was done before
        return
    time.sleep(SLOWEST)  # the last request of the dead one is counted
    parent = asyncio.run(_parent(subject, f"Batch {number}"))
    facts = asyncio.run(_facts(subject, parent))
    if any(isinstance(fact, Reply) and fact.message.text == LAST for fact in facts):
        return  # only the end of the process was left
    done = {fact.task: fact for fact in facts if isinstance(fact, Delegated) and fact.entry}
    begun = {fact.task for fact in facts if isinstance(fact, Delegated)}
    asked = Counter(script.asked)
    ran = run([str(subject.program), "run", "-c"], env=subject.env, cwd=subject.cwd)
    seen.kills += 1
    seen.at.append(after)
    say(f"kill {seen.kills} after {after:.2f} s: {len(done)} of {len(begun)} begun had reported")
    seen.reported += len(done)
    seen.interrupted += len(begun) - len(done)
    seen.not_begun += CHILDREN - len(begun)
    if LAST not in ran.output:
        seen.wrong.append(f"kill {number}: the run did not end well: {ran.output[-300:]}")
    seen.wrong += [
        f"kill {number}: part {task} had reported and was asked again"
        for task in done
        if script.asked[f"{number}.{task}"] != asked[f"{number}.{task}"]
    ]
    wrote = (
        Counter((subject.cwd / "done.txt").read_text().split())
        if (subject.cwd / "done.txt").exists()
        else Counter[str]()
    )
    for task in range(CHILDREN):
        for command in range(COMMANDS):
            times = wrote[f"{number}.{task}.{command}"]
            if times > 1 or (task in done and times != 1):
                seen.wrong.append(f"kill {number}: command {command} of part {task} ran {times} times")
    asyncio.run(_check(subject, parent, number=number, done=done, seen=seen))


async def _parent(subject: Melete, title: str) -> SessionRef:
    store = open_store(subject.home / ".melete" / "state", clock=SystemClock())
    rows = await store.list(which=Which(sources=("cli",)), limit=10)
    await store.aclose()
    return SessionRef(id=next(row.id for row in rows if row.title == title))


async def _facts(subject: Melete, ref: SessionRef) -> Sequence[Fact]:
    store = open_store(subject.home / ".melete" / "state", clock=SystemClock())
    try:
        return await store.facts(ref)
    finally:
        await store.aclose()


async def _check(subject: Melete, parent: SessionRef, *, number: int, done: dict[int, Delegated], seen: Seen) -> None:
    """Every call of the family has one result; what the parent was told of each child is as it was."""
    facts = await _facts(subject, parent)
    children = {fact.child for fact in facts if isinstance(fact, Delegated)}
    for ref in (parent, *(SessionRef(id=child) for child in children)):
        own = await _facts(subject, ref)
        calls = Counter(call.id for fact in own if isinstance(fact, Reply) for call in fact.message.calls)
        ends = Counter(fact.result.call for fact in own if isinstance(fact, ToolEnded) and "/" not in fact.result.call)
        if calls != ends:
            seen.wrong.append(f"kill {number}: the calls of {ref.id} are {calls}, their results {ends}")
    told = [json.loads(fact.result.content) for fact in facts if isinstance(fact, ToolEnded)]
    first = next((one["results"] for one in told if len(one.get("results", ())) == CHILDREN), [])
    for task in done:
        if first and first[task]["status"] != "completed":
            seen.wrong.append(f"kill {number}: part {task} had reported and is told of as {first[task]['status']}")
    last = {fact.child: fact.status for fact in facts if isinstance(fact, Delegated)}
    seen.resumed += sum(
        last[row["session"]] == "completed" for row in first if row["status"] == "interrupted" and "session" in row
    )
    seen.wrong += [
        f"kill {number}: child {child} ended as {status}" for child, status in last.items() if status != "completed"
    ]


def _rows(seen: Seen) -> list[Row]:
    def row(what: str, value: float, *, less: bool | None = None) -> Row:
        return Row(what=what, unit="", values={"melete": float(value)}, digits=0, less_is_better=less)

    return [
        row("kills", seen.kills),
        row("children that had reported", seen.reported),
        row("children that were at work", seen.interrupted),
        row("… of these resumed to their end", seen.resumed),
        row("children that had not begun", seen.not_begun),
        row("went wrong", len(seen.wrong), less=True),
    ]
