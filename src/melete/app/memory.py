"""Memory in a session: what its prompt says is remembered, and what its tools keep. Part of the composition root.

What is remembered is part of the frame and stays as it is for the whole session; what is kept meanwhile is in the next one.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from melete import __version__
from melete.app.clock import FixedClock
from melete.app.settings import Loaded
from melete.app.toolsets import is_small
from melete.app.wire import Melete
from melete.core.errors import StoreError, UsageError
from melete.core.memory import MemoryEntry, Target
from melete.core.plugin import Lazy
from melete.core.ports import Memory
from melete.core.session import Session, SessionRef
from melete.core.tool import Tool, ToolContext
from melete.store import open_ledger

if TYPE_CHECKING:
    from melete.memory.notes import Notes

_notes: "Lazy[Callable[..., Notes]]" = Lazy("melete.memory.notes:Notes")
_rules: Lazy[Callable[..., Any]] = Lazy("melete.memory.notes:Rules")
_make_room: Lazy[Callable[..., Any]] = Lazy("melete.app.consolidate:make_room")

log = logging.getLogger("melete.memory")
OFF, MAKE_ROOM = "memory.off", "memory.room"
"""Keys of the state that the tools share, as tools/memory.py has them."""
TOOL = "memory"
FILES: Mapping[Target, str] = {"memory": "MEMORY.md", "user": "USER.md"}
CHARS = 4
"""Characters of a token, about."""
MARK = 16
BETWEEN = "\n§\n"
GUIDANCE = """What you remember from earlier sessions stands below. With `memory`, keep what will still matter in weeks: what the \
person wants, likes or corrects (user); how this machine and the work are set up, and what cost you time (memory). One short fact \
each, no order. Not: how far this task is, what files or past sessions tell anyway, guesses, secrets; procedures are skills. \
Correct what proves wrong. It counts from the next session on."""


def remembered(app: Melete) -> "Notes":
    """What is remembered in the home; opened once in a process. Raises UsageError where memory is off."""
    if not app.loaded.settings.memory.enabled:
        raise UsageError(
            "memory is off (memory.enabled)", next="switch it on with: melete config set memory.enabled true"
        )
    if app.memory is None:
        given, then = app.loaded.settings.memory, app.then
        home = then.home if then else app.loaded.home
        rules = _rules.load()(
            memory_limit=given.memory_char_limit,
            user_limit=given.user_char_limit,
            user=given.user_enabled,
            redact=app.redact,
            mark=__version__,
            keeps=not (app.ephemeral or then),
        )
        ledger = open_ledger(home.state, clock=app.clock) if app.ephemeral else app.ledger
        clock = FixedClock(then.at, timedelta(0)) if then else app.clock
        ledger = then.ledger if then else ledger
        app.memory = _notes.load()(home.memories, home.state, ledger=ledger, clock=clock, rules=rules)
    return app.memory


def filled(app: Melete, target: Target, entries: Sequence[MemoryEntry]) -> tuple[int, int]:
    """How many characters these entries of one file take, and how many it may hold."""
    given = app.loaded.settings.memory
    limit = given.memory_char_limit if target == "memory" else given.user_char_limit
    return len(BETWEEN.join(one.text for one in entries)), limit


def memory_parts(loaded: Loaded) -> dict[str, Any]:
    """What the toolset of memory is made with."""
    return {"enabled": loaded.settings.memory.enabled}


class Memories:
    """What one conversation remembers; the person is the session's owner. `remarks` are what the person should know of it."""

    def __init__(self, app: Melete, ref: SessionRef) -> None:
        self.remarks: Sequence[str] = ()
        self._app = app
        self._ref = ref
        self._seen: Sequence[tuple[str, str, int]] = ()
        self._notes = remembered(app) if app.loaded.settings.memory.enabled else None

    async def block(self, tools: Sequence[Tool], window: int) -> str:
        """What a new frame says: what to keep, where these tools can, and what is remembered."""
        then = self._app.then
        if self._notes is None:
            return then.said if then else ""
        try:
            text, seen = await self._notes.pictured(self._ref.owner)
            self._seen = [(one.id, one.version, -(-len(one.text) // CHARS)) for one in seen]
            self.remarks = [
                f"{FILES[one.target]}: {one.what}; {one.next}" for one in await self._notes.problems(self._ref.owner)
            ]
        except StoreError as error:  # the conversation goes on without it
            text, self.remarks = "", [f"nothing is remembered in this session: {error}"]
        small = is_small(self._app.loaded.settings.agent.profile, window)
        keeps = not small and any(tool.name == TOOL for tool in tools)
        said = then.said if then else GUIDANCE if keeps else ""
        self.remarks = [*self.remarks, *(then.remarks if then else ())]
        return self._app.redact("\n\n".join(one for one in (said, text) if one))

    async def told(self, session: Session) -> None:
        """Store which entries the prompt has shown since the last time, in a fact that nothing waits for."""
        seen, self._seen = self._seen, ()
        if not seen or self._app.then:
            return
        mark = hashlib.sha256(repr(seen).encode()).hexdigest()[:MARK]
        about = {"session": session.ref.id, "turn": session.transcript.seq, "list": mark, "entries": seen}
        try:
            await self._app.ledger.append("memory.exposure", about, durable=False)
        except StoreError as error:  # what the run did is stored all the same
            log.warning("which entries of memory were shown was not noted: %s", error)

    def handed(self, state: dict[str, Any]) -> Memory | None:
        """The memory for the tools that share this state."""
        if not self._app.loaded.settings.memory.user_enabled:
            state[OFF] = {"user": "nothing is remembered about the person (memory.user_enabled)"}
        if self._notes is not None:
            state[MAKE_ROOM] = partial(_room, self._app, self._notes)
        return self._notes


async def _room(app: Melete, notes: Memory, ctx: ToolContext, *asked: Any) -> Any:
    change, refused = asked
    return await _make_room.load()(app, notes, ctx=ctx, change=change, refused=refused)
