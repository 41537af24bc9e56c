"""The time, and a stand-in for it. Part of the composition root."""

import re
from datetime import UTC, datetime, timedelta

from melete.core.errors import ConfigError
from melete.core.ports import Clock

STEP = re.compile(r"\+\d{1,9}(\.\d{1,6})?")


class SystemClock:
    """The machine's clock in UTC."""

    def now(self) -> datetime:
        """The time now."""
        return datetime.now(UTC)


class FixedClock:
    """Stands still at `start`, or goes on by `step` each time it is asked."""

    def __init__(self, start: datetime, step: timedelta) -> None:
        self._now = start
        self._step = step

    def now(self) -> datetime:
        """The time, after which a stepping clock moves on."""
        now = self._now
        self._now += self._step
        return now


def clock_from(text: str) -> Clock:
    """The clock for a value of MELETE_CLOCK: empty, an ISO time, or `+N`: from now on N seconds a step. Raises ConfigError."""
    if not text:
        return SystemClock()
    try:
        if STEP.fullmatch(text):
            return FixedClock(datetime.now(UTC), timedelta(seconds=float(text)))
        start = datetime.fromisoformat(text)
        start = (start if start.tzinfo else start.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"MELETE_CLOCK is {text!r}, which is no time",
            next="give an ISO time such as 2026-01-31T12:00:00Z, or +N seconds",
        ) from error
    return FixedClock(start, timedelta(0))
