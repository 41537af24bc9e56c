"""`patch`: a part of one file replaced, or changes to several files that happen together or not at all."""

import difflib
import posixpath
import re
import secrets
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from melete.core.ports import Environment
from melete.core.tool import ToolContext, ToolError, tool
from melete.tools import fuzzy, patchtext
from melete.tools.known import allow, alone, changed, need_secrets, seen
from melete.tools.text import TextFile, need_file, parse, problem, readable

LONGEST_DIFF = 6_000
CONTEXT = 3
RANGE = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


class Planned(Struct, frozen=True, kw_only=True):
    """One file's change, checked and ready: `before` None makes it, `data` None moves it `aside`, where it is removed later."""

    kind: Literal["update", "add", "delete"]
    path: str
    before: bytes | None
    data: bytes | None
    move: str = ""
    aside: str = ""
    diff: str = ""
    added: int = 0
    removed: int = 0


@tool(effect="write", limit=100_000, enclosed=True)
async def patch(
    ctx: ToolContext,
    *,
    mode: Literal["replace", "patch"] = "replace",
    path: str = "",
    old_string: str = "",
    new_string: str = "",
    replace_all: bool = False,
    patch: str = "",
) -> dict[str, Any]:
    """Edit files. mode replace: put new_string for old_string in path; old_string must occur once, or set replace_all.
    mode patch: change several files, all or none, with patch:
    *** Begin Patch
    *** Update File: a.py
    @@ def f():
     kept
    -old
    +new
    *** Add File: b.py
    +line
    *** Delete File: c.py
    *** End Patch
    (*** Move to: PATH below Update File renames.)"""
    if mode == "patch":
        if not patch.strip():
            raise ToolError("mode patch needs the text of the patch in patch")
        changes = patchtext.parse(patch)
        touched = [path for change in changes for path in (change.path, change.move) if path]
        for one in touched:
            allow(ctx, one, write=True)
        async with alone(ctx, *touched):
            planned = [await _plan(ctx.env, change) for change in changes]
            since = await _done(ctx, planned)
        return {"success": True, "files": [_shown(plan) for plan in planned], "diff": _joined(planned)} | since
    allow(ctx, path, write=True)
    async with alone(ctx, path):
        return await _replace(ctx, path, old_string, new_string, every=replace_all)


async def _done(ctx: ToolContext, planned: Sequence[Planned]) -> dict[str, Any]:
    """Carry it out; what the model knew it knows on, and a note names the files that somebody changed since it read them."""
    for plan in planned:
        if plan.before is not None and plan.data is not None:
            need_secrets(plan.path, before=plan.before, data=plan.data)
    before = {plan.path: await ctx.env.stat(plan.path) for plan in planned}
    since = {path: changed(ctx, path, stat) if stat else False for path, stat in before.items()}
    await _carry_out(ctx.env, planned)
    for plan in planned:
        now = plan.move or plan.path
        if plan.data is None or plan.move:
            seen(ctx, plan.path, None)
        if plan.data is not None and since[plan.path] is False:
            seen(ctx, now, await ctx.env.stat(now))
    others = [readable(path) for path, is_other in since.items() if is_other]
    if not others:
        return {}
    return {"note": f"changed by somebody else since it was read: {', '.join(others)}; read again what you rely on"}


async def _replace(ctx: ToolContext, path: str, old: str, new: str, *, every: bool) -> dict[str, Any]:
    if not old:
        raise ToolError("old_string is empty; use write_file to write a whole file")
    if old == new:
        raise ToolError("old_string and new_string are the same")
    file, before = await _load(ctx.env, path)
    if file.crlf:
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    try:
        done = fuzzy.replace(file.text, old, new, every=every)
    except fuzzy.NotFoundError as error:
        fields = {"near": readable(error.near)} if error.near else {}
        raise ToolError(f"old_string is not in {path}; read it again", **fields) from error
    except fuzzy.SeveralError as error:
        raise ToolError(
            f"old_string is {len(error.lines)} times in {path}; add lines round it, or set replace_all",
            lines=error.lines[:20],
        ) from error
    plan = _planned(path, file, before, done.text)
    since = await _done(ctx, [plan])
    result: dict[str, Any] = {"success": True, "replacements": done.count, "diff": plan.diff}
    return result | since | ({"overlooked": done.overlooked} if done.overlooked else {})


async def _load(env: Environment, path: str) -> tuple[TextFile, bytes]:
    await need_file(env, path)
    try:
        data = await env.read(path)
    except (OSError, ValueError) as error:
        raise problem(error, path) from error
    return parse(data, readable(path)), data


