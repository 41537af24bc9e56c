"""Sessions: who owns one, how it is written, and how others find and reach it. Layer 0."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from melete.core.event import Fact
from melete.core.message import Message, Origin, Taint, Usage
from melete.core.transcript import Transcript

if TYPE_CHECKING:
    from melete.core.statistics import Statistics


UNTALKED = frozenset({"review", "subagent"})
"""Sources of sessions in which nobody talks: the latest session is none of them."""


class SessionRef(Struct, frozen=True, kw_only=True):
    """A session's address: its `id` and the person or key that owns it; every listing and search filters by `owner`."""

    id: str
    owner: str = ""


class InboxMessage(Struct, frozen=True, kw_only=True):
    """What another process or surface sends to a session; `id` is unique, and a second delivery of one is ignored.

    `steer` enters at the next step boundary, `queue` when the model would stop, `answer` and `cancel` act at once.
    """

    id: str
    kind: Literal["steer", "queue", "answer", "cancel"]
    text: str = ""
    taint: Taint = "none"
    question: str = ""
    by: Origin | None = None
    at: datetime


class Receipt(Struct, frozen=True, kw_only=True):
    """What became of an inbox message; `queued`: nobody runs the session now, the message waits in its inbox."""

    status: Literal["accepted", "lost", "expired", "refused", "queued"]
    seq: int = 0


CostStatus = Literal["none", "actual", "estimated", "partial", "unknown"]


class SessionInfo(Struct, frozen=True, kw_only=True):
    """One row of a listing; `running` is read from the lock at the moment of listing, `size` is the log's in bytes.

    `cost_status`: `none` (nothing was asked), `actual` (the provider said it), `estimated` (from price lists), `partial` (some
    requests have no known price), `unknown` (none has). `root` is the first session of the chain of parents and forks.
    `compactions` is how often the conversation was shortened: it has one segment more.
    """

    id: str
    owner: str = ""
    title: str = ""
    source: str = ""
    cwd: str = ""
    model: str = ""
    parent: str = ""
    forked_from: str = ""
    forked_at: int = 0
    root: str = ""
    started: datetime
    updated: datetime
    messages: int = 0
    steps: int = 0
    runs: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    cost_status: CostStatus = "none"
    cost_source: str = ""
    provider: str = ""
    base_url: str = ""
    stop: str = ""
    compactions: int = 0
    running: bool = False
    size: int = 0


class RunInfo(Struct, frozen=True, kw_only=True):
    """One run in a listing: without an end it goes on now (`running`, as the lock says), or was cut off."""

    id: str
    session: str
    owner: str = ""
    seq: int = 0
    started: datetime
    ended: datetime | None = None
    stop: str = ""
    steps: int = 0
    seconds: float = 0.0
    surface: str = ""
    provider: str = ""
    model: str = ""
    running: bool = False


class WhichRuns(Struct, frozen=True, kw_only=True):
    """Which runs: empty fields leave all in. `stops` are values of `Stop`, an empty one for runs that have no end."""

    owner: str = ""
    session: str = ""
    stops: tuple[str, ...] = ()


class Which(Struct, frozen=True, kw_only=True):
    """Which sessions, or messages of them: empty fields leave all in.

    `cwd` is the folder in which a session was begun, with all below it; `since` (included) and `until` (excluded) are times of
    messages in a search and of the last change in a listing; `chain` names a session whose whole chain of parents and forks is
    meant, `without` one whose chain is not. Sessions of the sources `apart` are left out. With `alone` an
    empty owner means those of nobody else, and not all.
    """

    sources: tuple[str, ...] = ()
    cwd: str = ""
    models: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    session: str = ""
    chain: str = ""
    without: str = ""
    alone: bool = False
    apart: tuple[str, ...] = ()


class Query(Struct, frozen=True, kw_only=True):
    """A search in the messages: any `text` is valid; `owner` sees its own sessions only, an empty one all.

    In the text, `"..."` is a phrase, and AND, OR, NOT in capitals, and `-word`, mean what they do elsewhere; whatever makes no
    sense is taken as words. `roles` and `tools` keep the messages of these roles, and the results and calls of these tools.
    `each` is the number of hits that one chain of sessions may have, 0 for any.
    """

    text: str
    owner: str = ""
    which: Which = Which()
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    order: Literal["best", "newest", "oldest"] = "best"
    each: int = 0
    limit: int = 10


ALL = Which()
ALL_RUNS = WhichRuns()


class Hit(Struct, frozen=True, kw_only=True):
    """One search result: `seq` names the fact that holds the message, higher `score` is better.

    `snippet` shows the match, `marks` are the places in it that matched (start, end); `ref` is the name that an import gave the
    message and `name` the one it gave the session, `root` the first session of the chain.
    """

    session: str
    seq: int
    role: str
    snippet: str
    marks: tuple[tuple[int, int], ...] = ()
    title: str = ""
    source: str = ""
    tool: str = ""
    ref: str = ""
    name: str = ""
    root: str = ""
    at: datetime
    score: float = 0.0


class Line(Struct, frozen=True, kw_only=True):
    """One message of a past session, for scrolling."""

    session: str
    seq: int
    role: str
    text: str
    at: datetime
    taint: Taint = "tool"
    """`web` or `import` from the first text from outside in its session on: what is said behind it may follow it."""


