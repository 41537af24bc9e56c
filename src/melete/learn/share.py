"""What reviews may still take today of all that is spent. Pure: a fold over the ledger's rows.

`learning.day_share` is the share of reviews in the tokens of the last seven days, cache reads at a tenth, with a floor for a day.
What is put off has the same allowance once more in the night.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, Final

from melete.core.message import Usage
from melete.learn.facts import Review, facts_of

FLOOR: Final = 100_000
"""Tokens that reviews may take on any day."""
CACHED: Final = 0.9
"""What of a token that was read from a cache is not counted."""
DAYS: Final = 7
NIGHT: Final = 3
"""The hour, local, from which on what was put off before has the allowance once more."""
SETTLED: Final = "spending.settled"


class Share:
    """Takes in the ledger's rows in their order; days are those of `zone`, the system's own for None."""

    def __init__(self, share: float, *, zone: tzinfo | None = None) -> None:
        self._share = share
        self._zone = zone
        self._all: Counter[date] = Counter()
        self._reviews: dict[str, tuple[date, int]] = {}

    def take(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take in further rows."""
        for row in rows:
            if row.get("kind") == SETTLED:
                tokens = int(row.get("tokens") or 0) - CACHED * int(row.get("cached") or 0)
                self._all[self._day(str(row["at"]))] += round(tokens)
            for review in facts_of(Review, (row,)):
                if review.usage.total:
                    self._reviews[review.id] = (self._day(review.at), weight(review.usage))

    def left(self, now: datetime, *, put_off: str = "") -> int:
        """Tokens that a review may take now; `put_off` is when it was, where it was."""
        here = now.astimezone(self._zone)
        week = {here.date() - timedelta(days=back) for back in range(DAYS)}
        used = sum(tokens for day, tokens in self._reviews.values() if day in week)
        today = sum(tokens for day, tokens in self._reviews.values() if day == here.date())
        allowed = max(FLOOR, round(self._share * sum(self._all[day] for day in week)) - (used - today))
        night = here.replace(hour=NIGHT, minute=0, second=0, microsecond=0)
        again = bool(put_off) and datetime.fromisoformat(put_off) < night <= here
        return allowed * (2 if again else 1) - today

    def week(self, now: datetime) -> tuple[int, int]:
        """The tokens of reviews, and all tokens, of the last seven days."""
        here = now.astimezone(self._zone).date()
        days = {here - timedelta(days=back) for back in range(DAYS)}
        return sum(tokens for day, tokens in self._reviews.values() if day in days), sum(self._all[day] for day in days)

    def _day(self, at: str) -> date:
        return datetime.fromisoformat(at).astimezone(self._zone).date()


def weight(usage: Usage) -> int:
    """The tokens of a request, those read from a cache at a tenth."""
    return round(usage.total - CACHED * usage.cache_read)
