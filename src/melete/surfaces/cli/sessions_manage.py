"""`melete sessions rename` and `delete`."""

import sys
from collections.abc import Sequence

import click

from melete.app.descent import delete_session
from melete.app.figures import plural
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.session import SessionInfo, SessionRef
from melete.surfaces.cli.completing import complete_session
from melete.surfaces.cli.one_session import session_argument, title_of, with_session
from melete.surfaces.cli.options import settings
from melete.surfaces.cli.output import err, is_terminal, one_line
from melete.surfaces.cli.running import run_with_app

SHOWN = 10
"""Sessions that a question names one by one."""


@click.command()
@session_argument
@click.argument("title", nargs=-1, required=True)
def rename(session: str, title: tuple[str, ...]) -> int:
    """Give a session a title; it can be named by it from then on."""
    wanted = title_of(" ".join(title))

    async def work(app: Melete, ref: SessionRef) -> int:
        await app.store.rename(ref, wanted)
        err(f"Renamed {ref.id}.\n")
        return 0

    return with_session(settings(), session, work)


@click.command()
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, shell_complete=complete_session)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def delete(sessions: tuple[str, ...], yes: bool) -> int:
    """Remove sessions for good, those of their children included."""

    async def work(app: Melete) -> int:
        refs = {ref.id: ref for name in sessions for ref in (await app.store.find(name),)}
        rows = [await app.store.info(ref) for ref in refs.values()]
        if not yes:
            if not is_terminal(sys.stdin):
                raise UsageError("nobody can be asked here", kept="nothing was deleted", next="pass --yes to delete")
            if not click.confirm(app.redact(_question(rows)), err=True):
                err("Nothing was deleted.\n")
                raise click.Abort
        gone: set[str] = set()
        for ref in refs.values():
            if ref.id in gone:
                continue  # a child of one before it
            children = await delete_session(app, ref)
            gone |= {*children}
            with_them = (
                f" and {len(children)} {plural(len(children), 'child', many='children')} of it" if children else ""
            )
            err(f"Deleted {ref.id}{with_them}.\n")
        return 0

    return run_with_app(settings(), work)


def _question(rows: Sequence[SessionInfo]) -> str:
    if len(rows) == 1:
        return f"Delete session {_shown(rows[0])}?"
    listed = "".join(f"  {_shown(row)}\n" for row in rows[:SHOWN])
    more = f"  and {len(rows) - SHOWN} more\n" if len(rows) > SHOWN else ""
    return f"{listed}{more}Delete these {len(rows)} sessions?"


def _shown(row: SessionInfo) -> str:
    title = f" ({one_line(row.title)})" if row.title else ""
    return f"{row.id}{title} with {row.messages} messages"
