"""`melete skills history`, `diff`, `revert` and `why`: what a skill was, what became of it, on whose word, and back again."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click
import msgspec

from melete.app.bundled import bundled
from melete.app.skill_shelf import escaped, noticed, revert
from melete.app.why import Why, why
from melete.app.wire import Melete
from melete.core.skill import Version
from melete.surfaces.cli.one_skill import diff_text, done, skill_argument, with_skills
from melete.surfaces.cli.options import json_option, painter
from melete.surfaces.cli.output import err, one_line, out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.table import table
from melete.surfaces.cli.tables import ago

if TYPE_CHECKING:
    from melete.app.skill_shelf import Keeper, revert

UNKNOWN = Version(skill="", owner="project")
SHOWN = 10
"""Characters of a version that are shown; any beginning that fits one alone will do."""


@click.command()
@skill_argument
@json_option
def history(name: str, as_json: bool) -> int:
    """List the versions of a skill, the latest first; an edit on the disk becomes one by that."""

    async def work(app: Melete, keeper: "Keeper") -> int:
        versions = await _versions(keeper, name)
        if as_json:
            for one in versions:
                out(app.redact(msgspec.json.encode(one).decode()) + "\n")
        elif not versions:
            err(f"{name} has no history here: its folder is only read, and has one of its own where it is kept.\n")
        else:
            head = ("VERSION", "MADE", "BY", "STATE", "WHY")
            out(app.redact(table(head, [_row(app, one) for one in versions], painter(app.loaded))))
        return 0

    return with_skills(work)


async def _versions(keeper: "Keeper", name: str) -> list[Version]:
    """The versions, the latest first; raises ToolError for a name that never was one."""
    if name in keeper or not keeper.versions.history(name):
        name = keeper.get(name).name
        await noticed(keeper, name)
    return list(reversed(keeper.versions.history(name)))


def _row(app: Melete, one: Version) -> tuple[str, ...]:
    made = ago(datetime.fromisoformat(one.at), app.clock.now()) if one.at else "-"
    said = one.reason or (f"in session {one.session}" if one.session else "-")
    return one.version[:SHOWN], made, one.author, one.state, said


@click.command()
@skill_argument
@click.argument("old", default="")
@click.argument("new", default="")
@click.option("--packaged", is_flag=True, help="Compare with the skill as it comes with Melete.")
def diff(name: str, old: str, new: str, packaged: bool) -> int:
    """Show what the last change of a skill changed, or what changed from the version OLD on, up to NEW."""

    async def work(app: Melete, keeper: "Keeper") -> int:
        owner = (await _versions(keeper, name) or [UNKNOWN])[0].owner
        shown = bundled(app.loaded).diff(name) if packaged else keeper.versions.diff(name, old=old, new=new)
        out(app.redact(diff_text(shown, painter(app.loaded), owner=owner)))
        if not shown:
            err("Nothing differs.\n")
        return 0

    return with_skills(work)


@click.command("revert")
@skill_argument
@click.argument("version", default="")
@click.option("-m", "--reason", default="", metavar="TEXT", help="Why, for the history.")
def revert_(name: str, version: str, reason: str) -> int:
    """Make a skill what it was before the last change, or in VERSION; what it is now stays in its history."""

    async def work(app: Melete, keeper: "Keeper") -> int:
        applied = await revert(keeper, name, version=version, reason=reason)
        owner = keeper.get(name).owner if name in keeper else UNKNOWN.owner
        out(app.redact(diff_text(applied.diff, painter(app.loaded), owner=owner)))
        return done(applied, f"{name} is as it was in {applied.version[:SHOWN]}.")

    return with_skills(work)


@click.command("why")
@skill_argument
@click.argument("version", default="")
@json_option
def why_(name: str, version: str, as_json: bool) -> int:
    """Show where a skill's last change came from, or that of VERSION: the request, the work behind it, the edit, its use since."""

    async def work(app: Melete, keeper: "Keeper") -> int:
        await _versions(keeper, name)
        found = await why(app, name, version=version)
        if as_json:
            out(app.redact(msgspec.json.encode(found).decode()) + "\n")
        else:
            paint = painter(app.loaded)
            out(
                app.redact(
                    "".join(_told(found, paint)) + "\n" + diff_text(found.diff, paint, owner=found.version.owner)
                )
            )
        return 0

    return with_skills(work)


def _told(found: Why, paint: Paint) -> Iterator[str]:
    made = found.version
    by = f"{made.author}, with {made.model}" if made.model else made.author
    rows = [
        ("version", f"{made.version[:SHOWN]}, made {made.at[:19].replace('T', ' ')} by {by}"),
        ("state", f"{made.state}, trust {made.trust} of 4, owner {made.owner}"),
        ("because", made.reason),
        ("session", made.session),
        ("had read", {"web": "text from the web", "import": "imported text"}.get(made.taint, "")),
        ("asked", one_line(found.asked)),
        ("loaded", f"{found.uses} times since"),
    ]
    yield table(("", ""), [(key, escaped(value)) for key, value in rows if value], paint)
    if found.evidence:
        left = f" (the last of {found.left_out + len(found.evidence)})" if found.left_out else ""
        yield f"\nWhat the work brought to light{left}:\n"
    for one in found.evidence:
        mark = paint("red", "✗") if one.failed else paint("green", "✓")
        yield f"  {mark} {one.seq} {paint('bold', one.tool)} {escaped(paint.fit(one_line(one.text), taken=16 + len(one.tool)))}\n"
