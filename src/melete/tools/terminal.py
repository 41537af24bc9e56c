"""`terminal`: shell commands, and the group that it forms with `process`."""

import signal
from typing import Any

from melete.core.errors import EnvironmentFailure
from melete.core.policy import Verdict
from melete.core.ports import Completed
from melete.core.tool import Output, ToolContext, ToolError, tool
from melete.security.commands import judge
from melete.tools.group import Group
from melete.tools.process import process
from melete.tools.text import clean_output

LONGEST = 600
IN_ONE_ARGUMENT = 100_000  # the kernel refuses an argument of 128 KiB
SHELLS = ("bash", "sh")
HINTS = {
    126: "the command was found but may not be run",
    127: "a command was not found",
    128 + signal.SIGKILL: "killed by SIGKILL, perhaps for want of memory",
    128 + signal.SIGSEGV: "crashed (segmentation fault)",
    128 + signal.SIGABRT: "aborted",
}


def _judge(arguments: Any) -> Verdict:
    return judge(arguments.command)


@tool(effect="outside", limit=100_000, deadline=LONGEST + 60, judge=_judge)
async def terminal(
    ctx: ToolContext,
    *,
    command: str,
    background: bool = False,
    timeout: int = 180,
    workdir: str = "",
    pty: bool = False,
) -> Output:
    """Run a shell command; returns output (stdout and stderr) and exit_code. Each call is a fresh
    shell in the working folder or workdir: cd does not last. Standard input is empty:
    avoid prompts and pagers. timeout in seconds, at most 600. For servers and long jobs set background, then use
    process. Prefer the file tools over cat, sed, grep, find."""
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
        return await _background(ctx, command, workdir=workdir, pty=pty)
    if pty:
        return await _on_terminal(ctx, command, workdir=workdir, timeout=timeout)
    return _result(await _in_shell(ctx, command, workdir=workdir, timeout=max(timeout, 1)), timeout)


async def _need_folder(ctx: ToolContext, workdir: str) -> None:
    try:
        found = await ctx.env.stat(workdir)
    except (OSError, ValueError) as error:
        raise ToolError(f"workdir {workdir} cannot be used: {error}") from error
    if found is None:
        raise ToolError(f"workdir {workdir} does not exist")
    if found.kind != "folder":
        raise ToolError(f"workdir {workdir} is not a folder")


async def _in_shell(ctx: ToolContext, command: str, *, workdir: str, timeout: float) -> Completed:
    script, stdin = command, b""
    if len(command) > IN_ONE_ARGUMENT // 4 and len(command.encode("utf-8", "replace")) > IN_ONE_ARGUMENT:
        script, stdin = 'eval "$(cat)"', command.encode("utf-8", "replace")
    shell = str(ctx.state.get("shell", SHELLS[0]))
    try:
        return await ctx.env.exec([shell, "-c", script], stdin=stdin, cwd=workdir, timeout=timeout)
    except EnvironmentFailure:  # there may be no bash here; any other cause fails again
        if shell == SHELLS[1]:
            raise
        done = await ctx.env.exec([SHELLS[1], "-c", script], stdin=stdin, cwd=workdir, timeout=timeout)
        ctx.state["shell"] = SHELLS[1]
        return done


def _result(done: Completed, timeout: float) -> Output:
    fields: dict[str, Any] = {"output": clean_output(done.output)}
    if done.timed_out:
        return _late(fields, timeout)
    code = done.code if done.code is not None else -signal.SIGKILL
    code = code if code >= 0 else 128 - code
    fields["exit_code"] = code
    if code in HINTS:
        fields["note"] = HINTS[code]
    return Output(fields=fields, failed=code != 0)


def _late(fields: dict[str, Any], timeout: float) -> Output:
    error = (
        f"stopped after {timeout:g} s, with everything that it had started; give a longer timeout (at most {LONGEST}),"
        " or set background: true"
    )
    return Output(fields={**fields, "exit_code": None, "timed_out": True, "error": error}, failed=True)


async def _background(ctx: ToolContext, command: str, *, workdir: str, pty: bool) -> Output:
    info = await ctx.processes.start(command, cwd=workdir, pty=pty)
    return Output(fields={"success": True, "session_id": info.id, "pid": info.pid, "status": info.status})


async def _on_terminal(ctx: ToolContext, command: str, *, workdir: str, timeout: int) -> Output:
    info = await ctx.processes.start(command, cwd=workdir, pty=True)
    try:
        info = await ctx.processes.wait(info.id, timeout=timeout)
    finally:
        ended = await ctx.processes.kill(info.id)
    fields: dict[str, Any] = {"output": clean_output(ctx.processes.output(info.id)[0].encode())}
    if info.status == "running":
        return _late(fields, timeout)
    code = ended.code or 0
    code = code if code >= 0 else 128 - code
    return Output(fields={**fields, "exit_code": code}, failed=code != 0)


class TerminalTools(Group):
    """Commands in the foreground and in the background."""

    name = "terminal"
    tools = (terminal, process)
