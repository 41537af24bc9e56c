"""A session's facts as rows: what one log adds to each table. Part of the store, pure.

A fold goes on from the row that it left behind, so that a log may be read piece by piece. Facts that a fork copied make the
fork's own length, and are run, paid for and counted nowhere else than where they happened.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.event import (
    Compacted,
    Fact,
    Framed,
    Opened,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Spent,
    Steered,
    Stop,
    Titled,
    ToolEnded,
)
from melete.core.message import Message, Text, Thinking, ToolCall, Usage
from melete.core.session import CostStatus

FAILED_CALLS = ("error", "timeout")
TOLD = "provider"
"""What `Spent.source` says where the price came with the reply."""
KIND = 60
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()

_LOCAL = re.compile(r"[a-z+]+://(\[::1\]|localhost|127\.[\d.]+|0\.0\.0\.0)([:/]|$)", re.IGNORECASE)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_RAISED = re.compile(r"([A-Z]\w+): ")
_END = re.compile(r"[;:]\s| \(|\n")
_OF_ONE_CASE = re.compile(r"'[^']*'|\"[^\"]*\"|(?<!\S)(?![45]\d\d(?!\S))\S*\d\S*")
_SEALED = re.compile(
    rb'"(?:signature|encrypted_content|thought_?[sS]ignature)"\s*:\s*"[\w+/=-]{32}'
    rb'|"type"\s*:\s*"(?:redacted_thinking|reasoning\.encrypted)"'
)


def seconds(at: datetime) -> float:
    """The time in seconds since 1970; the last second of all as a whole, for its fraction would round it up to no time."""
    return min(at.timestamp(), LATEST)


class Row(Struct, frozen=True, kw_only=True):
    """One session as its table holds it; the names are those of the columns."""

    id: str
    owner: str = ""
    source: str = ""
    title: str = ""
    cwd: str = ""
    about: str = "{}"
    parent: str = ""
    forked_from: str = ""
    forked_at: int = 0
    copied: int = 0
    root: str = ""
    started: float
    updated: float
    ended: float | None = None
    stop: str = ""
    model: str = ""
    model_settings: str = "{}"
    provider: str = ""
    base_url: str = ""
    billing: str = "unknown"
    prompt_mark: str = ""
    prompt_size: int = 0
    messages: int = 0
    steps: int = 0
    runs: int = 0
    tool_calls: int = 0
    errors: int = 0
    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    side_tokens: int = 0
    side_usd: float = 0.0
    cost_usd: float | None = None
    estimated_usd: float | None = None
    actual_usd: float | None = None
    unpriced: int = 0
    told: int = 0
    cost_status: CostStatus = "none"
    cost_source: str = ""
    pricing_version: str = ""
    fold: str = "{}"
    compactions: int = 0


class Run(Struct, frozen=True, kw_only=True):
    """One run as its table holds it, without the session."""

    seq: int
    run: str
    started: float
    ended: float | None = None
    stop: str = ""
    error: str = ""
    steps: int = 0
    seconds: float = 0.0
    surface: str = ""
    provider: str = ""
    model: str = ""


class Mark(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a fold goes on: the run without an end, the last reply (number, seconds, seconds to its first token), and the
    number of the last try that was thrown away."""

    run: Run | None = None
    reply: tuple[int, float, float] = (0, 0.0, 0.0)
    retried: int = 0
    wire: str = ""
    max_steps: int = 0


_mark = msgspec.json.Decoder(Mark)


