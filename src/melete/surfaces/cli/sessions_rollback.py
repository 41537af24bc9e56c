"""`melete sessions rollback`: files as they were before a turn."""

import sys

import click
import msgspec

from melete.app.checkpoints import checkpoints_for, pick
from melete.app.wire import Melete
from melete.core.environment import Checkpoint, Checkpoints
from melete.core.errors import UsageError
from melete.core.session import SessionRef
from melete.surfaces.cli.one_session import session_argument, with_session
from melete.surfaces.cli.options import json_option, settings, variables_here
from melete.surfaces.cli.output import err, is_terminal, one_line, out
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.rollback_shown import checkpoint_table, restored_text


@click.command()
@session_argument
@click.argument("number", metavar="[N]", type=click.IntRange(min=1), default=1)
@click.option("--list", "listed", is_flag=True, help="List what can be rolled back to.")
@click.option("--diff", "compared", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--force", is_flag=True, help="Also files that somebody else changed since.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def rollback(*, session: str, number: int, listed: bool, compared: bool, force: bool, yes: bool, as_json: bool) -> int:
    """Put the files back as they were before the last turn of SESSION that changed any, or the last N.

    What you changed yourself since stays as it is. The state of now is kept first: another rollback undoes this one.
    """

    async def work(app: Melete, ref: SessionRef) -> int:
        checkpoints = await checkpoints_for(app, ref)
        if listed:
            rows = await checkpoints.list(session=ref.id)
            paint = Paint(sys.stdout, variables_here())
            shown = checkpoint_table(rows, paint, now=app.clock.now(), redact=app.redact)
            out(msgspec.json.encode(rows).decode() + "\n" if as_json else shown)
            return 0
        chosen = await pick(checkpoints, ref.id, number=number)
        if compared:
            out(app.redact(await checkpoints.diff(chosen.id)) or "Nothing would change.\n")
            return 0
        if not yes:
            await _ask(app, checkpoints, chosen)
        done = await checkpoints.restore(chosen.id, force=force)
        out(msgspec.json.encode(done).decode() + "\n" if as_json else restored_text(done))
        return 1 if done.failed else 0

    return with_session(settings(), session, work)


async def _ask(app: Melete, checkpoints: Checkpoints, chosen: Checkpoint) -> None:
    if not is_terminal(sys.stdin):
        raise UsageError(
            "nobody can be asked here", kept="nothing was changed", next="pass --yes, or look first with --diff"
        )
    diff = await checkpoints.diff(chosen.id)
    files = sum(line.startswith("diff --git ") for line in diff.splitlines())
    said = one_line(app.redact(chosen.label)) or "(no text)"
    if not click.confirm(f"Put {files} files back as they were before “{said}”?", err=True):
        err("Nothing was changed.\n")
        raise click.Abort
