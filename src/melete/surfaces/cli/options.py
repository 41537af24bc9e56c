"""Options that several commands share, and what they mean."""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct

from melete.app.answers import read_schema
from melete.app.as_of import time_as_of
from melete.app.clock import clock_from
from melete.app.home import Home
from melete.app.opening import Options
from melete.app.settings import Loaded, find_home, load, variables
from melete.core.errors import UsageError
from melete.core.plugin import Lazy
from melete.surfaces.cli.output import err, is_terminal, visible
from melete.surfaces.cli.paint import Paint

F = TypeVar("F", bound=Callable[..., Any])
_environments: Lazy[Callable[..., Any]] = Lazy("melete.surfaces.cli.completing:complete_environment")
_sessions: Lazy[Callable[..., Any]] = Lazy("melete.surfaces.cli.completing:complete_session")
WIRES = ("openai-chat", "openai-responses", "anthropic-messages", "gemini")


class Shared(Struct, frozen=True, kw_only=True):
    """What is said once for every command: the profile, and whether tracebacks are wanted."""

    profile: str = ""
    debug: bool = False


class Asked(Struct, frozen=True, kw_only=True):
    """The options of `run` and `chat` as they were typed."""

    model: str | None = None
    base_url: str | None = None
    wire: str | None = None
    session: str = ""
    latest: bool = False
    toolsets: str = ""
    cwd: str = ""
    env: str = ""
    max_steps: int | None = None
    budget: float | None = None
    yolo: bool = False
    ephemeral: bool = False
    no_learn: bool = False
    as_of: str = ""
    skills: str = ""
    images: tuple[str, ...] = ()
    schema: str = ""
    verbose: bool = False
    profile: str = ""
    debug: bool = False

    @property
    def flags(self) -> Mapping[str, object]:
        """The settings that the options stand for, by dotted key."""
        return {"model.name": self.model, "model.base_url": self.base_url, "model.wire": self.wire}

    def then(self, loaded: Loaded) -> datetime | None:
        """The time that --as-of names; raises UsageError for none."""
        return (
            time_as_of(self.as_of, clock_from(loaded.variables.get("MELETE_CLOCK", "")).now()) if self.as_of else None
        )

    def options(self, *, attended: bool) -> Options:
        """How the conversation is to be opened; raises UsageError for a folder that is none."""
        if self.session and self.latest:
            raise UsageError("-s and -c both choose a session", next="give one of them")
        if self.cwd and not Path(self.cwd).is_dir():
            raise UsageError(f"--cwd {self.cwd} is no folder", next="give one that exists")
        return Options(
            session=self.session,
            latest=self.latest,
            cwd=str(Path(self.cwd).absolute()) if self.cwd else "",
            env=self.env,
            toolsets=_names(self.toolsets),
            skills=_names(self.skills),
            max_steps=self.max_steps,
            budget_usd=self.budget,
            yolo=self.yolo,
            attended=attended,
            answer=read_schema(Path(self.schema)) if self.schema else None,
            learns=not (self.no_learn or self.as_of),
        )


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def shared_options(function: F) -> F:
    """Add -p and --debug."""
    function = click.option("--debug", is_flag=True, help="Show tracebacks.")(function)
    return click.option("-p", "--profile", default="", metavar="NAME", help="Use this profile's home.")(function)


def request_options(function: F) -> F:
    """Add what decides how a request looks; the values make an `Asked`."""
    options = (
        click.option("-m", "--model", metavar="[PROVIDER/]NAME", help="The model to ask."),
        click.option("--base-url", metavar="URL", help="Address of the API."),
        click.option("--wire", metavar="|".join(WIRES), help="Wire format of the API."),
        click.option(
            "-s",
            "--session",
            default="",
            metavar="ID",
            help="Go on in this session (id or title).",
            shell_complete=_complete_session,
        ),
        click.option("-c", "--continue", "latest", is_flag=True, help="Go on in the latest session."),
        click.option("-t", "--toolsets", default="", metavar="A,B", help="Offer only these toolsets."),
        click.option("--cwd", default="", metavar="DIR", help="Work in this folder."),
        click.option(
            "--env",
            default="",
            metavar="NAME",
            help="Where commands run (`melete env list`).",
            shell_complete=complete_environment,
        ),
    )
    return shared_options(_with_options(function, options))


def conversation_options(function: F) -> F:
    """Add what `run` and `chat` have in common; the values make an `Asked`."""
    options = (
        click.option("--max-steps", type=click.IntRange(min=1), metavar="N", help="Model calls at most."),
        click.option("--budget", type=click.FloatRange(min=0), metavar="USD", help="US dollars at most."),
        click.option("--yolo", is_flag=True, help="Approve what would be asked (never what is forbidden)."),
        click.option("--ephemeral", is_flag=True, help="Store nothing."),
        click.option("--no-learn", is_flag=True, help="Learn nothing from this session from here on."),
        click.option("--as-of", default="", metavar="DATE", help="Skills and memory as they were then; learn nothing."),
        click.option("--skills", default="", metavar="A,B", help="Load these skills with the first prompt."),
        click.option("--image", "images", multiple=True, metavar="FILE", help="Show the model a picture."),
        click.option("--schema", default="", metavar="FILE", help="Answer as JSON of this JSON Schema."),
        click.option("-v", "--verbose", is_flag=True, help="Show the work on standard error, thoughts included."),
    )
    return request_options(_with_options(function, options))


def _complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
    return _sessions.load()(ctx, param, incomplete)


def complete_environment(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
    """What a shell offers where an environment is to be named."""
    return _environments.load()(ctx, param, incomplete)


def _with_options(function: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def json_option(function: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def settings(asked: Asked | None = None) -> Loaded:
    """The settings in force for this command; warnings are shown on standard error."""
    loaded = load(asked.flags if asked else None, profile=profile_here(asked))
    for warning in loaded.warnings:
        err(f"melete: warning: {visible(warning)}\n")
    return loaded


def profile_here(asked: Asked | None = None) -> str:
    """The profile that this command was told to use; empty when it was not."""
    context = click.get_current_context(silent=True)
    root = context.find_root().obj if context else None
    return (asked.profile if asked else "") or (root.profile if isinstance(root, Shared) else "")


def home_here() -> Home:
    """The home for this command; no file is read, so it is found when the settings are broken too."""
    return find_home(profile=profile_here())


def variables_here() -> Mapping[str, str]:
    """The variables for this command, which are there when the settings are broken too."""
    return variables(profile=profile_here())


def painter(loaded: Loaded) -> Paint:
    """How to write on standard output."""
    return Paint(sys.stdout, loaded.variables)


def attended() -> bool:
    """Whether a person can be asked here: standard input and standard error are terminals."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)
