"""`melete learn`: what was learned from finished work, why, what it brings, and how to take it back."""

import click

from melete.surfaces.cli.lazy import LazyGroup

COMMANDS = {
    "inbox": "melete.surfaces.cli.learn_inbox:inbox_",
    "show": "melete.surfaces.cli.learn_inbox:show",
    "accept": "melete.surfaces.cli.learn_inbox:accept",
    "reject": "melete.surfaces.cli.learn_inbox:reject",
    "edit": "melete.surfaces.cli.learn_inbox:edit",
    "log": "melete.surfaces.cli.learn_history:log",
    "why": "melete.surfaces.cli.learn_history:why",
    "blame": "melete.surfaces.cli.learn_history:blame_",
    "diff": "melete.surfaces.cli.learn_history:diff",
    "revert": "melete.surfaces.cli.learn_history:revert",
    "undo": "melete.surfaces.cli.learn_undo:undo_",
    "bisect": "melete.surfaces.cli.learn_bisect:bisect_",
    "report": "melete.surfaces.cli.learn_report:report",
    "bench": "melete.surfaces.cli.learn_bench:bench",
    "work": "melete.surfaces.cli.learn_work:work",
    "review": "melete.surfaces.cli.learn_work:review",
}


@click.group(cls=LazyGroup, targets=COMMANDS)
def learn() -> None:
    """What is learned from finished work: each lesson with its evidence, its price, and the way back."""
