"""Folding facts into the state of a session: the conversation, its frame, what is open. Layer 0, pure.

Every prefix of a log folds into a state from which the session can go on: a tool message appears once all its calls have
an outcome, and the calls that have none are listed in `open_calls`.
"""

from collections.abc import Iterable
from typing import NamedTuple

from melete.core.event import (
    Answered,
    Asked,
    Compacted,
    Fact,
    Framed,
    Opened,
    Question,
    Reply,
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


class Bill(NamedTuple):
    """What one run has used so far: model requests, tokens, and USD where prices are known."""

    requests: int = 0
    usage: Usage = Usage()
    usd: float | None = None


class Transcript:
    """What a session's facts add up to so far; `apply` takes them in order.

    `answer` is the text of the latest run's last reply, `answered` the questions that somebody's answer decided.
    """

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self.opened: Opened | None = None
        self.frame: Framed | None = None
        self.title = ""
        self.seq = 0
        self.run: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.segment = ""
        self.answer = ""
        self.questions: dict[str, Question] = {}
        self.answered: set[str] = set()
        self.inbox: set[str] = set()
        self.usage = Usage()
        self.last_usage = Usage()
        self.usd: float | None = None
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
                self._messages = list(fact.messages)
                self.segment = fact.segment
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
        self._bill = (fact.run, Bill(bill.requests + 1, bill.usage + fact.usage, usd))

    def spent_in(self, run: str) -> Bill:
        """What the run used, if it is the latest one."""
        return self._bill[1] if self._bill[0] == run else Bill()
