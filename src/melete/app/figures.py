"""Figures in words: tokens, money, times, shares. Part of the composition root; everything that shows insights shares them."""

from contextlib import suppress
from datetime import date, datetime

from melete.core.statistics import Spending

DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WEEKDAYS = tuple(name[:3] for name in DAY_NAMES)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STEPS = ((1_000, "k"), (1_000_000, "M"), (1_000_000_000, "B"), (1_000_000_000_000, "T"))
_TEN = 10
_HUNDRED = 100
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def short(number: float) -> str:
    """A count in at most five characters up to a thousand million million: 999, 1.2k, 345k, 6.7M."""
    if number < 999.5:  # noqa: PLR2004 - what rounds to a thousand is shown in thousands
        return f"{number:.0f}"
    for size, unit in _STEPS:
        scaled = number / size
        if scaled < 9.95:  # noqa: PLR2004 - what rounds to ten needs no digit behind the point
            return f"{scaled:.1f}{unit}"
        if scaled < 999.5 or unit == _STEPS[-1][1]:  # noqa: PLR2004
            return f"{scaled:,.0f}{unit}"
    raise AssertionError("unreachable")


def money(usd: float) -> str:
    """US dollars, with four digits behind the point below a cent; what is still smaller is said to be."""
    if usd < 0:
        return f"-{money(-usd)}"
    if usd >= _TEN * _HUNDRED:
        return f"${usd:,.0f}"
    if usd >= 0.01 or not usd:  # noqa: PLR2004
        return f"${usd:.2f}"
    return f"${usd:.4f}" if usd >= 0.0001 else "<$0.0001"  # noqa: PLR2004


def cost(spending: Spending) -> str:
    """What requests cost, in one cell: a price that is not known is said to be so, and never shown as nothing."""
    if spending.usd is None:
        return "unknown" if spending.requests else "-"
    return f"{'≥ ' if spending.unpriced else ''}{money(spending.usd)}"


def cost_in_words(spending: Spending) -> str:
    """What requests cost, and how well that is known."""
    requests = f"{spending.requests:,} {plural(spending.requests, 'request')}"
    if not spending.requests:
        return "nothing: no model was asked"
    if spending.usd is None:
        return f"unknown: no price is known for any of {requests}"
    text = money(spending.usd)
    if spending.unpriced:
        return f"at least {text}: no price is known for {spending.unpriced:,} of {requests}"
    if spending.status == "actual":
        return f"{text}, as billed"
    billed = f", {money(spending.actual_usd)} of it as billed" if spending.actual_usd else ""
    return f"about {text}, estimated from price lists{billed}" if spending.usd else text


def duration(seconds: float) -> str:
    """A time in its two largest units."""
    if seconds < 0.95:  # noqa: PLR2004 - what rounds to a second is one
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if seconds < _TEN:
        return f"{seconds:.1f} s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    minutes = round(seconds / _MINUTE)
    if seconds < _HOUR:
        return f"{minutes} min"
    if seconds < _DAY:
        return f"{minutes // _MINUTE} h {minutes % _MINUTE} min"
    hours = round(seconds / _HOUR)
    return f"{hours // 24} d {hours % 24} h"


def percent(share: float) -> str:
    """A share in whole percent, rounded down: 100 % is all of it, and never nearly."""
    return f"{int(share * _HUNDRED + 1e-9)}%"


def plural(count: int, one: str, *, many: str = "") -> str:
    """The word that goes with a count."""
    return one if count == 1 else many or f"{one}s"


def day_text(day: date, *, year: bool = False) -> str:
    """A day as `21 Nov`, with its year where that is needed."""
    return f"{day.day} {MONTHS[day.month - 1]}" + (f" {day.year}" if year else "")


def local(at: datetime) -> datetime:
    """A time in the zone of this machine; within a day of the first and the last year as it is."""
    with suppress(OverflowError, ValueError):
        return at.astimezone()
    return at
