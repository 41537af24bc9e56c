"""`process`: what became of commands that `terminal` started in the background."""

import ast
import asyncio
from collections.abc import Callable
from textwrap import dedent
from typing import Any, Literal

from msgspec import structs

from melete.core.errors import EnvironmentFailure
from melete.core.message import Taint
from melete.core.plugin import Lazy
from melete.core.policy import Verdict, Whereabouts
from melete.core.ports import ProcessInfo
from melete.core.tool import Output, ToolContext, ToolError, tool
from melete.tools.text import clean_output

_judged: Lazy[Callable[..., Verdict]] = Lazy("melete.security.commands:judge_command")
_code_judged: Lazy[Callable[..., Verdict]] = Lazy("melete.security.commands:judge_code")
_undecided: Lazy[str] = Lazy("melete.security.commands:UNDECIDED")
_reaches: Lazy[Callable[[str], bool]] = Lazy("melete.security.network:reaches")
_code_reaches: Lazy[Callable[[str], bool]] = Lazy("melete.security.network:code_reaches")
_brings: Lazy[Callable[[str], bool]] = Lazy("melete.security.network:brings")

LONGEST = 600
WRITE_SECONDS = 10
GRAVITY = ("allow", "ask", "forbid")
Action = Literal["list", "poll", "log", "wait", "kill", "write", "submit", "close"]


def _judge(arguments: Any, where: Whereabouts) -> Verdict:
    """What is written to a process may be a command, or code: there may be a shell behind it, or another language."""
    if arguments.action not in ("write", "submit"):
        return Verdict(reads=True)
    return _judge_text(arguments.data, where)


def _judge_text(data: str, where: Whereabouts) -> Verdict:
    found = [_judged.load()(data, cwd=where.cwd, home=where.home, own=where.own, contained=where.contained)]
    for language in ("python", "node"):  # the commands in any other language are found as in that of node
        code = _code_judged.load()(data, language=language, contained=where.contained)
        if code.rule != _undecided.load() or _is_python(data):
            found.append(code)
    verdict = max(found, key=lambda one: GRAVITY.index(one.verdict))
    sends = verdict.verdict == "allow" and (_reaches.load()(data) or _code_reaches.load()(data))
    return structs.replace(verdict, reads=False, sends=sends)


def _is_python(text: str) -> bool:
    try:
        ast.parse(dedent(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def taint_of_command(command: str) -> Taint:
    """Where the output of a command comes from: from outside if it prints what a network brings."""
    return "web" if _brings.load()(command) else "tool"


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
        return Output(fields=fields, taint=_taint(ctx, info))
    if action == "wait":
        info = await ctx.processes.wait(session_id, timeout=min(max(timeout, 0), LONGEST))
    elif action == "kill":
        info = await ctx.processes.kill(session_id)
    text, lost = ctx.processes.output(session_id, new=True)
    fields = {"success": True, **_shown(info), "output": clean_output(text.encode())}
    if action == "wait" and info.status == "running":
        fields["timed_out"] = True
    return Output(fields=fields | ({"dropped": lost} if lost else {}), taint=_taint(ctx, info))


async def _feed(ctx: ToolContext, action: str, name: str, data: str) -> dict[str, Any]:
    info = ctx.processes.get(name)
    if info.status != "running":
        raise ToolError(f"{name} has ended", **_shown(info))
    whole = data + ("\n" if action == "submit" else "")
    lines: dict[str, str] = ctx.state.setdefault("lines", {})
    before = lines.get(name, "")
    text = before + whole
    if before and whole.strip("\r\n"):  # together they may say what neither says, and only this piece was judged
        where = Whereabouts(cwd=ctx.env.cwd, contained=bool(getattr(ctx.env, "contained", False)))
        verdict = _judge_text(text, where)
        if verdict.verdict != "allow" or verdict.sends:
            raise ToolError(
                f"{name} has the beginning of a line, {before!r}, and with this it needs a look ({verdict.reason}): "
                "end it by an empty submit, then send the line whole"
            )
    lines[name] = "".join(filter(str.isprintable, text.replace("\\\n", "").rpartition("\n")[2]))
    if _brings.load()(text) or _code_reaches.load()(text):
        ctx.state.setdefault("bringing", set[str]()).add(name)
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            if action == "close":
                await ctx.processes.close_stdin(name)
            else:
                await ctx.processes.write(name, whole)
    except TimeoutError as error:
        raise ToolError(f"{name} does not read its input; nothing or only a part was sent") from error
    except EnvironmentFailure as error:
        raise ToolError(f"{name}: {error.what}") from error
    return {"success": True, "session_id": name, "sent": 0 if action == "close" else len(data)}


def _taint(ctx: ToolContext, info: ProcessInfo) -> Taint:
    """Where the output of a process comes from: what was written to it counts from then on."""
    return "web" if info.id in ctx.state.get("bringing", ()) else taint_of_command(info.command)


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
