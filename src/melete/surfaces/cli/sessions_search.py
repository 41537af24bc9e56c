"""`melete sessions search`: what was said."""

import click
import msgspec

from melete.app.wire import Melete
from melete.core.session import Query
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, out
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.table import table


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("-n", "--limit", default=10, show_default=True, type=click.IntRange(min=1), help="Results at most.")
@json_option
def search(query: tuple[str, ...], limit: int, as_json: bool) -> int:
    """Search what was said; any text is a valid query."""
    loaded = settings()

    async def work(app: Melete) -> int:
        hits = await app.store.search(Query(text=" ".join(query), limit=limit))
        if as_json:
            for hit in hits:
                out(app.redact(msgspec.json.encode(hit).decode()) + "\n")
        elif not hits:
            err("Nothing was found.\n")
        else:
            cells = [(hit.session, str(hit.seq), hit.role, app.redact(hit.snippet)) for hit in hits]
            out(table(("SESSION", "SEQ", "ROLE", "TEXT"), cells, painter(loaded), right=("SEQ",)))
        return 0

    return run_with_app(loaded, work)
