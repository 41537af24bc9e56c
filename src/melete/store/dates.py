"""Days, months and years that a question names, as spans of time. Part of the store, pure."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache

Span = tuple[float, float]
"""Seconds since 1970: the first included, the last excluded."""

FIRST_YEAR, LAST_YEAR = 1970, 2199
SLACK = timedelta(days=1)
"""A named day takes in the one before and the one after: it is told in the speaker's time zone, and often a day later."""
MOST = 4
LONGEST_AMBIGUOUS = 3
_BEFORE = frozenset(
    ("in", "im", "en", "em", "of", "de", "since", "last", "this", "until", "during", "by", "late", "early", "seit")
)

_NAMES = (
    "january jan januar janvier enero gennaio janeiro januari",
    "february feb februar février fevrier febrero febbraio fevereiro februari",
    "march mar märz marz mars marzo março marco maart",
    "april apr avril abril aprile",
    "may mai mayo maggio maio mei maj",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août aout agosto augustus augusti",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre decembre diciembre dicembre dezembro",
)


@cache
def _months() -> dict[str, int]:
    return {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}


@cache
def _pattern() -> re.Pattern[str]:
    month = "|".join(sorted(_months(), key=len, reverse=True))
    year = r"(?:19[7-9]|20\d|21\d)\d"
    day = r"(?:0?[1-9]|[12]\d|3[01])"
    return re.compile(
        rf"\b(?P<iso>{year})-(?P<iso_month>0[1-9]|1[0-2])(?:-(?P<iso_day>{day}))?\b"
        rf"|(?P<han>{year})\s?[年년](?:\s?(?P<han_month>1[0-2]|0?[1-9])\s?[月월](?:\s?(?P<han_day>{day})\s?[日일])?)?"
        rf"|\b(?:(?P<day>{day})(?:st|nd|rd|th|\.|er|º)?\s+(?:of\s+|de\s+)?)?(?P<month>{month})\b\.?"
        rf"(?:\s+(?P<day2>{day})(?:st|nd|rd|th)?\b(?!:))?(?:,?\s+(?:de\s+|del\s+|of\s+)?(?P<year>{year})\b)?"
        rf"|\b(?P<alone>{year})\b",
        re.IGNORECASE,
    )


def named(text: str, years: tuple[int, int]) -> list[Span]:
    """The spans of time that the text names, at most four; one without a year is taken in each of `years`, first to last."""
    found: list[Span] = []
    for match in _pattern().finditer(text):
        found += _spans(match, years)
        if len(found) >= MOST:
            break
    return found[:MOST]


def _spans(match: re.Match[str], years: tuple[int, int]) -> Iterator[Span]:
    part = match.groupdict()
    if part["month"] is not None:
        yield from _of_month(match, years)
        return
    year = int(part["iso"] or part["han"] or part["alone"])
    month = part["iso_month"] or part["han_month"]
    day = part["iso_day"] or part["han_day"]
    yield from _span(year, int(month or 0), int(day or 0))


def _of_month(match: re.Match[str], years: tuple[int, int]) -> Iterator[Span]:
    part = match.groupdict()
    name, day = part["month"], part["day"] or part["day2"]
    if not day and not part["year"] and not _is_month(match.string, match.start("month"), name):
        return
    month = _months()[name.lower()]
    if part["year"]:
        yield from _span(int(part["year"]), month, int(day or 0))
        return
    for year in range(max(years[0], years[1] - MOST + 1), years[1] + 1):
        yield from _span(year, month, int(day or 0))


def _is_month(text: str, at: int, name: str) -> bool:
    """Whether a word alone is meant as a month: not "may", "march" or "mar" in the middle of something else."""
    if text.strip().lower() == name.lower():
        return True
    before = text[:at].rsplit(maxsplit=1)[-1:]
    return name[0].isupper() and (len(name) > LONGEST_AMBIGUOUS or (bool(before) and before[0].lower() in _BEFORE))


def _span(year: int, month: int, day: int) -> Iterator[Span]:
    if not FIRST_YEAR <= year <= LAST_YEAR:
        return
    try:
        start = datetime(year, month or 1, day or 1, tzinfo=UTC)
    except ValueError:
        return
    if day:
        yield (start - SLACK).timestamp(), (start + SLACK + timedelta(days=1)).timestamp()
        return
    end = datetime(year + (month in (0, 12)), month % 12 + 1 if month else 1, 1, tzinfo=UTC)
    yield start.timestamp(), end.timestamp()
