"""The ports: what parts promise one another without knowing one another. Layer 0.

Store, Session, the model, jobs and environments have modules of their own; everything else that a part may be handed stands here.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from melete.core.channel import Channel as Channel
from melete.core.delegation import Runner as Runner
from melete.core.environment import Checkpoint as Checkpoint
from melete.core.environment import Checkpoints as Checkpoints
from melete.core.environment import Completed as Completed
from melete.core.environment import Dialer as Dialer
from melete.core.environment import Entry as Entry
from melete.core.environment import Environment as Environment
from melete.core.environment import FileStat as FileStat
from melete.core.environment import Opener as Opener
from melete.core.environment import Place as Place
from melete.core.environment import Processes as Processes
from melete.core.environment import ProcessInfo as ProcessInfo
from melete.core.environment import RunningProcess as RunningProcess
from melete.core.event import Question, ToolSchema
from melete.core.memory import MemoryEntry, MemoryProblem, MemoryProposal, Noted, Noting, Past, Recalled, Target
from melete.core.message import Message, Taint, Usage
from melete.core.policy import Allowance
from melete.core.session import Hit, Line, Query, SessionInfo
from melete.core.skill import Here, Problem, Skill, SkillText


class Clock(Protocol):
    """The time; tests and benchmarks put their own in its place."""

    def now(self) -> datetime:
        """The time, with a zone."""
        ...


# ---- people ----------------------------------------------------------------------------------------------------------


class Approvals(Protocol):
    """The one state machine for questions to a person."""

    async def ask(self, question: Question) -> str | None:
        """Ask and wait; None when nobody could or did answer in time."""
        ...


# ---- what is kept ----------------------------------------------------------------------------------------------------


class Change(Struct, frozen=True, kw_only=True):
    """An edit of a skill or memory: `files` maps paths to new text, None removes; `base` is the version that was read.

    A skill whose SKILL.md is removed is archived whole. `author` is user or agent, `model` and `taint` are those of the
    conversation `session`, and `turns` the facts in it that the change came from. `granted` says that a person allowed the
    agent to change what is the person's own. `category` is for a new skill.
    """

    name: str
    files: Mapping[str, str | None]
    base: str = ""
    author: str = ""
    reason: str = ""
    session: str = ""
    turns: tuple[int, ...] = ()
    model: str = ""
    taint: Taint = "none"
    granted: bool = False
    category: str = ""


class Applied(Struct, frozen=True, kw_only=True):
    """What became of a change: the new `version` with its `diff`, or the `reason` why not; with `conflict`, somebody's edit stands
    in its way. One that waits for a person is `ok` without a version, and the `reason` says so."""

    ok: bool
    version: str = ""
    reason: str = ""
    diff: str = ""
    conflict: bool = False


class SkillLibrary(Protocol):
    """Procedural memory."""

    def refresh(self) -> bool:
        """Look at the disk again; whether anything changed."""
        ...

    def index(self, here: Here) -> Sequence[Skill]:
        """The skills that fit here, the most useful first."""
        ...

    def all(self) -> Sequence[Skill]:
        """Every skill that can be loaded, by category and name."""
        ...

    def problems(self) -> Sequence[Problem]:
        """What looks like a skill and is not used."""
        ...

    def get(self, name: str) -> Skill:
        """The skill of this name or path; raises ToolError that names the nearest ones."""
        ...

    def about(self, category: str) -> str:
        """What is said of a category, in one line; empty where nothing."""
        ...

    def __contains__(self, name: str) -> bool:
        """Whether there is a skill of just this name."""
        ...

    def files(self, name: str) -> Sequence[str]:
        """The paths inside a skill, SKILL.md first; raises ToolError."""
        ...

    def fill(self) -> bool:
        """Make more of the texts findable, for a moment; whether any are left. May be called in a thread."""
        ...

    def rank(self, query: str, *, here: Here | None = None, limit: int = 5) -> Sequence[tuple[Skill, float]]:
        """The best matches with their scores, among those that fit `here` where it is given."""
        ...

    async def read(self, name: str, part: str = "", *, args: str | None = None) -> SkillText:
        """A skill's SKILL.md or one of its files, scanned where it has changed; with `args` as it is loaded for use.

        Raises ToolError for one that is not there, is no text, or is not safe to load.
        """
        ...

    async def check(self, change: Change) -> Applied:
        """What `apply` would say, without doing it."""
        ...

    async def apply(self, change: Change) -> Applied:
        """Make the change as a new version."""
        ...

    async def propose(self, change: Change) -> str:
        """Put the change into the inbox and return the proposal's id."""
        ...