class Fold:
    """Takes facts in order and gives rows, as tuples in the order of the tables' columns behind the session.

    `row` are the values of the session's own row by column.
    """

    def __init__(self, row: Row) -> None:
        self.row: dict[str, Any] = {name: getattr(row, name) for name in Row.__struct_fields__}
        self.messages: list[tuple[Any, ...]] = []
        self.usage: list[tuple[Any, ...]] = []
        self.tools: list[tuple[Any, ...]] = []
        self.runs: list[Run] = []
        self.retries: list[tuple[Any, ...]] = []
        mark = _mark.decode(row.fold)
        self._run = mark.run
        self._reply = mark.reply
        self._retried = mark.retried
        self._wire = mark.wire
        self._max_steps = mark.max_steps
        self._steps: dict[type[Any], Callable[[Any, float], None]] = {
            Opened: self._opened,
            Framed: self._framed,
            Titled: self._titled,
            RunStarted: self._started,
            RunEnded: self._ended,
            Said: self._said,
            Steered: self._said,
            Reply: self._replied,
            ToolEnded: self._done,
            Retried: self._again,
            Spent: self._spent,
            Compacted: self._compacted,
        }

    def take(self, facts: Sequence[Fact]) -> None:
        """Add facts that follow those added before."""
        row = self.row
        for fact in facts:
            at = seconds(fact.at)
            row["updated"] = max(row["updated"], at)
            if (step := self._steps.get(type(fact))) is not None:
                step(fact, at)
        self._close()

    def _close(self) -> None:
        """Bring the columns that follow from others up to date."""
        row = self.row
        if self._run is not None:
            self.runs.append(self._run)
        row["cost_status"] = _status(row)
        row["billing"] = _billing(row["base_url"], self._wire)
        settings = {"wire": self._wire, "max_steps": self._max_steps}
        row["model_settings"] = msgspec.json.encode({k: v for k, v in settings.items() if v}).decode()
        mark = Mark(run=self._run, reply=self._reply, retried=self._retried, wire=self._wire, max_steps=self._max_steps)
        row["fold"] = msgspec.json.encode(mark).decode()

    def _own(self, fact: Fact) -> bool:
        """Whether it happened in this session, and not in the one that it was forked from."""
        return fact.seq > self.row["copied"]

    # ---- the session itself

    def _opened(self, fact: Opened, at: float) -> None:
        row = self.row
        row["started"] = at
        for name in ("owner", "source", "title", "cwd", "parent", "forked_from", "forked_at", "copied"):
            row[name] = getattr(fact, name)
        row["about"] = msgspec.json.encode(fact.about).decode()

    def _framed(self, fact: Framed, at: float) -> None:  # noqa: ARG002 - every step takes both
        row = self.row
        row["model"] = fact.model or row["model"]
        self._wire = fact.wire or self._wire
        prompt = "\n\n".join(fact.system).encode("utf-8", "replace")
        row["prompt_mark"], row["prompt_size"] = f"{zlib.crc32(prompt):08x}", len(prompt)

    def _titled(self, fact: Titled, at: float) -> None:  # noqa: ARG002 - every step takes both
        self.row["title"] = fact.title

    # ---- runs

    def _started(self, fact: RunStarted, at: float) -> None:
        row = self.row
        row["stop"], row["ended"] = "", None
        for name in ("model", "provider", "base_url"):
            row[name] = getattr(fact, name) or row[name]
        self._max_steps = fact.max_steps
        if not self._own(fact):
            return
        row["runs"] += 1
        if self._run is not None:  # it was cut off, and nobody has repaired it
            self.runs.append(self._run)
        self._run = Run(
            seq=fact.seq,
            run=fact.run,
            started=at,
            surface=fact.surface,
            provider=fact.provider,
            model=fact.model or row["model"],
        )

    def _ended(self, fact: RunEnded, at: float) -> None:
        row = self.row
        row["stop"], row["ended"] = fact.stop, at
        if not self._own(fact) or (row["copied"] and self._run is None):  # what the fork closed was begun elsewhere
            return
        if fact.stop == Stop.FAILED:
            row["errors"] += 1
        begun = self._run or Run(seq=fact.seq, run=fact.run, started=at - fact.seconds, model=row["model"])
        ended = msgspec.structs.replace(
            begun, ended=at, stop=fact.stop, error=kind_of(fact.error), steps=fact.steps, seconds=fact.seconds
        )
        self.runs.append(ended)
        self._run = None

    def _compacted(self, fact: Compacted, at: float) -> None:  # noqa: ARG002 - every step takes both
        self.row["compactions"] += 1

    # ---- messages and calls

    def _said(self, fact: Said | Steered, at: float) -> None:
        message = fact.message
        self.row["messages"] += 1
        origin = message.by.kind if message.by else ""
        self._message(fact, at, role=message.role, origin=origin, length=_length(message))

    def _replied(self, fact: Reply, at: float) -> None:
        row, message = self.row, fact.message
        row["messages"] += 1
        row["steps"] += 1
        row["model"] = row["model"] or fact.model
        row["provider"] = row["provider"] or fact.provider
        calls = message.calls
        if self._own(fact):
            row["tool_calls"] += len(calls)
            if self._run is not None:
                self._run = msgspec.structs.replace(self._run, steps=self._run.steps + 1)
        thoughts = [len(part.text) for part in message.parts if type(part) is Thinking]
        self._message(
            fact,
            at,
            role=message.role,
            calls=" ".join(call.name for call in calls),
            length=_length(message),
            tokens=fact.usage.output,
            stop=fact.stop,
            thinking=sum(thoughts),
            thinking_parts=len(thoughts),
            sealed=message.wire is not None and _SEALED.search(message.wire.body) is not None,
            model=fact.model,
        )
        self._reply = (fact.seq, fact.seconds, fact.first_token_seconds)

    def _done(self, fact: ToolEnded, at: float) -> None:
        row, result = self.row, fact.result
        row["messages"] += 1
        length = len(result.content)
        self._message(fact, at, role="tool", call=result.call, tool=result.name, outcome=fact.outcome, length=length)
        if self._own(fact):
            row["errors"] += fact.outcome in FAILED_CALLS
            spilled = bool(fact.spilled)
            self.tools.append((fact.seq, row["steps"], result.name, fact.outcome, fact.seconds, length, spilled, at))

    def _message(self, fact: Fact, at: float, **values: Any) -> None:
        get = values.get
        self.messages.append(
            (
                fact.seq,
                self.row["steps"],
                values["role"],
                get("origin", ""),
                get("call", ""),
                get("tool", ""),
                get("calls", ""),
                get("outcome", ""),
                at,
                values["length"],
                get("tokens", 0),
                get("stop", ""),
                get("thinking", 0),
                get("thinking_parts", 0),
                get("sealed", False),
                get("model", ""),
                not self._own(fact),
            )
        )

    # ---- requests

    def _again(self, fact: Retried, at: float) -> None:
        if not self._own(fact):
            return
        self.retries.append((fact.seq, fact.cause, fact.model, at))
        if fact.usage != Usage():
            self._retried = fact.seq

    def _spent(self, fact: Spent, at: float) -> None:
        if not self._own(fact):
            return
        told = fact.source == TOLD and fact.usd is not None
        _bill(self.row, fact, told=told)
        main = fact.role == "main"
        _, seconds, first = self._reply if main and self._reply[0] == fact.seq - 1 else (0, 0.0, 0.0)
        discarded = main and self._retried == fact.seq - 1 > 0
        used = fact.usage
        tokens = (used.input, used.output, used.cache_read, used.cache_write, used.reasoning)
        about = (fact.usd, fact.source, told, seconds, first, discarded, at)
        self.usage.append((fact.seq, fact.role, fact.model, fact.provider, *tokens, *about))


