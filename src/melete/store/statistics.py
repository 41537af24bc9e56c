"""What the tables add up to. Part of the store.

SQLite groups and adds, in pieces of a quarter of an hour, which every time zone consists of; the pieces become days and hours
here.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, tzinfo
from pathlib import Path
from typing import Any

from msgspec import structs

from melete.core.message import Usage
from melete.core.session import SessionInfo
from melete.core.statistics import (
    Counts,
    DayUse,
    HourUse,
    ModelUse,
    RoleUse,
    SessionUse,
    SourceUse,
    Spending,
    Statistics,
    ToolUse,
    Trouble,
)
from melete.store.fold import FAILED_CALLS
from melete.store.sqlite import Database
from melete.store.tables import Listing, chosen, model_in, moment, several

PIECE = 900
"""Seconds: every zone's offset is a multiple of it."""
TOP = 10
RAN = ("ok", "error", "timeout")
"""Outcomes of calls whose seconds say something about the tool."""

_SPENDING = (
    "count(*), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(reasoning), total(usd), "
    "total(CASE WHEN told THEN usd END), sum(told), sum(usd IS NULL), total(seconds)"
)
_SPENDING_COLUMNS = 11
_COUNTED = ("messages", "said", "steps", "runs", "seconds", "tool_calls", "tool_errors")
_SAID, _RAN, _CALLED, _SPENT = 0, 3, 5, len(_COUNTED)
"""Where numbers of messages, of runs, of calls and of requests begin in a tally."""


def statistics(database: Database, wanted: Listing, *, folder: Path, zone: tzinfo | None = None) -> Statistics:
    """What the sessions of `wanted` add up to, by days and hours in `zone` (None: the machine's); its limit does not count."""
    return _Summary(database, wanted, zone).made(folder)


class _Tally:
    """Counts and spending of one day, source or session while they are added up."""

    __slots__ = ("numbers", "sessions")

    def __init__(self) -> None:
        self.numbers: list[Any] = [0] * (_SPENT + _SPENDING_COLUMNS)
        self.sessions: set[str] = set()

    def add(self, at: int, values: Sequence[Any]) -> None:
        """Add numbers to those from `at` on."""
        numbers = self.numbers
        for place, value in enumerate(values, at):
            numbers[place] += value

    def join(self, other: "_Tally") -> None:
        """Add everything of another tally."""
        self.add(0, other.numbers)
        self.sessions |= other.sessions

    @property
    def counts(self) -> Counts:
        """What was counted."""
        return Counts(sessions=len(self.sessions), **dict(zip(_COUNTED, self.numbers, strict=False)))

    @property
    def spending(self) -> Spending:
        """What was spent."""
        return _spent(self.numbers[_SPENT:])


