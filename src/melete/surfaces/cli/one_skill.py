"""What every command about skills needs: the library, names that are completed, and errors in the person's words."""

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from melete.app.skill_shelf import escaped, here
from melete.app.wire import Melete
from melete.core.errors import MeleteError, UsageError
from melete.core.ports import Applied
from melete.core.tool import ToolError
from melete.surfaces.cli.completing import complete_skill
from melete.surfaces.cli.options import settings
from melete.surfaces.cli.output import err, is_terminal, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.running import run_with_app

if TYPE_CHECKING:
    from melete.app.skill_shelf import Keeper

F = TypeVar("F", bound=Callable[..., Any])
OWN = frozenset({"user", "agent", "bundled"})
STYLES = {"+": "green", "-": "red", "@": "cyan"}
VERDICTS = {"safe": "green", "caution": "yellow", "dangerous": "red"}


def skill_argument(function: F) -> F:
    """Add NAME, a skill, which shells complete."""
    return click.argument("name", shell_complete=complete_skill)(function)


def with_skills(work: "Callable[[Melete, Keeper], Awaitable[int]]", *, wrong: type[MeleteError] = UsageError) -> int:
    """Run `work` with the skills of here; what it is refused is raised as `wrong`, in one line."""

    async def body(app: Melete) -> int:
        try:
            return await work(app, here(app))
        except ToolError as error:
            what = str(error).replace("with skill_search", "with: melete skills search")
            raise wrong(what, next=_known(error.fields)) from error

    return run_with_app(settings(), body)


def _known(fields: dict[str, Any]) -> str:
    for key, names in fields.items():
        if isinstance(names, list | tuple) and names:
            return f"the {key} are: {', '.join(map(str, names))[:400]}"  # pyright: ignore[reportUnknownArgumentType]
    return ""


def done(applied: Applied, what: str) -> int:
    """Say that a change was made; raises UsageError with the reason where it was not."""
    if not applied.ok:
        raise UsageError(applied.reason, kept="nothing was changed")
    err(f"{what}\n")
    return 0


def agree(question: str, *, yes: bool, otherwise: str) -> None:
    """Ask; raises UsageError where nobody can be asked, Abort when the answer is no."""
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise UsageError("nobody can be asked here", kept=otherwise, next="look at it, and pass --yes")
    if not click.confirm(question, err=True):
        err(f"{otherwise[:1].upper()}{otherwise[1:]}.\n")
        raise click.Abort


def shown_text(text: str, owner: str) -> str:
    """A text of a skill that belongs to this owner; in a stranger's all that hides or deceives is spelt out."""
    return visible(text) if owner in OWN else escaped(text)


def diff_text(diff: str, paint: Paint, *, owner: str) -> str:
    """A unified diff of a skill as a person must see it, with colours where they show."""
    lines = shown_text(diff, owner).split("\n") if diff else ()
    return "".join(f"{paint(STYLES[line[0]], line) if line[:1] in STYLES else line}\n" for line in lines)
