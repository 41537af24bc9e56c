"""`melete sessions list`: what there is."""

import click
import msgspec

from melete.app.wire import Melete
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, out
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.tables import session_table


@click.command("list")
@click.option("-n", "--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Rows at most.")
@json_option
def list_(limit: int, as_json: bool) -> int:
    """List the sessions, the last changed first."""
    loaded = settings()

    async def work(app: Melete) -> int:
        rows = await app.store.list(limit=limit)
        if as_json:
            for row in rows:
                out(app.redact(msgspec.json.encode(row).decode()) + "\n")
        elif not rows:
            err("There are no sessions yet.\n")
        else:
            out(session_table(rows, painter(loaded), now=app.clock.now(), redact=app.redact))
        return 0

    return run_with_app(loaded, work)
