"""What the file tools know of a session's files: which may not be touched, and which were read and have not changed since."""

import asyncio
import os
import posixpath
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from melete.core.environment import FileStat
from melete.core.message import Taint
from melete.core.policy import Verdict
from melete.core.tool import ToolContext, ToolError
from melete.security.paths import within
from melete.security.taint import taint_of_spilled
from melete.tools.text import readable

WRITTEN = "files.written"
"""The key of `ToolContext.state`: the paths that the model has written whole."""
SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc", "/sys", "/dev")
"""Where the machine's own texts lie, which nobody writes who is not its administrator."""
BESIDE = "/usr/local"
TAKEN_OUT = b"[redacted:"
"""How what stands in place of a secret begins."""
SKILLS = "skills.read"
"""The key of `ToolContext.state`: skill → file → the version in which the model has read it."""
READ = "files.read"
"""The key of `ToolContext.state`: path → what the file was like when the model last saw or wrote it."""
TREE = "files.tree"
"""The key of `ToolContext.state`: the locks of files that a parent and its children share; not there where nobody was begun."""
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


def taint_of(ctx: ToolContext, path: str) -> Taint:
    """Where a file's text comes from, as far as trust goes: what lies outside the workspace may be anybody's.

    The workspace, the skills that were loaded, the system's own files, what the model itself has written, and what the session
    kept of its results are not.
    """
    real, base, private = _real(ctx, path)
    if f"/spill/{ctx.session.ref.id}/" in real:
        return taint_of_spilled(posixpath.basename(real))
    own = (
        within(real, base)
        or _of_a_loaded_skill(ctx, real)
        or _key(ctx, path) in ctx.state.get(WRITTEN, ())
        or (private and within(real, "/tmp"))  # noqa: S108 - its own
    )
    system = any(within(real, folder) for folder in SYSTEM) and not within(real, BESIDE)
    return "tool" if own or system else "import"


def _of_a_loaded_skill(ctx: ToolContext, real: str) -> bool:
    """Whether a file belongs to a skill that was loaded in this session, and was looked at for that."""
    library, names = ctx.skills, ctx.state.get(SKILLS, ())
    return library is not None and any(within(real, library.get(name).folder) for name in names if name in library)


def _real(ctx: ToolContext, path: str) -> tuple[str, str, bool]:
    """A file and the working folder, links followed where they can be, and whether temporary files there are the session's own."""
    on_host: Callable[[str], str] | None = getattr(ctx.env, "on_host", None)
    here = on_host(path) if on_host and "\0" not in path else ""
    if on_host and here:
        private = bool(getattr(ctx.env, "contained", False))
        return os.path.realpath(here), os.path.realpath(on_host(ctx.env.cwd)), private
    return path if path.startswith("~") else _key(ctx, path), ctx.env.cwd, on_host is not None


def wrote(ctx: ToolContext, path: str) -> None:
    """Remember that the model has written the whole file."""
    ctx.state.setdefault(WRITTEN, set()).add(_key(ctx, path))


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


@asynccontextmanager
async def alone(ctx: ToolContext, *paths: str) -> AsyncGenerator[None]:
    """No other agent of the same tree changes these files until the block ends; what one has changed must be read first.

    Raises ToolError for a file that has changed since the model read it.
    """
    locks: dict[str, asyncio.Lock] | None = ctx.state.get(TREE)
    if locks is None:
        yield
        return
    async with AsyncExitStack() as stack:
        for key in sorted({_key(ctx, path) for path in paths if path}):
            await stack.enter_async_context(locks.setdefault(key, asyncio.Lock()))
        for path in paths:
            stat = await ctx.env.stat(path) if path and _key(ctx, path) in _known(ctx) else None
            if stat is not None and changed(ctx, path, stat):
                raise ToolError(
                    f"{readable(path)} was changed since you read it, perhaps by another agent at work here; nothing was "
                    "written. Read it again first",
                    size=stat.size,
                )
        yield


def need_secrets(path: str, *, before: bytes, data: bytes) -> None:
    """Raise ToolError for a text that has marks where the file has secrets: those were taken out of what the model has read."""
    if data.count(TAKEN_OUT) > before.count(TAKEN_OUT):
        raise ToolError(
            f"{readable(path)} would get {TAKEN_OUT.decode()}…] in place of a secret, which you cannot see; nothing was written."
            " Change other parts of it with patch"
        )


def _known(ctx: ToolContext) -> dict[str, Stamp]:
    return ctx.state.setdefault(READ, {})


def _key(ctx: ToolContext, path: str) -> str:
    return posixpath.normpath(posixpath.join(ctx.env.cwd, path))
