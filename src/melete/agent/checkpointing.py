"""A checkpoint of the working folder before the first call of a run that may change it, and what each has left. Layer 2."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from melete.core.errors import MeleteError
from melete.core.event import Notice
from melete.core.message import ToolCall, ToolResult
from melete.core.plugin import Lazy
from melete.core.policy import Verdict
from melete.core.ports import Checkpoints
from melete.core.tool import Go, ToolContext

_judged: Lazy[Callable[[str], Verdict]] = Lazy("melete.security.commands:judge_command")

log = logging.getLogger("melete.checkpoints")


@dataclass(kw_only=True)
class Kept:
    """The checkpoints of one folder in one turn: how many calls may change it now, and whether none can be made."""

    checkpoints: Checkpoints
    open: int = 0
    broken: bool = False


@dataclass(kw_only=True)
class Turn:
    """What is taken back as one: a run of the session that a person talks to, and the runs of all children below it."""

    name: str
    session: str
    folders: dict[str, Kept] = field(default_factory=dict[str, Kept])


class CheckpointGuard:
    """Keeps the folder before a call that may change it; a failure is told once and holds up nothing.

    What has gone wrong with a checkpoint is no reason to refuse the work: the person is told that there is none. Calls of
    several agents that overlap are one change: whose it was while they ran cannot be told.
    """

    def __init__(self, kept: Kept, *, turn: Turn, redact: Callable[[str], str]) -> None:
        self._kept = kept
        self._turn = turn
        self._redact = redact

    async def __call__(self, call: ToolCall, ctx: ToolContext, go: Go) -> ToolResult:
        """Let the call through, between two looks at the folder where it may change it."""
        kept = self._kept
        if kept.broken or not may_change(ctx):
            return await go(call)
        try:
            if not kept.open:
                label = self._redact(_asked(ctx))
                await kept.checkpoints.before(self._turn.name, session=self._turn.session, label=label)
        except MeleteError as error:
            kept.broken = True
            log.warning("no checkpoint: %s", error)
            await ctx.session.record(
                Notice(text=f"there is no checkpoint of this turn: {error}", level="warning", about="checkpoint")
            )
            return await go(call)
        kept.open += 1
        try:
            return await go(call)
        finally:
            kept.open -= 1
            await self._note()

    async def _note(self) -> None:
        try:
            await self._kept.checkpoints.after(self._turn.name)
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
    return not (isinstance(command, str) and command and _judged.load()(command).reads)