class Session(Protocol):
    """A session that this process owns: the only writer of its log."""

    @property
    def ref(self) -> SessionRef:
        """The session's address."""
        ...

    @property
    def transcript(self) -> Transcript:
        """The state that the facts so far add up to."""
        ...

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation of the current segment, valid to send as it is."""
        ...

    async def record(self, *facts: Fact, durable: bool = False) -> Sequence[Fact]:
        """Store the facts in order, then publish them; return them with seq, session, run and time filled in.

        With `durable` they, and all before them, are on the disk before this returns. Raises StorageError with nothing
        published when they could not be stored.
        """
        ...

    async def append(self, *messages: Message) -> None:
        """Record user messages as `Said` facts."""
        ...

    def begin(self, run: str) -> None:
        """Stamp the facts from here on with this run's id."""
        ...

    def pending(self) -> Sequence[InboxMessage]:
        """Messages in the inbox that no fact carries yet, oldest first; cheap enough to be asked every 50 ms."""
        ...

    def settle(self, message: str) -> None:
        """Remove an inbox message whose fact is stored."""
        ...


class Problem(Struct, frozen=True, kw_only=True):
    """Something that `verify` found: where, what, and what was set aside or would be."""

    path: str
    what: str
    kept: str = ""
    harmless: bool = False


class Store(Protocol):
    """Every session of one home: the logs are the truth, tables and search index are rebuilt from them."""

    async def create(self, opened: Fact, *, id: str = "") -> SessionRef:
        """Make a session whose first fact is `opened` and return its address."""
        ...

    async def add(self, facts: Sequence[Fact], *, id: str = "") -> SessionRef:
        """Make a session of facts that exist already, the first an `Opened`; durable when this returns, all or nothing.

        They keep their times and runs, are numbered anew from 1, and are not published. Raises StoreError when the id is taken.
        """
        ...

    def claim(self, ref: SessionRef) -> AbstractAsyncContextManager[Session]:
        """Own the session until the block ends; raises SessionBusyError while another does, SessionNotFoundError."""
        ...

    async def find(self, name: str, *, owner: str = "") -> SessionRef:
        """The session with this id, unique id prefix or title; raises SessionNotFoundError."""
        ...

    async def latest(self, *, owner: str = "", cwd: str = "") -> SessionRef | None:
        """The session that changed last, of those in which somebody talks."""
        ...

    async def list(
        self, *, owner: str = "", which: Which = ALL, limit: int = 50, offset: int = 0
    ) -> Sequence[SessionInfo]:
        """Sessions, the last changed first."""
        ...

    async def info(self, ref: SessionRef) -> SessionInfo:
        """One session's row."""
        ...

    async def of_run(self, run: str, *, owner: str = "") -> SessionRef:
        """The session that a run with this id belongs to; raises SessionNotFoundError."""
        ...

    async def runs(self, which: WhichRuns = ALL_RUNS, *, limit: int = 50, offset: int = 0) -> Sequence[RunInfo]:
        """Runs, the last begun first."""
        ...

    async def unfinished(self, surfaces: Sequence[str]) -> Sequence[tuple[SessionRef, str]]:
        """Sessions whose last run, begun on one of the surfaces, has no end although nobody owns them; with that run's id."""
        ...

    async def owned(self, ref: SessionRef) -> bool:
        """Whether some process owns the session at this moment."""
        ...

    async def facts(self, ref: SessionRef, *, after: int = 0) -> Sequence[Fact]:
        """The stored facts behind `after`, without owning the session."""
        ...

    def follow(self, ref: SessionRef, *, after: int = 0) -> AsyncGenerator[Fact]:
        """The stored facts behind `after`, then each new one as it is stored, for as long as the caller reads."""
        ...

    async def scroll(self, ref: SessionRef, *, around: int, window: int = 5) -> Sequence[Line]:
        """The messages round the fact `around`."""
        ...

    async def search(self, query: Query) -> Sequence[Hit]:
        """Messages that match, the best first; any text is a valid query."""
        ...

    async def statistics(self, *, owner: str = "", which: Which = ALL) -> "Statistics":
        """What the sessions add up to, in the local time zone; `since` and `until` are times of what is counted."""
        ...

    async def rename(self, ref: SessionRef, title: str) -> None:
        """Give the session a title."""
        ...

    async def delete(self, ref: SessionRef) -> None:
        """Remove the session's log, inbox and rows; raises SessionBusyError while it runs."""
        ...

    async def send(self, ref: SessionRef, message: InboxMessage, *, wait: float = 5.0) -> Receipt:
        """Put a message into the session's inbox, durably, and wait for the fact that carries it."""
        ...

    async def spill(self, ref: SessionRef, name: str, text: str) -> str:
        """Keep a text that is too long for a result and return the path under which it can be read."""
        ...

    async def verify(self, *, deep: bool = False) -> Sequence[Problem]:
        """Check every log, the ledger and the projections without changing them.

        With `deep`, also compare how many messages the tables and the logs hold.
        """
        ...

    async def rebuild(self, *, on_progress: Callable[[int, int], None] | None = None) -> Sequence[str]:
        """Drop and remake every projection from the logs; return a line for each thing done.

        `on_progress` is called, from any thread, with the logs that are done and the logs in all.
        """
        ...

    async def aclose(self) -> None:
        """Close files; a second call does nothing."""
        ...
