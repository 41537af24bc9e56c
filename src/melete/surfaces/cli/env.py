"""`melete env`: where commands run."""

import sys
from collections.abc import Iterator

import click
import msgspec

from melete.app.env_check import Known, Step, attempt, known, of_name, use
from melete.app.places import AUTO, choose
from melete.surfaces.cli.options import complete_environment, json_option, painter, settings, variables_here
from melete.surfaces.cli.output import err, out, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.running import run_async
from melete.surfaces.cli.table import entry, table

MARKS = {"ok": ("green", "✓"), "warn": ("yellow", "!"), "fail": ("red", "✗")}
INDENT = 13
"""The column where the text of a step begins."""
MOST = 20
"""Lines of one step that are shown."""


@click.group()
def env() -> None:
    """See and choose where commands run."""


@env.command("list")
@json_option
def list_(as_json: bool) -> int:
    """List the environments.

    Says which work here and why the others do not; * marks the one that is used when none is named. Nothing is started.
    """
    loaded = settings()
    if as_json:
        for row in known(loaded):
            out(msgspec.json.encode(row).decode() + "\n")
        return 0
    rows = [
        (f"{row.name} *" if row.default else row.name, "yes" if row.works else "no", _why(row)) for row in known(loaded)
    ]
    out(table(("NAME", "WORKS", "WHY NOT"), rows, painter(loaded)))
    chosen = choose(loaded)
    if chosen.remark:
        err(f"melete: note: {visible(chosen.remark)}\n")
    return 0


def _why(row: Known) -> str:
    return "; ".join(part for part in (row.why, row.fix) if part)


@env.command()
@click.argument("name", default="", shell_complete=complete_environment)
@click.option("--cwd", default="", metavar="DIR", help="Work in this folder.")
@json_option
def check(name: str, cwd: str, as_json: bool) -> int:
    """Try an environment.

    Opens it, runs commands, moves a file, and says what commands can reach there; without NAME the one that is used unasked.
    Nothing of it is kept. Exit 1 when something does not work.
    """
    loaded = settings()
    chosen = choose(loaded, name)
    of_name(chosen.name)
    paint = Paint(sys.stdout, variables_here())
    if not as_json:
        out(paint("bold", chosen.name) + "\n")
        if chosen.remark:
            out(_shown(Step(name="note", status="warn", text=chosen.remark), paint))

    async def work() -> int:
        failed = False
        async for step in attempt(loaded, chosen.name, cwd=cwd):
            out(msgspec.json.encode(step).decode() + "\n" if as_json else _shown(step, paint))
            failed = failed or step.status == "fail"
        return 1 if failed else 0

    return run_async(lambda _: work())


def _shown(step: Step, paint: Paint) -> str:
    return entry(MARKS[step.status], step.name, list(_texts(step)), paint=paint, indent=INDENT)


def _texts(step: Step) -> Iterator[str]:
    lines = step.text.splitlines()
    if len(step.name) > INDENT - 3:  # the mark and a space before it, and one behind
        yield ""
    yield from lines[:MOST]
    if len(lines) > MOST:
        yield f"and {len(lines) - MOST} more (--json shows them)"
    yield from (f"→ {line}" for line in step.fix.splitlines())


@env.command("use")
@click.argument("name", shell_complete=complete_environment)
def use_(name: str) -> int:
    """Make an environment the one that is used unasked.

    It is tried first; one that does not work is refused. `auto` is the sandbox where it works, else this machine itself.
    """
    loaded = settings()
    if name != AUTO:
        of_name(name)

    async def work() -> int:
        for step in await use(loaded, name):
            if step.status == "warn":
                err(f"melete: warning: {visible(step.text)}; {visible(step.fix)}\n")
        now = settings()
        place = f"{choose(now, AUTO).name}, which auto chooses here," if name == AUTO else name
        err(f"commands run in {place} from now on: env.default in {loaded.home.display(loaded.home.config)}\n")
        if now.settings.env.default != name:
            where = now.origin("env.default").where
            err(f"melete: warning: {where} stands before the file, so this has no effect while it is set\n")
        if (chosen := choose(now)).remark:
            err(f"melete: note: {visible(chosen.remark)}\n")
        return 0

    return run_async(lambda _: work())
