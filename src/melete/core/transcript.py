"""Folding facts into the state of a session: the conversation, its frame, what is open. Layer 0, pure.

Every prefix of a log folds into a state from which the session can go on: a tool message appears once all its calls have
an outcome, and the calls that have none are listed in `open_calls`.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from melete.core.event import (
    Answered,
    Asked,
    Compacted,
    Fact,
    Framed,
    Notice,
    Opened,
    Question,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Spent,
    Steered,
    Titled,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Message, ToolCall, ToolResult, Usage
from melete.core.taskstate import TaskState

ASIDE = "aside:"
"""What `Notice.about` begins with where a run adds text to its requests that is not stored; a checksum of it follows."""
TRAIL = 256
NOTHING = msgspec.Raw(b"null")


class Bill(NamedTuple):
    """What one run has used so far: replies, tokens of all its requests, and USD where prices are known."""

    requests: int = 0
    usage: Usage = Usage()
    usd: float | None = None


class Transcript:
    """What a session's facts add up to so far; `apply` takes them in order.

    `answer` is the text of the latest run's last reply, `answered` the questions that somebody's answer decided. `last_usage`
    is what the provider counted last, less what a compaction has taken out since. `aside` is the `about` of the last notice of
    text that is not stored. `task` and `since` are those of the last compaction that has them. `trail` holds the latest facts
    that decide how a request begins, and replies, without their content.
    """

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self.opened: Opened | None = None
        self.frame: Framed | None = None
        self.title = ""
        self.seq = 0
        self.run: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.segment = ""
        self.task: TaskState | None = None
        self.since = 0
        self.answer = ""
        self.questions: dict[str, Question] = {}
        self.answered: set[str] = set()
        self.inbox: set[str] = set()
        self.usage = Usage()
        self.last_usage = Usage()
        self.usd: float | None = None
        self.aside = ""
        self.trail: deque[Fact] = deque(maxlen=TRAIL)
        self._bill = ("", Bill())
        self.started: dict[str, ToolStarted] = {}
        self._messages: list[Message] = []
        self._calls: tuple[ToolCall, ...] = ()
        self._results: dict[str, ToolResult] = {}
        for fact in facts:
            self.apply(fact)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation of the current segment; calls still open are not answered in it yet."""
        return tuple(self._messages)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last reply that have no outcome."""
        return tuple(c for c in self._calls if c.id not in self._results)

    @property
    def running(self) -> bool:
        """Whether the last run has no end yet; after a crash this stays true until somebody repairs it."""
        return self.run is not None and self.ended is None

    def apply(self, fact: Fact) -> None:
        """Take in the next fact."""
        self.seq = max(self.seq, fact.seq)
        if (inbox := getattr(fact, "inbox", "")) != "":
            self.inbox.add(inbox)
        if (trace := _trace(fact)) is not None:
            self.trail.append(trace)
        match fact:
            case Said() | Steered():
                self._messages.append(fact.message)
            case Reply():
                self._reply(fact)
            case ToolStarted():
                self.started[fact.call.id] = fact
            case ToolEnded():
                self._result(fact.result)
            case Spent():
                self._spend(fact)
            case Compacted():
                self._compact(fact)
            case _:
                self._state(fact)

    def _state(self, fact: Fact) -> None:
        match fact:
            case Opened():
                self.opened, self.title = fact, fact.title
            case Framed():
                self.frame = fact
            case Titled():
                self.title = fact.title
            case RunStarted():
                self.run, self.ended, self.answer = fact, None, ""
            case RunEnded():
                self.ended = fact
                self.questions.clear()
            case Notice() if fact.about.startswith(ASIDE):
                self.aside = fact.about
            case Asked():
                self.questions[fact.question.id] = fact.question
            case Answered() if fact.status != "lost":
                self.questions.pop(fact.question, None)
                if fact.status == "accepted":
                    self.answered.add(fact.question)
            case _:
                pass

    def _reply(self, fact: Reply) -> None:
        self._messages.append(fact.message)
        self.answer = fact.message.text
        self._calls, self._results, self.started = fact.message.calls, {}, {}
        self.last_usage = fact.usage
        bill = self.spent_in(fact.run)
        self._bill = (fact.run, bill._replace(requests=bill.requests + 1))

    def _compact(self, fact: Compacted) -> None:
        self._messages = list(fact.messages)
        self.segment = fact.segment
        if fact.state is not None:
            self.task, self.since = fact.state, fact.since
        left = self.last_usage.total - max(0, fact.tokens_before - fact.tokens_after)
        self.last_usage = Usage(input=max(left, fact.tokens_after)) if self.last_usage.total else Usage()

    def _result(self, result: ToolResult) -> None:
        if result.call in self._results or all(c.id != result.call for c in self._calls):
            return
        self._results[result.call] = result
        if not self.open_calls:
            parts = tuple(self._results[c.id] for c in self._calls)
            self._messages.append(Message(role="tool", parts=parts))

    def _spend(self, fact: Spent) -> None:
        self.usage = self.usage + fact.usage
        if fact.usd is not None:
            self.usd = (self.usd or 0.0) + fact.usd
        bill = self.spent_in(fact.run)
        usd = bill.usd if fact.usd is None else (bill.usd or 0.0) + fact.usd
        self._bill = (fact.run, Bill(bill.requests, bill.usage + fact.usage, usd))

    def spent_in(self, run: str) -> Bill:
        """What the run used, if it is the latest one."""
        return self._bill[1] if self._bill[0] == run else Bill()


def _trace(fact: Fact) -> Fact | None:
    """The fact without its content, where it is one that the trail holds."""
    match fact:
        case Reply():
            wire = fact.message.wire and msgspec.structs.replace(fact.message.wire, body=NOTHING)
            return msgspec.structs.replace(fact, message=Message(role="assistant", parts=(), wire=wire))
        case Compacted():
            return msgspec.structs.replace(fact, messages=(), state=None)
        case Said() if fact.message.by and fact.message.by.kind == "runtime":
            return fact
        case Framed() | RunStarted() | Retried():
            return fact
        case Notice() if fact.about.startswith(ASIDE):
            return fact
        case _:
            return None
