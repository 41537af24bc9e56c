"""`melete check`: the guards as filters, for scripts, for measurement and for a person who wonders."""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

import click
import msgspec

from melete.app.checks import CHECKS, LONGEST, How, Row, SkillRow, answer, check_skill
from melete.app.log_reader import redaction
from melete.core.errors import UsageError
from melete.surfaces.cli.options import home_here, json_option, profile_here, variables_here
from melete.surfaces.cli.output import is_terminal, out, visible
from melete.surfaces.cli.paint import Paint

COLOURS = {
    **dict.fromkeys(("allow", "clean", "safe"), "green"),
    **dict.fromkeys(("ask", "suspect", "caution"), "yellow"),
    **dict.fromkeys(("forbid", "reject", "dangerous"), "red"),
}


def _check(name: str, text: str | None, how: How, *, row: Row, as_json: bool) -> int:
    """Judge one text, `-` for all of standard input, or without one every line that comes."""
    if text is None:
        return _batch(name, how)
    given = _stdin().read().decode("utf-8", "replace") if text == "-" else text
    found = CHECKS[name](msgspec.structs.replace(row, text=given), how)
    if as_json:
        out(msgspec.json.encode(found).decode() + "\n")
    elif name == "secrets":
        out(found["text"] if text == "-" else found["text"] + "\n")
    else:
        out(_shown(found, Paint(sys.stdout, variables_here())))
    return 0


def _batch(name: str, how: How) -> int:
    """Answer every line in order; 1 when one could not be."""
    status = 0
    for line in _lines():
        row = answer(name, line, how)
        status |= "error" in row
        out(msgspec.json.encode(row).decode() + "\n")
    return status


def _lines() -> Iterator[bytes]:
    """The lines of standard input that are not empty; of one that is too long its beginning."""
    stream = _stdin()
    if is_terminal(sys.stdin):
        raise UsageError("there is nothing to check", next="give a TEXT, or send JSON lines through a pipe")
    first = True
    while line := stream.readline(LONGEST):
        whole = line.endswith(b"\n") or len(line) < LONGEST
        while not whole:
            rest = stream.readline(LONGEST)
            whole = rest.endswith(b"\n") or not rest
        line = line.removeprefix(b"\xef\xbb\xbf") if first else line
        first = False
        if line.strip():
            yield line


def _stdin() -> BinaryIO:
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("there is no standard input to read from", next="give a TEXT")
    return sys.stdin.buffer


def _shown(found: dict[str, str], paint: Paint) -> str:
    verdict = found["verdict"]
    said = visible(
        ": ".join(part for part in (found.get("rule", ""), found["reason"] or found.get("path", "")) if part)
    )
    return paint(COLOURS[verdict], verdict) + (f"  {said}" if said else "") + "\n"


def _text(function: Callable[..., int]) -> Callable[..., int]:
    return click.argument("text", required=False)(json_option(function))


@click.group()
def check() -> None:
    """The guards as filters: what they say of a text, or of every line of a batch.

    A batch is JSON lines on standard input. Each is answered by one line with its id, a wrong one with an error; the status is
    then 1 at the end. Nothing is run or fetched.
    """


@check.command("command")
@_text
@click.option("--cwd", default="", metavar="DIR", help="The command's folder.")
@click.option("--approvals-off", is_flag=True, help="What still stops when nobody is asked (as with --yolo).")
@click.option("--contained", is_flag=True, help="As in the sandbox.")
def command(text: str | None, as_json: bool, cwd: str, approvals_off: bool, contained: bool) -> int:
    """Judge a shell command: allow, ask or forbid.

    Lines: {"id", "text", "cwd"?}. `melete policy explain` says more about one.
    """
    home = home_here()
    how = How(home=str(home.user or ""), own=str(home.root), approvals_off=approvals_off, contained=contained)
    return _check("command", text, how, row=Row(text="", cwd=cwd), as_json=as_json)


@check.command("url")
@_text
@click.option("--resolves-to", multiple=True, metavar="IP", help="What the name stands for; it is not looked up.")
def url(text: str | None, as_json: bool, resolves_to: tuple[str, ...]) -> int:
    """Judge an address that a tool would fetch: allow or forbid.

    Lines: {"id", "text", "resolves_to"?: [IP, …]}.
    """
    return _check("url", text, How(), row=Row(text="", resolves_to=resolves_to or None), as_json=as_json)


@check.command("text")
@_text
def text_(text: str | None, as_json: bool) -> int:
    """Judge whether a text wants to steer the agent: clean or suspect.

    Lines: {"id", "text"}.
    """
    return _check("text", text, How(), row=Row(text=""), as_json=as_json)


@check.command("secrets")
@_text
def secrets(text: str | None, as_json: bool) -> int:
    """Take secrets out of a text: those known here, and what looks like one.

    Lines: {"id", "text"}; with - as TEXT all of standard input is one text.
    """
    return _check(
        "secrets", text, How(redact=redaction(profile_here(), always=True)), row=Row(text=""), as_json=as_json
    )


@check.command("path")
@_text
@click.option("--root", default=".", metavar="DIR", help="The folder in which the path must stay.")
def path(text: str | None, as_json: bool, root: str) -> int:
    """Judge a path from outside: allow or reject.

    Lines: {"id", "root", "text"}.
    """
    return _check("path", text, How(), row=Row(text="", root=root), as_json=as_json)


@check.command("skill")
@click.argument("dir", required=False)
@json_option
@click.option(
    "--trust",
    default="community",
    metavar="TRUST",
    help="Whose it is: builtin, trusted, community, agent-created or user.",
)
def skill(dir: str | None, as_json: bool, trust: str) -> int:
    """Judge a skill by its folder: safe, caution or dangerous, and whether that may be loaded.

    Lines: {"id", "dir", "trust"?}. Nothing of it is run.
    """
    if dir is None:
        return _batch("skill", How())
    found = check_skill(SkillRow(dir=dir, trust=trust), How())
    if as_json:
        out(msgspec.json.encode(found).decode() + "\n")
        return 0
    out(skill_text(found, trust, Paint(sys.stdout, variables_here())))
    return 0


def skill_text(found: Mapping[str, Any], trust: str, paint: Paint) -> str:
    """What the scan says of a skill of somebody who is trusted so, with its reasons."""
    verdict, may = found["verdict"], "allowed" if found["allowed"] else "not allowed"
    lines = [f"{paint(COLOURS[verdict], verdict)}  {may} ({trust})"]
    for each in found["findings"]:
        place = f"{each['file']}:{each['line']}" if each["line"] else each["file"]
        lines.append(f"  {each['severity']}  {visible(place)}  {each['rule']}: {visible(each['reason'])}")
        if each["text"]:
            lines.append(f"      {visible(' '.join(each['text'].split()))}")
    return "".join(f"{line}\n" for line in lines)
