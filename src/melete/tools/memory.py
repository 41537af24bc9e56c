"""`memory`: what the agent keeps from one session to the next, about the work and about the person."""

import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from msgspec import structs

from melete.core.memory import WITHHELD, Action, MemoryEntry, Noted, Noting, Operation, Target
from melete.core.message import Message, Taint, Text, ToolResult
from melete.core.ports import Memory
from melete.core.tool import Tool, ToolContext, ToolError, tool
from melete.tools.known import TAKEN_OUT

OFF = "memory.off"
"""The key of `ToolContext.state`: why something may not be kept, by target."""
MAKE_ROOM = "memory.room"
"""The key of `ToolContext.state`: what makes room for a change that was refused for want of it, once in a session."""
REFUSED = "memory.refused"
"""The key of `ToolContext.state`: how many changes were refused for want of room since room was made last, -1 for never again."""
PATIENCE = 2
"""Refusals for want of room before room is made."""
PIPED = "\n\n<stdin>\n"
"""What stands before text that came by a pipe with a prompt: nobody has typed it."""
LONGEST_SAID = 300
ORDER: Sequence[Taint] = ("web", "import", "tool", "none")
_SENTENCE = re.compile("[^.!?\u3002\uff01\uff1f\n]+[.!?\u3002\uff01\uff1f]*")
_WORD = re.compile(r"\w{3,}")


class _Step(Operation, frozen=True, kw_only=True):  # without words of its own: a model is shown them
    pass


Maker = Callable[[ToolContext, Noting, Noted], Awaitable[tuple[Noted | None, str]]]
"""Makes room for a change and makes it: what came of it, None where there is still no room, and what to tell the model."""


@tool(effect="write", limit=20_000)
async def memory(
    ctx: ToolContext,
    *,
    target: Target,
    action: Action = "add",
    content: str = "",
    old_text: str = "",
    operations: list[_Step] | None = None,
) -> dict[str, Any]:
    """Keep short facts for later sessions: on the work (memory) or the person (user).
    old_text: part of the entry, or its id. operations: several steps, all or none; until: last day, YYYY-MM-DD; anchor: \
a file it rests on."""
    notes = _memory(ctx, target)
    if operations and (content or old_text):
        raise ToolError("give operations, or content and old_text, not both; nothing was changed")
    single = Operation(action=action, content=content, old_text=old_text)
    steps = tuple(_anchored(ctx, step) for step in operations or (single,))
    if any(TAKEN_OUT.decode() in step.content for step in steps):
        raise ToolError(f"{TAKEN_OUT.decode()}…] stands in place of a secret, which memory does not keep")
    change = noting(ctx, target, steps)
    noted = await notes.apply(change)
    fits = all(len(step.content) <= noted.limit for step in steps)
    if noted.full and fits and (room := await _room(ctx, change, noted)):
        return await _told(notes, room[0] or noted, change) | {"consolidation": room[1]}
    return await _told(notes, noted, change)


def _anchored(ctx: ToolContext, step: Operation) -> Operation:
    """The step with its file's whole path."""
    if not step.anchor or "://" in step.anchor or step.anchor.startswith("~/"):
        return step
    return structs.replace(step, anchor=posixpath.join(ctx.env.cwd, step.anchor))


def noting(ctx: ToolContext, target: Target, steps: Sequence[Operation]) -> Noting:
    """The change with where it comes from: the person's last words, and whoever has said them."""
    state = ctx.session.transcript
    last = next((one for one in reversed(state.messages) if _is_persons(one)), None)
    taints: set[Taint] = {getattr(part, "taint", "none") for message in state.messages for part in message.parts}
    return Noting(
        target=target,
        operations=tuple(steps),
        who=(last and last.by and last.by.who) or ctx.session.ref.owner,
        session=ctx.session.ref.id,
        turn=state.seq,
        said=sentence(_words(last), " ".join(step.content or step.old_text for step in steps)) if last else "",
        model=state.frame.model if state.frame else "",
        taint=next(one for one in ORDER if one in taints or one == "none"),
    )


def sentence(said: str, kept: str) -> str:
    """The sentence of a longer message that has most of the words of what is kept; a short message is one."""
    said = said.strip()
    if len(said) <= LONGEST_SAID:
        return said
    wanted = set(_WORD.findall(kept.casefold()))
    sentences = [found[0].strip() for found in _SENTENCE.finditer(said)]
    best = max(sentences, key=lambda one: len(wanted.intersection(_WORD.findall(one.casefold()))), default=said)
    return best if len(best) <= LONGEST_SAID else f"{best[: LONGEST_SAID - 1]}…"


def _is_persons(message: Message) -> bool:
    return message.role == "user" and (message.by is None or message.by.kind == "person")


def _words(message: Message) -> str:
    """What the person has typed; what else stands in the message was put behind it."""
    typed = next((part.text for part in message.parts if isinstance(part, Text) and part.taint == "none"), "")
    return typed.partition(PIPED)[0]


def _memory(ctx: ToolContext, target: Target) -> Memory:
    off: Mapping[str, str] = ctx.state.get(OFF, {})
    if ctx.memory is None or target in off:
        raise ToolError(off.get(target, "nothing is remembered here"))
    return ctx.memory


async def _room(ctx: ToolContext, change: Noting, noted: Noted) -> tuple[Noted | None, str] | None:
    """Count a refusal for want of room, and make room at the second one; None where the model has to."""
    count = ctx.state[REFUSED] = ctx.state.get(REFUSED, _refused(ctx)) + 1
    make: Maker | None = ctx.state.get(MAKE_ROOM)
    if make is None or count != PATIENCE:
        return None
    return await make(ctx, change, noted)


def _refused(ctx: ToolContext) -> int:
    """How often this session was refused before, in another process as well."""
    parts = (part for message in ctx.session.messages for part in message.parts if isinstance(part, ToolResult))
    return sum(part.name == "memory" and part.error and '"adds":' in part.content for part in parts)


async def _told(notes: Memory, noted: Noted, change: Noting) -> dict[str, Any]:
    used = {"current": noted.used, "limit": noted.limit}
    if noted.ok:
        result: dict[str, Any] = {"success": True, "kept": [f"{one.id} {one.text}" for one in noted.entries], **used}
        return result | ({"receipts": noted.receipts} if noted.receipts else {})
    result = {"success": False, "error": noted.reason, **used}
    if noted.full:
        entries = await notes.entries(change.who, change.target)
        result |= {"adds": noted.adds, "entries": {one.id: _shown(one) for one in entries}}
    return result


def _shown(entry: MemoryEntry) -> str:
    return next((mark for mark in entry.marks if mark.startswith(WITHHELD)), entry.text)


class MemoryTools:
    """What is remembered; `enabled` is the setting."""

    name = "memory"

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled

    def available(self) -> bool:
        """Whether anything is remembered here."""
        return self._enabled

    def open(self) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """The tool; nothing has to be started or ended for it."""
        return nullcontext((memory,))
