"""`melete learn bench`: whether learning pays, measured on this machine in a few minutes, without a key and without a network."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec

from melete.app.learn_bench import ARMS, KEYS, Bench
from melete.surfaces.cli.bars import bar
from melete.surfaces.cli.options import json_option, variables_here
from melete.surfaces.cli.output import err, out, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.running import run_async
from melete.surfaces.cli.table import table

FIGURES = (
    ("terminal calls a task", "calls_per_task"),
    ("  when a kind of task comes first", "calls_first_meeting"),
    ("  when it comes again", "calls_later_meetings"),
    ("right at the first try", "success"),
    ("corrections by the person", "corrections"),
    ("wrong facts kept", "wrong_facts"),
    ("needless skills kept", "junk"),
    ("secrets kept", "secrets_stored"),
    ("harmful skill obeyed", "poison_obeyed"),
    ("the person's edit kept", "user_edits_kept"),
    ("share of tokens for reviews", "review_token_share"),
)
SHARES = ("success", "review_token_share")
PARTS = 8
WIDTH = 14
LEARNING = "learning"


@click.command()
@click.option("--tasks", type=click.IntRange(min=4), default=40, show_default=True, help="How many tasks.")
@click.option(
    "--sessions", type=click.FloatRange(min=1), default=2, show_default=True, help="Tasks in a session, on average."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed is another world.")
@click.option(
    "--mode",
    type=click.Choice(["shot", "long"]),
    default="shot",
    help="A process for each message, or for each session.",
)
@click.option("--keep", metavar="DIR", help="Work in DIR and keep it, with a picture; go on with what is there.")
@json_option
def bench(keep: str | None, as_json: bool, **sizes: Any) -> int:
    """Measure whether learning pays, on this machine.

    A scripted model that knows only what it reads does seeded tasks through the real command line: without learning, with it, and
    with all that there is to know given beforehand. Needs no key and no network.
    """
    with ExitStack() as stack:
        folder = (
            Path(keep).absolute() if keep else Path(stack.enter_context(TemporaryDirectory(prefix="melete-bench-")))
        )
        return run_async(lambda _: _run(Bench(folder, **sizes), sizes, kept=bool(keep), as_json=as_json))


async def _run(bench: Bench, sizes: Mapping[str, Any], *, kept: bool, as_json: bool) -> int:
    paint = Paint(sys.stderr, variables_here())
    calls: dict[str, list[int]] = {arm: [] for arm in ARMS}

    def told(arm: str, row: Mapping[str, Any]) -> None:
        calls[arm].append(row["calls"])
        if paint.redraws:
            done = " · ".join(f"{one} {len(several)} of {sizes['tasks']}" for one, several in calls.items())
            err(f"\r\x1b[K{paint('dim', paint.fit(done, taken=1))}")

    figures = await bench.run(told)
    picture = await bench.picture() if kept else None
    if paint.redraws:
        err("\r\x1b[K")
    if as_json:
        ended = {"type": "bench.ended"} | {key: figures[LEARNING][key] for key in KEYS} | dict(sizes)
        out(msgspec.json.encode(ended | {"arms": figures, "picture": str(picture or "")}).decode() + "\n")
        return 0
    shown = Paint(sys.stdout, variables_here())
    out(_curves(calls, shown) + "\n" + _table(figures, shown))
    out(
        f"\n{visible(str(picture))}\n"
        if picture
        else "\nWith --keep DIR everything is kept, and drawn where matplotlib is.\n"
    )
    return 0


def _curves(calls: Mapping[str, Sequence[int]], paint: Paint) -> str:
    """Terminal calls a task, a bar for each part of the work and each arm."""
    number = min(map(len, calls.values()))
    size = -(-number // PARTS)
    rows: list[list[str]] = []
    top = max(1.0, *(fmean(several[at : at + size]) for several in calls.values() for at in range(0, number, size)))
    for at in range(0, number, size):
        means, last = [fmean(calls[arm][at : at + size]) for arm in ARMS], min(at + size, number)
        part = f"{at + 1}–{last}" if last > at + 1 else f"{last}"
        rows.append([part, *(f"{bar(mean / top, WIDTH)} {mean:4.1f}" for mean in means)])
    return table(["calls in tasks", *ARMS], rows, paint)


def _table(figures: Mapping[str, Mapping[str, Any]], paint: Paint) -> str:
    rows = [[name, *(_cell(key, figures[arm].get(key)) for arm in ARMS)] for name, key in FIGURES]
    return table(["", *ARMS], rows, paint, right=ARMS)


def _cell(key: str, value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int() | float() if key in SHARES:
            return f"{value:.0%}"
        case float():
            return f"{value:.1f}"
        case _:
            return str(value)
