"""A clock that stands still until it is told otherwise. Part `testing`: the twin of the system's clock."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class ManualClock:
    """Shows `at` and moves only by `advance`; with `step` seconds it also moves on after each look."""

    def __init__(self, at: datetime = START, *, step: float = 0.0) -> None:
        if at.tzinfo is None:
            raise ValueError(f"a clock needs a time with a zone, not {at.isoformat()}")
        self._at = at
        self._step = timedelta(seconds=step)

    def now(self) -> datetime:
        """The time that it shows."""
        shown = self._at
        self._at += self._step
        return shown

    def advance(self, seconds: float) -> datetime:
        """Move on, or back with a negative number, and return the new time."""
        self._at += timedelta(seconds=seconds)
        return self._at
