"""The one stream of events that every surface reads. Layer 0.

An event is either a **fact**, stored in the session's log before anybody sees it and numbered by `seq` without gaps, or a
**delta**, which is best effort and carries the last fact's `seq` and its own `sub`. The `type` tag is the event's public name.
"""

from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import Struct

from melete.core.message import Message, Origin, Taint, ToolCall, ToolResult, Usage
from melete.core.policy import Decision
from melete.core.taskstate import TaskState

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Stop:
    """Why a run ended: the values of `RunEnded.stop`."""

    DONE = "done"
    OUT_OF_STEPS = "out_of_steps"
    OUT_OF_BUDGET = "out_of_budget"
    CONTEXT_FULL = "context_full"
    LOOPING = "looping"
    CANCELLED = "cancelled"
    FAILED = "failed"

    LIMITS = frozenset({"out_of_steps", "out_of_budget", "context_full", "looping"})


class Stamp(Struct, frozen=True, kw_only=True):
    """What every event carries; the session fills it in when it records or publishes."""

    seq: int = 0
    session: str = ""
    run: str = ""
    at: datetime = EPOCH


class ToolSchema(Struct, frozen=True, kw_only=True):
    """A tool as the model sees it: `parameters` is a JSON Schema object, kept byte for byte."""

    name: str
    about: str
    parameters: msgspec.Raw


# ---- facts that only the log and its readers need --------------------------------------------------------------------


class Opened(Stamp, frozen=True, kw_only=True, tag="session.opened"):
    """The first fact of every session.

    A fork begins with copies of the facts of `forked_from` up to its fact `forked_at`; its own facts up to `copied` are these.
    `cwd` is the folder of this machine in which it was begun, wherever commands run. `about` holds what is known beside: `model`
    pins the session to a model, `imported` is the name that an import gave it.
    """

    version: int = 1
    owner: str = ""
    source: str = "cli"
    cwd: str = ""
    parent: str = ""
    forked_from: str = ""
    forked_at: int = 0
    copied: int = 0
    title: str = ""
    about: dict[str, str] = {}


class Framed(Stamp, frozen=True, kw_only=True, tag="session.framed"):
    """The system blocks and tool schemas in force from here on: the head of every request's prefix.

    `instructed` says that the blocks hold instructions of the one who asked; `place` is what they say of where commands run.
    """

    system: tuple[str, ...]
    tools: tuple[ToolSchema, ...]
    model: str = ""
    wire: str = ""
    why: str = "start"
    instructed: bool = False
    place: str = ""


class Titled(Stamp, frozen=True, kw_only=True, tag="session.titled"):
    """The session was named."""

    title: str


class Said(Stamp, frozen=True, kw_only=True, tag="message"):
    """A user message entered the conversation: a prompt, a queued one (`inbox` = its id), a note of the runtime, an import.

    `ref` is the name that an import gave the message.
    """

    message: Message
    inbox: str = ""
    ref: str = ""


# ---- facts of a run --------------------------------------------------------------------------------------------------


class RunStarted(Stamp, frozen=True, kw_only=True, tag="run.started"):
    """A run began; `pid` and `surface` are for display, the lock alone says who owns the session.

    `env` names the environment that its commands run in.
    `about` is what is known of how it was asked for: `resumes` names the run that it goes on with, `job` the job that it is for.
    `woken` says that nobody asked for it: something in the background had to be told.
    """

    model: str = ""
    provider: str = ""
    base_url: str = ""
    surface: str = "cli"
    pid: int = 0
    max_steps: int = 0
    env: str = ""
    about: dict[str, str] = {}


class Reply(Stamp, frozen=True, kw_only=True, tag="reply"):
    """The model's finished message, with the provider's bytes inside; `stop` is the provider's reason, normalised.

    `asked` is a checksum of what it answers: the system blocks, schemas and messages of the request. `ref` is the name that an
    import gave the message.
    """

    message: Message
    stop: Literal["end", "tool_calls", "length", "content_filter", "other"] = "end"
    usage: Usage = Usage()
    model: str = ""
    provider: str = ""
    request_id: str = ""
    seconds: float = 0.0
    first_token_seconds: float = 0.0
    asked: str = ""
    ref: str = ""


class ToolStarted(Stamp, frozen=True, kw_only=True, tag="tool.started"):
    """A call is about to run, its arguments as they were understood; on the disk before the effect.

    `decision` says why one that had to be asked about may run.
    """

    call: ToolCall
    effect: Literal["read", "write", "outside"] = "read"
    decision: Decision | None = None


class ToolEnded(Stamp, frozen=True, kw_only=True, tag="tool.ended"):
    """The outcome of a call; exactly one for each call of a reply, whatever happened.

    `decision` says who or what refused one that was `denied`.
    """

    result: ToolResult
    seconds: float = 0.0
    outcome: Literal["ok", "error", "denied", "timeout", "cancelled", "unknown", "not_run"] = "ok"
    spilled: str = ""
    decision: Decision | None = None


class Question(Struct, frozen=True, kw_only=True):
    """Something a person must decide; `choices` empty means free text."""

    id: str
    kind: Literal["approval", "clarify"]
    text: str
    choices: tuple[str, ...] = ()
    call: str = ""
    detail: str = ""
    seconds: float = 0.0


class Asked(Stamp, frozen=True, kw_only=True, tag="asked"):
    """A question is open; any surface may answer it by its id, the first answer wins."""

    question: Question


