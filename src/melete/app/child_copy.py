"""A child's own copy of its parent's repository, and what becomes of it: a branch and a report. Part of the composition root.

The copy is a repository of its own below the parent's (`FOLDER`), which borrows the parent's objects: git in it works behind the
same walls, and nothing done in it touches the parent's files, index, branches or stash. It begins as the parent's files are at that
moment, whether committed or not. What the child leaves goes to the branch `melete/SESSION`; nothing is merged by itself.
"""

import logging
import posixpath
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from melete.app import child_copy_scripts as scripts
from melete.app.child_copy_scripts import FOLDER
from melete.core.environment import Completed, Entry, Environment, FileStat, RunningProcess
from melete.core.errors import EnvironmentFailure
from melete.core.policy import Verdict
from melete.core.tool import ToolError
from melete.security.paths import within

log = logging.getLogger("melete.delegation")
WORKTREE: Final = "worktree"
SECONDS, OUTPUT = 600.0, 16_000_000
LISTED = 200
"""Files that a report names; of more it says how many."""
WHY: Final[Mapping[int, str]] = {
    scripts.NO_GIT: "there is no git in {env}. Ask again without isolation",
    scripts.NO_REPOSITORY: "{cwd} is in no git repository that can be seen from here ({said}). Ask again without isolation, or "
    "start at the top of one",
    scripts.NO_COMMIT: "the repository has no commit yet. Commit something first, or ask again without isolation",
    scripts.TAKEN: "a branch named melete is in the way of melete/SESSION. Rename it, or ask again without isolation",
    scripts.LED_ASTRAY: f"{FOLDER} is a link. Remove it, or ask again without isolation",
}


