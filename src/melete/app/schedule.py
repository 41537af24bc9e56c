"""When a job runs: schedules as people write them, and the points in time that they mean. Composition root, pure.

`30m` is once, so long from now; `every 2h` is a fixed distance; five fields are cron's; an ISO time is once, at that time. Times
without a zone are in the zone that is passed. Over daylight saving, fixed times of cron happen exactly once: one in the hour
that is left out as soon as that is over, one in the hour that comes twice the first time.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count
from pathlib import Path
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import Struct

from melete.core.errors import ConfigError, UsageError

EXAMPLES = '"30m" (once), "every 2h", "0 9 * * MON-FRI" (cron), "@daily", "2026-01-31T09:00" (once)'
GRACE = 120.0
"""Seconds that a time which comes once may lie in the past."""
SHORTEST = 60
"""Seconds between two occurrences of `every`, at least."""
LONGEST = 3_660 * 86_400
"""Seconds that a length may have: ten years."""
LOCALTIME = Path("/etc/localtime")

_MOST_CHARACTERS = 200
_FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_RANGES = ("0-59", "0-23", "1-31, L or LW", "1-12 or JAN-DEC", "0-7 or SUN-SAT")
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_UNITS = {
    "second": 1, "sec": 1, "s": 1, "minute": 60, "min": 60, "m": 60, "hour": 3_600, "hr": 3_600, "h": 3_600,
    "day": 86_400, "d": 86_400, "week": 604_800, "w": 604_800,
}  # fmt: skip
_LENGTH = re.compile(r"(?:\d+ ?[a-z]+ ?)+", re.ASCII)
_PIECE = re.compile(r"(\d+) ?([a-z]+)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?\s?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII)


class ScheduleError(UsageError):
    """A text is no schedule; the message names what is wrong in it and shows some that are."""


class Once(Struct, frozen=True, kw_only=True):
    """One point in time."""

    at: datetime


class Every(Struct, frozen=True, kw_only=True):
    """Each `seconds` after `start`, which is none itself."""

    seconds: int
    start: datetime


class Cron(Struct, frozen=True, kw_only=True):
    """Cron's five fields, in the zone that is passed along."""

    expression: str


Schedule = Once | Every | Cron


def parse(text: str, since: datetime, *, zone: tzinfo) -> Schedule:
    """What `text`, written at the time `since`, means; raises ScheduleError."""
    words = " ".join(text.split())
    if not words:
        raise _wrong("a schedule is missing")
    if len(words) > _MOST_CHARACTERS:
        raise _wrong(f"a schedule has at most {_MOST_CHARACTERS} characters, this has {len(words)}")
    low, start = words.lower(), since.astimezone(UTC).replace(microsecond=0)
    if low.startswith("@"):
        return _macro(low)
    if low == "every" or low.startswith("every "):
        return _every(low.removeprefix("every").strip(), start)
    if _DATE.match(words):
        return Once(at=_time(words, zone))
    length = low.removeprefix("in ").strip()
    if _LENGTH.fullmatch(length):
        return _later(start, _seconds(length), text=words)
    return _cron(words)


def parse_new(text: str, now: datetime, *, zone: tzinfo) -> Schedule:
    """As `parse`, for a schedule that begins `now`: one that never comes, or is over for more than two minutes, is refused."""
    schedule = parse(text, now, zone=zone)
    if isinstance(schedule, Once) and (now - schedule.at).total_seconds() > GRACE:
        shown, here = moment_text(schedule.at, zone), moment_text(now, zone)
        raise _wrong(f"{text.strip()!r} is in the past: it means {shown}, and now it is {here}")
    if isinstance(schedule, Cron) and next_after(schedule, now, zone) is None:
        raise _wrong(f"{text.strip()!r} never comes: no such date is found within 50 years")
    return schedule


