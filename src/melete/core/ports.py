"""The ports: what parts promise one another without knowing one another. Layer 0.

Store, Session, the model and jobs have modules of their own; everything else that a part may be handed stands here.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from melete.core.channel import Channel as Channel
from melete.core.event import Event, Question
from melete.core.message import Usage
from melete.core.policy import Allowance
from melete.core.session import SessionRef


class Clock(Protocol):
    """The time; tests and benchmarks put their own in its place."""

    def now(self) -> datetime:
        """The time, with a zone."""
        ...


# ---- where commands run ----------------------------------------------------------------------------------------------


class Completed(Struct, frozen=True, kw_only=True):
    """How a command ended: `code` is None when it was killed by its deadline; `output` holds both streams in order.

    `dropped` counts bytes left out in the middle of very long output.
    """

    code: int | None
    output: bytes
    seconds: float
    timed_out: bool = False
    dropped: int = 0


class FileStat(Struct, frozen=True, kw_only=True):
    """What is at a path, links followed; `mtime` in seconds since 1970."""

    kind: Literal["file", "folder", "other"]
    size: int
    mtime: float
    mode: int = 0o644


class Entry(Struct, frozen=True, kw_only=True):
    """One name in a folder."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int = 0


class RunningProcess(Protocol):
    """A command that was started and not awaited."""

    @property
    def pid(self) -> int:
        """The process id where it runs, for display."""
        ...

    async def read(self) -> bytes:
        """The next piece of output; empty when there will be no more."""
        ...

    async def write(self, data: bytes) -> None:
        """Send to its standard input; raises EnvironmentFailure when that is closed."""
        ...

    async def close_stdin(self) -> None:
        """Close its standard input."""
        ...

    async def wait(self) -> int:
        """Its exit status, negative for a signal."""
        ...

    async def kill(self) -> None:
        """End it and everything that it started."""
        ...


class Environment(Protocol):
    """A place with a shell and files. Paths may be relative to `cwd`. Every call ends: on its own, by its deadline, or killed."""

    @property
    def name(self) -> str:
        """Such as `local` or `docker`."""
        ...

    @property
    def cwd(self) -> str:
        """The working folder, absolute."""
        ...

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str = "",
        timeout: float = 180.0,
        limit: int = 1_000_000,
    ) -> Completed:
        """Run a program; on the deadline the whole process tree is killed. `limit` bounds the output that is kept, in bytes.

        Raises EnvironmentFailure when it could not be started.
        """
        ...

    async def start(self, argv: Sequence[str], *, cwd: str = "", pty: bool = False) -> RunningProcess:
        """Start a program with its streams open."""
        ...

    async def read(self, path: str, *, offset: int = 0, limit: int = -1) -> bytes:
        """Bytes of a regular file; OSError as open() raises it, never a hang on a FIFO or device."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file atomically, keeping its mode; folders on the way are made."""
        ...

    async def stat(self, path: str) -> FileStat | None:
        """What is there, or None."""
        ...

    async def list(self, path: str) -> Sequence[Entry]:
        """The names in a folder, sorted."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    async def rename(self, path: str, to: str) -> None:
        """Move a file, replacing what is there."""
        ...

    async def aclose(self) -> None:
        """End what runs and give back what was borrowed."""
        ...


class ProcessInfo(Struct, frozen=True, kw_only=True):
    """A background process: `code` is None while it runs, and for one whose end nobody saw (`status` unknown)."""

    id: str
    command: str
    pid: int
    status: Literal["running", "exited", "killed", "unknown"]
    code: int | None = None
    started: datetime
    seconds: float = 0.0
    cwd: str = ""


class Processes(Protocol):
    """The background processes of one session."""

    async def start(self, command: str, *, cwd: str = "", pty: bool = False) -> ProcessInfo:
        """Start a shell command in the background."""
        ...

    def list(self) -> Sequence[ProcessInfo]:
        """All that are known, the newest first."""
        ...

    def get(self, id: str) -> ProcessInfo:
        """One of them; raises ToolError for an unknown id."""
        ...

    def output(self, id: str, *, new: bool = False) -> tuple[str, int]:
        """The rolling log, or with `new` what came since the last such call, and how many characters were dropped before it."""
        ...

    async def wait(self, id: str, *, timeout: float) -> ProcessInfo:
        """Wait for its end, at most `timeout` seconds."""
        ...

    async def write(self, id: str, data: str) -> None:
        """Send to its standard input."""
        ...

    async def close_stdin(self, id: str) -> None:
        """Close its standard input."""
        ...

    async def kill(self, id: str) -> ProcessInfo:
        """End it and everything that it started."""
        ...

    async def aclose(self) -> None:
        """End all of them."""
        ...


class Checkpoints(Protocol):
    """Snapshots of a working folder that a turn can be rolled back to."""

    async def snapshot(self, label: str) -> str:
        """Keep the folder's state and return its id; the same state gives the same id."""
        ...

    async def restore(self, id: str) -> Sequence[str]:
        """Put the files back as they were and return the paths that changed; edits made since by a person survive as copies."""
        ...


