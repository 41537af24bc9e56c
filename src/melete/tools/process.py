"""`process`: what became of commands that `terminal` started in the background."""

import asyncio
from typing import Any, Literal

from msgspec import structs

from melete.core.errors import EnvironmentFailure
from melete.core.message import Taint
from melete.core.policy import Verdict, Whereabouts
from melete.core.ports import ProcessInfo
from melete.core.tool import Output, ToolContext, ToolError, tool
from melete.security.commands import judge_command
from melete.security.network import brings, reaches
from melete.tools.text import clean_output

LONGEST = 600
WRITE_SECONDS = 10
Action = Literal["list", "poll", "log", "wait", "kill", "write", "submit", "close"]


def _judge(arguments: Any, where: Whereabouts) -> Verdict:
    """What is written to a process may be a command, or code: there may be a shell behind it, or another language."""
    if arguments.action not in ("write", "submit"):
        return Verdict(reads=True)
    verdict = judge_command(arguments.data, cwd=where.cwd, home=where.home, contained=where.contained)
    return structs.replace(verdict, reads=False, sends=verdict.verdict == "allow" and reaches(arguments.data))


def taint_of_command(command: str) -> Taint:
    """Where the output of a command comes from: from outside if it prints what a network brings."""
    return "web" if brings(command) else "tool"


@tool(effect="outside", limit=100_000, deadline=LONGEST + 60, enclosed=True, judge=_judge)
async def process(
    ctx: ToolContext,
    *,
    action: Action,
    session_id: str = "",
    data: str = "",
    timeout: int = 60,
    offset: int = 0,
    limit: int = 200,
) -> Output:
    """Background processes: list; poll (status and new output); log (limit lines from line offset,
    the last ones without offset); wait (for its end, up to timeout seconds); kill;
    write data to its input; submit (write and Enter); close (its input)."""
    if action == "list":
        return Output(fields={"success": True, "processes": [_shown(info) for info in ctx.processes.list()]})
    if not session_id:
        raise ToolError(f"{action} needs session_id", known=[info.id for info in ctx.processes.list()])
    if action in ("write", "submit", "close"):
        return Output(fields=await _feed(ctx, action, session_id, data))
    info = ctx.processes.get(session_id)
    if action == "log":
        fields = {"success": True, **_shown(info), **_log(ctx, session_id, offset, limit)}
        return Output(fields=fields, taint=taint_of_command(info.command))
    if action == "wait":
        info = await ctx.processes.wait(session_id, timeout=min(max(timeout, 0), LONGEST))
    elif action == "kill":
        info = await ctx.processes.kill(session_id)
    text, lost = ctx.processes.output(session_id, new=True)
    fields = {"success": True, **_shown(info), "output": clean_output(text.encode())}
    if action == "wait" and info.status == "running":
        fields["timed_out"] = True
    return Output(fields=fields | ({"dropped": lost} if lost else {}), taint=taint_of_command(info.command))


async def _feed(ctx: ToolContext, action: str, name: str, data: str) -> dict[str, Any]:
    info = ctx.processes.get(name)
    if info.status != "running":
        raise ToolError(f"{name} has ended", **_shown(info))
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            if action == "close":
                await ctx.processes.close_stdin(name)
            else:
                await ctx.processes.write(name, data + ("\n" if action == "submit" else ""))
    except TimeoutError as error:
        raise ToolError(f"{name} does not read its input; nothing or only a part was sent") from error
    except EnvironmentFailure as error:
        raise ToolError(f"{name}: {error.what}") from error
    return {"success": True, "session_id": name, "sent": 0 if action == "close" else len(data)}


def _log(ctx: ToolContext, name: str, offset: int, limit: int) -> dict[str, Any]:
    text, lost = ctx.processes.output(name)
    lines = clean_output(text.encode()).splitlines()
    limit = max(limit, 1)
    start = offset if offset > 0 else max(len(lines) - limit, 0)
    result: dict[str, Any] = {"output": "\n".join(lines[start : start + limit]), "lines": len(lines)}
    if start:
        result["offset"] = start
    return result | ({"dropped": lost} if lost else {})


def _shown(info: ProcessInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "session_id": info.id,
        "command": info.command,
        "status": info.status,
        "seconds": round(info.seconds, 1),
    }
    if info.status != "running":
        fields["exit_code"] = info.code if info.code is None or info.code >= 0 else 128 - info.code
    return fields | ({"note": info.note} if info.note else {})
