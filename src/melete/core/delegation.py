"""Delegation: what a child is asked for, what it brings back, and the port through which it is run. Layer 0."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from melete.core.message import Taint

SUBAGENT: Final = "subagent"
"""The source of a child's session, and the surface of its runs."""
DELEGATE: Final = "delegate_task"
"""The tool by which a model delegates."""
BLOCKED: Final = frozenset({DELEGATE, "clarify", "memory", "send_message", "execute_code", "cronjob"})
"""Tools that no child has; an orchestrator keeps `delegate_task`."""
PROGRAM: Final = "program"
"""The provider and the wire of what is no model: a child that is another program."""
Role = Literal["leaf", "orchestrator"]
Isolation = Literal["none", "worktree"]
Status = Literal["completed", "failed", "timeout", "interrupted", "error"]


class Task(Struct, frozen=True, kw_only=True):
    """Work for a child: `toolsets` empty means those of the parent, `resume` names the session of a child that goes on.

    With `isolation` worktree it works in a copy of the parent's repository.
    """

    goal: str
    context: str = ""
    toolsets: tuple[str, ...] = ()
    role: Role = "leaf"
    resume: str = ""
    isolation: Isolation = "none"


class Trace(Struct, frozen=True, kw_only=True):
    """One finished call of a child: sizes, not content."""

    tool: str
    args_bytes: int
    result_bytes: int
    status: str


class Outcome(Struct, frozen=True, kw_only=True):
    """What a child brought back; also one that failed, was stopped or ran out of time gives what it has.

    `fields` are its entry in the result, as the model reads it; `taint` is the worst that its text was made from.
    """

    status: Status
    session: str
    fields: Mapping[str, Any]
    taint: Taint = "none"
    source: str = ""


class Rules(Struct, frozen=True, kw_only=True):
    """What a delegating agent must keep to: `depth` is its own, `most` the tasks of one call, `deepest` the last depth.

    `programs` says that its children are programs, which act by themselves.
    """

    most: int = 3
    depth: int = 0
    deepest: int = 1
    orchestrators: bool = True
    background: bool = False
    timeout: float = 600.0
    isolation: Isolation = "none"
    programs: bool = False


class Runner(Protocol):
    """Starts runs on behalf of a part."""

    @property
    def rules(self) -> Rules:
        """What is allowed here."""
        ...

    def shares(self, ctx: Any, tasks: Sequence[Task]) -> Sequence[Any]:
        """Set aside a part of the budget for each of these tasks, to be handed to `child`, which gives back what is left."""
        ...

    async def child(self, ctx: Any, task: Task, *, number: int, share: Any) -> Outcome:
        """Run a child to its end; `number` is its place in the call.

        What goes wrong is in its outcome, and so is what it has when the caller is cancelled: it is stopped and stored first.
        """
        ...

    async def later(self, ctx: Any, tasks: Sequence[Task]) -> Sequence[str]:
        """Begin the children in the background and return the ids of their sessions; each reports by a message."""
        ...
