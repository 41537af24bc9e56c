"""Schedules: what each form means, over daylight saving as well, and what is said of a text that is none."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.app.schedule import (
    Cron,
    Every,
    Once,
    ScheduleError,
    describe,
    next_after,
    occurrences,
    parse,
    parse_new,
    period,
    system_zone,
    zone_named,
)
from melete.core.errors import ConfigError

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 28, 12, 0, 30, 250_000, tzinfo=UTC)
ZONES = [ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo")]


def local(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("30m", timedelta(minutes=30)),
        ("in 30 minutes", timedelta(minutes=30)),
        ("1h30m", timedelta(minutes=90)),
        ("2 hours", timedelta(hours=2)),
        ("1d 12h", timedelta(hours=36)),
        ("1W", timedelta(weeks=1)),
        ("90s", timedelta(seconds=90)),
    ],
)
def test_a_length_is_once_so_long_from_now(text: str, after: timedelta) -> None:
    assert parse(text, NOW, zone=BERLIN) == Once(at=NOW.replace(microsecond=0) + after)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("every 2h", 7200), ("every 90 minutes", 5400), ("every hour", 3600), ("EVERY Day", 86400), ("every 1h30m", 5400)],
)
def test_every_is_a_fixed_distance_from_when_it_was_written(text: str, seconds: int) -> None:
    schedule = parse(text, NOW, zone=BERLIN)
    assert schedule == Every(seconds=seconds, start=NOW.replace(microsecond=0))
    first = [at for at in islice(occurrences(schedule, NOW, BERLIN), 3)]
    assert first == [NOW.replace(microsecond=0) + timedelta(seconds=seconds * n) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-04-01T09:00", local("2026-04-01T09:00")),
        ("2026-04-01 09:00:30", local("2026-04-01T09:00:30")),
        ("2026-04-01T09:00Z", datetime(2026, 4, 1, 9, tzinfo=UTC)),
        ("2026-04-01T09:00+05:30", datetime(2026, 4, 1, 3, 30, tzinfo=UTC)),
        ("2026-04-01 09:00 -0800", datetime(2026, 4, 1, 17, tzinfo=UTC)),
    ],
)
def test_a_time_is_in_the_zone_unless_it_says_its_own(text: str, at: datetime) -> None:
    assert parse(text, NOW, zone=BERLIN) == Once(at=at)


def test_macros_are_cron() -> None:
    assert parse("@daily", NOW, zone=BERLIN) == Cron(expression="0 0 * * *")
    assert parse("@Hourly", NOW, zone=BERLIN) == Cron(expression="0 * * * *")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "is missing"),
        ("   ", "is missing"),
        ("x" * 300, "at most 200"),
        ("* * * *", "has five fields"),
        ("0 * * * * *", "seconds cannot be given"),
        ("61 * * * *", "the minute '61'"),
        ("0 25 * * *", "the hour '25'"),
        ("0 0 32 * *", "the day-of-month '32'"),
        ("0 0 * 13 *", "the month '13'"),
        ("0 0 * * MOO", "the day-of-week 'MOO'"),
        ("0 0 30 2 *", "none in these months"),
        ("0 0 */28 2 MON#3", "never comes"),
        ("every", "needs a length"),
        ("every 30s", "too often"),
        ("every 0m", "too often"),
        ("every monday", "no length of time"),
        ("every 2 fortnights", "'fortnights' is no unit"),
        ("every 20000d", "longer than ten years"),
        ("0m", "no time at all"),
        ("5 parsecs", "'parsecs' is no unit"),
        ("tomorrow", "is no schedule"),
        ("@reboot", "@reboot is no time"),
        ("@often", "'@often' is not known"),
        ("2026-04-01", "has no time of day"),
        ("2026-02-30T10:00", "day is out of range"),
        ("2026-04-01T9", "not written as an ISO time"),
        ("2026-03-28T12:00", "is in the past"),
        ("9999-12-31T23:59-10:00", "no date or time"),
    ],
)
def test_what_is_wrong_is_named_and_right_ones_are_shown(text: str, named: str) -> None:
    with pytest.raises(ScheduleError) as error:
        parse_new(text, NOW, zone=BERLIN)
    assert named in error.value.what
    assert "every 2h" in error.value.next


def test_a_time_that_has_only_just_passed_is_taken() -> None:
    assert parse_new("2026-03-28T11:59:00Z", NOW, zone=BERLIN) == Once(at=datetime(2026, 3, 28, 11, 59, tzinfo=UTC))


@given(st.text(max_size=40) | st.text(alphabet="0123456789*/,-#LW @evrymhdMONTZ:.", max_size=30))
def test_any_text_is_a_schedule_or_a_schedule_error(text: str) -> None:
    try:
        schedule = parse_new(text, NOW, zone=BERLIN)
    except ScheduleError as error:
        assert error.what
        assert error.next
        return
    assert describe(schedule, BERLIN)
    following = next_after(schedule, NOW, BERLIN)
    assert following is None or following > NOW


MINUTES = st.sampled_from(["*", "*/5", "*/7", "0", "30", "15,45", "0-10"])
HOURS = st.sampled_from(["*", "*/2", "2", "0", "1-3", "23", "*/6"])
DAYS = st.sampled_from(["*", "*", "*", "1", "L", "*/2"])
WEEKDAYS = st.sampled_from(["*", "*", "*", "SUN", "1-5", "MON#1"])
TURNS = st.sampled_from(
    ["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04", "2026-04-24"]
)


@given(st.tuples(MINUTES, HOURS, DAYS, WEEKDAYS), TURNS, st.integers(-200_000, 200_000), st.sampled_from(ZONES))
def test_occurrences_of_cron_come_later_and_later_and_are_found_from_anywhere(
    fields: tuple[str, str, str, str], turn: str, offset: int, zone: ZoneInfo
) -> None:
    minute, hour, day, weekday = fields
    schedule = parse(f"{minute} {hour} {day} * {weekday}", NOW, zone=zone)
    start = datetime.fromisoformat(turn).replace(tzinfo=UTC) + timedelta(seconds=offset)
    found = list(islice(occurrences(schedule, start, zone), 12))
    assert len(found) == 12
    assert all(before < after for before, after in zip([start, *found], found, strict=False))
    for before, after in pairwise(found):
        assert next_after(schedule, before, zone) == after
        assert next_after(schedule, after - timedelta(seconds=1), zone) == after


@given(TURNS, st.integers(-90_000, 90_000), st.sampled_from(ZONES), st.sampled_from(["*/5 * * * *", "*/20 */2 * * *"]))
def test_what_is_written_with_a_star_comes_at_every_minute_of_the_clock_that_fits(
    turn: str, offset: int, zone: ZoneInfo, text: str
) -> None:
    schedule = parse(text, NOW, zone=zone)
    start = datetime.fromisoformat(turn).replace(tzinfo=UTC) + timedelta(seconds=offset)
    end = start + timedelta(hours=5)
    steps, hours = (5, 1) if text.startswith("*/5") else (20, 2)
    first = start.replace(second=0) + timedelta(minutes=1)
    fitting = [
        at
        for at in (first + timedelta(minutes=n) for n in range(300))
        if at <= end and at.astimezone(zone).minute % steps == 0 and at.astimezone(zone).hour % hours == 0
    ]
    found: list[datetime] = []
    for at in occurrences(schedule, start, zone):
        if at > end:
            break
        found.append(at)
    assert found == fitting


@given(st.integers(60, 10_000_000), st.integers(-(10**9), 10**9))
def test_occurrences_of_every_are_its_multiples(seconds: int, offset: int) -> None:
    schedule = Every(seconds=seconds, start=NOW)
    after = NOW + timedelta(seconds=offset)
    found = next_after(schedule, after, BERLIN)
    assert found is not None
    assert found > after
    distance = (found - NOW).total_seconds()
    assert distance % seconds == 0
    assert distance >= seconds
    assert distance == seconds or found - timedelta(seconds=seconds) <= after


def test_a_fixed_time_in_the_hour_that_is_left_out_comes_once_as_soon_as_that_is_over() -> None:
    schedule = parse("30 2 * * *", NOW, zone=BERLIN)
    found = list(islice(occurrences(schedule, local("2026-03-28T12:00"), BERLIN), 2))
    assert found == [datetime(2026, 3, 29, 1, 0, tzinfo=UTC), datetime(2026, 3, 30, 0, 30, tzinfo=UTC)]


def test_a_fixed_time_in_the_hour_that_comes_twice_comes_the_first_time_only() -> None:
    schedule = parse("30 2 * * *", NOW, zone=BERLIN)
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert next_after(schedule, local("2026-10-24T12:00"), BERLIN) == first
    for minutes in range(0, 120, 7):
        following = next_after(schedule, first + timedelta(minutes=minutes), BERLIN)
        assert following == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_periods_are_the_distance_to_the_next() -> None:
    cron = parse("0 9 * * MON-FRI", NOW, zone=BERLIN)
    assert period(cron, local("2026-04-03T09:00"), BERLIN) == 3 * 86_400
    assert period(parse("every 2h", NOW, zone=BERLIN), NOW, BERLIN) == 7200
    assert period(parse("2h", NOW, zone=BERLIN), NOW, BERLIN) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("90m", "once at 2026-03-28 14:30 Europe/Berlin"),
        ("every 90m", "every 1 hour 30 minutes"),
        ("every 1d", "every day"),
        ("0 9 * * MON-FRI", "At 09:00 on Monday through Friday (Europe/Berlin)"),
    ],
)
def test_a_schedule_can_be_read(text: str, words: str) -> None:
    assert describe(parse(text, NOW, zone=BERLIN), BERLIN) == words


@pytest.mark.parametrize("name", ["", "Nowhere/Else", "Europe", "../../etc/passwd", "/etc/passwd", "a\0b"])
def test_a_zone_that_is_not_known_is_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError, match=r"cron\.timezone"):
        zone_named(name)


def test_the_systems_zone_has_its_rules(tmp_path: Path) -> None:
    assert system_zone({"TZ": "Europe/Berlin"}) == BERLIN
    assert system_zone({"TZ": ":Europe/Berlin"}) == BERLIN
    assert system_zone({"TZ": "/usr/share/zoneinfo/Europe/Berlin"}) == BERLIN
    assert system_zone({"TZ": ""}) is UTC
    assert system_zone({}, file=tmp_path / "none") is UTC
    (tmp_path / "broken").write_bytes(b"nothing")
    assert system_zone({}, file=tmp_path / "broken") is UTC
    folder = tmp_path / "zoneinfo" / "Europe"
    folder.mkdir(parents=True)
    (folder / "Berlin").touch()
    (tmp_path / "localtime").symlink_to(folder / "Berlin")
    assert system_zone({}, file=tmp_path / "localtime") == BERLIN
    with pytest.raises(ConfigError):
        system_zone({"TZ": "CET-1CEST"})
