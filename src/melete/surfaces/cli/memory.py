"""`melete memory`: what is remembered, where it came from, and every way to put it right."""

import click

from melete.surfaces.cli.lazy import LazyGroup

COMMANDS = {
    "show": "melete.surfaces.cli.memory_show:show",
    "add": "melete.surfaces.cli.memory_keep:add",
    "edit": "melete.surfaces.cli.memory_keep:edit",
    "history": "melete.surfaces.cli.memory_show:history",
    "revert": "melete.surfaces.cli.memory_keep:revert",
    "forget": "melete.surfaces.cli.memory_keep:forget",
    "accept": "melete.surfaces.cli.memory_keep:accept",
    "reject": "melete.surfaces.cli.memory_keep:reject",
}


@click.group(cls=LazyGroup, targets=COMMANDS)
def memory() -> None:
    """What is remembered from one session to the next, and where it came from."""
