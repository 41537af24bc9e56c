"""`melete skills list`, `show` and `stats`: what there is, one of them whole, and what was used."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from melete.app.bundled import bundled
from melete.app.skill_shelf import Use, archived, missing, noticed, stats
from melete.app.wire import Melete
from melete.core.skill import Skill
from melete.surfaces.cli.completing import complete_skill
from melete.surfaces.cli.one_skill import shown_text, skill_argument, with_skills
from melete.surfaces.cli.options import json_option, painter
from melete.surfaces.cli.output import err, one_line, out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.table import table
from melete.surfaces.cli.tables import ago

if TYPE_CHECKING:
    from melete.app.skill_shelf import Keeper


@click.command("list")
@click.option("--category", default="", metavar="NAME", help="Only skills of this category, or below it.")
@click.option("--modified", is_flag=True, help="Only those that came with Melete and were edited here.")
@click.option("--problems", is_flag=True, help="What looks like a skill and is not used, and why; what was repaired.")
@click.option("--all", "everything", is_flag=True, help="Also what is archived, and problems.")
@json_option
def list_(category: str, modified: bool, problems: bool, everything: bool, as_json: bool) -> int:
    """List the skills, by category and name."""

    async def work(app: Melete, keeper: "Keeper") -> int:
        rows = [one for one in keeper.all() if not category or _within(one.category, category)]
        if modified:
            edited = set(await asyncio.to_thread(bundled(app.loaded).modified))
            rows = [one for one in rows if one.root == "bundled" and one.name in edited]
        paint = painter(app.loaded)
        wrong = list(_problems(keeper, rows)) if problems or everything else []
        rows = [] if problems else rows
        gone = archived(keeper) if everything else []
        if as_json:
            found = [*rows, *({"path": path, "problem": why} for path, why in wrong)]
            _lines(app, [*found, *({"name": name, "state": "archived"} for name in gone)])
            return 0
        if rows:
            out(app.redact(_table(rows, paint)))
        if gone:
            out(f"\nArchived: {', '.join(gone)}\n")
        if wrong:
            out(("\n" if rows else "") + app.redact(table(("PATH", "PROBLEM"), wrong, paint)))
        if not (rows or gone or wrong):
            err("There are no skills like that.\n" if category or modified else "There is nothing to show.\n")
        return 0

    return with_skills(work)


def _within(category: str, wanted: str) -> bool:
    return f"{category}/".startswith(f"{wanted.strip('/')}/")


def _problems(keeper: "Keeper", rows: Sequence[Skill]) -> Iterator[tuple[str, str]]:
    yield from ((one.path, one.reason) for one in keeper.problems())
    yield from ((one.folder, f"it is used; {why}") for one in rows for why in one.warnings)


def _table(rows: Sequence[Skill], paint: Paint) -> str:
    """The skills, a row each; a terminal shows the first sentence of what each says of itself."""
    about = [one.description.partition(". ")[0] if paint.terminal else one.description for one in rows]
    cells = [(one.name, one.category or "-", whose(one), text) for one, text in zip(rows, about, strict=True)]
    return table(("NAME", "CATEGORY", "WHOSE", "WHAT IT IS FOR"), cells, paint)


def whose(skill: Skill) -> str:
    """Whose a skill is, and what else decides how it is shown."""
    also = [skill.state] if skill.state != "active" else []
    also += ["pinned"] if skill.pinned else []
    return f"{skill.owner} ({', '.join(also)})" if also else skill.owner


@click.command()
@skill_argument
@click.argument("file", default="")
@json_option
def show(name: str, file: str, as_json: bool) -> int:
    """Show a skill as it stands on the disk, or a FILE of it; on a terminal with what is known of it."""

    async def work(app: Melete, keeper: "Keeper") -> int:
        skill = keeper.get(name)
        text = app.redact(keeper.text(skill.name, file))
        if as_json:
            files, version = keeper.files(skill.name), await noticed(keeper, skill.name)
            fields = msgspec.to_builtins(skill) | {"ledger_version": version, "files": files, "text": text}
            _lines(app, [fields])
            return 0
        paint = painter(app.loaded)
        if paint.terminal and not file:
            rows = await _known(app, keeper, skill)
            out(app.redact(table(("", ""), rows, paint)) + "\n")
        shown = shown_text(text, skill.owner)
        out(shown if shown.endswith("\n") else f"{shown}\n")
        return 0

    return with_skills(work)


async def _known(app: Melete, keeper: "Keeper", skill: Skill) -> list[tuple[str, str]]:
    rows = [
        ("skill", skill.name),
        ("whose", f"{whose(skill)}, trust {skill.trust} of 4"),
        ("folder", skill.folder),
        ("version", await noticed(keeper, skill.name)),
        ("files", ", ".join(keeper.files(skill.name))),
        ("tried", skill.tried),
        ("not set", ", ".join(one.name for one in missing(app, skill))),
        ("repaired", "; ".join(skill.warnings)),
    ]
    return [(key, one_line(value)) for key, value in rows if value]


@click.command("stats")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_skill)
@json_option
def stats_(names: tuple[str, ...], as_json: bool) -> int:
    """Show how often skills were loaded, suggested and listed, the most loaded first."""

    async def work(app: Melete, keeper: "Keeper") -> int:
        uses = stats(app, [keeper.get(name).name for name in names])
        if as_json:
            _lines(app, uses)
        elif not uses:
            err("No skill was used yet.\n")
        else:
            head = ("NAME", "LOADED", "SUGGESTED", "LISTED", "TOKENS", "LAST LOADED")
            out(table(head, [_used(app, use) for use in uses], painter(app.loaded), right=head[1:5]))
        return 0

    return with_skills(work)


def _used(app: Melete, use: Use) -> tuple[str, ...]:
    counts = (use.loaded, use.suggested, use.listed, use.tokens)
    return (use.name, *(f"{count:,}" for count in counts), ago(use.last, app.clock.now()) if use.last else "-")


def _lines(app: Melete, rows: Sequence[object]) -> None:
    for row in rows:
        out(app.redact(msgspec.json.encode(row).decode()) + "\n")
