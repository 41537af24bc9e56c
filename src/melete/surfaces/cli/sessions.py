"""`melete sessions`: the past, and what runs now."""

import click

from melete.surfaces.cli.lazy import LazyGroup

COMMANDS = {
    "list": "melete.surfaces.cli.sessions_list:list_",
    "show": "melete.surfaces.cli.sessions_show:show",
    "search": "melete.surfaces.cli.sessions_search:search",
    "steer": "melete.surfaces.cli.sessions_live:steer",
    "answer": "melete.surfaces.cli.sessions_live:answer",
    "cancel": "melete.surfaces.cli.sessions_live:cancel",
    "rename": "melete.surfaces.cli.sessions_manage:rename",
    "export": "melete.surfaces.cli.sessions_export:export",
    "import": "melete.surfaces.cli.sessions_import:import_",
    "fork": "melete.surfaces.cli.sessions_fork:fork",
    "replay": "melete.surfaces.cli.sessions_replay:replay",
    "rollback": "melete.surfaces.cli.sessions_rollback:rollback",
    "delete": "melete.surfaces.cli.sessions_manage:delete",
    "prune": "melete.surfaces.cli.sessions_prune:prune",
    "stats": "melete.surfaces.cli.sessions_stats:stats",
}


@click.group(cls=LazyGroup, targets=COMMANDS)
def sessions() -> None:
    """The past, and what runs now."""
