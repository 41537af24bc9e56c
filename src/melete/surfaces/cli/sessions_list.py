"""`melete sessions list`: what there is."""

from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct

from melete.app.wire import Melete
from melete.core.delegation import SUBAGENT
from melete.core.plugin import Lazy
from melete.core.session import SessionInfo, Which
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, out
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.tables import session_table
from melete.surfaces.cli.which import Meant, which_options

ALL_OF_THEM = 1_000_000_000
"""More rows than there are: what is asked for beyond is the same."""
KEYS: dict[str, Callable[[SessionInfo], Any]] = {
    "changed": lambda row: row.updated,
    "started": lambda row: row.started,
    "messages": lambda row: row.messages,
    "tokens": lambda row: row.usage.total,
    "cost": lambda row: row.cost_usd or 0.0,
    "size": lambda row: row.size,
}
_forest: Lazy[Any] = Lazy("melete.surfaces.cli.sessions_tree:forest")


class Asked(Struct, frozen=True, kw_only=True):
    """What part of the list is asked for, and in which order."""

    which: Which
    running: bool
    sort: str
    limit: int
    offset: int


@click.command("list")
@which_options
@click.option("--running", is_flag=True, help="Only sessions that run now.")
@click.option("--sort", default="changed", show_default=True, type=click.Choice(tuple(KEYS)), help="What comes first.")
@click.option("-n", "--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Rows at most.")
@click.option("--offset", default=0, type=click.IntRange(min=0), metavar="N", help="Leave out the first N.")
@click.option("--all", "everything", is_flag=True, help="All rows.")
@click.option("--tree", is_flag=True, help="Draw which sessions came from which.")
@json_option
def list_(
    *, running: bool, sort: str, limit: int, offset: int, everything: bool, tree: bool, as_json: bool, **meant: Any
) -> int:
    """List the sessions, the last changed first.

    What children of an agent have done is listed with --tree and with --source subagent.
    """
    loaded = settings()

    async def work(app: Melete) -> int:
        which = Meant(**meant).which(app.clock.now())
        if not (which.sources or tree):  # children stand under their parents
            which = msgspec.structs.replace(which, apart=(SUBAGENT,))
        asked = Asked(
            which=which,
            running=running,
            sort=sort,
            limit=ALL_OF_THEM if everything else limit,
            offset=min(offset, ALL_OF_THEM),
        )
        rows, more = await _rows(app, asked)
        paint = painter(loaded)
        if as_json:
            for row in rows:
                out(app.redact(msgspec.json.encode(row).decode()) + "\n")
        elif not rows:
            err(
                "There are no sessions like that.\n"
                if which not in (Which(), Which(apart=(SUBAGENT,))) or running or offset
                else "There are no sessions yet.\n"
            )
        elif tree:
            out(await _forest.load()(app, rows, paint))
        else:
            shown = sort if sort in ("cost", "tokens", "size") else ""
            out(session_table(rows, paint, now=app.clock.now(), redact=app.redact, also=shown))
        if more and not as_json:
            err(f"There are more: `--offset {offset + len(rows)}` goes on, `--all` lists everything.\n")
        return 0

    return run_with_app(loaded, work)


async def _rows(app: Melete, asked: Asked) -> tuple[Sequence[SessionInfo], bool]:
    """The rows, and whether there are more behind them."""
    if asked.sort == "changed" and not asked.running:  # the order of the tables: only these rows are read
        wanted = min(asked.limit + 1, ALL_OF_THEM)
        rows = await app.store.list(which=asked.which, limit=wanted, offset=asked.offset)
        return rows[: asked.limit], len(rows) > asked.limit
    found = await app.store.list(which=asked.which, limit=ALL_OF_THEM)
    kept = [row for row in found if row.running or not asked.running]
    kept.sort(key=KEYS[asked.sort], reverse=True)
    end = asked.offset + asked.limit
    return kept[asked.offset : end], len(kept) > end