def _bill(row: dict[str, Any], fact: Spent, *, told: bool) -> None:
    """Add one request to the session's row."""
    used, usd = fact.usage, fact.usd
    row["requests"] += 1
    row["input"] += used.input
    row["output"] += used.output
    row["cache_read"] += used.cache_read
    row["cache_write"] += used.cache_write
    row["reasoning"] += used.reasoning
    if fact.role != "main":
        row["side_tokens"] += used.total
        row["side_usd"] += usd or 0.0
    if usd is None:
        row["unpriced"] += 1
        return
    kind = "actual_usd" if told else "estimated_usd"
    row["told"] += told
    row["cost_usd"] = (row["cost_usd"] or 0.0) + usd
    row[kind] = (row[kind] or 0.0) + usd
    row["cost_source"] = fact.source
    found = _DAY.search(fact.source)
    row["pricing_version"] = found[0] if found else ""


def _status(row: dict[str, Any]) -> CostStatus:
    """How well the price of a session is known."""
    if not row["requests"]:
        return "none"
    if row["unpriced"]:
        return "unknown" if row["unpriced"] == row["requests"] else "partial"
    return "actual" if row["told"] == row["requests"] else "estimated"


def _billing(base_url: str, wire: str) -> str:
    """Whether somebody sends a bill for requests to this address."""
    if wire == "local" or _LOCAL.match(base_url):
        return "local"
    return "api" if base_url else "unknown"


def _length(message: Message) -> int:
    """Characters of what was said and called."""
    length = 0
    for part in message.parts:
        if type(part) is Text:
            length += len(part.text)
        elif type(part) is ToolCall:
            length += len(part.name) + len(part.arguments)
    return length


def kind_of(error: str | None) -> str:
    """What kind of error a message tells of: the name of what was raised, or its first words without names and numbers."""
    if not error:
        return ""
    if raised := _RAISED.match(error):
        return raised[1]
    first = _END.split(error, maxsplit=1)[0]
    return _OF_ONE_CASE.sub("…", first).strip()[:KIND]