def occurrences(schedule: Schedule, after: datetime, zone: tzinfo) -> Iterator[datetime]:
    """The points in time behind `after`, in UTC and each later than the one before; without end unless the schedule has one."""
    match schedule:
        case Once(at=at):
            if at > after:
                yield at
        case Every(seconds=seconds, start=start):
            step = timedelta(seconds=seconds)
            for number in count(max(1, (after - start) // step + 1)):
                try:
                    at = start + number * step
                except OverflowError:
                    return
                yield at
        case Cron(expression=expression):
            yield from _dates(expression, after, zone)


def next_after(schedule: Schedule, now: datetime, zone: tzinfo) -> datetime | None:
    """The first point in time behind `now`, in UTC; None when there is no more."""
    return next(occurrences(schedule, now, zone), None)


def period(schedule: Schedule, at: datetime, zone: tzinfo) -> float | None:
    """Seconds from the occurrence `at` to the one behind it; None for what happens once, or for the last time."""
    if isinstance(schedule, Every):
        return float(schedule.seconds)
    following = None if isinstance(schedule, Once) else next_after(schedule, at, zone)
    return None if following is None else (following - at).total_seconds()


def describe(schedule: Schedule, zone: tzinfo) -> str:
    """The schedule in words."""
    match schedule:
        case Once(at=at):
            return f"once at {moment_text(at, zone)}"
        case Every(seconds=seconds):
            return f"every {_length_text(seconds)}"
        case Cron(expression=expression):
            return f"{CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC)).explain()} ({zone})"


def moment_text(at: datetime, zone: tzinfo) -> str:
    """A point in time as people of the zone write it."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M} {zone}"


def zone_named(name: str) -> ZoneInfo:
    """The time zone with this name, such as Europe/Berlin; raises ConfigError."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise ConfigError(
            f"{name!r} is not a time zone that is known here",
            next="set cron.timezone to a name such as Europe/Berlin or UTC, or install the package tzdata",
        ) from error


def system_zone(variables: Mapping[str, str], *, file: Path = LOCALTIME) -> tzinfo:
    """The zone of this machine, with its rules for daylight saving: TZ from the variables, else the system's file, else UTC.

    Raises ConfigError for a TZ that is no name of a zone.
    """
    if (name := variables.get("TZ")) is not None:
        name = name.removeprefix(":")
        return zone_named(name.rpartition("/zoneinfo/")[2]) if name else UTC
    try:
        _, known, name = str(file.resolve()).rpartition("/zoneinfo/")
        if known:
            return zone_named(name)
        with file.open("rb") as data:
            return ZoneInfo.from_file(data, key="local time")
    except (OSError, ValueError, ConfigError):
        return UTC  # as the system itself does without a file that it understands


# ---- how they are read -----------------------------------------------------------------------------------------------


def _wrong(what: str) -> ScheduleError:
    return ScheduleError(what, kept="nothing was changed", next=f"write one such as {EXAMPLES}")


def _macro(word: str) -> Cron:
    if word == "@reboot":
        raise _wrong("@reboot is no time: jobs do not run because the server starts")
    if word not in _MACROS:
        raise _wrong(f"{word!r} is not known; there are {', '.join(_MACROS)}")
    return Cron(expression=_MACROS[word])


def _every(length: str, start: datetime) -> Every:
    if not length:
        raise _wrong("`every` needs a length of time behind it")
    seconds = _UNITS.get(_singular(length)) or (_seconds(length) if _LENGTH.fullmatch(length) else 0)
    if not seconds and not re.match(r"0+ ?[a-z]", length):
        raise _wrong(f"'every {length}' has no length of time; for a time of day or a weekday use cron's five fields")
    if seconds < SHORTEST:
        raise _wrong(f"'every {length}' is too often: the shortest is every {SHORTEST} seconds")
    _later(start, seconds, text=f"every {length}")
    return Every(seconds=seconds, start=start)


def _seconds(length: str) -> int:
    """The seconds of `1h 30m`; raises ScheduleError for a unit that is none, and for too many."""
    total = 0
    for number, unit in _PIECE.findall(length):
        size = _UNITS.get(_singular(unit))
        if size is None:
            raise _wrong(f"{unit!r} is no unit of time; there are s, m, h, d and w")
        total += int(number) * size
    if total > LONGEST:
        raise _wrong(f"{length!r} is longer than ten years")
    return total


def _singular(unit: str) -> str:
    return unit.removesuffix("s") if len(unit) > 1 else unit


def _later(start: datetime, seconds: int, *, text: str) -> Once:
    if not seconds:
        raise _wrong(f"{text!r} is no time at all")
    try:
        return Once(at=start + timedelta(seconds=seconds))
    except OverflowError as error:
        raise _wrong(f"{text!r} is later than any date") from error


def _time(text: str, zone: tzinfo) -> datetime:
    if _DATE.fullmatch(text):
        raise _wrong(f"{text!r} has no time of day; write {text}T09:00")
    if not _TIME.fullmatch(text):
        raise _wrong(f"{text!r} is not written as an ISO time")
    try:
        at = datetime.fromisoformat(text.upper().replace(" +", "+").replace(" -", "-"))
        return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _wrong(f"{text!r} is no date or time: {error}") from error


def _cron(text: str) -> Cron:
    fields = text.split()
    if len(fields) != len(_FIELDS):
        if not any(letter in "0123456789*" for letter in fields[0]):
            raise _wrong(f"{text!r} is no schedule")
        seconds = "; seconds cannot be given" if len(fields) == len(_FIELDS) + 1 else ""
        raise _wrong(f"cron has five fields ({' '.join(_FIELDS)}), {text!r} has {len(fields)}{seconds}")
    try:
        CronSim(text, datetime(2026, 1, 1, tzinfo=UTC))
    except (CronSimError, ValueError, AssertionError) as error:  # it asserts what it has not checked before
        raise _wrong(_bad_field(fields, str(error))) from error
    return Cron(expression=text)


def _bad_field(fields: list[str], said: str) -> str:
    for name, field, allowed in zip(_FIELDS, fields, _RANGES, strict=True):
        if said.endswith(name):
            never = ", or there is none in these months" if name == "day-of-month" else ""
            return f"the {name} {field!r} is wrong: it may be * or {allowed}, lists with commas, steps with /{never}"
    return f"{' '.join(fields)!r} is no cron expression"


def _dates(expression: str, after: datetime, zone: tzinfo) -> Iterator[datetime]:
    """As CronSim has them, without those that it finds once more where clocks are turned."""
    last = after.astimezone(UTC)
    try:
        for date in CronSim(expression, after.astimezone(zone)):
            at = date.astimezone(UTC)
            if at > last:
                yield at
                last = at
    except OverflowError:
        return


def _length_text(seconds: int) -> str:
    pieces: list[str] = []
    for name in ("week", "day", "hour", "minute", "second"):
        number, seconds = divmod(seconds, _UNITS[name])
        if number:
            pieces.append(
                name if number == 1 and not pieces and not seconds else f"{number} {name}{'s' * (number > 1)}"
            )
    return " ".join(pieces)
