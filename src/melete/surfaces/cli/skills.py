"""`melete skills`: what the agent knows how to do: found, read, changed, taken back, and got from elsewhere."""

import click

from melete.surfaces.cli.lazy import LazyGroup

COMMANDS = {
    "list": "melete.surfaces.cli.skills_list:list_",
    "show": "melete.surfaces.cli.skills_list:show",
    "search": "melete.surfaces.cli.skills_search:search",
    "new": "melete.surfaces.cli.skills_new:new",
    "edit": "melete.surfaces.cli.skills_keep:edit",
    "scan": "melete.surfaces.cli.skills_keep:scan",
    "history": "melete.surfaces.cli.skills_history:history",
    "diff": "melete.surfaces.cli.skills_history:diff",
    "revert": "melete.surfaces.cli.skills_history:revert_",
    "why": "melete.surfaces.cli.skills_history:why_",
    "stats": "melete.surfaces.cli.skills_list:stats_",
    "pin": "melete.surfaces.cli.skills_keep:pin_",
    "unpin": "melete.surfaces.cli.skills_keep:unpin",
    "archive": "melete.surfaces.cli.skills_keep:archive_",
    "restore": "melete.surfaces.cli.skills_keep:restore_",
    "setup": "melete.surfaces.cli.skills_keep:setup",
    "install": "melete.surfaces.cli.skills_hub:install",
    "update": "melete.surfaces.cli.skills_hub:update",
    "uninstall": "melete.surfaces.cli.skills_hub:uninstall",
    "sync": "melete.surfaces.cli.skills_hub:sync",
    "reset": "melete.surfaces.cli.skills_hub:reset",
}


@click.group(cls=LazyGroup, targets=COMMANDS)
def skills() -> None:
    """What the agent knows how to do, and where that came from."""
