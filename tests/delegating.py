"""A scripted model for a parent and its children: who asks is told by the goal, how far it is by what it has said."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from melete.core.delegation import DELEGATE
from melete.testing import Call, Say
from melete.testing.replies import Calls, Reply

PARENT = "Go."
Line = Reply | str | Callable[[dict[str, Any]], Reply | str]


class Family:
    """Replies by the first user message; each `slow` one takes that many seconds."""

    def __init__(self, lines: Mapping[str, Sequence[Line]], *, slow: Mapping[str, float] | None = None) -> None:
        self.lines = lines
        self.slow = slow or {}
        self.asked: list[tuple[str, int, float]] = []

    def __call__(self, body: dict[str, Any], index: int) -> Reply | str:
        messages = body["messages"]
        users = [text_of(m) for m in messages if m["role"] == "user"]
        who = next((name for said in users for name in self.lines if said.startswith(name)), "")
        turn = sum(m["role"] == "assistant" for m in messages)
        self.asked.append((who, turn, time.monotonic()))
        time.sleep(self.slow.get(who, 0.0))
        lines = self.lines.get(who, ())
        line = lines[turn] if turn < len(lines) else f"nothing more for {who!r}"
        return line(body) if callable(line) else line


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message as it was sent."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def delegate(*goals: str, **more: Any) -> Call:
    """A call that delegates these goals, one alone as a single task."""
    if len(goals) == 1:
        return Call(DELEGATE, {"goal": goals[0], **more})
    return Call(DELEGATE, {"tasks": [{"goal": goal} for goal in goals], **more})


def told(body: Mapping[str, Any]) -> str:
    """The last result that a request carries."""
    return [text_of(m) for m in body["messages"] if m["role"] == "tool"][-1]


def several(*calls: Call) -> Calls:
    """One reply with several calls."""
    return Calls(calls=calls)


def done(text: str = "done") -> Say:
    """A last answer."""
    return Say(text)
