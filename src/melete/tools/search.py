"""`search_files`: lines in files, or files by name; by ripgrep where there is one, by our own search elsewhere."""

import posixpath
import sys
from collections.abc import Sequence
from typing import Any, Literal

from melete.core.tool import Output, ToolContext, ToolError, tool
from melete.tools import grep, ripgrep
from melete.tools.found import Found, Wanted
from melete.tools.known import allow, allowed, taint_of
from melete.tools.text import missing, problem, readable

LONGEST_LINE = 500
MOST = 1_000
Mode = Literal["content", "files_only", "count"]


@tool(parallel=True, limit=100_000)
async def search_files(
    ctx: ToolContext,
    *,
    pattern: str,
    target: Literal["content", "files"] = "content",
    path: str = ".",
    file_glob: str = "",
    limit: int = 50,
    offset: int = 0,
    output_mode: Mode = "content",
    context: int = 0,
) -> Output:
    """Search below path. target content: a regular expression in file contents, lines as `12:match` or
    `12-context` under their file. target files: names that fit the glob in pattern. Hidden files are
    searched, .git and what .gitignore names are not."""
    if not pattern:
        raise ToolError("pattern is empty")
    limit, offset = min(max(limit, 1), MOST), max(offset, 0)
    allow(ctx, path or ".")
    folder, name = await _place(ctx, path or ".")
    taint = taint_of(ctx, path or ".")
    if target == "files":
        page = slice(offset, offset + limit)
        fields = await _by_name(ctx, folder, name, pattern, file_glob=file_glob, page=page)
        return Output(fields=fields, taint=taint, source=readable(path))
    most = {"content": offset + limit + 1, "files_only": 1, "count": sys.maxsize}[output_mode]
    context = min(max(context, 0), 20) if output_mode == "content" else 0
    wanted = Wanted(pattern=pattern, glob=file_glob, context=context, most=most, counts=output_mode == "count")
    found = await _search(ctx, folder, name, wanted)
    closed = {p for p in {f.path for f in found} if not allowed(ctx, posixpath.join(folder, p))}
    found = [f for f in found if f.path not in closed]
    base = "" if path in ("", ".", "./") else path if not name else posixpath.dirname(path)
    found = [Found(path=posixpath.join(base, f.path), number=f.number, text=f.text, match=f.match) for f in found]
    if output_mode == "content":
        fields = _lines(found, offset, limit, context)
    else:
        fields = _files(found, offset, limit, counted=output_mode == "count")
    return Output(fields=fields, taint=taint, source=readable(path))


async def _place(ctx: ToolContext, path: str) -> tuple[str, str]:
    """The folder to search in, and the file's name when `path` is a file."""
    try:
        at = await ctx.env.stat(path)
        if at is None:
            raise await missing(ctx.env, path)
    except (OSError, ValueError) as error:
        raise problem(error, path) from error
    if at.kind == "folder":
        return path, ""
    if at.kind != "file":
        raise ToolError(f"{path} is neither a file nor a folder")
    folder, name = posixpath.split(path)
    return folder or ".", name


async def _search(ctx: ToolContext, folder: str, name: str, wanted: Wanted) -> Sequence[Found]:
    if ctx.state.get("ripgrep", True):
        found = await ripgrep.search(ctx.env, folder, name, wanted)
        if found is not None:
            return found
        ctx.state["ripgrep"] = False
    found = await grep.search(ctx.env, posixpath.join(folder, name) if name else folder, wanted)
    return [Found(path=name, number=f.number, text=f.text, match=f.match) for f in found] if name else found


async def _by_name(
    ctx: ToolContext, folder: str, name: str, pattern: str, *, file_glob: str, page: slice
) -> dict[str, Any]:
    if name:
        raise ToolError(f"{posixpath.join(folder, name)} is a file; target files needs a folder")
    wanted = Wanted(glob=pattern)
    paths = await ripgrep.files(ctx.env, folder, wanted) if ctx.state.get("ripgrep", True) else None
    if paths is None:
        ctx.state["ripgrep"] = False
        paths = [path async for path in grep.files(ctx.env, folder, wanted)]
    if file_glob:
        paths = [path for path in paths if grep.fits(file_glob, path)]
    base = "" if folder in (".", "./") else folder
    shown = [readable(posixpath.join(base, path)) for path in paths[page]]
    return {"success": True, "files": shown, "total": len(paths)} | _more(page.stop, len(paths))


def _more(stop: int, total: int) -> dict[str, Any]:
    return {"next_offset": stop} if total > stop else {}


def _lines(found: Sequence[Found], offset: int, limit: int, context: int) -> dict[str, Any]:
    matches = [line for line in found if line.match]
    chosen = matches[offset : offset + limit]
    places = {(m.path, n) for m in chosen for n in range(m.number - context, m.number + context + 1)}
    kept = {(m.path, m.number) for m in chosen}
    out: list[str] = []
    last, number = "", 0
    for line in found:
        if (line.path, line.number) not in places or (line.match and (line.path, line.number) not in kept):
            continue
        if line.path != last:
            out.append(readable(line.path))
        elif context and line.number > number + 1:
            out.append("--")
        last, number = line.path, line.number
        text = line.text if len(line.text) <= LONGEST_LINE else line.text[:LONGEST_LINE] + "…"
        out.append(f"{line.number}{':' if line.match else '-'}{text}")
    return {"success": True, "content": "\n".join(out), "matches": len(chosen)} | _more(offset + limit, len(matches))


def _files(found: Sequence[Found], offset: int, limit: int, *, counted: bool) -> dict[str, Any]:
    counts = {readable(line.path): line.number for line in found}
    page = dict(list(counts.items())[offset : offset + limit])
    if not counted:
        return {"success": True, "files": list(page), "total": len(counts)} | _more(offset + limit, len(counts))
    total = {"total": len(counts), "matches": sum(counts.values())}
    return {"success": True, "files": page} | total | _more(offset + limit, len(counts))
