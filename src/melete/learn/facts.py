"""What learning writes into the home's ledger: one kind of fact each, and how it is read back. Pure.

Skills and memory tell their own facts beside these (`skill.version`, `skill.exposure`, `memory.change`, `memory.proposal`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Struct

from melete.core.message import Usage
from melete.learn.verdict import Verdict

Brief = Literal["skills", "memory", "both"]
Status = Literal["trial", "inbox", "refused"]
Did = Literal["accepted", "rejected", "undone", "replaced"]
Class = Literal["fact", "typo", "pitfall", "skill", "guidance"]
F = TypeVar("F", bound="Kept")


class Kept(Struct, frozen=True, kw_only=True):
    """What each carries once it is in the ledger: its number and time there."""

    kind: ClassVar[str] = ""
    number: int = 0
    at: str = ""


class Debt(Kept, frozen=True, kw_only=True):
    """A signal that was found in a session: `what` in a line, `facts` the numbers in its log, `turn` the one of its prompt.

    `weight` is what it adds to the debt; with a `cause` in the environment it adds nothing.
    """

    kind: ClassVar[str] = "learn.signal"
    session: str
    turn: int
    signal: str
    weight: int
    what: str
    facts: tuple[int, ...] = ()
    verb: str = ""
    skill: str = ""
    cause: str = ""
    sure: float = 1.0


class ReadUpTo(Kept, frozen=True, kw_only=True):
    """How far a session's log was read for signals: up to the fact `upto`. `over` says that the session had ended then.

    `steps` and `turns` count since the last review or use of `skill_manage`, for the plain counters; `apart` in `state` are turns
    since the last review. The log is read anew from its beginning: no word of it stands here.
    """

    kind: ClassVar[str] = "learn.read"
    session: str
    upto: int
    state: dict[str, Any] = {}
    steps: int = 0
    turns: int = 0
    over: bool = False


class Review(Kept, frozen=True, kw_only=True):
    """A review of a session's facts behind `after` up to `upto`, told when it begins and when it ends, under one `id`.

    `why` says in a line what made it due, `log` is the session in which it is recorded. While it has only begun it belongs to the
    process `pid` (with `born`, which tells it from a later process of that number) until the time `until`.
    """

    kind: ClassVar[str] = "learn.review"
    id: str
    session: str
    after: int
    upto: int
    why: str = ""
    brief: Brief = "both"
    status: Literal["begun", "ended", "failed", "cancelled", "put_off"] = "begun"
    pid: int = 0
    born: str = ""
    until: str = ""
    log: str = ""
    model: str = ""
    usage: Usage = Usage()
    usd: float | None = None
    steps: int = 0
    said: str = ""
    error: str = ""


class Proposed(Kept, frozen=True, kw_only=True):
    """A lesson and what its gates said. `id` is that of the proposal, `review` that of the review, empty for another source.

    `target` and `name` say what it changes (the file of memory for an entry), `did` in a word how (created, patched …).
    `change` is the whole `Change` or `Noting` as JSON, `diff` what a person reads. A trial holds the `version` that became
    usable (of memory the number of the change). `hunks` are digests of what it adds and takes away, by which a rejected one is
    known again.
    """

    kind: ClassVar[str] = "learn.proposal"
    id: str
    status: Status
    target: Literal["skill", "memory"]
    name: str
    did: str
    class_: Class = "skill"
    session: str = ""
    turns: tuple[int, ...] = ()
    review: str = ""
    change: dict[str, Any] = {}
    diff: str = ""
    verdicts: tuple[Verdict, ...] = ()
    version: str = ""
    hunks: tuple[str, ...] = ()
    model: str = ""
    taint: str = "none"
    tokens: int = 0
    usd: float | None = None


class Decision(Kept, frozen=True, kw_only=True):
    """What a person, or later evidence, decided about a proposal.

    `replaced` names in `by_proposal` the one that was edited from it.
    """

    kind: ClassVar[str] = "learn.decision"
    proposal: str
    did: Did
    by: str = "user"
    reason: str = ""
    version: str = ""
    by_proposal: str = ""


class Undo(Kept, frozen=True, kw_only=True, omit_defaults=True):
    """Changes of skills and memory that are taken back together; told before it is done, so that what a crash left is found.

    `took` are their numbers in the ledger; the reason of whatever is done for it begins with `tag`. `of` names the undo that this
    one takes back, `proposals` the lessons that go with it.
    """

    kind: ClassVar[str] = "learn.undo"
    id: str
    session: str = ""
    proposals: tuple[str, ...] = ()
    took: tuple[int, ...] = ()
    of: str = ""
    by: str = "user"

    @property
    def tag(self) -> str:
        """How the reason begins of what was done for it."""
        return f"undo {self.id} "


class Task(Kept, frozen=True, kw_only=True, omit_defaults=True):
    """How a turn of a session went, whatever was shown in it: what outcomes are compared with.

    `task` is its class, the verb of the last call that worked (`git push`), empty where nothing was called; `calls` are all
    calls of tools, `work` those that looked nothing up in skills and memory. `errors` are calls that failed, `same_error` those
    that failed just as one before in the turn, `retries` those of a verb that had failed in it. `spent` are tokens, cache reads
    at a tenth. `listed` stands for the list of skills that its prompt had, as `skill.exposure` names it, `shown` for the
    entries of memory. `before` is the reward of the same turn as it was told first: words that came later have changed it.
    """

    kind: ClassVar[str] = "learn.task"
    session: str
    turn: int
    task: str = ""
    done: bool = False
    corrected: bool = False
    good: bool = False
    errors: int = 0
    same_error: int = 0
    retries: int = 0
    calls: int = 0
    work: int = 0
    median: float = 0.0
    spent: int = 0
    seconds: float = 0.0
    reward: float = 0.0
    before: float | None = None
    model: str = ""
    listed: str = ""
    shown: str = ""


class Outcome(Kept, frozen=True, kw_only=True, omit_defaults=True):
    """What came of one exposure: a skill or entry of memory that was shown or loaded, in the turn `turn` of a session.

    Told for what was loaded, suggested, pinned or withheld in the turn, and for what was shown before it and used in it. A list
    in the prompt is told of by `Task.listed` and `Task.shown` alone: it is the same for many turns. `task` is the class of the
    turn, `arm` control for what was withheld. `followed` is None without commands; only what was followed is `credited`.
    `errors`, `same_error` and `retries` are those behind the exposure. `reward` is in [-1, 1] as docs/concepts/learning.md
    defines it; `before` is the one that it replaces.
    """

    kind: ClassVar[str] = "learn.outcome"
    session: str
    turn: int
    target: Literal["skill", "memory"]
    name: str
    version: str = ""
    how: Literal["index", "retrieved", "loaded", "pinned", "withheld", "shown"] = "loaded"
    rank: int = 0
    arm: Literal["treat", "control"] = "treat"
    tokens: int = 0
    task: str = ""
    done: bool = False
    corrected: bool = False
    good: bool = False
    errors: int = 0
    same_error: int = 0
    retries: int = 0
    calls: int = 0
    median: float = 0.0
    spent: int = 0
    seconds: float = 0.0
    followed: float | None = None
    credited: bool = False
    reward: float = 0.0
    before: float | None = None
    model: str = ""


def fields_of(fact: Kept) -> dict[str, Any]:
    """The fact as the ledger's `append` takes it."""
    values = msgspec.to_builtins(fact)
    return {key: value for key, value in values.items() if key not in ("number", "at")}


def facts_of(kind: type[F], rows: Sequence[Mapping[str, Any]]) -> Iterator[F]:
    """The facts of a kind among these rows of the ledger; those that another version wrote in a way unknown here are left out."""
    for row in rows:
        if row.get("kind") == kind.kind:
            try:
                yield msgspec.convert(row, kind)
            except msgspec.ValidationError:
                continue
