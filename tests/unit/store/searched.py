"""What the tests of searching share: an index in memory, filled from sessions of a few words each."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from melete.core.event import Fact, Opened, Reply, RunStarted, Said, ToolEnded
from melete.core.message import Message, Text, ToolCall, ToolResult, user
from melete.core.session import Hit, Query
from melete.store.index import SearchIndex
from melete.store.search import find
from melete.store.sqlite import Database
from tests.unit.store.given import START


class Searched:
    """An index that nothing else uses; times go on by a minute a message, sessions begin a day apart."""

    def __init__(self) -> None:
        self.database = Database(None, schema="search")
        self.index = SearchIndex()
        self.facts: dict[str, list[Fact]] = {}

    def add(
        self, session: str, *messages: str | Fact, opened: Opened | None = None, at: datetime | None = None
    ) -> None:
        """Add messages; those that are texts are said by `user:`, `assistant:` or `tool:` before them, else by a user."""
        facts = self.facts.setdefault(session, [])
        start = at or START + timedelta(days=len(self.facts))
        new: list[Fact] = [] if facts else [opened or Opened()]
        new += [message if not isinstance(message, str) else said(message) for message in messages]
        stamped = [
            replaced(fact, seq=len(facts) + number, session=session, at=start + timedelta(minutes=len(facts) + number))
            for number, fact in enumerate(new, 1)
        ]
        facts += stamped
        with self.database.write() as connection:
            self.index.take(connection, session, stamped)

    def forget(self, session: str) -> None:
        """Remove a session."""
        del self.facts[session]
        with self.database.write() as connection:
            self.index.forget(connection, session)

    def hits(self, text: str, **filters: Any) -> list[Hit]:
        """What a search finds."""
        return find(self.database, Query(text=text, **filters))

    def found(self, text: str, **filters: Any) -> list[str]:
        """The sessions that a search finds, the best first, each once."""
        return list(dict.fromkeys(hit.session for hit in self.hits(text, **filters)))


def replaced(fact: Fact, **changes: Any) -> Fact:
    """The fact with its number, session and time."""
    fields = {name: getattr(fact, name) for name in fact.__struct_fields__}
    return type(fact)(**{**fields, **changes})


def said(text: str) -> Fact:
    """A message of whoever is named before the first colon."""
    role, _, rest = text.partition(": ")
    if role == "assistant":
        return Reply(message=Message(role="assistant", parts=(Text(text=rest),)))
    if role == "tool":
        return ToolEnded(result=ToolResult(call="c-1", name="terminal", content=rest))
    return Said(message=user(rest if role == "user" else text))


def called(tool: str, arguments: str = "{}") -> Fact:
    """A reply that calls a tool."""
    return Reply(message=Message(role="assistant", parts=(ToolCall(id="c-1", name=tool, arguments=arguments),)))


def result(tool: str, content: str) -> Fact:
    """A result of a tool."""
    return ToolEnded(result=ToolResult(call="c-1", name=tool, content=content))


def ran(model: str, provider: str = "") -> Fact:
    """A run with a model began."""
    return RunStarted(model=model, provider=provider)


def filled(sessions: Mapping[str, Sequence[str]]) -> Searched:
    """An index with these sessions."""
    made = Searched()
    for session, messages in sessions.items():
        made.add(session, *messages)
    return made
