"""Statistics: sums equal totals however they are cut, shares are shares, and nobody sees another's."""

import asyncio
import statistics as reference
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from melete.core.event import Fact, Opened, Reply, RunEnded, RunStarted, Said, Spent, Steered, ToolEnded
from melete.core.message import Message, Origin, ToolResult, Usage, user
from melete.core.session import Which
from melete.core.statistics import Counts, HourUse, Spending, Statistics
from melete.store.memory import MemoryStore
from melete.store.statistics import statistics
from melete.store.tables import Listing
from tests.unit.store.given import START, SetClock, opened_store, turn, with_turns
from tests.unit.store.past import NOWHERE, pasts, tables_of


def summed(sessions: dict[str, Sequence[Fact]], owner: str = "", zone: Any = UTC, **which: Any) -> Statistics:
    with tables_of(sessions) as database:
        return statistics(database, Listing(owner=owner, which=Which(**which)), folder=NOWHERE, zone=zone)


def numbered(*facts: Fact, session: str = "s-1", at: datetime = START, step: float = 1.0) -> list[Fact]:
    return [
        msgspec.structs.replace(fact, seq=n, session=session, at=at + timedelta(seconds=n * step))
        for n, fact in enumerate(facts, 1)
    ]


def same(one: Spending, other: Spending) -> bool:
    return (one.requests, one.usage, one.unpriced, one.told) == (
        other.requests,
        other.usage,
        other.unpriced,
        other.told,
    ) and (one.usd or 0.0, one.actual_usd, one.seconds) == pytest.approx(
        (other.usd or 0.0, other.actual_usd, other.seconds)
    )


def renamed(facts: Sequence[Fact], session: str) -> list[Fact]:
    return [msgspec.structs.replace(fact, session=session) for fact in facts]