class Answered(Stamp, frozen=True, kw_only=True, tag="answered"):
    """An answer, or its absence: `accepted`, `lost` to an earlier one, `expired`, `refused` because it came from somebody who was
    not asked, or `timeout` when nobody answered.
    """

    question: str
    value: str = ""
    status: Literal["accepted", "lost", "expired", "refused", "timeout"] = "accepted"
    by: Origin | None = None
    inbox: str = ""


class Steered(Stamp, frozen=True, kw_only=True, tag="steered"):
    """A person's note entered the conversation at a step boundary, without stopping the run."""

    message: Message
    inbox: str = ""


class CancelAsked(Stamp, frozen=True, kw_only=True, tag="cancel"):
    """Somebody asked to stop the run; `status` is `expired` when there was none."""

    status: Literal["accepted", "expired"] = "accepted"
    by: Origin | None = None
    inbox: str = ""


class Compacted(Stamp, frozen=True, kw_only=True, tag="compacted"):
    """The conversation was shortened: a new segment begins with `messages`; everything before stays in the log.

    `summary` is a model's account of what fell out, empty where none was made, and `focus` what it was to dwell on. `state` is
    what the runtime knows of the task. `since` is the first fact that is still in view word for word, 0 where all are.
    """

    segment: str
    parent: str
    messages: tuple[Message, ...]
    tokens_before: int = 0
    tokens_after: int = 0
    how: str = ""
    summary: str = ""
    state: TaskState | None = None
    focus: str = ""
    since: int = 0


class Retried(Stamp, frozen=True, kw_only=True, tag="retried"):
    """A model request failed and is tried again after `delay` seconds; text shown since the last fact is void.

    `model` and `provider` are the ones that are asked next: another model than before is a fallback, and `reason` says so.
    `usage` is what the discarded answer cost, where one came.
    """

    attempt: int
    cause: str
    reason: str
    delay: float
    model: str = ""
    provider: str = ""
    usage: Usage = Usage()


class Spent(Stamp, frozen=True, kw_only=True, tag="spent"):
    """Tokens and money of one model request; `role` tells the conversation from auxiliary work, `usd` None = price unknown.

    `source` says which price list the price is from; `provider` means that it came with the reply.
    """

    usage: Usage
    role: str = "main"
    model: str = ""
    provider: str = ""
    usd: float | None = None
    source: str = ""


class Delegated(Stamp, frozen=True, kw_only=True, tag="delegated"):
    """A child session changed state; its own log holds the rest.

    `status` is `running` when it begins, else how it ended: completed, failed, timeout, interrupted or error. `call` is the call
    that asked for it and `task` its place there; `depth` is 1 for a child of the session that a person talks to. `entry` is
    what the model reads of a child that ended: a JSON object.
    """

    child: str
    status: str
    goal: str = ""
    summary: str = ""
    usage: Usage = Usage()
    call: str = ""
    task: int = 0
    role: str = "leaf"
    depth: int = 1
    background: bool = False
    steps: int = 0
    seconds: float = 0.0
    usd: float | None = None
    model: str = ""
    entry: str = ""
    taint: Taint = "none"


class Learned(Stamp, frozen=True, kw_only=True, tag="learned"):
    """Something was learned, proposed or refused after a run."""

    number: int
    what: str
    status: str
    about: str = ""


class Notice(Stamp, frozen=True, kw_only=True, tag="notice"):
    """Something that a person should know; `level` as in logging."""

    text: str
    level: Literal["info", "warning", "error"] = "info"
    about: str = ""


class RunEnded(Stamp, frozen=True, kw_only=True, tag="run.ended"):
    """The last fact of a run; `cause` is the class of the error that ended it, such as `RateLimitError`, where that is known."""

    stop: str
    text: str = ""
    steps: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    error: str | None = None
    cause: str = ""
    seconds: float = 0.0


# ---- deltas ----------------------------------------------------------------------------------------------------------


class TextDelta(Stamp, frozen=True, kw_only=True, tag="text.delta"):
    """A piece of the answer as it is written."""

    text: str
    sub: int = 0


class ThinkingDelta(Stamp, frozen=True, kw_only=True, tag="thinking.delta"):
    """A piece of the model's visible reasoning."""

    text: str
    sub: int = 0


class CallDelta(Stamp, frozen=True, kw_only=True, tag="call.delta"):
    """A piece of a tool call as it is written; `index` tells calls of one reply apart."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    sub: int = 0


class ChildNow(Struct, frozen=True, kw_only=True):
    """How far a child is: `parent` is the session that delegated to it, `tool` what it is at, empty while its model thinks."""

    child: str
    parent: str
    goal: str
    task: int = 0
    role: str = "leaf"
    depth: int = 1
    status: str = "running"
    tool: str = ""
    steps: int = 0
    tokens: int = 0
    usd: float | None = None
    seconds: float = 0.0
    model: str = ""


class ToolProgress(Stamp, frozen=True, kw_only=True, tag="tool.progress"):
    """What a running tool has to show, such as a line of output; `child` says of which child, where it is one's."""

    call: str
    text: str
    sub: int = 0
    child: ChildNow | None = None


class Lagged(Stamp, frozen=True, kw_only=True, tag="lagged"):
    """A reader fell behind: reread the log after `seq` and go on."""


SessionFact = Opened | Framed | Titled | Said
RunFact = (
    RunStarted | Reply | ToolStarted | ToolEnded | Asked | Answered | Steered | CancelAsked | Compacted | Retried | Spent
    | Delegated | Learned | Notice | RunEnded
)  # fmt: skip
Fact = SessionFact | RunFact
Delta = TextDelta | ThinkingDelta | CallDelta
Event = Fact | Delta | ToolProgress | Lagged