async def _plan(env: Environment, change: patchtext.FileChange) -> Planned:
    if change.kind == "add":
        await _need_nothing(env, change.path)
        diff, added, removed = _diff(change.path, "", change.content)
        data = _encode(TextFile(text=""), change.content, change.path)
        return Planned(kind="add", path=change.path, before=None, data=data, diff=diff, added=added, removed=removed)
    if change.kind == "delete":
        await need_file(env, change.path)
        folder, name = posixpath.split(change.path)
        aside = posixpath.join(folder, f".{name}.{secrets.token_hex(4)}.removed")
        return Planned(kind="delete", path=change.path, before=b"", data=None, aside=aside)
    file, before = await _load(env, change.path)
    if change.move:
        await _need_nothing(env, change.move)
    return _planned(change.path, file, before, patchtext.apply(file.text, change), move=change.move)


def _planned(path: str, file: TextFile, before: bytes, text: str, *, move: str = "") -> Planned:
    diff, added, removed = _diff(path, file.text, text)
    data = _encode(file, text, path)
    return Planned(
        kind="update", path=path, before=before, data=data, move=move, diff=diff, added=added, removed=removed
    )


def _encode(file: TextFile, text: str, path: str) -> bytes:
    try:
        return file.encoded(text)
    except UnicodeEncodeError as error:
        raise ToolError(f"the new text for {path} holds half a character; nothing was written") from error


async def _need_nothing(env: Environment, path: str) -> None:
    try:
        found = await env.stat(path)
    except (OSError, ValueError) as error:
        raise problem(error, path) from error
    if found is not None:
        raise ToolError(f"{path} exists already; nothing was written")


async def _carry_out(env: Environment, planned: Sequence[Planned]) -> None:
    """Do all of it, or put back what was done: every file is set aside or remembered until the last has succeeded."""
    done: list[Planned] = []
    plan = planned[0]
    try:
        for plan in planned:
            done.append(plan)
            if plan.data is None:
                await env.rename(plan.path, plan.aside)
                continue
            if plan.data != plan.before:
                await env.write(plan.path, plan.data)
            if plan.move:
                await env.rename(plan.path, plan.move)
    except BaseException as error:
        stuck = [path for path in [await _undo(env, plan) for plan in reversed(done)] if path]
        if not isinstance(error, OSError | ValueError):
            raise
        told = problem(error, plan.path)
        kept = f"could not be put back: {', '.join(stuck)}" if stuck else "all files are as they were"
        raise ToolError(f"{told}; {kept}") from error
    for plan in planned:
        if plan.data is None:
            await _remove(env, plan)


async def _remove(env: Environment, plan: Planned) -> None:
    try:
        await env.remove(plan.aside)
    except OSError as error:
        raise ToolError(
            f"everything is done, but {plan.path} could only be renamed to {plan.aside}: {error}"
        ) from error


async def _undo(env: Environment, plan: Planned) -> str:
    """Put one file back; returns its path if that failed."""
    try:
        if plan.data is None:
            if await env.stat(plan.aside) is not None:
                await env.rename(plan.aside, plan.path)
            return ""
        if plan.move and await env.stat(plan.path) is None and await env.stat(plan.move) is not None:
            await env.rename(plan.move, plan.path)
        if plan.before is not None and await env.read(plan.path) != plan.before:
            await env.write(plan.path, plan.before)
        elif plan.before is None and await env.stat(plan.path) is not None:
            await env.remove(plan.path)
    except OSError:
        return plan.path
    return ""


def _diff(path: str, before: str, after: str) -> tuple[str, int, int]:
    """A unified diff, with the numbers of added and removed lines; what is alike at both ends is not compared."""
    old, new = before.split("\n"), after.split("\n")
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    tail = 0
    while tail < min(len(old), len(new)) - same and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    first = max(same - CONTEXT, 0)
    behind = max(tail - CONTEXT, 0)
    lines = list(
        difflib.unified_diff(
            old[first : len(old) - behind], new[first : len(new) - behind], path, path, lineterm="", n=CONTEXT
        )
    )
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    text = readable("\n".join(RANGE.sub(lambda m: _moved(m, first), line) for line in lines))
    if len(text) > LONGEST_DIFF:
        text = text[:LONGEST_DIFF] + f"\n… {len(text) - LONGEST_DIFF} characters more"
    return text, added, removed


def _moved(match: re.Match[str], by: int) -> str:
    old, old_count, new, new_count = match.groups(default="")
    return f"@@ -{int(old) + by}{old_count} +{int(new) + by}{new_count} @@"


def _shown(plan: Planned) -> dict[str, Any]:
    fields: dict[str, Any] = {"path": readable(plan.path), "change": plan.kind}
    if plan.move:
        fields["moved_to"] = readable(plan.move)
    if plan.kind != "delete":
        fields |= {"added": plan.added, "removed": plan.removed}
    return fields


def _joined(planned: Sequence[Planned]) -> str:
    text = "\n".join(plan.diff for plan in planned if plan.diff)
    return text if len(text) <= LONGEST_DIFF else text[:LONGEST_DIFF] + "\n… (shortened)"
