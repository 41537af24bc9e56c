"""`melete doctor`: checks with fixes."""

import sys

import click
import msgspec

from melete.app.doctor import Check, checks, worst
from melete.surfaces.cli.options import json_option, profile_here, variables_here
from melete.surfaces.cli.output import out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.table import entry

MARKS = {"ok": ("green", "✓"), "warn": ("yellow", "!"), "fail": ("red", "✗")}
INDENT = 13
"""The column where the text of a check begins."""


@click.command()
@click.option("--online", is_flag=True, help="Also ask the model's server, wherever it is.")
@json_option
def doctor(online: bool, as_json: bool) -> int:
    """Check what a run needs.

    Says how to mend what is wrong; exit 1 when something is.
    """
    paint = Paint(sys.stdout, variables_here())
    found: list[Check] = []
    for check in checks(profile=profile_here(), online=online):
        found.append(check)
        out(msgspec.json.encode(check).decode() + "\n" if as_json else _lines(check, paint))
    return 1 if worst(found) == "fail" else 0


def _lines(check: Check, paint: Paint) -> str:
    fix = check.fix.splitlines()
    texts = [*check.text.splitlines(), *(f"→ {line}" for line in fix[:1]), *(f"  {line.strip()}" for line in fix[1:])]
    return entry(MARKS[check.status], check.name, texts, paint=paint, indent=INDENT)
