"""`melete sessions prune`: old sessions go, and nothing that was not shown before."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec
from msgspec import Struct

from melete.app.retention import Chosen, Plan, Removed, Rules, caps, carry_out, plan
from melete.app.sizes import FORMS, size_of, size_text
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.moment import FORMS as TIMES
from melete.core.session import SessionInfo
from melete.surfaces.cli.options import json_option, painter, settings
from melete.surfaces.cli.output import err, is_terminal, one_line, out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.running import run_with_app
from melete.surfaces.cli.table import table
from melete.surfaces.cli.tables import ago
from melete.surfaces.cli.which import listed, time_of

SHOWN = 20
"""Rows that a terminal shows without --all."""


class Pruning(Struct, frozen=True, kw_only=True):
    """The options as they were typed."""

    older_than: str = ""
    keep: int | None = None
    max_size: str = ""
    empty: bool = False
    source: tuple[str, ...] = ()
    set_aside: bool = False
    everything: bool = False
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False

    def rules(self, now: datetime) -> Rules:
        """The rule that the options stand for; raises UsageError."""
        return Rules(
            before=time_of("--older-than", self.older_than, now),
            keep=self.keep,
            max_bytes=size_of(self.max_size, where="--max-size") if self.max_size else None,
            empty=self.empty,
            sources=listed(self.source),
        )


class Row(Struct, frozen=True, kw_only=True):
    """A session as JSON shows it, with the reason why it would go or stays."""

    id: str
    title: str
    updated: datetime
    messages: int
    bytes: int
    why: str


@click.command()
@click.option("--older-than", default="", metavar="TIME", help=f"Those that changed last before this: {TIMES}.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="All but the N that changed last.")
@click.option("--max-size", default="", metavar="SIZE", help=f"The oldest, until the rest takes no more: {FORMS}.")
@click.option("--empty", is_flag=True, help="Those without a message.")
@click.option("--source", multiple=True, metavar="NAME", help="Only sessions of this source: cli, import, cron …")
@click.option("--set-aside", is_flag=True, help="Also damaged pieces that were kept, and what belongs to no session.")
@click.option("--all", "everything", is_flag=True, help="List all that would go.")
@click.option("-n", "--dry-run", is_flag=True, help="Only show what would go.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def prune(**asked: Any) -> int:
    """Remove old sessions for good, after showing which.

    A session goes when every option that is given says so. Without any, sessions.keep_days and sessions.max_bytes of the settings
    count, each by itself. Sessions that run, that have messages waiting, and the latest one always stay. A fork has copies of
    everything: what it was forked from may go.
    """
    options, loaded = Pruning(**asked), settings()

    async def work(app: Melete) -> int:
        rule = options.rules(app.clock.now())
        rules = (rule,) if rule.given else caps(loaded, app.clock)
        if not rules and not options.set_aside:
            raise UsageError(
                "nothing says which sessions are to go",
                kept="nothing was removed",
                next="give --older-than, --keep, --max-size or --empty, or set sessions.keep_days or sessions.max_bytes",
            )
        if options.source and not rule.given:
            raise UsageError(
                "--source alone does not say which sessions are to go",
                kept="nothing was removed",
                next="add --older-than, --keep, --max-size or --empty; `--keep 0` means all of them",
            )
        planned = await plan(app, rules, set_aside=options.set_aside)
        if not options.as_json:
            _show(app, planned, options, painter(loaded))
        removed = Removed()
        if not options.dry_run and (planned.choice.gone or planned.set_aside):
            _agree(planned, options)
            removed = await carry_out(app, planned)
        if options.as_json:
            out(app.redact(msgspec.json.encode(_as_json(planned, options, removed)).decode()) + "\n")
        else:
            _tell(removed, options)
        return 0

    return run_with_app(loaded, work)


def _agree(planned: Plan, options: Pruning) -> None:
    """Ask; raises UsageError where nobody can be asked, Abort when the answer is no."""
    if options.yes:
        return
    if not is_terminal(sys.stdin):
        raise UsageError("nobody can be asked here", kept="nothing was removed", next="pass --yes to remove them")
    if not click.confirm(f"Remove {_amount(planned)} for good?", err=True):
        err("Nothing was removed.\n")
        raise click.Abort


def _amount(planned: Plan) -> str:
    return f"{_counted(len(planned.choice.gone), len(planned.set_aside))} ({size_text(planned.size)})"


def _counted(sessions: int, files: int) -> str:
    parts = ((sessions, "session"), (files, "file"))
    return " and ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in parts if count)


def _show(app: Melete, planned: Plan, options: Pruning, paint: Paint) -> None:
    """Say what would go and why, and what stays although it is meant."""
    choice, now = planned.choice, app.clock.now()
    most = SHOWN if paint.terminal and not options.everything else len(choice.gone) + len(planned.set_aside)
    if not choice.gone and not planned.set_aside:
        err("Nothing is to go.\n")
    if choice.gone:
        everything = size_text(sum(held.total for held in planned.held.sessions.values()))
        count = len(choice.gone)
        head = f"{count:,} of {len(planned.held.sessions):,} sessions, {size_text(choice.size)} of {everything}"
        out(f"{head}, would go, the oldest first:\n")
        out(_table(choice.gone[:most], app, paint, now=now))
        _more(count - most)
    if planned.set_aside:
        out("These files would go:\n")
        rows = [(left.path, size_text(left.size), left.what) for left in planned.set_aside[:most]]
        out(table(("PATH", "SIZE", "WHAT IT IS"), rows, paint, right=("SIZE",)))
        _more(len(planned.set_aside) - most)
    for one in choice.kept:
        err(f"{_named(app, one.session)} stays: {one.why}.\n")
    left = [*planned.held.set_aside, *planned.held.orphans]
    if left and not options.set_aside:
        size = size_text(sum(one.size for one in left))
        also = f"{_counted(0, len(left))} set aside or of no session ({size})"
        err(f"There is more: {also}; --set-aside removes that as well.\n")


def _more(count: int) -> None:
    if count > 0:
        out(f"and {count:,} more (--all lists them)\n")


def _table(rows: Sequence[Chosen], app: Melete, paint: Paint, *, now: datetime) -> str:
    cells = [
        (
            one.session.id,
            ago(one.session.updated, now),
            str(one.session.messages),
            size_text(one.size),
            one.why,
            app.redact(one.session.title) or "-",
        )
        for one in rows
    ]
    return table(("ID", "CHANGED", "MSGS", "SIZE", "WHY", "TITLE"), cells, paint, right=("MSGS", "SIZE"))


def _named(app: Melete, row: SessionInfo) -> str:
    title = app.redact(one_line(row.title))
    return f"{row.id} ({title})" if title else row.id


def _tell(removed: Removed, options: Pruning) -> None:
    for one in removed.skipped:
        err(f"{one.session.id} stays: {one.why}.\n")
    if options.dry_run:
        err("Nothing was removed.\n")
    elif removed.sessions or removed.files:
        err(f"Removed {_counted(removed.sessions, removed.files)}, {size_text(removed.size)}.\n")


def _as_json(planned: Plan, options: Pruning, removed: Removed) -> dict[str, Any]:
    return {
        "dry_run": options.dry_run,
        "sessions": [_row(one) for one in planned.choice.gone],
        "kept": [_row(one) for one in planned.choice.kept],
        "set_aside": planned.held.set_aside,
        "orphans": planned.held.orphans,
        "bytes": planned.size,
        "removed": {
            "sessions": removed.sessions,
            "files": removed.files,
            "bytes": removed.size,
            "skipped": [_row(one) for one in removed.skipped],
        },
    }


def _row(one: Chosen) -> Row:
    row = one.session
    return Row(id=row.id, title=row.title, updated=row.updated, messages=row.messages, bytes=one.size, why=one.why)
