"""What a conversation is about, kept as data beside any summary of it. Layer 0."""

from msgspec import Struct

from melete.core.message import Taint

RECALLED = "[From earlier in this conversation"
"""How a text begins that the runtime has put behind a person's words, out of what is no longer in view."""


class Step(Struct, frozen=True, kw_only=True):
    """One step of the plan, as `todo` has it."""

    id: str
    content: str
    status: str = "pending"


class Kept(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was said or found, word for word.

    `number` is that of the person's message, or of the reply whose call brought it; `source` is the tool's name, empty for a
    person. `seq` is the fact that holds it.
    """

    text: str
    number: int
    seq: int
    source: str = ""
    taint: Taint = "none"


class TaskState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the work stands: read off the facts by the runtime, never written by a model.

    `goal` is what the person asked for first and `latest` what they said last; `binding` holds their sentences that set a rule or
    settle something, `said` others that tell something. `values` are what tools returned under a name. `worked` are commands that
    ended well, the last of each kind, `failed` those that failed since. `left_out` counts what had no room.
    """

    goal: Kept | None = None
    latest: Kept | None = None
    binding: tuple[Kept, ...] = ()
    said: tuple[Kept, ...] = ()
    plan: tuple[Step, ...] = ()
    files: tuple[str, ...] = ()
    worked: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    values: tuple[Kept, ...] = ()
    left_out: int = 0
