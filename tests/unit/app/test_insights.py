"""Insights: sums, shares, periods, what stands out, and the forms in which they are given away."""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.app.given_insights import INSIGHTS, NOW, SINCE, STATISTICS, day, insights

from melete.app import figures
from melete.app.insights import Insights, periods, redacted, saved_by_caching, span, streak
from melete.app.insights_html import page
from melete.app.insights_json import document
from melete.app.insights_remarks import remarks
from melete.app.insights_svg import Series, columns, ticks
from melete.core.message import Usage
from melete.core.model import Capabilities
from melete.core.plugin import Lazy
from melete.core.session import SessionInfo
from melete.core.statistics import (
    Counts,
    DayUse,
    HourUse,
    ModelUse,
    SessionUse,
    Spending,
    Statistics,
    ToolUse,
)

KNOWN = Spending(requests=10, usage=Usage(input=100, cache_read=900, output=50), usd=2.0)
AMOUNTS = st.just(0.0) | st.floats(1e-6, 1e9)
UNKNOWN = Spending(requests=4, usage=Usage(input=100), unpriced=4)


def shares(value: object) -> list[float]:
    """Every share in a document."""
    if isinstance(value, dict):
        own = [share for name, share in value.items() if name.endswith("_share")]
        return [*own, *(share for part in value.values() for share in shares(part))]
    return [share for part in value for share in shares(part)] if isinstance(value, list) else []


# ---- sums ------------------------------------------------------------------------------------------------------------


@given(INSIGHTS)
def test_parts_of_the_document_add_up_to_the_whole_and_shares_are_shares(found: Insights) -> None:
    made = msgspec.json.decode(msgspec.json.encode(document(found)))
    assert all(0 <= share <= 1 for share in shares(made))
    for parts in (made["days"], made["models"], made["roles"], made["sources"]):
        assert sum(part["requests"] for part in parts) == made["requests"]
        assert sum(part["tokens"]["total"] for part in parts) == made["tokens"]["total"]
        assert sum(part["unpriced_requests"] for part in parts) == made["unpriced_requests"]
        assert math.isclose(sum(part["cost_usd"] or 0 for part in parts), made["cost_usd"] or 0, abs_tol=1e-6)
    assert sum(tool["calls"] for tool in made["tools"]) == made["tool_calls"]
    assert sum(hour["prompts"] for hour in made["hours"]) == made["prompts"]
    assert sum(made["stops"].values()) == made["runs"]
    assert (made["cost_usd"] is None) == (made["cost_status"] in ("none", "unknown"))


@given(INSIGHTS)
def test_periods_follow_one_another_and_hold_everything(found: Insights) -> None:
    made = periods(found)
    assert (made[0].start, made[-1].end) == (found.first_day, found.last_day)
    assert all(after.start - before.end == timedelta(days=1) for before, after in pairwise(made))
    spent = found.statistics.spending
    assert sum(period.spending.usage.total for period in made) == spent.usage.total
    assert sum(period.said for period in made) == found.statistics.counts.said


@pytest.mark.parametrize(
    ("first", "name", "count"),
    [("2026-03-30", "day", 2), ("2025-12-31", "week", 14), ("2023-01-15", "month", 39), ("0001-01-01", "year", 2026)],
)
def test_a_long_time_is_shown_in_longer_periods(first: str, name: str, count: int) -> None:
    begin = datetime.combine(day(first), datetime.min.time(), UTC) + timedelta(hours=12)
    found = Insights(now=NOW, since=begin, statistics=Statistics(days=(DayUse(day=day(first), spending=KNOWN),)))
    made = periods(found)
    assert (span(found), len(made)) == (name, count)
    assert (made[0].start, made[0].spending) == (day(first), KNOWN)
    assert made[-1].end == day("2026-03-31")


def test_the_last_days_that_a_calendar_has_can_be_shown() -> None:
    at = datetime(9999, 12, 31, 12, tzinfo=UTC)
    found = Insights(now=NOW, statistics=Statistics(first=NOW, last=at, days=(DayUse(day=date.max, spending=KNOWN),)))
    assert periods(found)[-1].spending == KNOWN


def test_days_in_a_row_may_end_yesterday() -> None:
    days = [day(text) for text in ("2026-03-01", "2026-03-02", "2026-03-03", "2026-03-29", "2026-03-30", "2026-03-30")]
    assert msgspec.structs.astuple(streak(days, today=day("2026-03-30"))) == (5, 2, 3)
    assert streak(days, today=day("2026-03-31")).current == 2
    assert streak(days, today=day("2026-04-01")).current == 0
    assert msgspec.structs.astuple(streak([], today=day("2026-04-01"))) == (0, 0, 0)


def test_what_caching_saved_is_known_only_with_prices() -> None:
    prices = {
        "dear": Capabilities(usd_input=10.0, usd_output=0.0, usd_cache_read=1.0, usd_cache_write=12.0),
        "none": Capabilities(),
    }

    def saved(*models: ModelUse) -> float | None:
        return saved_by_caching(models, lambda use: prices[use.model])

    dear = ModelUse(model="dear", spending=Spending(requests=1, usage=Usage(cache_read=1_000_000, cache_write=500_000)))
    assert saved(dear) == pytest.approx(9.0 - 1.0)
    assert saved(ModelUse(model="none", spending=dear.spending)) is None
    assert saved(ModelUse(model="dear", spending=Spending(requests=1, usage=Usage(input=5)))) is None
    assert saved(dear, ModelUse(model="none", spending=dear.spending)) == pytest.approx(8.0)


