"""What is remembered, as values: an entry with what is known about it, and the steps of a change. Layer 0."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from melete.core.message import Taint

Target = Literal["memory", "user"]
"""`memory` is about the work and shared; `user` is about one person."""
Action = Literal["add", "replace", "remove"]
State = Literal["active", "stale", "superseded", "forgotten"]
WITHHELD = "withheld, by the rule "
"""How the mark of an entry begins that nobody but a person is shown."""
KEPT = "stays, a person has changed it since"
"""What is said of an entry that is not taken back."""


class Operation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a change: `content` is new text, `old_text` a part of exactly one entry, or the entry's id.

    `until` is the last day on which the entry holds (ISO date), `anchor` a file's whole path, or an address, that it stands or
    falls with.
    """

    action: Action
    content: str = ""
    old_text: str = ""
    until: str = ""
    anchor: str = ""


class Noting(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of one file of memory: all `operations` or none. `who` is the person of the session, empty for the local one.

    `author` is `user`, `agent`, `consolidation` or a provider's name; `session` and `turn` are where it was said, `said` the
    person's sentence that it came from, `model` and `taint` those of the conversation.
    """

    target: Target
    operations: tuple[Operation, ...]
    who: str = ""
    author: str = "agent"
    session: str = ""
    turn: int = 0
    said: str = ""
    model: str = ""
    taint: Taint = "none"
    reason: str = ""


class MemoryEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of memory, with what the ledger says about it. `id` stays the same while its text changes.

    `version` stands for the text, `state` is `active` or `stale` for one that is in the file, `marks` say in words why it should
    be doubted (out of date, its file changed, contradicted by another). `confirmed` is when somebody last said it or stood by it.
    `anchored` stands for what the anchor's file held then.
    """

    id: str
    target: Target
    text: str
    version: str = ""
    who: str = ""
    state: State = "active"
    marks: tuple[str, ...] = ()
    author: str = "user"
    session: str = ""
    turn: int = 0
    said: str = ""
    model: str = ""
    taint: Taint = "none"
    at: datetime | None = None
    confirmed: datetime | None = None
    confidence: float = 1.0
    until: str = ""
    anchor: str = ""
    anchored: str = ""


class Noted(Struct, frozen=True, kw_only=True):
    """What became of a change: `used` and `limit` are characters of the file as it is now, `adds` what the change would add.

    With `ok` the `entries` are those that were written, and `receipts` say in a line each what they replaced, which version it is
    kept as, and which other entry seems to say otherwise. Without it nothing was changed, `reason` says why, and the `entries`
    are those that could have been meant. `full` says that there was no room. `number` is that of the change in the ledger, by
    which `revert` takes it back as a whole. `left` is what was not taken back, for a person has changed it since.
    """

    ok: bool
    reason: str = ""
    used: int = 0
    limit: int = 0
    adds: int = 0
    entries: tuple[MemoryEntry, ...] = ()
    receipts: tuple[str, ...] = ()
    full: bool = False
    number: int = 0
    left: tuple[Noting, ...] = ()


class Past(Struct, frozen=True, kw_only=True):
    """One step in the history of an entry: `did` is added, found (by hand), replaced, confirmed, removed, forgotten or reverted.

    `text` is what the entry says from then on, empty for one that is gone, and `before` what it said until then.
    """

    entry: str
    target: Target
    did: str
    text: str = ""
    before: str = ""
    version: str = ""
    author: str = ""
    session: str = ""
    turn: int = 0
    said: str = ""
    model: str = ""
    reason: str = ""
    who: str = ""
    at: datetime | None = None
    number: int = 0


class MemoryProblem(Struct, frozen=True, kw_only=True):
    """A file of memory, or an entry of one, that is not used: `what` it is, and what to do `next`."""

    target: Target
    path: str
    what: str
    next: str = ""


class MemoryProposal(Struct, frozen=True, kw_only=True):
    """A change that waits for a person; its `reason` says why."""

    id: str
    change: Noting
    at: datetime | None = None


class Recalled(Struct, frozen=True, kw_only=True):
    """A text that a memory brings for a message, the best first; `source` says in words where it is from."""

    text: str
    source: str = ""
    score: float = 0.0
    taint: Taint = "tool"
    about: dict[str, Any] = {}
