"""A day's spending as the ledger counts it: pure arithmetic over its rows. Part of the store.

Every spending row carries the totals of its day (UTC), so the last one tells the day.
"""

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from melete.core.errors import LimitError
from melete.core.message import Usage
from melete.core.policy import Allowance
from melete.core.ports import Day

RESERVED, SETTLED = "spending.reserved", "spending.settled"
SPENDING = frozenset({RESERVED, SETTLED})
Row = dict[str, Any]
LOOK_BACK = 200
"""Rows among which the day is looked for."""


def new_id(day: Day) -> str:
    """A reservation's id."""
    return f"{day.day}-{os.urandom(6).hex()}"


def day_of(spent: Iterable[Mapping[str, Any]], now: datetime) -> Day:
    """The day of `now` as its latest row tells it; a new day begins at zero. `spent` are spending rows, the last one first.

    A clock that was wrong for a while leaves rows of other days behind, so a few more than the last are looked at.
    """
    date = f"{now.astimezone(UTC):%Y-%m-%d}"
    row = next((row for row in islice(spent, LOOK_BACK) if row["day"] == date), None)
    return Day(day=date) if row is None else Day(day=date, tokens=row["day_tokens"], usd=row["day_usd"])


def reserve(day: Day, want: Allowance, cap: Allowance) -> Day:
    """The day with `want` set aside; raises LimitError when that would pass the cap."""
    tokens, usd = want.tokens or 0, want.usd or 0.0
    _within("tokens", day.tokens, tokens, cap.tokens)
    _within("US dollars", day.usd, usd, cap.usd)
    return Day(day=day.day, tokens=day.tokens + tokens, usd=_money(day.usd + usd))


def settle(day: Day, held: Mapping[str, Any], *, usage: Usage, usd: float | None) -> Day:
    """The day with a reservation replaced by what was spent; one of an earlier day weighs nothing on this one."""
    today = held["day"] == day.day
    tokens = max(0, day.tokens - (held["tokens"] if today else 0)) + usage.total
    money = max(0.0, day.usd - (held["usd"] if today else 0.0)) + (usd or 0.0)
    return Day(day=day.day, tokens=tokens, usd=_money(money))


def reserved(reservation: str, who: str, *, want: Allowance, total: Day) -> Row:
    """The row of a reservation."""
    return {"id": reservation, "who": who, "tokens": want.tokens or 0, "usd": want.usd or 0.0, **_totals(total)}


def settled(held: Mapping[str, Any], *, usage: Usage, usd: float | None, total: Day) -> Row:
    """The row that replaces a reservation."""
    row = {"id": held["id"], "who": held["who"], "tokens": usage.total, "cached": usage.cache_read, "usd": usd}
    return {**row, **_totals(total)}


def _totals(day: Day) -> Row:
    return {"day": day.day, "day_tokens": day.tokens, "day_usd": day.usd}


def _within(unit: str, spent: float, want: float, cap: float | None) -> None:
    if cap is not None and spent + want > cap:
        raise LimitError(
            f"the day's budget of {cap:g} {unit} does not allow this: {spent:g} spent or reserved, {want:g} more needed",
            kept="nothing was sent",
            next="wait until tomorrow (UTC) or raise the day's budget in config.yaml",
        )


def _money(usd: float) -> float:
    return round(usd, 9)
