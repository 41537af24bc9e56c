"""From exec to the first request: time, CPU, memory and bytes of a one-shot "Say hi", and of --version.

The subjects take turns in one run; the first turn of each warms file caches and first-start work and is not counted.
"""

import tempfile
from pathlib import Path
from statistics import median

from benchmarks.measure import Ran, run
from benchmarks.report import Row, by_name, chosen, parser, say, show
from benchmarks.subjects import Subject, make
from melete.testing import ScriptedModel

Figures = dict[str, list[float]]


def one_answer(subject: Subject, server: ScriptedModel, into: Figures) -> None:
    """Ask once and keep what it took."""
    before, others = len(server.requests), len(server.others)
    ran: Ran = run(subject.once("Say hi"), env=subject.env, cwd=subject.cwd)
    if "Hi there." not in ran.output:
        raise RuntimeError(f"{subject.name} did not print the answer: {ran.output[-500:]}")
    first = server.requests[before]
    figures = {
        "first": first.at - ran.started,
        "wall": ran.wall,
        "cpu": ran.cpu,
        "rss": ran.rss / 1e6,
        "bytes": len(first.body),
        "tools": len(first.json.get("tools", [])),
        "probes": sum(other.at < first.at for other in server.others[others:]),
        "requests": len(server.requests) - before,
    }
    for name, value in figures.items():
        into.setdefault(name, []).append(value)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__ or "", rounds=7).parse_args()
    found = chosen(options)
    figures: dict[str, Figures] = {name: {} for name in found}
    with tempfile.TemporaryDirectory() as root, ScriptedModel(lambda *_: "Hi there.") as server:
        subjects = [make(name, Path(root), program=path, base_url=server.base_url) for name, path in found.items()]
        for turn in range(options.rounds + 1):
            say(f"round {turn} of {options.rounds}")
            for subject in subjects:
                into = figures[subject.name] if turn else {}
                one_answer(subject, server, into)
                version = run(subject.version(), env=subject.env, cwd=subject.cwd)
                into.setdefault("version", []).append(version.wall)
                into.setdefault("version_rss", []).append(version.rss / 1e6)

    def row(what: str, unit: str, key: str, digits: int = 2) -> Row:
        values = by_name(list(found), lambda name: median(figures[name][key]))
        return Row(
            what=what, unit=unit, values=values, digits=digits, less_is_better=None if unit == "number" else True
        )

    rows = [
        row("exec to first request", "s", "first", 3),
        row("whole run", "s", "wall", 3),
        row("CPU of that run", "s", "cpu", 3),
        row("peak memory of that run", "MB", "rss", 1),
        row("other requests sent first", "number", "probes", 0),
        row("model requests of that run", "number", "requests", 0),
        row("first request", "bytes", "bytes", 0),
        row("tools in it", "number", "tools", 0),
        row("--version", "s", "version", 3),
        row("peak memory of --version", "MB", "version_rss", 1),
    ]
    show(rows, found, as_json=options.json)


if __name__ == "__main__":
    main()
