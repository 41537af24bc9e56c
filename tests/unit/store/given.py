"""What the store's tests have in common: a clock that they set, facts, and a session with a few of them."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from melete.core.event import Fact, Opened, Reply, RunEnded, RunStarted, Said, Spent, ToolEnded, ToolStarted
from melete.core.message import Message, Text, ToolCall, ToolResult, Usage, user
from melete.core.session import InboxMessage, SessionRef, Store
from melete.store import open_store

START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


class SetClock:
    """A clock that moves a millisecond each time it is read."""

    def __init__(self, now: datetime = START) -> None:
        self.time = now

    def now(self) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time


def opened_store(folder: Path) -> Store:
    return open_store(folder / "state", clock=SetClock())


def turn(number: int = 0) -> Sequence[Fact]:
    """A run with one call: nine facts, of every kind that a log mostly holds."""
    call = ToolCall(id=f"c{number}", name="terminal", arguments='{"command": "ls"}')
    calling = Message(role="assistant", parts=(Text(text="I look."), call))
    answer = Message(role="assistant", parts=(Text(text=f"Answer {number}: there are three files."),))
    return (
        RunStarted(model="m-1", pid=4711),
        Said(message=user(f"Question {number}: what is here?")),
        Reply(message=calling, stop="tool_calls", usage=Usage(input=10, output=3)),
        Spent(usage=Usage(input=10, output=3), model="m-1", usd=0.25),
        ToolStarted(call=call),
        ToolEnded(result=ToolResult(call=call.id, name="terminal", content='{"output": "a b c"}')),
        Reply(message=answer, usage=Usage(input=20, output=5)),
        Spent(usage=Usage(input=20, output=5, cache_read=4), model="m-1", usd=0.5),
        RunEnded(stop="done", text="three files", steps=2),
    )


async def with_turns(store: Store, count: int = 1, *, opened: Opened | None = None, id: str = "") -> SessionRef:
    """A session with `count` turns."""
    ref = await store.create(opened or Opened(cwd="/here", title="files"), id=id)
    async with store.claim(ref) as session:
        for number in range(count):
            session.begin(f"run-{number}")
            await session.record(*turn(number))
    return ref


def note(id: str, kind: str = "steer", text: str = "hello", question: str = "") -> InboxMessage:
    return InboxMessage(id=id, kind=kind, text=text, question=question, at=START)  # type: ignore[arg-type]


async def until(done: Callable[[], object]) -> None:
    """Wait for something that another task or process does; give up after ten seconds."""
    for _ in range(2000):
        if done():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen within ten seconds")
