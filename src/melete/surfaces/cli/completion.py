"""`melete completion`: the script that lets a shell complete commands and options."""

import click
from click.shell_completion import get_completion_class

from melete.core.errors import UsageError
from melete.surfaces.cli.output import out

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_MELETE_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print a shell's completion script."""
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"no completion is known for {shell}", next=f"use one of {', '.join(SHELLS)}")
    out(kind(ctx.find_root().command, {}, "melete", VARIABLE).source() + "\n")
    return 0
