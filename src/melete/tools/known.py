"""What the file tools know of a session's files: which may not be touched, and which were read and have not changed since."""

import posixpath
from collections.abc import Callable

from melete.core.environment import FileStat
from melete.core.policy import Verdict
from melete.core.tool import ToolContext, ToolError
from melete.tools.text import readable

READ = "files.read"
"""The key of `ToolContext.state`: path → what the file was like when the model last saw or wrote it."""
Stamp = tuple[int, float]


def allow(ctx: ToolContext, path: str, *, write: bool = False) -> None:
    """Raise ToolError for a file that no tool may read or, with `write`, change, where it is one of this machine."""
    verdict = _verdict(ctx, path, write=write)
    if verdict.verdict != "allow":
        done = "written" if write else "read"
        raise ToolError(
            f"{readable(path)} is not {done} by tools: {verdict.reason}. Do without it, or say what a person should do there",
            rule=verdict.rule,
        )


def allowed(ctx: ToolContext, path: str) -> bool:
    """Whether a tool may read the file."""
    return _verdict(ctx, path, write=False).verdict == "allow"


def _verdict(ctx: ToolContext, path: str, *, write: bool) -> Verdict:
    judge: Callable[..., Verdict] | None = getattr(ctx.env, "judge_file", None)
    return Verdict() if judge is None or not path or "\0" in path else judge(path, write=write)


def seen(ctx: ToolContext, path: str, stat: FileStat | None) -> None:
    """Remember that the model knows the file as it is; None forgets it."""
    known = _known(ctx)
    if stat is None:
        known.pop(_key(ctx, path), None)
    else:
        known[_key(ctx, path)] = (stat.size, stat.mtime)


def changed(ctx: ToolContext, path: str, stat: FileStat) -> bool | None:
    """Whether the file is another one than the model knows; None where the model has not read it."""
    before = _known(ctx).get(_key(ctx, path))
    return None if before is None else before != (stat.size, stat.mtime)


def need_read(ctx: ToolContext, path: str, stat: FileStat) -> None:
    """Raise ToolError unless the model knows what it is about to replace; an empty file is nobody's loss."""
    since = changed(ctx, path, stat)
    if stat.size == 0 or since is False:
        return
    why = "has changed since it was read" if since else "exists, and was not read in this session"
    raise ToolError(
        f"{readable(path)} {why}; nothing was written. Read it first, then write it whole or change a part of it with patch",
        size=stat.size,
    )


def _known(ctx: ToolContext) -> dict[str, Stamp]:
    return ctx.state.setdefault(READ, {})


def _key(ctx: ToolContext, path: str) -> str:
    return posixpath.normpath(posixpath.join(ctx.env.cwd, path))