def test_secrets_are_taken_out_of_texts_and_figures_stay() -> None:
    session = SessionInfo(id="s", title="key 12345678 here", started=SINCE, updated=NOW)
    found = Statistics(
        first=SINCE,
        spending=Spending(requests=12345678),
        stops={"12345678": 2},
        dearest=(SessionUse(session=session),),
    )
    clean = redacted(found, lambda text: text.replace("12345678", "***"))
    assert clean.dearest[0].session.title == "key *** here"
    assert (clean.spending.requests, clean.stops, clean.first) == (12345678, {"***": 2}, SINCE)


# ---- what stands out -------------------------------------------------------------------------------------------------


def about(found: Statistics, **more: Any) -> list[str]:
    return [remark.about for remark in remarks(found, **more)]


def test_nothing_stands_out_where_there_is_little_to_speak_of() -> None:
    few = Statistics(
        counts=Counts(runs=1, said=1, sessions=1, tool_calls=1, tool_errors=1),
        spending=KNOWN,
        stops={"failed": 1},
        tools=(ToolUse(name="terminal", calls=1, errors=1),),
    )
    assert about(few) == []
    assert about(Statistics()) == []


@pytest.mark.parametrize(
    ("found", "word", "text"),
    [
        (Statistics(tools=(ToolUse(name="patch", calls=10, errors=4),)), "tool", "patch failed in 4 of 10 calls (40%)"),
        (Statistics(counts=Counts(runs=10), stops={"failed": 2, "done": 8}), "runs", "2 of 10 runs failed (20%)"),
        (Statistics(stops={"": 1}), "runs", "1 run has no end: still at work, or killed"),
        (
            Statistics(spending=Spending(requests=20, usage=Usage(input=900_000, cache_read=100_000), usd=1.0)),
            "cache",
            "only 10% of what the models read came from a cache",
        ),
        (
            Statistics(spending=Spending(requests=50), retries=5, discarded=Spending(requests=5, usd=0.25)),
            "retries",
            "requests were repeated 5 times; answers that were thrown away cost $0.25",
        ),
        (Statistics(counts=Counts(runs=9), stops={"out_of_steps": 3}), "runs", "3 of 9 runs met a limit"),
        (
            Statistics(spending=UNKNOWN, models=(ModelUse(model="own", spending=UNKNOWN),)),
            "prices",
            "no price is known for own",
        ),
    ],
)
def test_what_stands_out_is_said(found: Statistics, word: str, text: str) -> None:
    (remark,) = remarks(found)
    assert (remark.about, remark.text) == (word, text)
    assert "`" in remark.next


def test_cost_that_rose_is_said_where_both_are_known() -> None:
    found = Statistics(spending=KNOWN)
    (remark,) = remarks(found, earlier=Spending(requests=1, usd=0.5))
    assert remark.text == "$2.00 is 4.0 times what the same time before it cost ($0.50)"
    assert about(found, earlier=Spending(requests=1, usd=1.5)) == []
    assert about(found, earlier=Spending(requests=2, usd=0.5, unpriced=1)) == []
    assert about(found, earlier=UNKNOWN) == []


def test_a_model_that_costs_nothing_needs_no_cache() -> None:
    free = Spending(requests=20, usage=Usage(input=900_000), usd=0.0)
    assert about(Statistics(spending=free)) == []
    cached = Spending(requests=20, usage=Usage(input=10_000, cache_read=500_000, cache_write=400_000), usd=1.0)
    assert about(Statistics(spending=cached), saved_usd=-0.5) == ["cache"]


def test_one_dear_session_and_the_busiest_hour_are_named() -> None:
    session = SessionInfo(id="abc", title="Big", started=SINCE, updated=NOW)
    days = tuple(DayUse(day=day(f"2026-03-{n:02}"), counts=Counts(said=4)) for n in range(1, 9))
    found = Statistics(
        counts=Counts(sessions=5, said=32),
        spending=KNOWN,
        days=days,
        hours=(HourUse(weekday=0, hour=9, said=12), HourUse(weekday=1, hour=23, said=20)),
        dearest=(SessionUse(session=session, spending=Spending(requests=1, usd=1.5)),),
    )
    money, hours = remarks(found)
    assert money.text == "one session took 75% of the money: Big"
    assert hours.text == "most is asked on Tuesdays from 23:00 to 00:00"


