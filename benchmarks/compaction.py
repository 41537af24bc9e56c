"""A job of 400 turns in a small window: is what was said and found in it still known in the end, and what does that cost?

The job is `long_job`: 400 prompts in one session (`prompts`), or one prompt of 400 steps (`steps`). Facts come up at turns 3, 50,
120, 200 and 390, and some more; all of them are asked for later. The model sees one request and nothing else; it counts four bytes
as a token and refuses what passes its window. `--summary` says how the model does that sums up: well, badly, or not at all.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.long_job import Job, Model, Outcome, run_through, work_through
from benchmarks.report import Row, parser, say, show
from melete.testing import ScriptedModel

SHAPES = {"prompts": work_through, "steps": run_through}
SUMMARIES = ("well", "forgetful", "wrong", "long", "500", "hang", "empty", "foreign", "orders", "refuses")
QUICK = {"compaction.deadline": 1.0}
"""A model that says nothing is not waited for a minute each time."""


def measure(shape: str, job: Job, model: Model) -> tuple[Outcome, float]:
    """One job, and how many seconds it took."""
    settings = QUICK if model.sums_up == "hang" else {}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as top, ScriptedModel(model) as server:
        made = asyncio.run(SHAPES[shape](job, model, server, Path(top), settings=settings))
    return made, time.perf_counter() - began


def faults(made: Outcome, model: Model) -> list[str]:
    """Everything that is not as it should be."""
    found = [f"turn {one.turn}: {one.truth.kind}: {one.got!r} and not {one.truth.value!r}" for one in made.wrong]
    found += [f"turn {turn}: the answer is not signed as the person asked" for turn in made.unsigned]
    found += made.stops
    found += model.lost
    breaks = sum(share < 1 for share in model.kept)
    if breaks > made.groups:
        found.append(f"the prefix changed {breaks} times at {made.groups} compactions")
    return found


def figures(name: str, made: Outcome, model: Model, seconds: float) -> list[Row]:
    """The rows of one job."""

    def row(what: str, value: float, unit: str = "", *, better: bool | None = None, digits: int = 0) -> Row:
        return Row(what=f"{name}: {what}", unit=unit, values={"melete": value}, less_is_better=better, digits=digits)

    shortened = made.compactions
    before, after = (sum(getattr(fact, end) for fact in shortened) for end in ("tokens_before", "tokens_after"))
    many = max(1, len(shortened))
    rest = [share for share in model.kept if share == 1]
    return [
        row(f"right answers of {len(made.asked)}", len(made.asked) - len(made.wrong), better=False),
        row("answers that do not follow a standing rule", len(made.unsigned), better=True),
        row("compactions", len(shortened)),
        row("of them without a summary", sum(not fact.summary for fact in shortened)),
        row("times that the prefix changed", sum(share < 1 for share in model.kept)),
        row("requests that kept the whole prefix", len(rest)),
        row("largest request", max(model.sizes), "tokens"),
        row("requests that did not fit", model.overflows, better=True),
        row("before a compaction, mean", before / many, "tokens"),
        row("after it, mean", after / many, "tokens"),
        row("spent by the model", made.tokens_of("main"), "tokens", better=True),
        row("spent by the one that sums up", made.tokens_of("compact"), "tokens", better=True),
        row("taken", seconds, "s", digits=1),
    ]


def main() -> None:
    """Measure and print; the status is 1 where something is wrong."""
    options = parser(__doc__ or "", rounds=1)
    options.add_argument("--turns", type=int, default=400)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--shape", choices=SHAPES, action="append", help="both by default")
    options.add_argument("--window", type=int, action="append", help="tokens; 8192 and 32000 by default")
    options.add_argument("--small", type=int, default=32_000, help="the window of the model that sums up")
    options.add_argument("--summary", choices=SUMMARIES, action="append", help="`well` and `500` by default")
    given = options.parse_args()
    rows: list[Row] = []
    wrong: Sequence[str] = ()
    for shape in given.shape or list(SHAPES):
        for window in given.window or (8_192, 32_000):
            for how in given.summary or ("well", "500"):
                name = f"{shape}, {window:,}, {how}"
                job = Job(turns=given.turns, seed=given.seed)
                model = Model(job=job, window=window, small=given.small, sums_up=how)
                say(f"{name} …")
                made, seconds = measure(shape, job, model)
                found = faults(made, model)
                right = len(made.asked) - len(made.wrong)
                say(f"  {right} of {len(made.asked)} right, {len(made.compactions)} compactions, {seconds:.0f} s")
                for line in found[:10]:
                    say(f"  {line}")
                wrong = [*wrong, *found]
                rows += figures(name, made, model, seconds)
    program = given.melete or Path(sys.executable).with_name("melete")
    show(rows, {"melete": program}, as_json=given.json)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
