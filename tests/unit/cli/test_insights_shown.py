"""Insights as text: on terminals of any width, and for pipes."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from melete.app.insights import Insights
from melete.core.message import Usage
from melete.core.statistics import Counts, DayUse, ModelUse, Spending, Statistics
from melete.surfaces.cli.bars import SHADES, bar, pace, shade, squeezed, upright
from melete.surfaces.cli.insights_shown import insights_text
from melete.surfaces.cli.paint import Paint, columns
from tests.unit.app.given_insights import INSIGHTS, NOW, day, insights


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


def paint(width: int = 0) -> Paint:
    """A terminal of this width; a pipe for 0."""
    if not width:
        return Paint(None, {})
    return Paint(Screen(), {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": str(width)})


@settings(max_examples=40)  # each lays out half a dozen tables
@given(INSIGHTS, st.sampled_from([20, 40, 80, 200]))
def test_no_line_is_wider_than_the_terminal(found: Insights, width: int) -> None:
    text = insights_text(found, paint(width))
    assert not found.empty or "Nothing happened" in text
    wide = [line for line in text.splitlines() if columns(line) > width]
    assert found.empty or not wide


@given(INSIGHTS)
def test_a_pipe_gets_no_colours(found: Insights) -> None:
    assert "\x1b" not in insights_text(found, paint())


def test_a_home_without_anything_is_told_how_to_begin() -> None:
    found = Insights(now=NOW, statistics=Statistics())
    assert insights_text(found, paint()) == (
        'There is nothing to tell yet: `melete run "…"` asks something, and what it takes is shown here.\n'
    )
    assert "--all` looks at everything" in insights_text(insights(Statistics()), paint())


def test_a_price_that_is_not_known_is_never_nothing() -> None:
    unknown = Spending(requests=3, usage=Usage(input=10, cache_read=30, output=5), unpriced=3)
    found = Statistics(
        counts=Counts(sessions=1, messages=6, said=3),
        spending=unknown,
        days=(DayUse(day=day("2026-03-30"), spending=unknown), DayUse(day=day("2026-03-31"), spending=unknown)),
        models=(ModelUse(model="own", spending=unknown),),
    )
    text = insights_text(insights(found), paint())
    assert "$" not in text
    assert "unknown: no price is known for any of 3 requests" in text
    assert "Tokens per day" in text
    assert "75% of what was read came from a cache" in text


def test_money_is_drawn_where_all_of_it_is_known() -> None:
    known = Spending(requests=1, usage=Usage(input=10), usd=0.25)
    found = Statistics(
        counts=Counts(sessions=1, messages=2, said=1),
        spending=known,
        days=(DayUse(day=day("2026-03-31"), spending=known),),
    )
    text = insights_text(insights(found), paint())
    assert "Cost per day\n $0.25 " in text


# ---- bars ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0, "    "), (1, "████"), (0.5, "██  "), (0.001, "▏   "), (0.28, "█▏  "), (2, "████"), (-1, "    ")],
)
def test_a_bar_fills_its_share(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


@given(st.integers(0, 100), st.integers(0, 100))
def test_more_is_never_lighter(less: int, more: int) -> None:
    less, more = sorted((less, more))
    assert SHADES.index(shade(less, 100)) <= SHADES.index(shade(more, 100))
    assert (shade(less, 100) == SHADES[0]) == (less == 0)
    assert shade(100, 100) == SHADES[-1]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=100), st.integers(1, 60), st.integers(1, 8))
def test_columns_fit_and_the_highest_reaches_the_top(values: list[float], width: int, height: int) -> None:
    drawn = upright(values, height=height, width=width)
    assert len(drawn) == height
    assert all(len(row) <= width for row in drawn)
    assert sum(squeezed(values, width)) == pytest.approx(sum(values))
    if any(values):
        assert "█" in drawn[0]
    assert pace(len(squeezed(values, width)), width) * len(squeezed(values, width)) <= width


def test_columns_show_what_is_more_than_nothing() -> None:
    assert upright([1, 0, 1000], height=2, width=6) == ["    █", "▁   █"]
