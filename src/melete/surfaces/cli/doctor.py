"""`melete doctor`: checks with fixes."""

import sys

import click
import msgspec

from melete.app.doctor import Check, checks, worst
from melete.surfaces.cli.options import json_option, profile_here, variables_here
from melete.surfaces.cli.output import one_line, out
from melete.surfaces.cli.paint import Paint, columns

MARKS = {"ok": ("green", "✓"), "warn": ("yellow", "!"), "fail": ("red", "✗")}
NAME = 10


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
    style, mark = MARKS[check.status]
    name = f"{check.name:<{NAME}}"
    text = f"{paint(style, mark)} {paint('bold', name)} {_wrapped(check.text, paint)}\n"
    if check.fix:
        text += f"  {'':<{NAME}} {_wrapped(f'→ {check.fix}', paint)}\n"
    return text


def _wrapped(text: str, paint: Paint) -> str:
    """The text on as many lines as it needs, indented below its beginning."""
    indent = NAME + 3
    room = max(paint.width - indent, NAME)
    lines: list[str] = []
    for given in text.splitlines():
        lines.append("")
        for word in one_line(given).split():
            if lines[-1] and columns(lines[-1]) + 1 + columns(word) > room:
                lines.append("")
            lines[-1] = f"{lines[-1]} {word}".strip()
    return f"\n{' ' * indent}".join(lines)
