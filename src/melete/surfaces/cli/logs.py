"""`melete logs`: the program's own log files."""

import sys
from datetime import UTC, datetime

import click
import msgspec

from melete.app.logs import LogEntry, moment, read_logs
from melete.surfaces.cli.options import home_here, json_option, variables_here
from melete.surfaces.cli.output import err, out, visible
from melete.surfaces.cli.paint import Paint

STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


@click.command()
@click.option("-l", "--level", default="info", show_default=True, help="Records of this level and above.")
@click.option("-s", "--session", default="", metavar="ID", help="Records of this session.")
@click.option("--since", metavar="TIME", help="Records from this time on: 15m, 2h, 3d, or an ISO time.")
@click.option("-n", "--limit", default=100, show_default=True, type=click.IntRange(min=1), help="Records at most.")
@json_option
def logs(level: str, session: str, since: str | None, limit: int, as_json: bool) -> int:
    """Show the program's own notes and failures."""
    home = home_here()
    start = moment(since, now=datetime.now(UTC)) if since else None
    entries = read_logs(home, level=level, session=session, since=start, limit=limit)
    paint = Paint(sys.stdout, variables_here())
    for entry in entries:
        out(msgspec.json.encode(entry).decode() + "\n" if as_json else _line(entry, paint))
    if not entries and not as_json:
        err(f"There are no such records in {home.display(home.logs)}.\n")
    return 0


def _line(entry: LogEntry, paint: Paint) -> str:
    at = entry.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    head, *more = visible(entry.text).split("\n")
    level = paint(STYLES.get(entry.level, "dim"), f"{entry.level:<7}")
    session = f" [{entry.session}]" if entry.session else ""
    return "\n".join((f"{at} {level} {entry.logger}{session} {head}", *(f"    {line}" for line in more))) + "\n"
