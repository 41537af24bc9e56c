"""Options that say which sessions are meant, and how the values are understood."""

import os.path
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click
from msgspec import Struct

from melete.core.errors import UsageError
from melete.core.moment import FORMS, moment
from melete.core.session import Which

F = TypeVar("F", bound=Callable[..., Any])


class Meant(Struct, frozen=True, kw_only=True):
    """The options as they were typed."""

    source: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    cwd: str = ""
    since: str = ""
    until: str = ""

    def which(self, now: datetime) -> Which:
        """The filter that they stand for; raises UsageError for what is no time."""
        return Which(
            sources=listed(self.source),
            models=listed(self.model),
            cwd=os.path.realpath(os.path.expanduser(self.cwd)) if self.cwd else "",  # noqa: PTH111 - pathlib raises for a circle
            since=time_of("--since", self.since, now),
            until=time_of("--until", self.until, now),
        )


def which_options(function: F) -> F:
    """Add --source, --model, --cwd, --since and --until; the values make a `Meant`."""
    options = (
        click.option(
            "--source", multiple=True, metavar="NAME", help="Only sessions of this source: cli, import, cron …"
        ),
        click.option("--model", multiple=True, metavar="NAME", help="Only sessions that this model answered."),
        click.option("--cwd", default="", metavar="DIR", help="Only sessions started in this folder or below."),
        click.option("--since", default="", metavar="TIME", help=f"Not before: {FORMS}."),
        click.option("--until", default="", metavar="TIME", help="Only before."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def time_of(option: str, text: str, now: datetime) -> datetime | None:
    """The time that an option names, None for an empty one; raises UsageError."""
    try:
        return moment(text, now=now, local=True) if text else None
    except ValueError as error:
        raise UsageError(f"{option}: {text!r} is not a time", next=f"write {FORMS}") from error


def listed(names: Sequence[str]) -> tuple[str, ...]:
    """Names that were given one by one or with commas between."""
    return tuple(name.strip() for part in names for name in part.split(",") if name.strip())
