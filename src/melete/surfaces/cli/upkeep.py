"""`melete verify` and `melete rebuild`: checking what is stored, and remaking what is derived."""

import click
import msgspec

from melete.app.wire import Melete
from melete.surfaces.cli.options import json_option, settings
from melete.surfaces.cli.output import err, one_line, out
from melete.surfaces.cli.running import run_with_app


@click.command()
@json_option
def verify(as_json: bool) -> int:
    """Check everything that is stored.

    Changes nothing; exit 1 when something is damaged.
    """

    async def work(app: Melete) -> int:
        problems = await app.store.verify()
        for problem in problems:
            kept = f"; {problem.kept}" if problem.kept else ""
            text = f"{'note' if problem.harmless else 'damaged'}: {problem.path}: {problem.what}{kept}"
            out(msgspec.json.encode(problem).decode() + "\n" if as_json else f"{one_line(text)}\n")
        if not problems and not as_json:
            err("Everything that is stored is whole.\n")
        return 1 if any(not problem.harmless for problem in problems) else 0

    return run_with_app(settings(), work)


@click.command()
def rebuild() -> int:
    """Remake tables and search index from the logs."""

    async def work(app: Melete) -> int:
        for line in await app.store.rebuild():
            out(f"{one_line(line)}\n")
        return 0

    return run_with_app(settings(), work)
