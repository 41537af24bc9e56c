"""`melete insights`: what was used, what it cost, and what stands out."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from melete.app.insights import DAYS, Insights, report
from melete.app.insights_html import page
from melete.app.insights_json import document
from melete.app.text_file import replacing
from melete.app.wire import Melete
from melete.core.errors import MeleteError, UsageError
from melete.core.plugin import Lazy
from melete.core.session import Which
from melete.surfaces.cli.insights_shown import insights_text
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, out, visible
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.which import Meant, which_options

FARTHEST = 36_500
_picture: Lazy[Callable[[Insights], bytes]] = Lazy("melete.app.insights_png:picture", extra="plot")


@click.command()
@click.option("--days", type=click.IntRange(1, FARTHEST), help=f"The last days, today among them.  [default: {DAYS}]")
@click.option("--all", "everything", is_flag=True, help="Everything there is.")
@which_options
@click.option("--html", default="", metavar="FILE", help="Write a page with charts: one file that needs no network.")
@click.option("--png", default="", metavar="FILE", help='Write a picture; needs `pip install "melete[plot]"`.')
@click.option("--force", is_flag=True, help="Replace files that are there.")
@json_option
def insights(
    *, days: int | None, everything: bool, html: str, png: str, force: bool, as_json: bool, **meant: Any
) -> int:
    """Show tokens, cost, tools, failures and busy hours, and what stands out."""
    if sum((days is not None, everything, bool(meant["since"] or meant["until"]))) > 1:
        raise UsageError("--days, --all and --since with --until each choose a time", next="give one of them")
    for name in (html, png):
        if name and not force and Path(name).is_file():
            raise UsageError(
                f"there is a file {visible(name)}", kept="it was not touched", next="pass --force to replace it"
            )
    draw = _picture.load() if png else None
    loaded = settings()

    async def work(app: Melete) -> int:
        which = Meant(**meant).which(app.clock.now())
        _ordered(which)
        bounded = everything or which.since or which.until
        found = await report(app, which=which, days=None if bounded else days or DAYS)
        if html:
            _write(html, page(found).encode())
        if png and draw:
            _write(png, draw(found))
        if as_json:
            out(msgspec.json.encode(document(found)).decode() + "\n")
        elif not (html or png):
            out(insights_text(found, painter(loaded)))
        return 0

    return run_with_app(loaded, work)


def _ordered(which: Which) -> None:
    if which.since and which.until and which.since >= which.until:
        raise UsageError("--since is not before --until", next="exchange them")


def _write(name: str, data: bytes) -> None:
    """Put a file in its place, whole or not at all; raises MeleteError."""
    try:
        with replacing(Path(name)) as descriptor, os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
    except OSError as error:
        raise MeleteError(
            f"{visible(name)} cannot be written: {error.strerror}", next="give a file in a folder that is yours"
        ) from error
    err(f"{visible(name)} was written.\n")
