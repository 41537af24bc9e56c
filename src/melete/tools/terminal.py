"""`terminal`: shell commands, and the group that it forms with `process`."""

import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import structs

from melete.core.plugin import Lazy
from melete.core.policy import Verdict, Whereabouts
from melete.core.tool import Act, Output, ToolContext, ToolError, tool
from melete.tools.exits import HINTS, exit_code
from melete.tools.group import Group
from melete.tools.process import process, taint_of_command
from melete.tools.shell import Ran, shell_of
from melete.tools.text import clean_output

_judged: Lazy[Callable[..., Verdict]] = Lazy("melete.security.commands:judge_command")
_reaches: Lazy[Callable[[str], bool]] = Lazy("melete.security.network:reaches")

LONGEST = 600
LOOK = 0.5
"""Seconds from one look at what a terminal shows to the next."""
NO_PASSWORD = re.compile(r"^sudo: (?:a password is required|a terminal is required|no tty present)", re.MULTILINE)
ASKS_PASSWORD = re.compile(r"\[sudo[^\]\n]*\] password[^\n]*: ?\Z")
SUDO = "sudo wants a password and nobody can type one here: do it without sudo, or ask the person to run it"


def _judge(arguments: Any, where: Whereabouts) -> Verdict:
    verdict = _judged.load()(
        arguments.command, cwd=where.cwd, home=where.home, own=where.own, contained=where.contained
    )
    return structs.replace(verdict, sends=verdict.verdict == "allow" and _reaches.load()(arguments.command))


def _act(ctx: ToolContext, arguments: Any) -> Act:
    shell = shell_of(ctx)

    async def probe(text: str) -> bytes:
        return await shell.probe(ctx.env, text, workdir=arguments.workdir)

    cwd = str(PurePosixPath(ctx.env.cwd, arguments.workdir or shell.cwd))
    return Act(command=arguments.command, argument="command", cwd=cwd, probe=probe)


@tool(effect="outside", limit=100_000, deadline=LONGEST + 60, enclosed=True, judge=_judge, act=_act)
async def terminal(
    ctx: ToolContext,
    *,
    command: str,
    background: bool = False,
    timeout: int = 180,
    workdir: str = "",
    pty: bool = False,
    notify_on_complete: bool = False,
    watch_patterns: tuple[str, ...] = (),
) -> Output:
    """Run a shell command; returns output (stdout and stderr) and exit_code. Folder, variables, functions and an activated
    venv last from call to call; workdir holds for one call. File tools stay relative to the working folder. Standard
    input is empty: avoid prompts and pagers. timeout in seconds, at most 600. For servers and long jobs set background,
    then use process; notify_on_complete and watch_patterns (texts in its output) wake you.
    Prefer the file tools over cat, sed, grep, find."""
    if not command.strip():
        raise ToolError("command is empty")
    if "\0" in command:
        raise ToolError("command holds a NUL character")
    if timeout > LONGEST and not background:
        raise ToolError(
            f"timeout may be {LONGEST} seconds at most; for longer work set background: true and use process"
        )
    if workdir:
        await _need_folder(ctx, workdir)
    if background:
        return await _background(
            ctx, command, workdir=workdir, pty=pty, notify=notify_on_complete, watch=watch_patterns
        )
    seconds = max(timeout, 1)
    if pty:
        output = await _on_terminal(ctx, command, workdir=workdir, timeout=seconds)
    else:
        output = _result(await shell_of(ctx).run(ctx.env, command, workdir=workdir, timeout=seconds), seconds)
    return structs.replace(output, taint=taint_of_command(command))


async def _need_folder(ctx: ToolContext, workdir: str) -> None:
    try:
        found = await ctx.env.stat(workdir)
    except (OSError, ValueError) as error:
        raise ToolError(f"workdir {workdir} cannot be used: {error}") from error
    if found is None:
        raise ToolError(f"workdir {workdir} does not exist")
    if found.kind != "folder":
        raise ToolError(f"workdir {workdir} is not a folder")


def _result(ran: Ran, timeout: float) -> Output:
    text = clean_output(ran.done.output)
    code = exit_code(ran.done.code)
    notes = list(ran.notes)
    if not ran.done.timed_out and code in HINTS:
        notes.append(HINTS[code])
    if NO_PASSWORD.search(text):
        notes.append(SUDO)
    fields = _fields(text, cwd=ran.cwd, notes=[*notes, *ran.done.notes])
    if ran.done.timed_out:
        return _late(fields, timeout)
    return Output(fields={**fields, "exit_code": code}, failed=code != 0)


def _fields(text: str, *, cwd: str, notes: Sequence[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"output": text}
    if cwd:
        fields["cwd"] = cwd
    if notes:
        fields["note"] = "; ".join(notes)
    return fields


def _late(fields: dict[str, Any], timeout: float) -> Output:
    error = (
        f"stopped after {timeout:g} s, with everything that it had started; give a longer timeout (at most {LONGEST}),"
        " or set background: true"
    )
    return Output(fields={**fields, "exit_code": None, "timed_out": True, "error": error}, failed=True)


async def _background(
    ctx: ToolContext, command: str, *, workdir: str, pty: bool, notify: bool, watch: tuple[str, ...]
) -> Output:
    shell = shell_of(ctx)
    begun = await shell.beside(ctx.env, command, workdir=workdir)
    info = await ctx.processes.start(begun.text, cwd=begun.cwd, pty=pty, notify=notify, watch=watch, shown=command)
    return Output(fields={"success": True, "session_id": info.id, "pid": info.pid, "status": info.status})


async def _on_terminal(ctx: ToolContext, command: str, *, workdir: str, timeout: int) -> Output:
    shell = shell_of(ctx)
    begun = await shell.begin(ctx.env, command, workdir=workdir)
    status = ""
    try:
        info = await ctx.processes.start(begun.text, cwd=begun.cwd, pty=True, shown=command)
        try:
            status = await _watched(ctx, info.id, timeout)
        finally:
            ended = await ctx.processes.kill(info.id)
    finally:
        await shell.end(ctx.env, begun, lasts=status == "exited")
    text = clean_output(ctx.processes.output(info.id)[0].encode())
    if status == "running":
        return _late(_fields(text, cwd=shell.cwd, notes=()), timeout)
    if status == "asks":
        return Output(fields={**_fields(text, cwd=shell.cwd, notes=()), "exit_code": None, "error": SUDO}, failed=True)
    code = exit_code(ended.code)
    hints = [HINTS[code]] if code in HINTS else []
    return Output(fields={**_fields(text, cwd=shell.cwd, notes=hints), "exit_code": code}, failed=code != 0)


async def _watched(ctx: ToolContext, name: str, timeout: float) -> str:
    """What became of a process on a terminal: its status, `running` at the deadline, `asks` when it wants a password."""
    left = timeout
    while left > 0:
        info = await ctx.processes.wait(name, timeout=min(LOOK, left))
        if info.status != "running":
            return info.status
        if ASKS_PASSWORD.search(ctx.processes.output(name)[0][-200:]):
            return "asks"
        left -= LOOK
    return "running"


class TerminalTools(Group):
    """Commands in the foreground and in the background."""

    name = "terminal"
    tools = (terminal, process)