class _Summary:
    """One reading of the tables."""

    def __init__(self, database: Database, wanted: Listing, zone: tzinfo | None) -> None:
        self._database = database
        self._which = wanted.which
        self._zone = zone
        condition, values = chosen(wanted.owner, wanted.which)
        self._all = condition == "1"
        self._sessions = "1" if self._all else f"session IN (SELECT id FROM sessions WHERE {condition})"  # noqa: S608
        self._values = values
        self._sources = {
            row[0]: row[1]
            for row in database.read(f"SELECT id, source FROM sessions WHERE {condition}", values)  # noqa: S608
        }
        self._places: dict[int, tuple[date, int, int]] = {}
        self.days: defaultdict[date, _Tally] = defaultdict(_Tally)
        self.by_session: defaultdict[str, _Tally] = defaultdict(_Tally)
        self.hours: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)

    def made(self, folder: Path) -> Statistics:
        """Everything; raises DamagedError, StorageError, ValidationError."""
        self._messages()
        self._runs()
        self._calls()
        self._requests()
        if self._which.since is None and self._which.until is None and not self._which.models:
            for session in self._sources:  # also those in which nothing was said
                self.by_session[session].sessions.add(session)
        total, by_source = _Tally(), defaultdict[str, _Tally](_Tally)
        for session, tally in self.by_session.items():
            total.join(tally)
            by_source[self._sources.get(session, "")].join(tally)
        longest = self._top(_seconds)
        dearest = self._top(_price)
        shown = several(self._database, sorted({*longest, *dearest}), folder=folder)
        first, last = self._span()
        tried_again = self._troubles_of_requests()
        return Statistics(
            first=first,
            last=last,
            counts=total.counts,
            spending=total.spending,
            discarded=_sum(spending for _, spending in self._spending("1", "discarded")),
            retries=sum(trouble.count for trouble in tried_again),
            stops=dict(self._read("SELECT stop, count(*) FROM runs WHERE {} GROUP BY stop", "runs")),
            days=tuple(DayUse(day=d, counts=t.counts, spending=t.spending) for d, t in sorted(self.days.items())),
            hours=tuple(HourUse(weekday=day, hour=hour, **count) for (day, hour), count in sorted(self.hours.items())),
            models=self._models(),
            tools=self._tools(),
            sources=tuple(
                SourceUse(source=name, counts=tally.counts, spending=tally.spending)
                for name, tally in sorted(by_source.items(), key=lambda item: (-len(item[1].sessions), item[0]))
            ),
            roles=tuple(RoleUse(role=key[0], spending=spending) for key, spending in self._spending("role")),
            troubles=_sorted([*tried_again, *self._troubles_of_runs(), *self._troubles_of_tools()]),
            longest=self._shown(longest, shown),
            dearest=self._shown(dearest, shown),
        )

    # ---- reading

    def _read(self, sql: str, table: str, *, at: str = "at") -> list[tuple[Any, ...]]:
        """Rows of a query in which {} stands for the condition of what was asked for."""
        parts, values, which = [self._sessions], [*self._values], self._which
        at = "started" if table == "runs" else at
        if which.since is not None:
            parts.append(f"{at} >= ?")
            values.append(which.since.timestamp())
        if which.until is not None:
            parts.append(f"{at} < ?")
            values.append(which.until.timestamp())
        if which.models and table in ("usage", "runs"):
            parts.append(model_in(", ".join("?" * len(which.models))))
            values += [*which.models, *which.models]
        return self._database.read(sql.format(" AND ".join(parts)), values)

    def _spending(self, keys: str, also: str = "1") -> list[tuple[tuple[Any, ...], Spending]]:
        """Spending by some columns of `usage`, which come with it."""
        sql = f"SELECT {_SPENDING}, {keys} FROM usage WHERE {{}} AND {also} GROUP BY {keys}"  # noqa: S608 - ours
        if keys == "1":
            sql = sql.replace(" GROUP BY 1", "")
        rows = self._read(sql, "usage")
        return [(row[_SPENDING_COLUMNS:], _spent(row)) for row in rows if row[0]]

    def _span(self) -> tuple[datetime | None, datetime | None]:
        """The times of the first and the last thing that was counted."""
        rows = [
            row
            for table, at in (("messages", "at"), ("usage", "at"), ("tools", "at"), ("runs", "started"))
            for row in self._read(f"SELECT min({at}), max({at}) FROM {table} WHERE {{}}", table)  # noqa: S608 - ours
            if row[0] is not None
        ]
        if not rows:
            return None, None
        return moment(min(row[0] for row in rows)), moment(max(row[1] for row in rows))

    # ---- adding up

    def _place(self, piece: int) -> tuple[date, int, int]:
        """The day, weekday and hour of a quarter of an hour."""
        if piece not in self._places:
            at = datetime.fromtimestamp(piece * PIECE, UTC)
            with suppress(OverflowError):  # within a day of the first or the last year
                at = at.astimezone(self._zone)
            self._places[piece] = (at.date(), at.weekday(), at.hour)
        return self._places[piece]

    def _add(self, rows: Iterable[tuple[Any, ...]], at: int) -> None:
        """Add rows of a session, a piece of time and numbers to the session and the day that they belong to."""
        days, sessions = self.days, self.by_session
        for session, piece, *numbers in rows:
            for tally in (sessions[session], days[self._place(piece)[0]]):
                tally.sessions.add(session)
                tally.add(at, numbers)

    def _messages(self) -> None:
        rows = self._read(
            f"SELECT session, CAST(at / {PIECE} AS INTEGER) AS piece, count(*), "  # noqa: S608 - a number of ours
            "sum(role = 'user' AND origin <> 'runtime'), sum(role = 'assistant') "
            "FROM messages WHERE {} AND NOT copied GROUP BY session, piece",
            "messages",
        )
        self._add(rows, _SAID)
        for _, piece, _, said, _ in rows:
            if said:
                self.hours[self._place(piece)[1:]]["said"] += said

    def _runs(self) -> None:
        rows = self._read(
            f"SELECT session, CAST(started / {PIECE} AS INTEGER) AS piece, count(*), total(seconds) "  # noqa: S608
            "FROM runs WHERE {} GROUP BY session, piece",
            "runs",
        )
        self._add(rows, _RAN)

    def _calls(self) -> None:
        rows = self._read(
            f"SELECT session, CAST(at / {PIECE} AS INTEGER) AS piece, count(*), "  # noqa: S608 - words of ours
            f"sum(outcome IN {FAILED_CALLS}) FROM tools WHERE {{}} GROUP BY session, piece",
            "tools",
        )
        self._add(rows, _CALLED)

    def _requests(self) -> None:
        rows = self._read(
            f"SELECT session, CAST(at / {PIECE} AS INTEGER) AS piece, {_SPENDING} "  # noqa: S608 - words of ours
            "FROM usage WHERE {} GROUP BY session, piece",
            "usage",
        )
        self._add(rows, _SPENT)
        for _, piece, requests, *_ in rows:
            self.hours[self._place(piece)[1:]]["requests"] += requests

    # ---- what it comes to

    def _models(self) -> tuple[ModelUse, ...]:
        sources = {
            (row[0], row[1]): row[2]
            for row in self._read(
                "SELECT model, provider, source, max(at) FROM usage WHERE {} AND usd IS NOT NULL "
                "GROUP BY model, provider",
                "usage",
            )
        }
        found = self._spending("model, provider")
        found.sort(key=lambda item: (-item[1].usage.total, item[0]))
        return tuple(
            ModelUse(model=key[0], provider=key[1], source=sources.get((key[0], key[1]), ""), spending=spending)
            for key, spending in found
        )

    def _tools(self) -> tuple[ToolUse, ...]:
        rows = self._read(
            "SELECT name, outcome, count(*), total(seconds), sum(length), sum(spilled) FROM tools WHERE {} "
            "GROUP BY name, outcome",
            "tools",
        )
        times = {row[0]: row[1:] for row in self._times()}
        found: dict[str, ToolUse] = {}
        for name, outcome, calls, seconds, length, spilled in rows:
            tool = found.get(name) or ToolUse(name=name)
            median, p95 = times.get(name, (0.0, 0.0))
            found[name] = structs.replace(
                tool,
                calls=tool.calls + calls,
                errors=tool.errors + (calls if outcome in FAILED_CALLS else 0),
                outcomes={**tool.outcomes, outcome: calls},
                seconds=tool.seconds + seconds,
                median=median,
                p95=p95,
                length=tool.length + length,
                spilled=tool.spilled + spilled,
            )
        return tuple(sorted(found.values(), key=lambda tool: (-tool.calls, tool.name)))

    def _times(self) -> list[tuple[Any, ...]]:
        """Tools with the median and the nearest-rank 95th percentile of the seconds of their calls."""
        ranked = (
            "SELECT name, seconds, row_number() OVER (PARTITION BY name ORDER BY seconds) AS n, "  # noqa: S608 - ours
            f"count(*) OVER (PARTITION BY name) AS c FROM tools WHERE {{}} AND outcome IN {RAN}"
        )
        median = "avg(CASE WHEN n IN ((c + 1) / 2, (c + 2) / 2) THEN seconds END)"
        p95 = "max(CASE WHEN n = (c * 95 + 99) / 100 THEN seconds END)"
        return self._read(f"SELECT name, {median}, {p95} FROM ({ranked}) GROUP BY name", "tools")  # noqa: S608 - ours

    def _troubles_of_requests(self) -> list[Trouble]:
        rows = self._read("SELECT cause, count(*), max(at) FROM retries WHERE {} GROUP BY cause", "retries")
        return [_trouble("request", *row) for row in rows]

    def _troubles_of_runs(self) -> list[Trouble]:
        rows = self._read(
            "SELECT coalesce(nullif(error, ''), stop), count(*), max(started) FROM runs "
            "WHERE {} AND stop = 'failed' GROUP BY 1",
            "runs",
        )
        return [_trouble("run", *row) for row in rows]

    def _troubles_of_tools(self) -> list[Trouble]:
        rows = self._read(
            "SELECT name || ': ' || outcome, count(*), max(at) FROM tools "  # noqa: S608 - words of ours
            f"WHERE {{}} AND outcome IN {FAILED_CALLS} GROUP BY 1",
            "tools",
        )
        return [_trouble("tool", *row) for row in rows]

    def _top(self, rank: Callable[[_Tally], tuple[float, ...]]) -> list[str]:
        """The sessions that rank highest, those that rank nowhere left out."""
        ranked = [(rank(tally), session) for session, tally in self.by_session.items()]
        return [session for key, session in sorted(ranked, reverse=True)[:TOP] if any(key)]

    def _shown(self, sessions: Sequence[str], rows: dict[str, SessionInfo]) -> tuple[SessionUse, ...]:
        return tuple(
            SessionUse(session=rows[name], counts=self.by_session[name].counts, spending=self.by_session[name].spending)
            for name in sessions
            if name in rows
        )


def _seconds(tally: _Tally) -> tuple[float, ...]:
    return (tally.numbers[_COUNTED.index("seconds")],)


def _price(tally: _Tally) -> tuple[float, ...]:
    spending = tally.spending
    return (spending.usd or 0.0, spending.usage.total)


def _spent(row: Sequence[Any]) -> Spending:
    requests, *tokens, usd, actual, told, unpriced, seconds = row[:_SPENDING_COLUMNS]
    return Spending(
        requests=requests,
        usage=Usage(**dict(zip(Usage.__struct_fields__, tokens, strict=True))),
        usd=usd if unpriced < requests else None,
        actual_usd=actual,
        told=told,
        unpriced=unpriced,
        seconds=seconds,
    )


def _sum(parts: Iterable[Spending]) -> Spending:
    return sum(parts, Spending())


def _trouble(where: str, kind: str, count: int, last: Any) -> Trouble:
    return Trouble(where=where, kind=kind, count=count, last=moment(last))


def _sorted(troubles: Iterable[Trouble]) -> tuple[Trouble, ...]:
    return tuple(sorted(troubles, key=lambda trouble: (-trouble.count, trouble.where, trouble.kind)))
