"""What the sessions of a time add up to, and what stands out in it. Part of the composition root.

`melete insights`, the chat's `/insights` and the plots show one value, made here of the store's statistics; secrets that are
known are taken out of every text in it before anybody cuts one short.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from melete.agent.cachewatch import saved
from melete.app.figures import local
from melete.app.insights_remarks import Remark, remarks
from melete.app.modelbook import capabilities
from melete.app.wire import Melete
from melete.core.errors import ConfigError
from melete.core.model import Capabilities
from melete.core.session import ALL, Which
from melete.core.statistics import DayUse, ModelUse, Spending, Statistics

DAYS = 30
"""The days that are looked at where nobody says how many."""
BY_DAY, BY_WEEK, BY_MONTH = 62, 430, 3_700
"""Up to so many days are shown one by one, up to so many by the week, and by the month; more by the year."""


class Period(Struct, frozen=True, kw_only=True):
    """A day, a week from Monday, a month or a year, from its first day `start` up to and with `end`; `said` counts prompts."""

    start: date
    end: date
    said: int = 0
    sessions: int = 0
    spending: Spending = Spending()


class Streak(Struct, frozen=True, kw_only=True):
    """Days on which a model was asked: how many, in a row up to now (today may still be missing), and in a row at most."""

    days: int = 0
    current: int = 0
    longest: int = 0


class Insights(Struct, frozen=True, kw_only=True):
    """What a time from `since` up to `until` (None: without an end on that side) adds up to, as of `now`.

    `earlier` is what the same length of time before it cost, where it has a beginning. `saved_usd` is what caching saved in
    requests of known price, below zero where it cost more than it gave; None where nothing is known.
    """

    now: datetime
    since: datetime | None = None
    until: datetime | None = None
    statistics: Statistics
    earlier: Spending | None = None
    saved_usd: float | None = None
    remarks: tuple[Remark, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing happened in this time."""
        return not (self.statistics.counts.sessions or self.statistics.counts.messages or self.statistics.counts.runs)

    @property
    def first_day(self) -> date:
        """The first day that is shown."""
        return local(self.since or self.statistics.first or self.now).date()

    @property
    def last_day(self) -> date:
        """The last day that is shown: `until` itself is not in the time."""
        if self.until is not None:
            return max(local(self.until - timedelta(microseconds=1)).date(), self.first_day)
        return max(local(self.now).date(), local(self.statistics.last or self.now).date(), self.first_day)

    @property
    def streak(self) -> Streak:
        """How regularly models were asked."""
        return streak([use.day for use in self.statistics.days if use.spending.requests], today=self.last_day)

    @property
    def side_work(self) -> Spending:
        """What was spent beside the conversations, such as on titles."""
        return sum((use.spending for use in self.statistics.roles if use.role != "main"), Spending())

    @property
    def priced(self) -> bool:
        """Whether the price of every request is known, so that money may stand for what was used."""
        return self.statistics.spending.status in ("actual", "estimated") and bool(self.statistics.spending.usd)


async def report(app: Melete, *, owner: str = "", which: Which = ALL, days: int | None = None) -> Insights:
    """The insights into the sessions that are meant, of the last `days` days with today, where `which` has no beginning.

    Without either everything is counted. Raises StorageError.
    """
    now = app.clock.now()
    since = which.since or (midnight(now, days - 1) if days else None)
    which = structs.replace(which, since=since)
    found = redacted(await app.store.statistics(owner=owner, which=which), app.redact)
    earlier = None
    if since is not None and since < (end := which.until or now):
        before = structs.replace(which, since=since - (end - since), until=since)
        earlier = (await app.store.statistics(owner=owner, which=before)).spending
    home = app.loaded.home

    def prices(use: ModelUse) -> Capabilities:
        try:
            return capabilities(home, use.provider, use.model)
        except ConfigError:  # a damaged list is `melete doctor`'s business; here it knows no prices
            return Capabilities()

    made = Insights(
        now=now,
        since=since,
        until=which.until,
        statistics=found,
        earlier=earlier,
        saved_usd=saved_by_caching(found.models, prices),
    )
    return structs.replace(made, remarks=remarks(found, earlier=earlier, saved_usd=made.saved_usd))


def midnight(now: datetime, days: int) -> datetime:
    """The beginning of the local day that was `days` days before that of `now`."""
    try:
        day = local(now).date() - timedelta(days=days)
    except OverflowError:
        day = date(1970, 1, 2)
    return datetime(day.year, day.month, day.day).astimezone()


def saved_by_caching(models: Sequence[ModelUse], prices: Callable[[ModelUse], Capabilities]) -> float | None:
    """USD that caching saved in models whose prices are known; None where nothing was cached or no price is known."""
    cached = [use for use in models if use.spending.usage.cache_read or use.spending.usage.cache_write]
    known = [usd for use in cached if (usd := saved(prices(use), use.spending.usage)) is not None]
    return sum(known) if known else None


def streak(days: Sequence[date], *, today: date) -> Streak:
    """How regularly something happened; the row up to now may end yesterday."""
    longest = current = 0
    before: date | None = None
    for day in sorted(set(days)):
        current = current + 1 if before is not None and day - before == timedelta(days=1) else 1
        longest = max(longest, current)
        before = day
    if before is None or today - before > timedelta(days=1):
        current = 0
    return Streak(days=len(set(days)), current=current, longest=longest)


def periods(insights: Insights) -> Sequence[Period]:
    """Every day from the first to the last, those without anything too; longer periods where the time is long."""
    used: dict[date, list[DayUse]] = {}
    first, last, name = insights.first_day, insights.last_day, span(insights)
    for use in insights.statistics.days:
        used.setdefault(_begin(use.day, name), []).append(use)
    return [
        Period(
            start=max(start, first),
            end=min(end, last),
            said=sum(use.counts.said for use in used.get(start, ())),
            sessions=sum(use.counts.sessions for use in used.get(start, ())),
            spending=sum((use.spending for use in used.get(start, ())), Spending()),
        )
        for start, end in _spans(first, last, name)
    ]


def span(insights: Insights) -> str:
    """What each of the `periods` is: a day, week, month or year."""
    length = (insights.last_day - insights.first_day).days + 1
    return next(
        (name for most, name in ((BY_DAY, "day"), (BY_WEEK, "week"), (BY_MONTH, "month")) if length <= most), "year"
    )


def _begin(day: date, name: str) -> date:
    """The first day of the period in which a day is."""
    if name == "week":
        return date.fromordinal(max(1, day.toordinal() - day.weekday()))
    if name == "month":
        return day.replace(day=1)
    return day.replace(month=1, day=1) if name == "year" else day


def _spans(first: date, last: date, name: str) -> Iterator[tuple[date, date]]:
    longest = timedelta(days={"day": 1, "week": 7, "month": 31, "year": 366}[name])
    start = _begin(first, name)
    while start <= last:
        if start > date.max - longest:
            yield start, date.max
            return
        following = _begin(start + longest, name)
        yield start, following - timedelta(days=1)
        start = following


def redacted(found: Statistics, redact: Callable[[str], str]) -> Statistics:
    """The statistics without known secrets in any text; figures stay what they are."""
    plain = msgspec.to_builtins(found, builtin_types=(datetime, date))
    return msgspec.convert(_clean(plain, redact), Statistics)


def _clean(value: object, redact: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {_clean(k, redact): _clean(v, redact) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_clean(item, redact) for item in cast("Sequence[Any]", value)]
    return value