class Memory(Protocol):
    """What is remembered about the work, and about the person `who` (empty for the local one), whose entries nobody else sees."""

    async def snapshot(self, who: str = "") -> str:
        """The text for the system prompt, frozen for a session; empty where nothing is remembered."""
        ...

    async def entries(self, who: str = "", target: Target | None = None) -> Sequence[MemoryEntry]:
        """What is in the files now, in their order, with what is known about each."""
        ...

    async def problems(self, who: str = "") -> Sequence[MemoryProblem]:
        """The files and entries that are not used as they are, and why."""
        ...

    async def recall(self, query: str, *, who: str = "", limit: int = 5) -> Sequence[str]:
        """Entries that match, the best first."""
        ...

    async def check(self, change: Noting) -> Noted:
        """What `apply` would say, without doing it."""
        ...

    async def apply(self, change: Noting) -> Noted:
        """Make the change, durably, all of it or nothing; raises StorageError with the files as they were."""
        ...

    async def propose(self, change: Noting) -> str:
        """Put the change into the inbox and return the proposal's id."""
        ...

    async def proposals(self, who: str = "") -> Sequence[MemoryProposal]:
        """What waits for a person, the oldest first."""
        ...

    async def accept(self, proposal: str, who: str = "") -> Noted:
        """Make a proposed change; it goes on waiting where it cannot be made. Raises ToolError for an id that names none."""
        ...

    async def reject(self, proposal: str, who: str = "") -> None:
        """Let a proposed change be; raises ToolError for an id that names none."""
        ...

    async def history(self, entry: str = "", who: str = "") -> Sequence[Past]:
        """What happened to an entry, or to all of them, oldest first; raises ToolError for an id or text that names none."""
        ...

    async def revert(self, version: str, who: str = "") -> Noted:
        """Put the text of an entry's version back, also of one that is gone; raises ToolError for one that is not known.

        `@NUMBER` takes a whole change back, where nothing of it was changed since by a person. Room is no reason to refuse it.
        """
        ...

    async def forget(self, session: str, who: str = "", *, dry: bool = False) -> Noted:
        """Undo everything that was noted in a session, where it was not changed since by a person; `dry` only tells.

        Raises ToolError for a session in which nothing was noted.
        """
        ...


class Conversations(Protocol):
    """The past conversations of one person, as far as a memory may read them."""

    async def sessions(self) -> Sequence[SessionInfo]:
        """All of them, the last changed first."""
        ...

    async def lines(self, session: str, *, after: int = 0) -> Sequence[Line]:
        """The messages behind the fact `after`; none of a session that is gone or somebody else's."""
        ...

    async def search(self, query: Query) -> Sequence[Hit]:
        """What the search by words finds, whatever owner the query names."""
        ...

    async def hit(self, session: str, seq: int) -> Hit | None:
        """A message as a search shows it; None for one that is gone or somebody else's."""
        ...


class ProviderStart(Struct, frozen=True, kw_only=True):
    """What a memory provider is made with: the folder for its files, its part of `memory.config`, the person's conversations."""

    folder: str
    config: Mapping[str, Any] = {}
    past: Conversations


