"""Statistics as any use might leave them, added up from single requests, calls and runs, so that sums can be compared."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from melete.app.insights import Insights
from melete.app.insights_remarks import remarks
from melete.core.message import Usage
from melete.core.session import SessionInfo
from melete.core.statistics import (
    Counts,
    DayUse,
    HourUse,
    ModelUse,
    RoleUse,
    SessionUse,
    SourceUse,
    Spending,
    Statistics,
    ToolUse,
    Trouble,
)

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)
SINCE = NOW - timedelta(days=40)
TOKENS = st.integers(0, 10**9)
USAGES = st.builds(Usage, input=TOKENS, output=TOKENS, cache_read=TOKENS, cache_write=TOKENS, reasoning=TOKENS)
NAMES = st.one_of(st.sampled_from(["m-1", "m-2", "terminal"]), st.text("ab <&\"'é模\x1b", max_size=8))
REQUESTS = st.builds(
    lambda usage, usd, seconds: Spending(requests=1, usage=usage, usd=usd, unpriced=int(usd is None), seconds=seconds),
    USAGES,
    st.none() | st.floats(0, 1000),
    st.floats(0, 100),
)
DAYS = st.integers(0, 39).map(lambda days: (NOW - timedelta(days=days)).date())
EVENTS = st.tuples(DAYS, st.integers(0, 23), NAMES, st.sampled_from(["main", "title"]), REQUESTS)
CALLS = st.tuples(NAMES, st.sampled_from(["ok", "ok", "error", "timeout"]), st.floats(0, 1000))
STOPS = st.sampled_from(["done", "failed", "cancelled", "out_of_steps", ""])


def total(parts: Sequence[Spending]) -> Spending:
    return sum(parts, Spending())


def by(events: Sequence[tuple[Any, ...]], place: int) -> dict[Any, Spending]:
    found: defaultdict[Any, Spending] = defaultdict(Spending)
    for event in events:
        found[event[place]] = found[event[place]] + event[4]
    return dict(found)


def added(
    events: Sequence[tuple[Any, ...]], calls: Sequence[tuple[str, str, float]], stops: Sequence[str]
) -> Statistics:
    """What single things add up to."""
    said = Counter((day, hour) for day, hour, *_ in events)
    counts = Counts(
        sessions=len(events[:1]),
        runs=len(stops),
        messages=2 * len(events),
        said=len(events),
        steps=len(events),
        tool_calls=len(calls),
        tool_errors=sum(outcome != "ok" for _, outcome, _ in calls),
    )
    days = by(events, 0)
    hours: Counter[tuple[int, int]] = Counter()
    for (day, hour), count in said.items():
        hours[day.weekday(), hour] += count
    session = SessionInfo(id="20260301-000000-aaaaaa", title="A <title> & more", started=SINCE, updated=NOW)
    return Statistics(
        first=SINCE if events else None,
        last=NOW if events else None,
        counts=counts,
        spending=total([event[4] for event in events]),
        stops=dict(Counter(stops)),
        days=tuple(
            DayUse(day=day, counts=Counts(said=sum(n for (d, _), n in said.items() if d == day)), spending=spending)
            for day, spending in sorted(days.items())
        ),
        hours=tuple(HourUse(weekday=d, hour=h, said=n, requests=n) for (d, h), n in sorted(hours.items())),
        models=tuple(ModelUse(model=name, spending=spending) for name, spending in by(events, 2).items()),
        roles=tuple(RoleUse(role=role, spending=spending) for role, spending in by(events, 3).items()),
        tools=tuple(_tool(name, calls) for name in dict.fromkeys(name for name, *_ in calls)),
        sources=(SourceUse(source="cli", counts=counts, spending=total([event[4] for event in events])),),
        troubles=tuple(Trouble(where="run", kind=stop, count=1, last=NOW) for stop in stops if stop == "failed"),
        dearest=(SessionUse(session=session, counts=counts, spending=total([event[4] for event in events])),),
    )


def _tool(name: str, calls: Sequence[tuple[str, str, float]]) -> ToolUse:
    mine = [call for call in calls if call[0] == name]
    outcomes = Counter(outcome for _, outcome, _ in mine)
    seconds = sorted(seconds for *_, seconds in mine)
    return ToolUse(
        name=name,
        calls=len(mine),
        errors=len(mine) - outcomes["ok"],
        outcomes=dict(outcomes),
        seconds=sum(seconds),
        median=seconds[len(seconds) // 2],
        p95=seconds[-1],
    )


STATISTICS = st.builds(added, st.lists(EVENTS, max_size=12), st.lists(CALLS, max_size=12), st.lists(STOPS, max_size=6))


def insights(found: Statistics, **more: Any) -> Insights:
    """The insights that statistics give, of forty days."""
    return Insights(now=NOW, since=SINCE, statistics=found, remarks=remarks(found), **more)


INSIGHTS = st.builds(
    lambda found, saved, earlier: insights(found, saved_usd=saved, earlier=earlier),
    STATISTICS,
    st.none() | st.floats(-100, 100),
    st.none() | REQUESTS,
)


def day(text: str) -> date:
    """A day as it is written."""
    return date.fromisoformat(text)
