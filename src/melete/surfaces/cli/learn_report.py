"""`melete learn report`: what learning has cost and brought, with how many cases each figure is from."""

import os
from pathlib import Path

import click
import msgspec

from melete.app.learn_report import document, gather
from melete.app.learn_report_html import page
from melete.app.text_file import replacing
from melete.app.wire import Melete
from melete.core.errors import MeleteError, UsageError
from melete.surfaces.cli.learn_report_shown import report_text
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, out, visible
from melete.surfaces.cli.running import run_with_app


@click.command("report")
@click.option("--html", default="", metavar="FILE", help="Write a page with charts: one file that needs no network.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@json_option
def report(*, html: str, force: bool, as_json: bool) -> int:
    """Show what is owed, what reviews cost, what became of each proposal, and what each lesson brings."""
    if html and not force and Path(html).is_file():
        raise UsageError(
            f"there is a file {visible(html)}", kept="it was not touched", next="pass --force to replace it"
        )
    loaded = settings()

    async def work(app: Melete) -> int:
        found = await gather(app)
        if html:
            _write(html, app.redact(page(found)).encode())
        if as_json:
            out(app.redact(msgspec.json.encode(document(found)).decode()) + "\n")
        elif not html:
            out(app.redact(report_text(found, painter(loaded))))
        return 0

    return run_with_app(loaded, work)


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
