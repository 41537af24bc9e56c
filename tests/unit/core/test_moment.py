"""Times as people and models write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.moment import moment

NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("15m", NOW - timedelta(minutes=15)),
        (" 2 H ", NOW - timedelta(hours=2)),
        ("7d", NOW - timedelta(days=7)),
        ("1w", NOW - timedelta(weeks=1)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T08:30", datetime(2026, 1, 31, 8, 30, tzinfo=UTC)),
        ("2026-01-31T08:30+02:00", datetime(2026, 1, 31, 6, 30, tzinfo=UTC)),
    ],
)
def test_what_is_meant(text: str, meant: datetime) -> None:
    assert moment(text, now=NOW) == meant


def test_a_time_without_a_zone_may_be_one_of_this_machine() -> None:
    here = datetime(2026, 1, 31, 8, 30).astimezone()
    assert moment("2026-01-31T08:30", now=NOW, local=True) == here
    zoned = timezone(timedelta(hours=5))
    assert moment("2026-01-31T08:30+05:00", now=NOW, local=True) == datetime(2026, 1, 31, 8, 30, tzinfo=zoned)


@pytest.mark.parametrize("text", ["", "soon", "7", "d", "-7d", "2026-13-01", "99999999999999d", "7d later"])
def test_anything_else_is_told_with_what_can_be_written(text: str) -> None:
    with pytest.raises(ValueError, match="2026-01-31"):
        moment(text, now=NOW)


@given(text=st.text(max_size=20))
def test_no_text_does_worse_than_that(text: str) -> None:
    try:
        assert moment(text, now=NOW).tzinfo is not None
    except ValueError as error:
        assert "is not a time" in str(error)