# ---- people ----------------------------------------------------------------------------------------------------------


class Approvals(Protocol):
    """The one state machine for questions to a person."""

    async def ask(self, question: Question) -> str | None:
        """Ask and wait; None when nobody could or did answer in time."""
        ...


# ---- what is kept ----------------------------------------------------------------------------------------------------


class Change(Struct, frozen=True, kw_only=True):
    """An edit of a skill or memory: `files` maps paths to new text, None removes; `base` is the version that was read."""

    name: str
    files: Mapping[str, str | None]
    base: str = ""
    author: str = ""
    reason: str = ""
    session: str = ""
    turns: tuple[int, ...] = ()


class Applied(Struct, frozen=True, kw_only=True):
    """What became of a change: the new `version`, or why not."""

    ok: bool
    version: str = ""
    reason: str = ""


class SkillLine(Struct, frozen=True, kw_only=True):
    """A skill in the index."""

    name: str
    description: str
    category: str = ""
    owner: str = "user"


class SkillLibrary(Protocol):
    """Procedural memory."""

    def index(self) -> Sequence[SkillLine]:
        """The skills that fit here, the most useful first."""
        ...

    def rank(self, query: str, *, limit: int = 5) -> Sequence[tuple[SkillLine, float]]:
        """The best matches with their scores."""
        ...

    async def read(self, name: str, part: str = "") -> str:
        """A skill's text or one of its files; raises ToolError."""
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
    """What is remembered about the work and about the person `who`."""

    async def snapshot(self, who: str) -> str:
        """The text for the system prompt, frozen for a session."""
        ...

    async def recall(self, query: str, *, who: str, limit: int = 5) -> Sequence[str]:
        """Entries that match."""
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
    """An answer from the network: the address that it finally came from, its type and its bytes."""

    url: str
    status: int
    media_type: str
    body: bytes


class Fetcher(Protocol):
    """The one client through which tools reach the network."""

    async def get(self, url: str, *, limit: int = 5_000_000, timeout: float = 30.0) -> Fetched:
        """Fetch; raises ToolError for an address that is refused or a limit that is passed."""
        ...


# ---- work ------------------------------------------------------------------------------------------------------------


class Task(Struct, frozen=True, kw_only=True):
    """Work for a child."""

    goal: str
    context: str = ""
    toolsets: tuple[str, ...] = ()
    role: Literal["leaf", "orchestrator"] = "leaf"
    resume: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """What a child brought back."""

    status: Literal["completed", "failed", "timeout", "interrupted", "error"]
    summary: str
    session: str
    usage: Usage = Usage()
    seconds: float = 0.0


class Runner(Protocol):
    """Starts runs on behalf of a part: children, reviews."""

    async def child(self, task: Task) -> Outcome:
        """Run a child to its end."""
        ...

    async def review(self, ref: SessionRef, brief: str, *, allow: Sequence[str]) -> Outcome:
        """Replay a session's bytes with one message more into a log of its own; only the tools in `allow` may run."""
        ...


class Proposal(Struct, frozen=True, kw_only=True):
    """What a reviewer suggests."""

    change: Change
    kind: str
    evidence: tuple[int, ...] = ()


class Reviewer(Protocol):
    """Reads a finished run; never writes directly."""

    async def review(self, transcript: Sequence[Event]) -> Sequence[Proposal]:
        """What is worth keeping from it."""
        ...


class Service(Protocol):
    """A long-lived part that `melete serve` runs."""

    @property
    def name(self) -> str:
        """Such as `api` or `cron`."""
        ...

    async def run(self, app: Any) -> None:
        """Serve until cancelled."""
        ...


class Opener(Protocol):
    """Makes an environment for one session; nothing starts before its first use, and `aclose` ends what did."""

    def __call__(self, cwd: str, *, variables: Mapping[str, str]) -> Environment:
        """An environment whose working folder is `cwd` (empty: the present one); raises EnvironmentFailure for none."""
        ...