class Moved:
    """An environment whose working folder is another one below its own: that of a copy, or of a child that works in one.

    `copied` is the copy's top. Tools write nothing between it and `over`, the repository's: what a child means is in its copy.
    """

    def __init__(self, env: Environment, *, cwd: str, copied: str, over: str) -> None:
        self._env = env
        self._cwd = cwd
        self.copied = copied
        self.over = over

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._env, name)
        if name == "on_host":
            return partial(self._on_host, found)
        return self._judge(found) if name == "judge_file" else found

    @property
    def name(self) -> str:
        """That of the environment."""
        return self._env.name

    @property
    def root(self) -> str:
        """The working folder of the environment itself."""
        return self._env.cwd

    @property
    def cwd(self) -> str:
        """The working folder, absolute."""
        return self._cwd

    async def temp(self) -> str:
        """That of the environment."""
        return await self._env.temp()

    async def exec(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str = "", timeout: float = 180.0, limit: int = 1_000_000
    ) -> Completed:
        """Run a program to its end, here."""
        return await self._env.exec(argv, stdin=stdin, cwd=self._path(cwd), timeout=timeout, limit=limit)

    async def start(self, argv: Sequence[str], *, cwd: str = "", pty: bool = False) -> RunningProcess:
        """Start a program, here."""
        return await self._env.start(argv, cwd=self._path(cwd), pty=pty)

    async def read(self, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        """Bytes of a file."""
        return await self._env.read(self._path(path), offset=offset, limit=limit)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file."""
        await self._env.write(self._path(path), data)

    async def stat(self, path: str) -> FileStat | None:
        """What is there, or None."""
        return await self._env.stat(self._path(path))

    async def list(self, path: str) -> Sequence[Entry]:
        """The names in a folder."""
        return await self._env.list(self._path(path))

    async def remove(self, path: str) -> None:
        """Remove a file."""
        await self._env.remove(self._path(path))

    async def rename(self, path: str, to: str) -> None:
        """Move a file."""
        await self._env.rename(self._path(path), self._path(to))

    async def aclose(self) -> None:
        """End the environment."""
        await self._env.aclose()

    def _path(self, path: str) -> str:
        return path if path.startswith("~") else posixpath.normpath(posixpath.join(self._cwd, path))

    def _on_host(self, on_host: Callable[[str], str], path: str) -> str:
        return on_host(self._path(path))

    def _judge(self, judge: Callable[..., Verdict]) -> Callable[..., Verdict]:
        def judged(path: str, *, write: bool) -> Verdict:
            whole = self._path(path)
            if write and within(whole, self.over) and not within(whole, self.copied):
                reason = f"it belongs to the other agent, and you work in a copy of your own: write below {self.copied}"
                return Verdict(verdict="forbid", rule="files.copy", reason=reason)
            return judge(whole, write=write)

        return judged


class Left(Struct, frozen=True, kw_only=True):
    """What a child has left: a branch, the commit that it began from, the one it ended with, and each file's lines as `+N -N`."""

    branch: str
    base: str
    tip: str
    files: Mapping[str, str]


class Copy:
    """One copy, as its parent's environment sees it; `key` names it, `folder` is its top and `cwd` where the child works.

    It is removed by `aclose` where it is `spare`: all that it holds stands elsewhere.
    """

    def __init__(self, env: Environment, key: str, *, top: str, below: str) -> None:
        self._env = env
        self._key = key
        self._top = top
        self.folder = f"{top}/{FOLDER}/{key}"
        self.cwd = posixpath.join(self.folder, below).rstrip("/")
        self.spare = False

    @property
    def top(self) -> str:
        """The top of the repository that was copied."""
        return self._top

    def moved(self, env: Environment) -> Moved:
        """An environment like the parent's, with this copy as its working folder."""
        over = self._env.over if isinstance(self._env, Moved) else self._top
        return Moved(env, cwd=self.cwd, copied=self.folder, over=over)

    async def deliver(self, session: str, title: str, *, others: list[Left]) -> dict[str, Any]:
        """Keep what the child has left on its branch; the report of it, as the parent reads it.

        `others` are what its siblings have left; what it has left is added. When nothing can be kept the report says why, and
        the copy stays.
        """
        try:
            return await self._delivered(branch_of(session), title, others)
        except (EnvironmentFailure, ToolError) as error:
            kept = f"its copy still stands in {self.folder}, and resume goes on there"
            return {"error": f"what it changed could not be put on a branch: {error}", "kept": kept}

    async def _delivered(self, branch: str, title: str, others: list[Left]) -> dict[str, Any]:
        base, tip, *rows = (await self._git(scripts.STORE, branch, title or branch)).split("\n")
        if not tip:
            self.spare = not any(rows)
            return {"note": "it changed no file: there is no branch"} | self._partly(rows)
        left = Left(branch=branch, base=base, tip=tip, files=_counted(await self._git(scripts.COUNT, base, tip)))
        report: dict[str, Any] = {"branch": branch, "base": base[:12], "files": _listed(left.files)}
        if (commits := int(rows[0]) - 1) > 0:
            report["commits"] = commits
        report |= self._partly(rows[1:])
        bad = await self._conflicts(left, "")
        report["applies_cleanly"] = not bad
        if bad:
            report["conflicts"] = bad
            report["by_hand"] = (
                f"merge what `git diff {left.base[:12]} {branch} -- FILE` shows of these into your files"
            )
        if clash := await self._clashes(left, others):
            report["conflicts_with"] = clash
        if command := self._command(left, bad):
            report["take_over"] = command
        others.append(left)
        self.spare = "kept" not in report
        return report

    def _partly(self, rows: Sequence[str]) -> dict[str, str]:
        """What no branch can hold, if anything."""
        found = [row.partition(" ")[2] for row in rows if row.startswith(("partly ", "nested "))]
        if not found:
            return {}
        return {
            "kept": f"not all could be put on the branch, so its copy still stands in {self.folder}: {', '.join(found)}"
        }

    async def _conflicts(self, left: Left, onto: str) -> list[str]:
        """The files whose changes do not apply to the parent's files as they are, or to a commit."""
        if not left.files:
            return []
        said = await self._git(scripts.CHECK, left.base, left.tip, onto)
        rows = [row.removeprefix("error: ") for row in said.splitlines()]
        found = [path for path in left.files if any(row.startswith(f"{path}: ") for row in rows)]
        return found or ([*left.files] if said.strip() else [])

    async def _clashes(self, left: Left, others: Sequence[Left]) -> dict[str, list[str]]:
        """The branches of siblings after which it does not apply, and the files in which that is so."""
        found: dict[str, list[str]] = {}
        for other in others:
            if other.branch != left.branch and left.files.keys() & other.files.keys():
                bad = [path for path in await self._conflicts(left, other.tip) if path in other.files]
                found |= {other.branch: bad} if bad else {}
        return found

    def _command(self, left: Left, bad: Sequence[str]) -> str:
        """What takes over all that applies; empty where nothing does."""
        if not left.files.keys() - {*bad}:
            return ""
        git = "git" if self._top == self._env.cwd else f"git -C {shlex.quote(self._top)}"
        but = [shlex.quote(f":(exclude,top,literal){path}") for path in bad]
        only = " ".join(["", "--", ":/", *but]) if but else ""
        return f"{git} diff-tree -p --binary {left.base[:12]} {left.branch}{only} | {git} apply"

    async def aclose(self) -> None:
        """Remove the copy, if it is spare; one that cannot be removed is told of in the log."""
        if not self.spare:
            return
        try:
            await self._git(scripts.REMOVE)
        except (EnvironmentFailure, ToolError) as error:
            log.warning("the copy %s of a child could not be removed: %s", self.folder, error)

    async def make(self, branch: str) -> None:
        """Make the copy, as `branch` or else the parent's files are; one that is there is gone on with. Raises ToolError."""
        self.spare = (await self._git(scripts.MAKE, branch)).strip() == "made"

    async def _git(self, script: str, *words: str) -> str:
        done = await _run(self._env, script, self._top, self._key, *words)
        return done.output.decode("utf-8", "surrogateescape")


def branch_of(session: str) -> str:
    """The branch on which the work of a child is kept."""
    return f"melete/{session}"


async def open_copy(env: Environment, key: str, *, session: str = "") -> Copy:
    """A copy of the repository in which `env` works, in a new folder or that of before; `session` is that of a child that goes on.

    Raises ToolError where there can be none; nothing is left of it then.
    """
    try:
        copy = await find_copy(env, key)
        await copy.make(branch_of(session) if session else "")
    except (EnvironmentFailure, ToolError) as error:
        raise ToolError(f"no copy of the repository can be made for a child: {error}; nothing was begun") from error
    return copy


async def find_copy(env: Environment, key: str) -> Copy:
    """The copy that `key` names, whether it is there or not; raises ToolError where there can be none."""
    top, below = (await _run(env, scripts.FIND)).output.decode("utf-8", "surrogateescape").split("\n")[-3:-1]
    return Copy(env, key, top=top, below=below)


async def _run(env: Environment, script: str, *words: str) -> Completed:
    """A script that came to its good end; raises ToolError."""
    done = await env.exec(["sh", "-c", script, "sh", *words], timeout=SECONDS, limit=OUTPUT)
    if done.code == 0 and not done.dropped:
        return done
    said = " ".join(done.output.decode("utf-8", "replace").split())[-400:]
    if why := WHY.get(done.code or 0):
        raise ToolError(why.format(env=env.name, cwd=env.cwd, said=said))
    late = f"git took longer than {SECONDS:g} s" if done.timed_out else said or f"git ended with {done.code}"
    raise ToolError(
        f"{late}. Melete must be able to write in the whole repository: start it at its top, or ask without isolation"
    )


def _counted(said: str) -> dict[str, str]:
    """The files of a numstat with -z."""
    rows = [row.split("\t", 2) for row in said.split("\0") if row.count("\t") > 1]
    return {path: "binary" if more == "-" else f"+{more} -{less}" for more, less, path in rows}


def _listed(files: Mapping[str, str]) -> dict[str, str]:
    shown = dict([*files.items()][:LISTED])
    return {**shown, "…": f"{len(files) - LISTED} more"} if len(files) > LISTED else shown
