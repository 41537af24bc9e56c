"""`melete logs`: the program's own log files, what is in them and what comes."""

import asyncio
import sys
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

import click
import msgspec

from melete.app.log_reader import LogEntry, LogReader, Wanted, of_session, read_logs, redaction
from melete.core.moment import FORMS
from melete.surfaces.cli.options import home_here, json_option, profile_here, variables_here
from melete.surfaces.cli.output import err, out, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.running import run_async
from melete.surfaces.cli.which import time_of

STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}
LOOK = 0.2
"""Seconds between two looks for new records."""
LONGEST = 20_000
"""Characters of one record that a terminal is shown."""


@click.command()
@click.option("-l", "--level", default="info", show_default=True, help="Records of this level and above.")
@click.option("-s", "--session", default="", metavar="ID", help="Records of this session (id or title).")
@click.option("--since", default="", metavar="TIME", help=f"Records from this time on: {FORMS}.")
@click.option("--until", default="", metavar="TIME", help="Records before this time.")
@click.option("--logger", default="", metavar="NAME", help="Records of this part of the program, such as melete.agent.")
@click.option("-g", "--grep", default="", metavar="TEXT", help="Records with this text, in capitals or not.")
@click.option(
    "--file", type=click.Choice(("agent", "errors")), help="The file to read: everything, or what went wrong."
)
@click.option("-n", "--limit", default=100, show_default=True, type=click.IntRange(min=0), help="Records at most.")
@click.option("-f", "--follow", is_flag=True, help="Go on with new records as they come, until Ctrl-C.")
@json_option
def logs(
    *,
    level: str,
    session: str,
    since: str,
    until: str,
    logger: str,
    grep: str,
    file: Literal["agent", "errors"] | None,
    limit: int,
    follow: bool,
    as_json: bool,
) -> int:
    """Show the program's own notes and failures."""
    home = home_here()
    now = datetime.now(UTC)
    wanted = Wanted(
        level=level,
        session=session,
        since=time_of("--since", since, now),
        until=time_of("--until", until, now),
        logger=logger,
        text=grep,
        file=file or "",
    )
    shown = _Shown(Paint(sys.stdout, variables_here()), as_json=as_json)
    redact = redaction(profile_here())

    async def work() -> int:
        one = await of_session(home, wanted)
        if follow:
            with LogReader(home, one, redact=redact) as reader:
                shown.show(deque(reader.read(), maxlen=limit))
                while True:
                    await asyncio.sleep(LOOK)
                    shown.show(reader.read(whole=False))
        found = read_logs(home, one, limit=limit, redact=redact)
        shown.show(found)
        if not found and not as_json:
            err(f"There are no such records in {home.display(home.logs)}.\n")
        return 0

    return run_async(lambda _: work())


class _Shown:
    """Writes records as lines for people or as JSON."""

    def __init__(self, paint: Paint, *, as_json: bool) -> None:
        self._paint = paint
        self._as_json = as_json

    def show(self, entries: Iterable[LogEntry]) -> None:
        """Write them, each at once."""
        for entry in entries:
            out(msgspec.json.encode(entry).decode() + "\n" if self._as_json else self._line(entry))

    def _line(self, entry: LogEntry) -> str:
        paint = self._paint
        at = entry.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        head, *more = visible(self._bounded(entry.text)).split("\n")
        level = paint(STYLES.get(entry.level, "dim"), f"{entry.level:<7}")
        session = f" [{visible(entry.session)}]" if entry.session else ""
        first = f"{paint('dim', at)} {level} {paint('cyan', visible(entry.logger))}{session} {head}"
        return "\n".join((first, *(f"    {line}" for line in more))) + "\n"

    def _bounded(self, text: str) -> str:
        """The text, on a terminal no longer than a person would read."""
        if not self._paint.terminal or len(text) <= LONGEST:
            return text
        return f"{text[:LONGEST]}… ({len(text) - LONGEST:,} more characters; --json shows all)"
