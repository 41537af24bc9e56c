"""`melete context`: what the next request costs, part by part, and what caching made of the ones before."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec
from msgspec import structs

from melete.app.context_report import Caching, Cost, caching, report
from melete.app.service import open_conversation
from melete.app.settings import Loaded
from melete.surfaces.cli.cached import cache_text
from melete.surfaces.cli.options import Asked, json_option, painter, request_options, settings
from melete.surfaces.cli.output import err, out
from melete.surfaces.cli.running import opened, run_async
from melete.surfaces.cli.tables import context_table


@click.command()
@json_option
@request_options
def context(as_json: bool, **given: Any) -> int:
    """Show what the next request costs.

    Part by part, in bytes and in tokens, which are taken as bytes / 4. Without -s or -c: the first request of a new
    session. Of a session: also how much of each request came from the provider's cache, and what broke it. Nothing is
    sent and nothing is stored.
    """
    asked = Asked(**given)
    loaded = settings(asked)
    if not loaded.settings.model.name:  # the size of a request does not depend on who would answer it
        loaded = settings(structs.replace(asked, model="none", base_url="http://127.0.0.1"))
    return run_async(lambda _: _show(loaded, asked, as_json=as_json))


async def _show(loaded: Loaded, asked: Asked, *, as_json: bool) -> int:
    new = not (asked.session or asked.latest)
    async with (
        opened(loaded, ephemeral=new) as app,
        open_conversation(app, asked.options(attended=False)) as conversation,
    ):
        rows, cache = await report(conversation), await caching(conversation)
        window, redact = conversation.model.can.context, app.redact
    if as_json:
        for line in _lines(rows, cache):
            out(redact(msgspec.json.encode(line).decode()) + "\n")
        return 0
    paint = painter(loaded)
    out(context_table(rows, paint))
    out(redact(cache_text(cache, paint)))
    total = sum(row.tokens for row in rows)
    err(f"Tokens are bytes / 4. {total:,} of {window:,} fill {total / window:.1%} of the model's window.\n")
    return 0


def _lines(rows: Sequence[Cost], cache: Caching) -> Iterator[dict[str, Any]]:
    """The rows of `--json`."""
    for row in rows:
        yield {"group": row.group, "part": row.part, "bytes": row.bytes, "tokens": row.tokens}
    for request in cache.requests:
        yield {
            "group": "cache",
            "request": request.number,
            "seq": request.seq,
            "prompt": request.prompt,
            "cached": request.usage.cache_read,
            "written": request.usage.cache_write,
            "share": round(request.share, 4),
            "model": request.model,
            "provider": request.provider,
            "broken_by": request.broken.why if request.broken else None,
        }
