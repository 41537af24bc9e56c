"""`melete skills search`: the skills that fit a task, of this home or of the registries."""

from typing import TYPE_CHECKING, Any

import click
import msgspec

from melete.app.skill_hub import hub
from melete.app.skill_shelf import escaped
from melete.app.wire import Melete
from melete.core.errors import MeleteError, UsageError
from melete.surfaces.cli.batch import answer_lines
from melete.surfaces.cli.one_skill import with_skills
from melete.surfaces.cli.options import json_option, painter
from melete.surfaces.cli.output import err, one_line, out
from melete.surfaces.cli.table import table

if TYPE_CHECKING:
    from melete.app.skill_shelf import Keeper


@click.command()
@click.argument("query", nargs=-1)
@click.option("--remote", is_flag=True, help="Search the registries of the settings (skills.registries).")
@click.option("--batch", is_flag=True, help='Answer lines of {"id", "query"} from standard input.')
@click.option("-n", "--limit", default=10, show_default=True, type=click.IntRange(1, 1_000), help="Results at most.")
@json_option
def search(query: tuple[str, ...], remote: bool, batch: bool, limit: int, as_json: bool) -> int:
    """Find skills by what they are about; their texts are searched too.

    Write the task in your own words. With --batch each line is answered by {"id", "hits"}, the names, the best first.
    """
    text = " ".join(query)
    if batch == bool(text.strip()) or (batch and remote):
        why = (
            "with --batch the queries come from standard input, for the skills of here"
            if batch
            else "there is no query"
        )
        raise UsageError(why, next="write: melete skills search WORDS, or send lines to --batch")

    async def work(app: Melete, keeper: "Keeper") -> int:
        if remote:
            return await _remote(app, text, limit, as_json=as_json)
        filled(keeper)
        if batch:

            async def hits(query: str) -> list[Any]:
                return [one.name for one, _ in keeper.rank(query, limit=limit)]

            return await answer_lines(hits)
        found = keeper.rank(text, limit=limit)
        if as_json:
            for skill, score in found:
                row = msgspec.to_builtins(skill) | {"score": round(score, 4)}
                out(app.redact(msgspec.json.encode(row).decode()) + "\n")
        elif not found:
            err("No skill fits; `melete skills search --remote` looks elsewhere.\n")
        else:
            rows = [(one.name, one.category or "-", one.description) for one, _ in found]
            out(app.redact(table(("NAME", "CATEGORY", "WHAT IT IS FOR"), rows, painter(app.loaded))))
        return 0

    return with_skills(work, wrong=MeleteError if remote else UsageError)


def filled(keeper: "Keeper") -> None:
    """Index all texts that are not yet."""
    while keeper.fill():
        pass


async def _remote(app: Melete, text: str, limit: int, *, as_json: bool) -> int:
    if not app.loaded.settings.skills.registries:
        raise UsageError("no registry is set", next="melete config set skills.registries https://…")
    found = await hub(app).search(text, limit=limit)
    if as_json:
        for entry in found:
            out(msgspec.json.encode(msgspec.to_builtins(entry) | {"install": entry.install}).decode() + "\n")
    elif not found:
        err("No skill in the registries fits.\n")
    else:
        rows = [(one.name, escaped(one.version) or "-", escaped(one_line(one.description))) for one in found]
        out(table(("NAME", "VERSION", "WHAT IT IS FOR"), rows, painter(app.loaded)))
        err(f"Install one with: melete skills install {found[0].name}\n")
    return 0