class MemoryProvider(Protocol):
    """An external memory; one at a time. It runs in a thread of its own with a loop of its own.

    An entry point in the group `melete.memory` names what makes one from a `ProviderStart`. Every call has a deadline, and what
    fails or is late is left out with a notice. Every hook may be left out, and None means nothing wherever something is returned.
    """

    def available(self) -> str:
        """Why it cannot be used here, in a line that says what to do; empty where it can."""
        ...

    async def open(self, *, session: str, who: str, home: str, surface: str, cwd: str) -> None:
        """Get ready for a session of the person `who`, empty for the local one."""
        ...

    async def prompt_block(self) -> str:
        """What it adds to the system prompt of a new session; may be empty."""
        ...

    async def prefetch(self, query: str, *, limit: int = 5) -> Sequence[Recalled]:
        """What it knows about a message that was just said, the best first."""
        ...

    async def queue_prefetch(self, query: str) -> None:
        """Prepare for what may be asked next, in the background; called when a message was said."""
        ...

    async def rank(self, query: Query, hits: Sequence[Hit]) -> Sequence[Hit]:
        """The hits of a search in past conversations, ordered by what it knows, with others that fit the query."""
        ...

    async def sync_turn(self, user: str, assistant: str) -> None:
        """Take in a turn that is over, in the background."""
        ...

    async def on_turn_start(self, number: int, user: str) -> None:
        """A turn begins; in the background, as the hooks below but for `on_pre_compress`."""
        ...

    async def on_session_end(self, messages: Sequence[Message]) -> None:
        """The session is closed."""
        ...

    async def on_session_switch(self, session: str, *, parent: str = "") -> None:
        """The conversation goes on in another segment, as after a compaction."""
        ...

    async def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """These messages are about to be summed up; returns what the summary should not miss."""
        ...

    async def on_memory_write(self, noted: Noting) -> None:
        """The agent has written to MEMORY.md or USER.md."""
        ...

    async def on_delegation(self, task: str, result: str, child: str) -> None:
        """A child has come back; `child` is its session."""
        ...

    def tools(self) -> Sequence[ToolSchema]:
        """The schemas of tools of its own, known before it is open."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run one of its tools; raises ToolError."""
        ...

    def backup_paths(self) -> Sequence[str]:
        """Files that a backup of the home should hold besides."""
        ...

    async def aclose(self) -> None:
        """Store what is pending and release what is held."""
        ...


class Day(Struct, frozen=True, kw_only=True):
    """What a day has cost so far, open reservations counted in full."""

    day: str
    tokens: int = 0
    usd: float = 0.0


class Ledger(Protocol):
    """The home's one history beside the sessions: versions, exposures, outcomes, grants, spending.

    Each append, and each read-and-reserve, is under a short lock that all processes share.
    """

    async def append(self, kind: str, fields: Mapping[str, Any], *, durable: bool = True) -> int:
        """Store a fact of `kind` and return its number."""
        ...

    def read(self, *, kind: str = "", after: int = 0) -> Sequence[Mapping[str, Any]]:
        """Facts behind `after`, oldest first, each with `number`, `kind`, `at` and its fields."""
        ...

    async def reserve(self, who: str, want: Allowance, cap: Allowance) -> str:
        """Set aside part of the day's allowance, atomically across processes; raises LimitError with both numbers."""
        ...

    async def settle(self, reservation: str, *, usage: Usage, usd: float | None) -> Day:
        """Replace a reservation by what was spent and return the day so far."""
        ...

    async def today(self) -> Day:
        """The day so far."""
        ...


class Fetched(Struct, frozen=True, kw_only=True):
    """An answer from the network: the address that it finally came from, its type and character set as named, and its bytes."""

    url: str
    status: int
    media_type: str
    body: bytes
    charset: str = ""


class Fetcher(Protocol):
    """The one client through which tools reach the network."""

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] = {},
        body: bytes | None = None,
        limit: int = 5_000_000,
        timeout: float = 30.0,
    ) -> Fetched:
        """Fetch, with a `body` by POST; raises ToolError for an address that is refused or a limit that is passed.

        `headers` go to the server that was asked, and along with redirects to that same server only.
        """
        ...


class Found(Struct, frozen=True, kw_only=True):
    """A hit of a search of the web."""

    title: str
    url: str
    text: str = ""


class WebSearch(Protocol):
    """A service that searches the web."""

    @property
    def name(self) -> str:
        """Such as `searxng`."""
        ...

    async def search(self, query: str, *, limit: int) -> Sequence[Found]:
        """At most `limit` hits, the best first; raises ToolError."""
        ...


# ---- work ------------------------------------------------------------------------------------------------------------


class Service(Protocol):
    """A long-lived part that `melete serve` runs."""

    @property
    def name(self) -> str:
        """Such as `api` or `cron`."""
        ...

    async def run(self, app: Any) -> None:
        """Serve until cancelled."""
        ...
