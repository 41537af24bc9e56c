"""Where commands run: environments, their processes and their files, as parts promise them to one another. Layer 0."""

from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from melete.core.policy import Verdict

SEALED = f".sealed-{'[0-9a-f]' * 16}-*"
"""How copies of approved scripts are called, as a shell's pattern: they stand in a folder for as long as their command runs."""


class Completed(Struct, frozen=True, kw_only=True):
    """How a command ended: `code` is None when it was killed by its deadline; `output` holds both streams in order.

    `dropped` counts bytes left out in the middle of very long output. `notes` are sentences that the environment adds: what it
    refused or limited while the command ran.
    """

    code: int | None
    output: bytes
    seconds: float
    timed_out: bool = False
    dropped: int = 0
    notes: tuple[str, ...] = ()


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

    async def temp(self) -> str:
        """A folder in the environment for this session alone, made at the first call and removed by `aclose`."""
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
    """A background process: `code` is None while it runs, and for one whose end nobody saw (`status` unknown).

    `owned` says that this agent started it and holds its streams, `awaited` that the session is still going to be woken by it.
    `note` is a sentence about one that is not as it seems.
    """

    id: str
    command: str
    pid: int
    status: Literal["running", "exited", "killed", "unknown"]
    code: int | None = None
    started: datetime
    seconds: float = 0.0
    cwd: str = ""
    notify: bool = False
    owned: bool = True
    awaited: bool = False
    note: str = ""


class Processes(Protocol):
    """The background processes of one session."""

    async def start(
        self, command: str, *, cwd: str = "", pty: bool = False, notify: bool = False, watch: Sequence[str] = (),
        shown: str = "",
    ) -> ProcessInfo:  # fmt: skip
        """Start a shell command in the background; raises ToolError when too many run, EnvironmentFailure when it cannot start.

        With `notify` its end wakes the session. So does each line of output that holds one of `watch`, whatever the case of its
        letters, within bounds; and the end of a process that printed no such line. People see `shown` in place of the command.
        """
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


class Shared(Protocol):
    """What an environment may have beside the members of `Environment` when it shows files of this machine."""

    def on_host(self, path: str) -> str:
        """The absolute path that this machine has for one of the environment's; empty where there is none."""
        ...

    def judge_file(self, path: str, *, write: bool) -> Verdict:
        """Whether a tool may read or change the file: never what holds secrets, nor, to write, what runs by itself."""
        ...


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The state of a working folder before the first change of a turn. `turn` is the run's id, `number` 1 for the newest.

    `label` says what was asked, `kind` whether a turn or a rollback was about to change the files. `left_out` counts files that
    are too big or too many to be kept.
    """

    id: str
    turn: str
    session: str
    label: str
    at: datetime
    kind: Literal["turn", "rollback"] = "turn"
    number: int = 0
    left_out: int = 0


class Restored(Struct, frozen=True, kw_only=True):
    """What a rollback did: paths below the working folder. `kept` were changed by somebody else since and stay as they are.
    `untold` stay too, whatever is forced: no checkpoint holds what was there before, or what is there now.

    `undo` is the checkpoint that was made before it, to roll the rollback back.
    """

    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    undo: str = ""


class Checkpoints(Protocol):
    """Snapshots of a working folder that a turn can be rolled back to; each call raises EnvironmentFailure when it fails."""

    async def before(self, turn: str, *, session: str, label: str = "") -> Checkpoint | None:
        """Keep the folder's state before the first change of a turn; None when that turn has one already."""
        ...

    async def after(self, turn: str) -> None:
        """Note the state that the turn has left, so that later edits by a person are known as theirs."""
        ...

    async def list(self, *, session: str = "") -> Sequence[Checkpoint]:
        """What can be rolled back to, the newest first, of one session or of all."""
        ...

    async def diff(self, id: str, *, limit: int = 100_000) -> str:
        """What a rollback to this checkpoint would take back, as a unified diff."""
        ...

    async def restore(self, id: str, *, force: bool = False) -> Restored:
        """Put the files back as they were; what somebody else changed since stays, unless `force` says otherwise."""
        ...


# ---- how one is opened -----------------------------------------------------------------------------------------------


class Dialer(Protocol):
    """Connects those who may not reach the network themselves: a name is resolved, each address judged, the judged one dialled."""

    async def __call__(self, host: str, port: int) -> tuple[StreamReader, StreamWriter]:
        """A connection; raises EnvironmentFailure for an address that is refused, OSError for one that does not answer."""
        ...


def _none(_: str) -> str:
    return ""


class Place(Struct, frozen=True, kw_only=True):
    """What an environment is made from.

    `cwd` is the working folder (empty: the environment's own choice), `variables` all that commands see, `options` the
    environment's section of the settings. `key` names the place of one session: the same when the session goes on later.
    `hidden` are paths of this machine that commands must not see where the environment can hide them, and `shown` those below
    them that they may read all the same; `scratch` is a folder of the home that the environment may make and use. `secret`
    looks up what the environment itself signs in with, by the name of the variable that holds it, empty where there is none:
    commands see nothing of it.
    """

    cwd: str = ""
    variables: Mapping[str, str] = {}
    options: Any = None
    key: str = ""
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    scratch: str = ""
    dial: Dialer | None = None
    secret: Callable[[str], str] = _none


class Opener(Protocol):
    """Makes an environment for one session; nothing starts before its first use, and `aclose` ends what did."""

    def __call__(self, place: Place) -> Environment:
        """An environment; raises EnvironmentFailure when it cannot exist here, naming what to do."""
        ...


# ---- what one may say about itself -----------------------------------------------------------------------------------


class Missing(Struct, frozen=True, kw_only=True):
    """Why an environment does not work here, in half a sentence, and what to do about it."""

    why: str
    fix: str = ""


class Explained(Protocol):
    """What an environment may have beside the members of `Environment`; each of these may be left out.

    Without `contained` and `offline` nothing is taken to be behind walls.
    """

    @property
    def contained(self) -> bool:
        """Whether walls keep commands from all of this machine but the working folder and temporary ones."""
        ...

    @property
    def offline(self) -> bool:
        """Whether commands can reach no network at all."""
        ...

    def shut(self, *, closed: bool) -> int | None:
        """Refuse every new connection of commands, or no longer; how many were refused so, None where it cannot be done."""
        ...

    @property
    def note(self) -> str:
        """One sentence for the model about what commands may do here; empty where nothing is special. Starts nothing."""
        ...

    async def about(self) -> Mapping[str, Sequence[str]]:
        """What a person should know, lines under headings such as `network` and `hidden`; for `melete env check`."""
        ...

    @staticmethod
    def missing(place: Place) -> Missing | None:
        """Why it would not work with this place, None where it should; looks for a few seconds at most and starts nothing."""
        ...
