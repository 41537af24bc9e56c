"""Generated logs, and tables made of them, for the tests of what is counted."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from melete.core.event import (
    Compacted,
    Fact,
    Framed,
    Notice,
    Opened,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Spent,
    Steered,
    Titled,
    ToolEnded,
)
from melete.core.message import Message, Origin, Text, Thinking, ToolCall, ToolResult, Usage, user
from melete.store.sqlite import Database
from melete.store.tables import PARTS, Tables

BEGIN = datetime(2026, 3, 28, 22, 0, tzinfo=UTC)

counts = st.integers(0, 1000)
usages = st.builds(Usage, input=counts, output=counts, cache_read=counts, cache_write=counts, reasoning=counts)
models = st.sampled_from(["m-1", "m-2"])
tools = st.sampled_from(["terminal", "read_file"])
seconds = st.floats(0, 100).map(lambda value: round(value, 3))


@st.composite
def spent(draw: st.DrawFn) -> Spent:
    usd = draw(st.none() | st.floats(0, 2).map(lambda value: round(value, 4)))
    return Spent(
        usage=draw(usages),
        role=draw(st.sampled_from(["main", "main", "title"])),
        model=draw(models),
        provider=draw(st.sampled_from(["", "acme"])),
        usd=usd,
        source="unknown" if usd is None else draw(st.sampled_from(["prices.example, 2026-03-01", "provider"])),
    )


@st.composite
def replied(draw: st.DrawFn) -> Sequence[Fact]:
    names = draw(st.lists(tools, max_size=3))
    thoughts = draw(st.lists(st.text(max_size=5), max_size=2))
    calls = tuple(ToolCall(id=f"c{n}", name=name, arguments="{}") for n, name in enumerate(names))
    parts = (*(Thinking(text=text) for text in thoughts), Text(text=draw(st.text(max_size=9))), *calls)
    reply = Reply(
        message=Message(role="assistant", parts=parts), usage=draw(usages), model=draw(models), seconds=draw(seconds)
    )
    ended = [
        ToolEnded(
            result=ToolResult(call=call.id, name=call.name, content=draw(st.text(max_size=9))),
            outcome=draw(st.sampled_from(["ok", "ok", "error", "timeout", "denied", "unknown"])),
            seconds=draw(seconds),
            spilled=draw(st.sampled_from(["", "spill/x.txt"])),
        )
        for call in calls
    ]
    return (reply, draw(spent()), *ended)


@st.composite
def thrown_away(draw: st.DrawFn) -> Sequence[Fact]:
    usage = draw(usages | st.just(Usage()))
    retried = Retried(attempt=1, cause="RateLimitError", reason="busy", delay=1.0, model="m-1", usage=usage)
    return (retried, draw(spent())) if usage != Usage() else (retried,)


single: st.SearchStrategy[Fact] = st.one_of(
    st.builds(RunStarted, model=models, provider=st.sampled_from(["", "acme"]), surface=st.just("cli")),
    st.builds(RunEnded, stop=st.sampled_from(["done", "failed", "cancelled"]), seconds=seconds, steps=counts),
    st.builds(Said, message=st.text(max_size=9).map(user)),
    st.builds(Steered, message=st.text(max_size=9).map(lambda text: user(text, by=Origin(kind="runtime")))),
    st.builds(Titled, title=st.text(max_size=5)),
    st.builds(Framed, system=st.tuples(st.text(max_size=5)), tools=st.just(()), model=models),
    st.builds(Notice, text=st.text(max_size=5)),
    st.just(Compacted(segment="s", parent="", messages=())),
    spent(),
)


@st.composite
def pasts(draw: st.DrawFn) -> Sequence[Fact]:
    """A log of any facts in any order, numbered and stamped; its first ones may be copies."""
    groups = draw(st.lists(single.map(lambda fact: (fact,)) | replied() | thrown_away(), max_size=12))
    facts = [fact for group in groups for fact in group]
    copied = draw(st.sampled_from([0, 0, min(5, len(facts))]))
    opened = Opened(
        owner=draw(st.sampled_from(["", "ada"])),
        source=draw(st.sampled_from(["cli", "cron"])),
        cwd="/home",
        copied=copied,
        forked_from="elsewhere" if copied else "",
    )
    steps = draw(st.lists(st.integers(-500, 20_000), min_size=len(facts) + 1, max_size=len(facts) + 1))
    at = BEGIN
    found: list[Fact] = []
    for number, (fact, step) in enumerate(zip((opened, *facts), steps, strict=True), 1):
        at += timedelta(seconds=step)
        found.append(msgspec.structs.replace(fact, seq=number, session="s-1", run=f"run-{number // 9}", at=at))
    return found


@contextmanager
def tables_of(sessions: Mapping[str, Sequence[Fact]]) -> Iterator[Database]:
    """The tables of some sessions, in memory."""
    database = Database(None, schema="sessions")
    try:
        with database.write() as connection:
            for session, facts in sessions.items():
                Tables().take(connection, session, facts)
        yield database
    finally:
        database.close()


def dump(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    return {name: database.read(f"SELECT * FROM {name} ORDER BY 1, 2") for name in ("sessions", *PARTS)}


NOWHERE = Path("/nowhere")
