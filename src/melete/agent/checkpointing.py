"""A checkpoint of the working folder before the first call of a run that may change it, and what each has left. Layer 2."""

import logging
import re

from melete.core.errors import MeleteError
from melete.core.event import Notice
from melete.core.message import ToolCall, ToolResult
from melete.core.ports import Checkpoints
from melete.core.tool import Go, ToolContext

log = logging.getLogger("melete.checkpoints")
LOOKS = frozenset({
    "arch", "basename", "cat", "cd", "cut", "date", "df", "dirname", "du", "echo", "egrep", "env", "expr", "false", "fgrep",
    "grep", "groups", "head", "hostname", "id", "jq", "ls", "md5sum", "nproc", "od", "pgrep", "printenv", "printf", "ps", "pwd",
    "readlink", "realpath", "rg", "sha256sum", "sleep", "stat", "tail", "test", "tr", "true", "type", "uname", "uptime", "wc",
    "which", "who", "whoami",
})  # fmt: skip
"""Programs that change no file; those whose options write files are not here."""
GIT_LOOKS = frozenset({
    "blame", "cat-file", "describe", "grep", "log", "ls-files", "ls-tree", "rev-list", "rev-parse", "shortlog", "show", "status",
})  # fmt: skip
WRITES = ("--output", "--pre", "--open")
"""How an option begins that writes a file or runs a program after all."""
WORD = re.compile(r"[A-Za-z0-9_./:=,@%+-]+|'[^'\n]*'|\"[^\"$`\\\n]*\"")
PARTS = re.compile(r"\|\||&&|[;|\n]")


class CheckpointGuard:
    """Keeps the folder before a call that may change it; a failure is told once and holds up nothing.

    What has gone wrong with a checkpoint is no reason to refuse the work: the person is told that there is none.
    """

    def __init__(self, checkpoints: Checkpoints, *, turn: str) -> None:
        self._checkpoints = checkpoints
        self._turn = turn
        self._broken = False

    async def __call__(self, call: ToolCall, ctx: ToolContext, go: Go) -> ToolResult:
        """Let the call through, between two looks at the folder where it may change it."""
        if self._broken or not may_change(ctx):
            return await go(call)
        try:
            await self._checkpoints.before(self._turn, session=ctx.session.ref.id, label=_asked(ctx))
        except MeleteError as error:
            self._broken = True
            log.warning("no checkpoint: %s", error)
            await ctx.session.record(
                Notice(text=f"there is no checkpoint of this turn: {error}", level="warning", about="checkpoint")
            )
            return await go(call)
        try:
            return await go(call)
        finally:
            await self._note()

    async def _note(self) -> None:
        try:
            await self._checkpoints.after(self._turn)
        except MeleteError as error:  # a rollback then takes all that has changed since for the turn's
            log.warning("the end of a change was not noted: %s", error)


def _asked(ctx: ToolContext) -> str:
    """What the person said last."""
    return next((message.text for message in reversed(ctx.session.messages) if message.role == "user"), "")


def may_change(ctx: ToolContext) -> bool:
    """Whether a call may change files of the working folder; a command may unless it plainly only looks."""
    if ctx.tool.effect == "read":
        return False
    command = getattr(ctx.arguments, "command", "")
    return not (isinstance(command, str) and command and only_looks(command))


def only_looks(command: str) -> bool:
    """Whether a shell command consists of nothing but programs that change no file; False where that is not plain."""
    for part in PARTS.split(command):
        rest = WORD.sub("", part).replace("2>&1", "").replace(">/dev/null", "")
        if rest.strip(" \t"):
            return False
        words = [word.strip("'\"") for word in WORD.findall(part)]
        if words and not (words[0] in LOOKS or (words[0] == "git" and len(words) > 1 and words[1] in GIT_LOOKS)):
            return False
        if any(word.startswith(WRITES) for word in words) or (words[:1] == ["env"] and len(words) > 1):
            return False
    return bool(command.strip())
