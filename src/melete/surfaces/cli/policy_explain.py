"""`melete policy explain`: what a command would run, and what would be done about it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import join

import click
import msgspec

from melete.app.explain import Explanation, Seen, explain
from melete.core.errors import UsageError
from melete.surfaces.cli.options import complete_environment, json_option, painter, settings
from melete.surfaces.cli.output import is_terminal, out
from melete.surfaces.cli.paint import Paint

STYLES = {"allow": "green", "ask": "yellow", "forbid": "red"}
MARKS = {"allow": "✓", "ask": "?", "forbid": "✗"}
WORDS = {"allow": "allowed", "ask": "asked about", "forbid": "forbidden"}
BAR = "│ "
NOTHING = "pass"
"""What is left of Python that calls nothing of interest."""


@click.command("explain", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1)
@click.option("--cwd", default="", metavar="DIR", help="The command's folder.")
@click.option(
    "--env",
    default="",
    metavar="NAME",
    help="Where it would run (`melete env list`).",
    shell_complete=complete_environment,
)
@json_option
def explain_(command: tuple[str, ...], cwd: str, env: str, as_json: bool) -> int:
    """Show what a command would run, and whether it is allowed, asked about or forbidden.

    Every program is shown, behind whatever it hides, with the reason for each. Nothing is run. Write COMMAND in quotes, behind
    the options; without it, or with -, it is read from standard input.
    """
    text = command[0] if len(command) == 1 else join(command)
    if not command or text == "-":
        if sys.stdin is None or (is_terminal(sys.stdin) and not command):
            raise UsageError("there is no command to explain", next="write: melete policy explain 'COMMAND'")
        text = sys.stdin.buffer.read().decode("utf-8", "replace").removesuffix("\n")
    if not text.strip():
        raise UsageError("the command is empty", next="write: melete policy explain 'COMMAND'")
    if cwd and not Path(cwd).is_dir():
        raise UsageError(f"{cwd} is no folder", next="name another with --cwd")
    loaded = settings()
    found = explain(loaded, text, cwd=str(Path(cwd or ".").absolute()), env=env)
    if as_json:
        out(msgspec.json.encode(found).decode() + "\n")
    else:
        out("".join(f"{line.rstrip()}\n" for line in _lines(found, painter(loaded))))
    return 0


def _lines(found: Explanation, paint: Paint) -> Iterator[str]:
    for number, line in enumerate(found.command.split("\n")):
        yield paint("dim", "  " if number else "$ ") + paint("bold", line)
    if found.read_as:
        yield paint("dim", "read as ") + found.read_as.replace("\n", "\n        ")
    yield ""
    for seen in found.programs:
        yield from _program(seen, paint)
    for why in found.opaque:
        yield paint("yellow", f"  ? cannot be told: {why}")
    if found.programs or found.opaque:
        yield ""
    said = f": {found.reason}" if found.reason else ""
    rule = paint("dim", f" ({found.rule})") if found.rule else ""
    yield paint(STYLES[found.verdict], f"{MARKS[found.verdict]} {WORDS[found.verdict]}") + said + rule
    yield from (f"  {line}" for line in found.outcome)
    walls = ", behind walls" if found.contained else ", without walls round it" if found.env == "local" else ""
    yield paint("dim", f"  in {found.cwd}, environment {found.env}{walls}")


def _program(seen: Seen, paint: Paint) -> Iterator[str]:
    """A program under those that start it: its line, what it is fed, and what is said about it."""
    space = "  " + "   " * seen.depth
    head = space[:-3] + "└─ " if seen.depth else space
    space += "   "
    line = " ".join((seen.shown, *seen.redirects))
    judged = seen.verdict != "allow" or seen.rule
    mark = paint(STYLES[seen.verdict], f"  {MARKS[seen.verdict]} {seen.reason}") if judged else ""
    yield paint("dim", head) + line + mark
    if seen.folder:
        yield paint("dim", f"{space}in {seen.folder}")
    yield from _block("reads", seen.reads, space, paint)
    if seen.code and seen.code != NOTHING and seen.code not in seen.shown:
        yield from _block("calls" if seen.language == "python" else f"{seen.language} code", seen.code, space, paint)


def _block(name: str, text: str, space: str, paint: Paint) -> Iterator[str]:
    """Text that a program is given: in one line with its name, or line by line behind a bar."""
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    if len(lines) == 1:
        yield paint("dim", f"{space}{name}: ") + paint("cyan", lines[0])
    elif lines:
        yield paint("dim", f"{space}{name}:")
        yield from (paint("dim", f"{space}{BAR}") + paint("cyan", line) for line in lines)
