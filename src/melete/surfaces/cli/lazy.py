"""A group of commands that imports the module of each when it is used."""

from collections.abc import Mapping
from typing import Any

import click

from melete.core.plugin import Lazy


class LazyGroup(click.Group):
    """Commands by name, each `module:attr`, in the order in which people meet them."""

    def __init__(self, *args: Any, targets: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.targets = targets

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands in the order in which people meet them."""
        return list(self.targets)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The command, imported now."""
        target = self.targets.get(cmd_name)
        return Lazy[click.Command](target).load() if target else None
