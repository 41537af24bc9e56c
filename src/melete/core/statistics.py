"""What sessions add up to: the values that `Store.statistics` gives. Layer 0.

What a fork copied is counted where it happened and nowhere else. Shares are between 0 and 1, seconds are wall time, sizes bytes,
prices USD.
"""

from datetime import date, datetime

from msgspec import Struct

from melete.core.message import Usage
from melete.core.session import CostStatus, SessionInfo


class Spending(Struct, frozen=True, kw_only=True):
    """Requests to models, their tokens and their price.

    `usd` is the sum of the prices that are known, None when none is; `actual_usd` the part of it that providers have told
    themselves, for `told` requests. `unpriced` requests have no known price. `seconds` were waited for replies.
    """

    requests: int = 0
    usage: Usage = Usage()
    usd: float | None = None
    actual_usd: float = 0.0
    told: int = 0
    unpriced: int = 0
    seconds: float = 0.0

    @property
    def status(self) -> CostStatus:
        """How well the price is known."""
        if not self.requests:
            return "none"
        if self.unpriced == self.requests:
            return "unknown"
        if self.unpriced:
            return "partial"
        return "actual" if self.told == self.requests else "estimated"

    @property
    def prompt(self) -> int:
        """Tokens that the models have read."""
        return self.usage.input + self.usage.cache_read + self.usage.cache_write

    @property
    def cache_share(self) -> float:
        """The share of what was read that came out of a cache; 0 when nothing was read."""
        return self.usage.cache_read / self.prompt if self.prompt else 0.0

    def __add__(self, other: "Spending") -> "Spending":
        known = [usd for usd in (self.usd, other.usd) if usd is not None]
        return Spending(
            requests=self.requests + other.requests,
            usage=self.usage + other.usage,
            usd=sum(known) if known else None,
            actual_usd=self.actual_usd + other.actual_usd,
            told=self.told + other.told,
            unpriced=self.unpriced + other.unpriced,
            seconds=self.seconds + other.seconds,
        )


class Counts(Struct, frozen=True, kw_only=True):
    """How much there was of everything; `said` are the messages of persons and other askers among `messages`."""

    sessions: int = 0
    runs: int = 0
    steps: int = 0
    messages: int = 0
    said: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    seconds: float = 0.0


class DayUse(Struct, frozen=True, kw_only=True):
    """One day in the zone that was asked for; days without anything are left out."""

    day: date
    counts: Counts = Counts()
    spending: Spending = Spending()


class HourUse(Struct, frozen=True, kw_only=True):
    """One hour of the week: `weekday` 0 is Monday; hours without anything are left out."""

    weekday: int
    hour: int
    said: int = 0
    requests: int = 0


class ModelUse(Struct, frozen=True, kw_only=True):
    """What one model of one provider did; `source` says where its latest price is from."""

    model: str
    provider: str = ""
    source: str = ""
    spending: Spending = Spending()


class ToolUse(Struct, frozen=True, kw_only=True):
    """What one tool did: `errors` are calls that failed or timed out, `outcomes` counts every outcome.

    `median` and `p95` are seconds of the calls that ran; `length` is the sum of the characters of its results.
    """

    name: str
    calls: int = 0
    errors: int = 0
    outcomes: dict[str, int] = {}
    seconds: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    length: int = 0
    spilled: int = 0


class SourceUse(Struct, frozen=True, kw_only=True):
    """What came from one kind of surface."""

    source: str
    counts: Counts = Counts()
    spending: Spending = Spending()


class RoleUse(Struct, frozen=True, kw_only=True):
    """Requests for the conversations (`main`) or for one kind of side work, such as `title`."""

    role: str
    spending: Spending = Spending()


class Trouble(Struct, frozen=True, kw_only=True):
    """One kind of failure: `where` is `request` (asked again), `run` (ended by it) or `tool`."""

    where: str
    kind: str
    count: int = 0
    last: datetime


class SessionUse(Struct, frozen=True, kw_only=True):
    """One session with what it used in the time that was asked for."""

    session: SessionInfo
    counts: Counts = Counts()
    spending: Spending = Spending()


class Sizes(Struct, frozen=True, kw_only=True):
    """Bytes on the disk.

    `tables` and `search` can be remade from the logs, `set_aside` was damaged and is kept, `orphans` belong to no session.
    """

    logs: int = 0
    inboxes: int = 0
    spilled: int = 0
    tables: int = 0
    search: int = 0
    set_aside: int = 0
    orphans: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.logs + self.inboxes + self.spilled + self.tables + self.search + self.set_aside + self.orphans


class Statistics(Struct, frozen=True, kw_only=True):
    """Everything that the sessions of one owner add up to in a time.

    `first` and `last` are the times of the first and the last thing counted. `discarded` are replies that were thrown away before
    another try, which `spending` contains, `retries` all tries that were repeated. `stops` counts how runs ended; a run without an
    end counts as an empty one. `longest` and `dearest` are the sessions with the longest time in runs and the highest price.
    `sizes` are those of the whole home, whatever was asked for, and empty where another than its person asks.
    """

    first: datetime | None = None
    last: datetime | None = None
    counts: Counts = Counts()
    spending: Spending = Spending()
    discarded: Spending = Spending()
    retries: int = 0
    stops: dict[str, int] = {}
    days: tuple[DayUse, ...] = ()
    hours: tuple[HourUse, ...] = ()
    models: tuple[ModelUse, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    sources: tuple[SourceUse, ...] = ()
    roles: tuple[RoleUse, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    longest: tuple[SessionUse, ...] = ()
    dearest: tuple[SessionUse, ...] = ()
    sizes: Sizes = Sizes()
