"""`melete`: finds the command, runs it, and turns whatever happens into an exit status and at most one line of error."""

import asyncio
import sys
from collections.abc import Sequence
from typing import cast

import click

from melete import __version__
from melete.core.errors import MeleteError, UsageError
from melete.surfaces.cli.lazy import LazyGroup
from melete.surfaces.cli.options import Shared, shared_options
from melete.surfaces.cli.output import ReaderLeft, err, forget, visible

INTERRUPTED = 130
COMMANDS = {
    "run": "melete.surfaces.cli.run:run",
    "chat": "melete.surfaces.cli.chat:chat",
    "demo": "melete.surfaces.cli.demo:demo",
    "serve": "melete.surfaces.cli.serve:serve",
    "sessions": "melete.surfaces.cli.sessions:sessions",
    "skills": "melete.surfaces.cli.skills:skills",
    "memory": "melete.surfaces.cli.memory:memory",
    "learn": "melete.surfaces.cli.learn:learn",
    "model": "melete.surfaces.cli.model:model",
    "context": "melete.surfaces.cli.context:context",
    "config": "melete.surfaces.cli.config:config",
    "env": "melete.surfaces.cli.env:env",
    "policy": "melete.surfaces.cli.policy:policy",
    "check": "melete.surfaces.cli.check:check",
    "doctor": "melete.surfaces.cli.doctor:doctor",
    "insights": "melete.surfaces.cli.insights:insights",
    "logs": "melete.surfaces.cli.logs:logs",
    "verify": "melete.surfaces.cli.upkeep:verify",
    "rebuild": "melete.surfaces.cli.upkeep:rebuild",
    "completion": "melete.surfaces.cli.completion:completion",
}


class Commands(LazyGroup):
    """The commands of the program; a prompt in the place of one is told so."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, but a prompt given in a command's place is told so."""
        if args and " " in args[0]:
            raise UsageError("that is no command", next='to ask something, write: melete run "…"')
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    targets=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="melete", message="%(prog)s %(version)s")
@shared_options
@click.pass_context
def melete(ctx: click.Context, profile: str, debug: bool) -> int:
    """An agent that works with real tools and keeps every fact.

    Without a command: a chat on a terminal; with a prompt on a pipe, its answer.
    """
    ctx.obj = Shared(profile=profile, debug=debug)
    if ctx.invoked_subcommand is not None:
        return 0
    name = "chat" if sys.stdin is not None and sys.stdin.isatty() else "run"
    return cast("int", ctx.invoke(cast("click.Command", melete.get_command(ctx, name))))


def main(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name and return its exit status; errors are shown, not raised."""
    try:
        _need_text(arguments)
        return melete.main(args=list(arguments), prog_name="melete", standalone_mode=False) or 0
    except click.ClickException as error:
        if "\n" in error.format_message():  # a group without a command shows its help
            error.show()
        else:
            err(f"melete: {_usage(error)}\n")
        return error.exit_code
    except SystemExit:  # our commands return; click exits when its help is not read to the end, or after completing
        forget(sys.stdout)
        return 0
    except (KeyboardInterrupt, click.Abort, asyncio.CancelledError):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - shown in one line; running.py has logged it
        return _failed(innermost(error), whole=error, debug="--debug" in arguments)


def _need_text(arguments: Sequence[str]) -> None:
    for number, argument in enumerate(arguments, 1):
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"argument {number} is not UTF-8 text", next="write it anew, or set a UTF-8 locale"
            ) from error


def _usage(error: click.ClickException) -> str:
    """What click has to say about a command line, on one line, with the page that helps."""
    text = visible(" ".join(error.format_message().split())).rstrip(".")
    path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "melete"
    return f"{text[:1].lower()}{text[1:]}; try: {path} --help"


def innermost(error: BaseException) -> BaseException:
    """What really happened, inside groups: an error for people where there is one, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = [innermost(inner) for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions]
    return next((inner for inner in found if isinstance(inner, MeleteError | ReaderLeft)), found[0])


def _failed(error: BaseException, *, whole: BaseException, debug: bool) -> int:
    if isinstance(error, ReaderLeft):
        return 0
    if isinstance(error, MeleteError):
        err(f"melete: {visible(str(error))}\n")
        status = error.exit_code
    else:
        hint = (
            ""
            if debug
            else "; what was stored is kept; run it again with --debug to see where, or look into `melete logs`"
        )
        err(f"melete: unexpected {type(error).__name__}: {visible(str(error))}{hint}\n")
        status = 1
    if debug:
        sys.excepthook(type(whole), whole, whole.__traceback__)
    return status
