"""How long it takes to take back what a session taught: a home with many versions and a long ledger, one command, start to end.

The home is made with the real parts. The session changed many skills and entries of memory; half of its skills were changed again
by the agent in later sessions, and some by the person. Each round takes it back, and brings it back.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.measure import run
from benchmarks.report import Row, chosen, parser, say, show
from melete import load
from melete.app.memory import remembered
from melete.app.skills import library
from melete.app.wire import Melete, open_melete
from melete.core.memory import Noting, Operation
from melete.core.ports import Change

VERSIONS, FACTS, SKILLS, ENTRIES = 1_000, 10_000, 100, 10
TAUGHT = "20260101-000000-undo"
"""The session that is taken back."""
TOUCHED = 40
"""Skills that it changed."""


def text(name: str, steps: Sequence[str]) -> str:
    """A SKILL.md."""
    lines = "\n".join(f"{number}. Run `make {step}`." for number, step in enumerate(steps, 1))
    head = f"---\nname: {name}\ndescription: How {name} is built, when it matters.\n---\n\n"
    return f"{head}{lines}\n\n## Check\n\nLook at the result.\n"


async def change(app: Melete, name: str, steps: Sequence[str], *, session: str, author: str = "agent") -> None:
    """One more version of a skill."""
    keeper = library(app)
    base = (await keeper.read(name)).version if name in keeper else ""
    made = Change(
        name=name, files={"SKILL.md": text(name, steps)}, base=base, author=author, session=session, turns=(3,)
    )
    applied = await keeper.apply(made)
    if not applied.ok:
        raise RuntimeError(applied.reason)


async def build(app: Melete) -> None:
    """Fill the home."""
    notes = remembered(app)
    steps = {f"skill-{number}": [f"first-{number}", "middle", "last"] for number in range(SKILLS)}
    made = 0
    while made < VERSIONS:
        for at, name in enumerate(steps):
            round_ = made // SKILLS
            taught = round_ == VERSIONS // SKILLS - 2 and at < TOUCHED  # the last round but one
            if round_ and round_ == VERSIONS // SKILLS - 1 and TOUCHED // 2 <= at < TOUCHED - 5:
                made += 1
                continue
            steps[name] = [*steps[name][:2], f"step-{round_}-{at}", *steps[name][2:]] if round_ else steps[name]
            by = "user" if round_ == VERSIONS // SKILLS - 1 and TOUCHED - 5 <= at < TOUCHED else "agent"
            if by == "user":
                steps[name] = [*steps[name], "mine"]
            await change(app, name, steps[name], session=TAUGHT if taught else f"s-{round_}-{at}", author=by)
            made += 1
        say(f"{made:,} versions")
    for number in range(ENTRIES):
        step = Operation(action="add", content=f"The server number {number} stands in room {number}.")
        await notes.apply(Noting(target="memory", operations=(step,), session=TAUGHT if number % 2 else f"m-{number}"))
    last = app.ledger.read()[-1]["number"]
    for number in range(last, FACTS):
        rows = [[f"skill-{number % SKILLS}", "0" * 16, 0, 200]]
        await app.ledger.append(
            "skill.exposure", {"session": f"s-{number}", "turn": 2, "how": "loaded", "skills": rows}, durable=False
        )


async def prepared(environ: dict[str, str]) -> int:
    """Make the home; returns the number of facts in its ledger."""
    async with open_melete(load(environ=environ)) as app:
        await build(app)
        return len(app.ledger.read())


def main() -> None:
    """Measure, and print the figures."""
    options = parser((__doc__ or "").partition("\n")[0], rounds=7)
    given = options.parse_args()
    found = {name: path for name, path in chosen(given).items() if name == "melete"}
    with tempfile.TemporaryDirectory() as folder:
        environ = {"PATH": os.environ["PATH"], "HOME": folder}
        facts = asyncio.run(prepared(environ))
        times: dict[str, list[float]] = {"undo": [], "back": [], "dry": []}
        changed = 0
        for number in range(given.rounds):
            say(f"round {number + 1} of {given.rounds}")
            command = [str(found["melete"]), "learn", "undo"]
            dry = run([*command, "--session", TAUGHT, "--dry-run", "--json"], env=environ, cwd=Path(folder))
            done = run([*command, "--session", TAUGHT, "--json"], env=environ, cwd=Path(folder))
            effects = json.loads(done.output)
            changed = sum(bool(one["taken"]) for one in effects["effects"])
            back = run([*command, str(effects["number"]), "--json"], env=environ, cwd=Path(folder))
            for name, one in (("dry", dry), ("undo", done), ("back", back)):
                times[name].append(one.wall)
    rows = [
        Row(what="facts in the ledger", unit="count", values={"melete": facts}, less_is_better=None, digits=0),
        Row(
            what="skills and files of memory changed",
            unit="count",
            values={"melete": changed},
            less_is_better=None,
            digits=0,
        ),
        Row(what="looking only (--dry-run)", unit="s", values={"melete": median(times["dry"])}),
        Row(what="taking a session back", unit="s", values={"melete": median(times["undo"])}),
        Row(what="the slowest of them", unit="s", values={"melete": max(times["undo"])}),
        Row(what="bringing it back", unit="s", values={"melete": median(times["back"])}),
    ]
    show(rows, found, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
