"""What a batch of three children costs beside their model's time: milliseconds, how far apart they begin, bytes of a request.

A parent's reply is one `delegate_task` with three tasks; each child's answer leaves the server 500 ms after its request was
there, counted by the server, in a thread for each connection. What is between the end of the parent's reply and its next
request, minus the time that the server took for the child that it answered last, is the overhead. Several such calls in one run
tell the first of a process from the others.

The peer puts a batch into the background when somebody can be told later; its one-shot form (`-z`) waits for it, as ours does, so
both are run one-shot, without any setting. Its requests for titles carry no tools and are not counted.
"""

import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import run
from benchmarks.report import Row, by_name, say
from benchmarks.subjects import Subject, make
from melete.testing import Call, Reply, ScriptedModel

DELAY, CHILDREN = 0.5, 3
PATIENCE = 0.000_5
"""Seconds for which one thread of the server keeps another waiting that has a request; Python's own 5 ms would be seen."""
PROMPT = "Delegate this {} times"
LISTS = re.compile(r"<available_skills>.*?</available_skills>", re.DOTALL)
"""The lists of skills in the prompts of both."""


class Script:
    """The replies: the parent's are batches, as many as its prompt asks for, then an answer; a child's is late, and exact."""

    def __init__(self) -> None:
        self.server: ScriptedModel
        self.children: dict[int, int] = {}  # a child's request → the number of its batch
        self.parents: list[int] = []

    def __call__(self, request: dict[str, Any], index: int) -> Reply | str:
        """One reply."""
        said = [str(one["content"]) for one in request["messages"] if one["role"] == "user"]
        if not request.get("tools") or not said:
            return "A title"
        if found := re.match(r"Part \d of batch (\d+)\b", said[0]):
            self.children[index] = int(found[1])
            time.sleep(max(0.0, self.server.requests[index].at + DELAY - time.monotonic()))
            return "It is done."
        self.parents.append(index)
        told = sum(one["role"] == "tool" for one in request["messages"])
        if told == int(said[0].split()[2]):
            return "All done."
        goals = [f"Part {number} of batch {told}: say that it is done" for number in range(1, CHILDREN + 1)]
        return Call("delegate_task", {"tasks": [{"goal": goal, "context": "nothing else"} for goal in goals]})


@dataclass(kw_only=True)
class Taken:
    """What one subject took: milliseconds of each first and further batch, and how far apart the first requests were."""

    first: list[float] = field(default_factory=list[float])
    further: list[float] = field(default_factory=list[float])
    spread: list[float] = field(default_factory=list[float])
    late: list[float] = field(default_factory=list[float])
    child: int = 0
    listed: int = 0
    parent: int = 0
    parent_listed: int = 0


def batches(subject: Subject, server: ScriptedModel, script: Script, *, times: int, into: Taken) -> None:
    """One run with so many batches; raises RuntimeError where it did not do what it was to do."""
    script.children.clear()
    script.parents.clear()
    ran = run(subject.once(PROMPT.format(times)), env=subject.env, cwd=subject.cwd)
    asked = [server.requests[index] for index in script.parents]
    begun = [sorted(i for i, batch in script.children.items() if batch == number) for number in range(times)]
    if "All done." not in ran.output or len(asked) != times + 1 or any(len(one) != CHILDREN for one in begun):
        raise RuntimeError(
            f"{subject.name}: {len(asked)} of {times + 1} requests, children {begun}: {ran.output[-800:]}"
        )
    for number, indices in enumerate(begun):
        ended = server.replied_at[asked[number].index]
        at = [server.requests[index].at for index in indices]
        last = max(indices, key=lambda index: server.replied_at[index])
        served = server.replied_at[last] - server.requests[last].at
        (into.further if number else into.first).append((asked[number + 1].at - ended - served) * 1000)
        into.spread.append((max(at) - min(at)) * 1000)
        into.late.append((served - DELAY) * 1000)
    child, parent = server.requests[begun[0][0]], asked[0]
    into.child, into.listed = len(child.body), listed(child.json)
    into.parent, into.parent_listed = len(parent.body), listed(parent.json)


def listed(request: Mapping[str, Any]) -> int:
    """Bytes of the list of skills in a request."""
    texts = [str(one["content"]) for one in request["messages"] if one["role"] == "system"]
    return sum(
        len(json.dumps(found, ensure_ascii=False).encode()) - 2 for text in texts for found in LISTS.findall(text)
    )


def measure(found: Mapping[str, Path], *, rounds: int, times: int, env: str) -> list[Row]:
    """The subjects in turns; the first run of each, which warms what is warm later, is not counted."""
    script = Script()
    sys.setswitchinterval(PATIENCE)
    taken = {name: Taken() for name in found}
    with tempfile.TemporaryDirectory() as root, ScriptedModel(script) as server:
        script.server = server
        subjects = [make(name, Path(root), program=path, base_url=server.base_url) for name, path in found.items()]
        for subject in subjects:
            if env and subject.name == "melete":
                subject.env["MELETE_ENV"] = env
            batches(subject, server, script, times=2, into=Taken())
        for turn in range(rounds):
            say(f"round {turn + 1} of {rounds}")
            for subject in subjects:
                batches(subject, server, script, times=times, into=taken[subject.name])
    return rows(taken, [*found])


def rows(taken: Mapping[str, Taken], names: Sequence[str]) -> list[Row]:
    """The figures."""

    def row(what: str, unit: str, figure: Any, *, digits: int = 1, less: bool | None = True) -> Row:
        values = by_name(names, lambda name: float(figure(taken[name])))
        return Row(what=what, unit=unit, values=values, digits=digits, less_is_better=less)

    return [
        row("first batch of a process, median", "ms", lambda one: median(one.first)),
        row("first batch of a process, worst", "ms", lambda one: max(one.first)),
        row("further batches, median", "ms", lambda one: median(one.further)),
        row("further batches, worst", "ms", lambda one: max(one.further)),
        row("first requests apart, median", "ms", lambda one: median(one.spread)),
        row("first requests apart, worst", "ms", lambda one: max(one.spread)),
        row("the server's time over 500, taken off, worst", "ms", lambda one: max(one.late), digits=2, less=None),
        row("a child's first request", "bytes", lambda one: one.child, digits=0),
        row("… without its list of skills", "bytes", lambda one: one.child - one.listed, digits=0),
        row("the parent's first request", "bytes", lambda one: one.parent, digits=0),
        row("… without its list of skills", "bytes", lambda one: one.parent - one.parent_listed, digits=0),
    ]