@settings(max_examples=50, deadline=None)
@given(st.lists(pasts(), max_size=3))
def test_every_cut_adds_up_to_the_total(logs: list[list[Fact]]) -> None:
    sessions = {f"s-{n}": renamed(facts, f"s-{n}") for n, facts in enumerate(logs)}
    found = summed(dict(sessions))
    own = [fact for facts in sessions.values() for fact in facts if fact.seq > getattr(facts[0], "copied", 0)]
    bills = [fact for fact in own if isinstance(fact, Spent)]
    assert found.counts.sessions == len(logs)
    assert found.spending.usage == sum((bill.usage for bill in bills), Usage())
    assert found.spending.requests == len(bills)
    assert found.spending.usd == (
        pytest.approx(sum(bill.usd or 0.0 for bill in bills)) if any(b.usd is not None for b in bills) else None
    )
    assert found.counts.runs == sum(isinstance(fact, RunStarted) for fact in own) + _ends_alone(sessions)
    assert found.counts.steps == sum(isinstance(fact, Reply) for fact in own)
    ended = [fact for fact in own if isinstance(fact, ToolEnded)]
    assert (found.counts.tool_calls, found.counts.tool_errors) == (
        len(ended),
        sum(fact.outcome in ("error", "timeout") for fact in ended),
    )
    for cut in (found.days, found.models, found.sources, found.roles):
        assert same(sum((part.spending for part in cut), Spending()), found.spending)
    for cut in (found.days, found.sources):
        for name in ("runs", "steps", "messages", "said", "tool_calls", "tool_errors"):
            assert sum(getattr(part.counts, name) for part in cut) == getattr(found.counts, name)
    assert sum(source.counts.sessions for source in found.sources) == found.counts.sessions
    assert sum(hour.requests for hour in found.hours) == found.spending.requests
    assert sum(hour.said for hour in found.hours) == found.counts.said
    assert sum(found.stops.values()) == found.counts.runs
    for tool in found.tools:
        assert sum(tool.outcomes.values()) == tool.calls
        ran = sorted(f.seconds for f in ended if f.result.name == tool.name and f.outcome in ("ok", "error", "timeout"))
        assert tool.median == pytest.approx(reference.median(ran) if ran else 0.0)
        assert tool.p95 == (ran[-(-len(ran) * 95 // 100) - 1] if ran else 0.0)
    assert 0 <= found.spending.cache_share <= 1
    assert found.discarded.requests <= found.spending.requests
    assert found.retries == sum(trouble.count for trouble in found.troubles if trouble.where == "request")


def _ends_alone(sessions: dict[str, list[Fact]]) -> int:
    """Ends of runs whose beginning is not in the log; a fork's were begun in the original, and count there."""
    alone = 0
    for facts in sessions.values():
        if getattr(facts[0], "copied", 0):
            continue
        running = False
        for fact in facts:
            if isinstance(fact, RunStarted):
                running = True
            elif isinstance(fact, RunEnded):
                alone += not running
                running = False
    return alone


def test_days_and_hours_are_those_of_the_zone() -> None:
    late = datetime(2026, 3, 28, 23, 50, tzinfo=UTC)  # clocks go forward in Berlin in the night to the 29th
    facts = numbered(Opened(), *(Said(message=user("x")) for _ in range(3)), at=late, step=3600)
    berlin = summed({"s-1": facts}, zone=ZoneInfo("Europe/Berlin"))
    assert [(day.day.isoformat(), day.counts.said) for day in berlin.days] == [("2026-03-29", 3)]
    assert [(hour.weekday, hour.hour) for hour in berlin.hours] == [(6, 3), (6, 4), (6, 5)]
    nepal = summed({"s-1": facts}, zone=ZoneInfo("Asia/Kathmandu"))
    assert nepal.hours[0] == HourUse(weekday=6, hour=7, said=1)
    west = summed({"s-1": facts}, zone=ZoneInfo("America/Los_Angeles"))
    assert [day.day.isoformat() for day in west.days] == ["2026-03-28"]


def test_times_are_those_of_what_is_counted() -> None:
    facts = numbered(Opened(), *turn(), Said(message=user("late")), step=60)
    sessions: dict[str, Sequence[Fact]] = {"s-1": facts, "s-2": numbered(Opened(), session="s-2")}
    found = summed(sessions, since=START + timedelta(minutes=9), until=START + timedelta(minutes=10))
    assert found.counts == Counts(sessions=1)
    assert found.spending.requests == 1
    assert found.spending.usd == 0.5
    assert found.first == found.last == facts[8].at
    assert summed(sessions, since=START + timedelta(days=1)) == Statistics()
    assert summed(sessions).counts.sessions == 2


def test_filters_and_owners_keep_what_they_name() -> None:
    def of(owner: str, source: str, model: str) -> Sequence[Fact]:
        opened = Opened(owner=owner, source=source, cwd=f"/{source}")
        return (opened, RunStarted(model=model), Spent(usage=Usage(input=1), model=model, provider="acme", usd=1.0))

    sessions: dict[str, Sequence[Fact]] = {
        name: numbered(*of(*about), session=name)
        for name, about in {
            "s-1": ("ada", "cli", "m-1"),
            "s-2": ("bob", "cron", "m-2"),
            "s-3": ("", "cli", "m-2"),
        }.items()
    }
    assert summed(sessions).spending.usd == 3.0
    assert summed(sessions, owner="ada").spending.usd == 1.0
    assert {use.session.id for use in summed(sessions, owner="ada").dearest} == {"s-1"}
    assert summed(sessions, sources=("cli",)).counts == Counts(sessions=2, runs=2)
    assert summed(sessions, models=("acme/m-2",)).counts == Counts(sessions=2, runs=0)
    assert summed(sessions, models=("m-2",)).counts == Counts(sessions=2, runs=2)
    assert [use.model for use in summed(sessions, models=("m-2",)).models] == ["m-2"]
    assert summed(sessions, cwd="/cron").spending.usd == 1.0
    assert summed(sessions, session="s-3").counts.sessions == 1
    assert summed(sessions, owner="ada", session="s-3") == Statistics()


def test_models_tools_troubles_and_side_work_are_told_apart() -> None:
    def ended(name: str, outcome: Any, seconds: float) -> ToolEnded:
        result = ToolResult(call="c", name=name, content="12345")
        return ToolEnded(result=result, outcome=outcome, seconds=seconds, spilled="x" if seconds > 5 else "")

    facts = (
        Opened(),
        RunStarted(),
        Said(message=user("x")),
        Steered(message=user("note", by=Origin(kind="runtime"))),
        Reply(message=Message(role="assistant", parts=()), seconds=2.0),
        Spent(usage=Usage(input=10, cache_read=30), model="m-1", usd=0.5, source="provider"),
        Spent(usage=Usage(input=5), model="m-2", role="title"),
        *(ended("terminal", "ok", seconds) for seconds in (1.0, 2.0, 9.0)),
        ended("terminal", "timeout", 4.0),
        ended("terminal", "denied", 0.0),
        ended("read_file", "ok", 0.5),
        RunEnded(stop="failed", error="QuotaError: no credit", seconds=20.0),
    )
    found = summed({"s-1": numbered(*facts)})
    terminal, read = found.tools
    assert (terminal.name, terminal.calls, terminal.errors, terminal.length, terminal.spilled) == (
        "terminal",
        5,
        1,
        25,
        1,
    )
    assert (terminal.median, terminal.p95) == (3.0, 9.0)
    assert (read.name, read.median, read.p95) == ("read_file", 0.5, 0.5)
    assert {use.role: use.spending.status for use in found.roles} == {"main": "actual", "title": "unknown"}
    assert (found.spending.status, found.spending.actual_usd, found.spending.seconds) == ("partial", 0.5, 2.0)
    assert found.roles[0].spending.cache_share == 0.75
    assert [(t.where, t.kind, t.count) for t in found.troubles] == [
        ("run", "QuotaError", 1),
        ("tool", "terminal: timeout", 1),
    ]
    assert (found.counts.messages, found.counts.said, found.counts.seconds) == (9, 1, 20.0)
    assert found.longest[0].counts.seconds == 20.0


def test_files_and_memory_agree_and_only_the_home_has_sizes(tmp_path: Path) -> None:
    async def main() -> None:
        store, twin = opened_store(tmp_path), MemoryStore(clock=SetClock())
        for kind in (store, twin):
            await with_turns(kind, 2, id="s-1")
            await with_turns(kind, 1, opened=Opened(owner="ada"), id="s-2")
        found, other = await store.statistics(), await twin.statistics()
        assert (found.counts, found.spending, found.tools) == (other.counts, other.spending, other.tools)
        assert found.sizes.logs > 0 and found.sizes.tables > 0
        hers = await store.statistics(owner="ada")
        assert (hers.counts.sessions, hers.sizes.total) == (1, 0)
        assert hers.counts == (await twin.statistics(owner="ada")).counts
        await store.aclose()
        await twin.aclose()

    asyncio.run(main())


def test_an_empty_home_adds_up_to_nothing() -> None:
    assert summed({}) == Statistics()


def test_a_session_at_the_last_moment_of_all_hides_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened_store(tmp_path)
        await with_turns(store)
        end = datetime.max.replace(tzinfo=UTC)
        await store.add([Opened(at=end), Said(message=user("the end"), at=end)], id="last")
        assert next(row.id for row in await store.list()) == "last"
        assert (await store.statistics()).counts.sessions == 2
        await store.aclose()

    asyncio.run(main())


def test_a_run_that_a_fork_closed_is_counted_once() -> None:
    run = [msgspec.structs.replace(fact, run="r-1") for fact in turn()]
    cut = [*run[:4], RunEnded(stop="cancelled", run="r-1")]
    original = numbered(Opened(), *run)
    fork = numbered(Opened(forked_from="s-1", forked_at=5, copied=5), *cut, session="s-2")
    found = summed({"s-1": original, "s-2": fork})
    assert (found.counts.runs, dict(found.stops)) == (1, {"done": 1})
    again = [*fork, *numbered(Opened(), *fork, *turn(1), session="s-2")[len(fork) + 1 :]]
    assert summed({"s-1": original, "s-2": again}).counts.runs == 2
