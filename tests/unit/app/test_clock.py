"""The clock and its stand-in."""

from datetime import UTC, datetime, timedelta

import pytest

from melete.app.clock import SystemClock, clock_from
from melete.core.errors import ConfigError

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_without_a_script_it_is_the_machines_time() -> None:
    before = datetime.now(UTC)
    clock = clock_from("")
    assert isinstance(clock, SystemClock)
    assert before <= clock.now() <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00Z", "2026-01-31T12:00", "2026-01-31T14:00:00+02:00"])
def test_a_time_stands_still(text: str) -> None:
    clock = clock_from(text)
    assert clock.now() == clock.now() == START


def test_a_step_goes_on_each_time_it_is_read() -> None:
    clock = clock_from("+1.5")
    first = clock.now()
    assert [clock.now() - first for _ in range(2)] == [timedelta(seconds=1.5), timedelta(seconds=3)]


@pytest.mark.parametrize("text", ["soon", "+", "+x", "-5", "2026-13-01", "+5 2026-01-31", "0001-01-01T00:00:00+14:00"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="MELETE_CLOCK"):
        clock_from(text)
