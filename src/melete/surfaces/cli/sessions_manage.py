"""`melete sessions rename` and `delete`."""

import sys

import click

from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.session import SessionRef
from melete.surfaces.cli.one_session import with_session
from melete.surfaces.cli.options import settings
from melete.surfaces.cli.output import err, is_terminal, one_line


@click.command()
@click.argument("session")
@click.argument("title", nargs=-1, required=True)
def rename(session: str, title: tuple[str, ...]) -> int:
    """Give a session a title."""

    async def work(app: Melete, ref: SessionRef) -> int:
        await app.store.rename(ref, " ".join(title))
        return 0

    return with_session(settings(), session, work)


@click.command()
@click.argument("session")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def delete(session: str, yes: bool) -> int:
    """Remove a session for good."""

    async def work(app: Melete, ref: SessionRef) -> int:
        info = await app.store.info(ref)
        if not yes:
            if not is_terminal(sys.stdin):
                raise UsageError("nobody can be asked here", kept="nothing was deleted", next="pass --yes to delete")
            title = f" ({one_line(info.title)})" if info.title else ""
            click.confirm(f"Delete session {ref.id}{title} with {info.messages} messages?", abort=True, err=True)
        await app.store.delete(ref)
        err(f"Deleted {ref.id}.\n")
        return 0

    return with_session(settings(), session, work)
