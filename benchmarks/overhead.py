"""Milliseconds between the end of a reply and the next request, when the tool call between them is `true`.

`--command "N={}"` measures one that changes the shell instead, so that its state has to be kept; {} is the number of the call.

Runs of 50 and of 200 calls, the subjects in turns. The time that this machine needs to run `bash -c true` is measured beside each
run and taken off. The commands are numbered (`true 1`, `true 2` …), so that no guard against loops has a say.
"""

import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import run, spawn_seconds
from benchmarks.report import Row, by_name, chosen, parser, quantile, say, show
from benchmarks.subjects import Subject, make
from melete.testing import Call, Reply, ScriptedModel


def script(request: dict[str, Any], _: int) -> Reply | str:
    """As many numbered calls as the prompt asks for, then an answer; requests without tools are somebody's extra work."""
    messages = request["messages"]
    asked = [m["content"] for m in messages if m["role"] == "user" and "Run it " in str(m["content"])]
    done = results(request)
    if not request.get("tools") or not asked:
        return "A title"
    wanted = int(str(asked[0]).partition("Run it ")[2].split()[0])
    command = str(asked[0]).partition(" times: ")[2].format(done + 1)
    return Call("terminal", {"command": command}) if done < wanted else "All done."


def results(request: dict[str, Any]) -> int:
    """How many tool results a request carries."""
    return sum(message["role"] == "tool" for message in request["messages"])


def intervals(subject: Subject, server: ScriptedModel, *, calls: int, spawn: float, command: str) -> list[float]:
    """Milliseconds from each reply with a call to the request that answers it, the process itself taken off."""
    before = len(server.requests)
    ran = run(subject.talk(f"Run it {calls} times: {command}"), env=subject.env, cwd=subject.cwd)
    if "All done." not in ran.output:
        raise RuntimeError(f"{subject.name} did not finish: {ran.output[-500:]}")
    steps: dict[int, int] = {}  # results in the request → its number; a review at the end repeats the last one
    for number in range(before, len(server.requests)):
        request = server.requests[number].json
        if request.get("tools"):
            steps.setdefault(results(request), number)
    if [*steps] != [*range(calls + 1)]:
        raise RuntimeError(f"{subject.name} skipped a step of {calls}: {[*steps]}")
    return [(server.requests[b].at - server.replied_at[a] - spawn) * 1000 for a, b in pairwise(steps.values())]


def main() -> None:
    """Measure and print."""
    made = parser(__doc__ or "", rounds=3)
    made.add_argument("--calls", type=int, nargs="+", default=[50, 200], help="tool calls in a run")
    made.add_argument("--command", default="true {}", help="what each call runs; {} is its number")
    options = made.parse_args()
    found = chosen(options)
    taken: dict[tuple[str, int], list[list[float]]] = {}
    spawns: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as root, ScriptedModel(script) as server:
        subjects = [make(name, Path(root), program=path, base_url=server.base_url) for name, path in found.items()]
        for subject in subjects:
            intervals(subject, server, calls=2, spawn=0.0, command=options.command)  # not counted: the first start
        for turn in range(options.rounds):
            say(f"round {turn + 1} of {options.rounds}")
            for calls in options.calls:
                for subject in subjects:
                    spawns.setdefault(subject.name, []).append(spawn := spawn_seconds())
                    each = intervals(subject, server, calls=calls, spawn=spawn, command=options.command)
                    taken.setdefault((subject.name, calls), []).append(each)
    took = by_name(list(found), lambda name: median(spawns[name]) * 1000)
    baseline = Row(what="taken off: bash -c true, median", unit="ms", values=took, less_is_better=None)
    figures = [row for calls in options.calls for row in rows(taken, calls, list(found))]
    show([*figures, baseline], found, as_json=options.json)


def rows(taken: dict[tuple[str, int], list[list[float]]], calls: int, names: list[str]) -> list[Row]:
    """The figures of the runs with this many calls: the median over rounds of each run's own figure."""
    quarter = max(1, calls // 4)
    return [
        Row(
            what=f"{calls} calls: {what}",
            unit="ms",
            values=by_name(names, lambda n, f=figure: median(map(f, taken[n, calls]))),
        )
        for what, figure in (
            ("median", median),
            ("95th percentile", lambda run: quantile(run, 0.95)),
            ("median of the first quarter", lambda run: median(run[:quarter])),
            ("median of the last quarter", lambda run: median(run[-quarter:])),
        )
    ]


if __name__ == "__main__":
    main()
