"""`melete learn bisect`: which version of a skill broke it, by a check or by looking."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import msgspec

from melete.app.learn_bisect import ANSWERS, BAD, GOOD, SKIP, Broken, bisect
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.skill import Version
from melete.surfaces.cli.learn_history import SHOWN, with_history
from melete.surfaces.cli.one_skill import diff_text, skill_argument
from melete.surfaces.cli.options import json_option, painter
from melete.surfaces.cli.output import err, is_terminal, one_line, out

BY = {"user": "you", "agent": "the agent"}
SKIPPED, NOT_RUN = 125, 126
"""Exit statuses of a check: this version cannot be judged; from here on the check itself went wrong."""


@click.command("bisect")
@skill_argument
@click.option(
    "--check", default="", metavar="CMD", help="Run in the folder of each version: 0 is good, 125 cannot tell."
)
@click.option("--good", default="", metavar="VERSION", help="One that is good; the first without it.")
@click.option("--bad", default="", metavar="VERSION", help="One that is bad; the last without it.")
@json_option
def bisect_(name: str, *, check: str, good: str, bad: str, as_json: bool) -> int:
    """Find the version that broke a skill: each that is tried lies in a throw-away folder; without --check you are asked."""
    if not check and not is_terminal(sys.stdin):
        raise UsageError("nobody can be asked here", next="give a command with --check")

    async def work(app: Melete) -> int:
        found = await bisect(app, name, partial(_judged, check), good=good, bad=bad)
        if as_json:
            out(app.redact(msgspec.json.encode(found).decode()) + "\n")
        else:
            out(app.redact(diff_text(found.diff, painter(app.loaded), owner="user")))
            err(_said(name, found))
        return 0

    return with_history(work)


def _judged(check: str, made: Version, folder: Path, left: int) -> str:
    """What the check, or the person, says of a version."""
    head = f"{made.version[:SHOWN]} of {made.at[:16].replace('T', ' ')} by {BY.get(made.author, made.author)}"
    if not check:
        err(f"{head} lies in {folder} ({left} in question)\n")
        choice = click.Choice(ANSWERS)
        return str(click.prompt("good, bad or skip?", type=choice, show_choices=False, err=True))
    done = subprocess.run(["sh", "-c", check], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True)  # noqa: S603, S607
    if done.returncode < 0 or done.returncode >= NOT_RUN:
        why = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
        raise UsageError(f"the check could not be run: {one_line(why)}", next="mend it, and begin again")
    said = {0: GOOD, SKIPPED: SKIP}.get(done.returncode, BAD)
    err(f"{head}: {said}\n")
    return said


def _said(name: str, found: Broken) -> str:
    by = f"in session {found.bad.session}" if found.bad.session else f"by {BY.get(found.bad.author, found.bad.author)}"
    or_ = (
        f", or one of {', '.join(one.version[:SHOWN] for one in found.left)}, which were skipped" if found.left else ""
    )
    return (
        f"{found.bad.version[:SHOWN]} broke it{or_}: made {by}. Why: melete learn why {found.bad.number}; back before it:"
        f" melete learn revert {name} {found.good.version[:SHOWN]}\n"
    )
