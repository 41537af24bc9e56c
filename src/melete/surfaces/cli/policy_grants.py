"""`melete policy grants` and `melete policy revoke`: what was approved for good."""

import click
import msgspec

from melete.app.clock import SystemClock
from melete.app.grants import GrantFile
from melete.core.errors import UsageError
from melete.surfaces.cli.completing import SHORT, complete_grant
from melete.surfaces.cli.options import json_option, settings
from melete.surfaces.cli.output import err, one_line, out, visible


@click.command()
@json_option
def grants(as_json: bool) -> int:
    """List what was approved for good, the oldest first."""
    found = GrantFile(settings().home.grants, clock=SystemClock()).read()
    for grant in found:
        if as_json:
            out(msgspec.json.encode(grant).decode() + "\n")
            continue
        who = f", by {one_line(grant.who)}" if grant.who else ""
        out(f"{grant.digest[:SHORT]}  {one_line(grant.tool)} ({one_line(grant.rule)}), {one_line(grant.at)}{who}\n")
        out("".join(f"    {line}\n" for line in visible(grant.shown).splitlines()))
    if not found and not as_json:
        err("Nothing was approved for good.\n")
    return 0


@click.command()
@click.argument("digest", default="", shell_complete=complete_grant)
@click.option("--all", "everything", is_flag=True, help="Take back all of them.")
def revoke(digest: str, everything: bool) -> int:
    """Take back what was approved for good: it is asked about again, by runs that go on now as well."""
    if bool(digest) == everything:
        raise UsageError(
            "say which approval to take back", next="name its digest from `melete policy grants`, or --all"
        )
    file = GrantFile(settings().home.grants, clock=SystemClock())
    fitting = [grant for grant in file.read() if grant.digest.startswith(digest)]
    if digest and len(fitting) != 1:
        what = f"{len(fitting)} approvals begin" if fitting else "no approval begins"
        raise UsageError(f"{what} with {digest}", kept="nothing was changed", next="see `melete policy grants`")
    gone = file.revoke(digest)
    err(f"Took back {len(gone)} approval{'' if len(gone) == 1 else 's'}.\n")
    return 0
