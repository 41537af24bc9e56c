"""What every command about memory needs: the notes, whose they are, and errors in the person's words."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from melete.app.memory import remembered
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.memory import Noted
from melete.core.tool import ToolError
from melete.surfaces.cli.options import settings
from melete.surfaces.cli.output import err, one_line
from melete.surfaces.cli.running import run_with_app

if TYPE_CHECKING:
    from melete.app.memory import Notes

F = TypeVar("F", bound=Callable[..., Any])


def person_option(function: F) -> F:
    """Add --person."""
    about = "Somebody else who talks with this home, by the name of their key."
    return click.option("--person", "who", default="", metavar="NAME", callback=_owner, help=about)(function)


def _owner(_context: click.Context, _option: click.Parameter, name: str) -> str:
    """Whose sessions and entries those of a key are; what has a colon is such a name already."""
    return name if not name or ":" in name else f"key:{name}"


def user_option(function: F) -> F:
    """Add --user."""
    return click.option("--user", "about_user", is_flag=True, help="USER.md, what is about the person.")(function)


def with_memory(work: "Callable[[Melete, Notes], Awaitable[int]]") -> int:
    """Run `work` with what is remembered; raises UsageError for what it is refused."""

    async def body(app: Melete) -> int:
        try:
            return await work(app, remembered(app))
        except ToolError as error:
            raise UsageError(
                app.redact(one_line(str(error))), kept="nothing was changed", next="see melete memory show"
            ) from error

    return run_with_app(settings(), body)


def done(app: Melete, noted: Noted, what: str) -> int:
    """Say that a change was made, and what it replaced; raises UsageError with the reason where it was not."""
    if not noted.ok:
        raise UsageError(app.redact(one_line(noted.reason)), next="see melete memory show")
    for line in (what, *noted.receipts):
        err(f"{app.redact(one_line(line))}\n")
    return 0
