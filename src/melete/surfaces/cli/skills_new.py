"""`melete skills new` and /learn: a skill that you write, or one that a model drafts and you read before it is kept."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from melete.app.figures import money
from melete.app.skill_draft import Draft, draft, keep, material
from melete.app.skill_shelf import escaped, write
from melete.app.wire import Melete
from melete.core.errors import MeleteError, UsageError
from melete.surfaces.cli.one_skill import VERDICTS, agree, done, with_skills
from melete.surfaces.cli.options import painter
from melete.surfaces.cli.output import err, is_terminal, one_line, out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.skills_keep import edited, warn

if TYPE_CHECKING:
    from melete.app.skill_shelf import Keeper

BLANK = """---
name: {name}
description: "What it does, and when to use it."
---

# {title}

## Steps

1. The first command:

   ```bash
   ```

## Pitfalls

- What misleads, and how it shows.

## Check

The command whose output shows that it worked.
"""


@click.command()
@click.argument("name", default="")
@click.option("--from", "source", default="", metavar="SESSION|DIR|URL", help="Let a model draft it from this.")
@click.option("--about", default="", metavar="TEXT", help="With --from: what it is to be about.")
@click.option("--file", "path", default="", metavar="FILE", help="Take its SKILL.md from a file, - for standard input.")
@click.option("--category", default="", metavar="NAME", help="The category to keep it in.")
@click.option("-n", "--dry-run", is_flag=True, help="Only show the draft.")
@click.option("-y", "--yes", is_flag=True, help="Keep the draft without asking.")
def new(*, name: str, source: str, about: str, path: str, category: str, dry_run: bool, yes: bool) -> int:
    """Make a skill: in your editor, from a file, or drafted by a model.

    A draft is written by the model of auxiliary.review, checked and scanned, shown, and kept only after your yes.
    """
    if source and path:
        raise UsageError("--from and --file both say where it comes from", next="give one of them")
    if not (source or name):
        raise UsageError(
            "the skill has no name", next="write: melete skills new NAME, or: melete skills new --from SOURCE"
        )
    if source and not (dry_run or yes or is_terminal(sys.stdin)):
        raise UsageError(
            "nobody can be asked here", kept="no model was asked", next="pass --yes, or --dry-run to see it"
        )

    async def work(app: Melete, keeper: "Keeper") -> int:
        if source:
            return await _draft(app, source, about=about, name=name, category=category, how=(dry_run, yes))
        if name in keeper:
            raise UsageError(f"there is a skill {name} already", next=f"change it with: melete skills edit {name}")
        blank = BLANK.format(name=name, title=name.replace("-", " ").capitalize())
        text = _read(path) if path else edited(app, blank)
        if text is None:
            err("Nothing was kept.\n")
            return 0
        status = done(await write(keeper, name, text, category=category), f"{name} is kept.")
        await warn(keeper, name)
        return status

    return with_skills(work)


def _read(path: str) -> str:
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{path} cannot be read: {why}", kept="nothing was kept") from error


async def _draft(app: Melete, source: str, *, about: str, name: str, category: str, how: tuple[bool, bool]) -> int:
    dry_run, yes = how
    made = await draft(app, await material(app, source), about=about, name=name)
    paint = painter(app.loaded)
    out(escaped(app.redact(made.text)))
    err("\n" + told(made, paint))
    if dry_run:
        return 0
    if made.complaint:
        raise MeleteError(f"the draft cannot be kept: {made.complaint}", kept="nothing was kept", next="try once more")
    agree(f"Keep it as {made.name}?", yes=yes, otherwise="nothing was kept")
    return done(await keep(app, made, category=category), f"{made.name} is kept, on trial.")


def told(made: Draft, paint: Paint) -> str:
    """What the checks say of a draft, and what it took."""
    price = "price unknown" if made.usd is None else money(made.usd)
    form = paint("red", made.complaint) if made.complaint else paint("green", "may be kept")
    rows = (f"scan {paint(VERDICTS[made.verdict], made.verdict)}", form)
    cost = f"{made.model}, {made.usage.total:,} tokens, {price}"
    return f"{'; '.join(rows)}\n{paint('dim', one_line(cost))}\n"