# ---- figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (999.6, "1.0k"), (1_000, "1.0k"), (9_960, "10k"), (999_499, "999k"), (999_500, "1.0M"),
     (12_345_678, "12M"), (3e9, "3.0B"), (5e15, "5,000T")],
)  # fmt: skip
def test_counts_are_short(number: float, text: str) -> None:
    assert figures.short(number) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [(0, "$0.00"), (0.00001, "<$0.0001"), (0.0042, "$0.0042"), (4.2, "$4.20"), (1234.5, "$1,234"), (-2, "-$2.00")],
)
def test_money_is_never_rounded_to_nothing(usd: float, text: str) -> None:
    assert figures.money(usd) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.013, "13 ms"),
        (0.97, "1.0 s"),
        (42, "42 s"),
        (90, "2 min"),
        (11_520, "3 h 12 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_times_are_in_their_largest_units(seconds: float, text: str) -> None:
    assert figures.duration(seconds) == text


@pytest.mark.parametrize(
    ("spending", "cell", "words"),
    [
        (Spending(), "-", "nothing: no model was asked"),
        (UNKNOWN, "unknown", "unknown: no price is known for any of 4 requests"),
        (KNOWN, "$2.00", "about $2.00, estimated from price lists"),
        (KNOWN + UNKNOWN, "≥ $2.00", "at least $2.00: no price is known for 4 of 14 requests"),
        (Spending(requests=1, usd=2.0, actual_usd=2.0, told=1), "$2.00", "$2.00, as billed"),
        (
            KNOWN + Spending(requests=1, usd=1.0, actual_usd=1.0, told=1),
            "$3.00",
            "about $3.00, estimated from price lists, $1.00 of it as billed",
        ),
        (Spending(requests=1, usd=0.0), "$0.00", "$0.00"),
    ],
)
def test_how_well_a_price_is_known_is_said(spending: Spending, cell: str, words: str) -> None:
    assert figures.cost(spending) == cell
    assert figures.cost_in_words(spending) == words


# ---- the page and the picture ----------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a browser would make of a page: its elements, all of them closed, and what they refer to."""

    ALONE = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "style")]
        if tag not in self.ALONE and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)


@given(INSIGHTS)
def test_the_page_is_whole_needs_no_network_and_runs_nothing(found: Insights) -> None:
    text = page(found)
    made = Page(text)
    assert made.links == []
    assert not made.seen & {"script", "link", "img", "iframe", "object", "form", "a"}
    assert "<title>" in text
    assert "A &lt;title&gt;" in text or found.empty
    text.encode()
    for chart in text.split("<svg")[1:]:
        ElementTree.fromstring(f"<svg{chart.partition('</svg>')[0]}</svg>")


def test_the_page_says_what_is_not_known() -> None:
    found = Statistics(
        counts=Counts(sessions=1), spending=KNOWN + UNKNOWN, models=(ModelUse(model="own", spending=UNKNOWN),)
    )
    text = page(insights(found))
    assert "≥ $2.00" in text
    assert "4 requests of unknown price are not in it." in text
    assert "$0.00</td>" not in text


@given(st.floats(1e-9, 1e15), st.integers(1, 8))
def test_ticks_are_few_and_reach_the_top(top: float, count: int) -> None:
    marks = ticks(top, count=count)
    assert marks[0] == 0
    assert marks[-1] >= top * (1 - 1e-9)
    assert 2 <= len(marks) <= 2 * count + 2


@given(st.lists(st.tuples(*[AMOUNTS] * 2), min_size=1, max_size=40))
def test_columns_stand_inside_their_chart(values: list[tuple[float, float]]) -> None:
    series = [Series(name=str(n), style=f"c{n}", values=[value[n] for value in values]) for n in (0, 1)]
    labels = ["x"] * len(values)
    marks = ticks(max(map(sum, values)))
    chart = columns(labels, series, titles=labels, figures=[str(mark) for mark in marks])
    for shape in ElementTree.fromstring(chart).iter("rect"):
        x, y, width, height = (float(shape.attrib[name]) for name in ("x", "y", "width", "height"))
        assert x >= 52
        assert x + width <= 752.2
        assert y >= 9.9
        assert y + height <= 184.1


@pytest.mark.needs_package("matplotlib")
@pytest.mark.parametrize("statistics", ["nothing", "little", "odd"])
def test_the_picture_is_a_picture_of_anything(statistics: str) -> None:
    odd = "模型 $x$ \x1b\ud800 _{" * 4
    found = {
        "nothing": Statistics(),
        "little": Statistics(
            counts=Counts(sessions=1), spending=KNOWN, days=(DayUse(day=day("2026-03-30"), spending=KNOWN),)
        ),
        "odd": Statistics(
            spending=KNOWN + UNKNOWN,
            models=tuple(ModelUse(model=odd, spending=UNKNOWN) for _ in range(20)),
            tools=tuple(ToolUse(name=f"{odd}{n}", calls=n, errors=n // 2) for n in range(20)),
            hours=(HourUse(weekday=6, hour=23, requests=3),),
        ),
    }[statistics]
    draw: Callable[[Insights], bytes] = Lazy[Any]("melete.app.insights_png:picture", extra="plot").load()
    data = draw(insights(found))
    assert data.startswith(b"\x89PNG\r\n")
    assert int.from_bytes(data[16:20], "big") == 1500


@given(STATISTICS)
def test_redacting_nothing_changes_nothing(found: Statistics) -> None:
    assert redacted(found, str) == found
