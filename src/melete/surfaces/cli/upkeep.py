"""`melete verify` and `melete rebuild`: checking what is stored, and remaking what is derived."""

import sys
import time

import click
import msgspec

from melete.app.wire import Melete
from melete.surfaces.cli.options import json_option, settings
from melete.surfaces.cli.output import err, one_line, out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.running import run_with_app

REDRAW_SECONDS = 0.1


@click.command()
@click.option("--deep", is_flag=True, help="Also compare the messages in the tables with those in the logs.")
@json_option
def verify(deep: bool, as_json: bool) -> int:
    """Check everything that is stored.

    Changes nothing; exit 1 when something is damaged.
    """

    async def work(app: Melete) -> int:
        problems = await app.store.verify(deep=deep)
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
    """Remake tables and search index from the logs.

    The old ones answer until the new ones are whole.
    """
    loaded = settings()
    paint = Paint(sys.stderr, loaded.variables)

    async def work(app: Melete) -> int:
        shown = Counted(paint, "logs read")
        try:
            done = await app.store.rebuild(on_progress=shown if paint.redraws else None)
        finally:
            shown.clear()
        for line in done:
            out(f"{one_line(line)}\n")
        return 0

    return run_with_app(loaded, work)


class Counted:
    """One line on a terminal that counts up, written anew a few times a second at most."""

    def __init__(self, paint: Paint, what: str) -> None:
        self._paint = paint
        self._what = what
        self._next = 0.0
        self._open = False

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + REDRAW_SECONDS
            self._open = True
            err(f"\r{self._paint('dim', f'{done:,} of {total:,} {self._what}')}\x1b[K")

    def clear(self) -> None:
        """Take the line back."""
        if self._open:
            err("\r\x1b[K")
