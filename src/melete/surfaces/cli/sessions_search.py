"""`melete sessions search`: what was said."""

from typing import Any, Literal

import click
import msgspec
from msgspec import Struct

from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.session import Hit, Query, Which
from melete.surfaces.cli.batch import answer_lines
from melete.surfaces.cli.completing import complete_session
from melete.surfaces.cli.hits_shown import found_in, hits_text, round_hit
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, out
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.which import Meant, listed, which_options

EACH = 3
ROLES = ("user", "assistant", "tool")


class Asked(Struct, frozen=True, kw_only=True):
    """The command's options as they were typed."""

    limit: int
    sort: Literal["best", "newest", "oldest"]
    each: int | None
    session: str
    role: tuple[str, ...]
    tool: tuple[str, ...]
    source: tuple[str, ...]
    model: tuple[str, ...]
    cwd: str
    since: str
    until: str

    async def query(self, app: Melete, text: str = "") -> Query:
        """The search that they stand for, one of a batch without `text`; raises UsageError, SessionNotFoundError."""
        meant = Meant(source=self.source, model=self.model, cwd=self.cwd, since=self.since, until=self.until)
        which = meant.which(app.clock.now())
        if self.session:
            which = msgspec.structs.replace(which, session=(await app.store.find(self.session)).id)
        return Query(
            text=text,
            which=which,
            roles=self.role,
            tools=listed(self.tool),
            order=self.sort,
            each=(EACH if text else 0) if self.each is None else self.each,
            limit=self.limit,
        )


@click.command()
@click.argument("query", nargs=-1)
@click.option("--role", multiple=True, type=click.Choice(ROLES), help="Only messages of this role.")
@click.option("--tool", multiple=True, metavar="NAME", help="Only calls and results of this tool.")
@which_options
@click.option("--session", default="", metavar="ID", help="Only in this session.", shell_complete=complete_session)
@click.option(
    "--sort",
    default="best",
    show_default=True,
    type=click.Choice(("best", "newest", "oldest")),
    help="What comes first.",
)
@click.option("-n", "--limit", default=10, show_default=True, type=click.IntRange(1, 10_000), help="Results at most.")
@click.option(
    "--each",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Results of one chain of sessions at most, 0 for any: {EACH}, with --batch any.",
)
@click.option("-C", "--context", default=0, type=click.IntRange(0, 50), metavar="N", help="Messages round each result.")
@click.option("--batch", is_flag=True, help='Answer lines of {"id", "query"} from standard input.')
@json_option
def search(query: tuple[str, ...], context: int, batch: bool, as_json: bool, **given: Any) -> int:
    """Search what was said.

    Any text is a valid query. Quotes make a phrase; AND, OR, NOT and -word work; a query that begins with - goes behind --.
    """
    text = " ".join(query)
    if batch == bool(text.strip()):
        why = "with --batch the queries come from standard input" if batch else "there is no query"
        raise UsageError(why, next="write: melete sessions search WORDS, or send lines to --batch")
    loaded = settings()
    asked = msgspec.convert(given, Asked)

    async def work(app: Melete) -> int:
        if batch:
            filters = await asked.query(app)

            async def answer(query: str) -> list[Any]:
                found = await app.store.search(msgspec.structs.replace(filters, text=query))
                return [{"session": hit.name or hit.session, "ref": hit.ref, "message": hit.seq} for hit in found]

            return await answer_lines(answer, redact=app.redact)
        wanted = await asked.query(app, text)
        hits = await app.store.search(wanted)
        if as_json:
            for hit in hits:
                out(app.redact(msgspec.json.encode(await _row(app, hit, context)).decode()) + "\n")
        elif not hits:
            filters = wanted.which != Which() or wanted.roles or wanted.tools
            err(f"Nothing was found{'; look again with fewer filters' if filters else ''}.\n")
        else:
            found = await found_in(app.store, hits, many=context)
            out(hits_text(found, painter(loaded), now=app.clock.now(), redact=app.redact))
            best = found[0].hit.session
            step = f" --step {found[0].step}" if found[0].step else ""
            err(f"melete: go on with: melete sessions show {best}{step}, or: melete run -s {best} PROMPT\n")
        return 0

    return run_with_app(loaded, work)


async def _row(app: Melete, hit: Hit, context: int) -> object:
    """A hit as JSON shows it, with its neighbours where they are wanted."""
    if not context:
        return hit
    before, after = await round_hit(app.store, hit, context)
    return {**msgspec.to_builtins(hit), "before": before, "after": after}
