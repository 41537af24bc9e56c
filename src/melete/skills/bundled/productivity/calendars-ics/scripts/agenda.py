"""Print what an .ics file holds between two days, recurring events included, in one zone, and what overlaps.

usage: agenda.py FILE.ics FROM TO ZONE    (2026-03-01 2026-04-01 Europe/Berlin; TO is not included)
"""

import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import recurring_ical_events
from icalendar import Calendar


def main(path, first, last, zone_name):
    """Print one line per event, then the overlaps."""
    zone = ZoneInfo(zone_name)
    start, end = (datetime.fromisoformat(day).replace(tzinfo=zone) for day in (first, last))
    timed = []
    for calendar in Calendar.from_ical(Path(path).read_bytes(), multiple=True):
        for event in recurring_ical_events.of(calendar).between(start, end):
            title = str(event.get("SUMMARY", "(no title)"))
            if str(event.get("STATUS", "")).upper() == "CANCELLED":
                continue
            if not isinstance(event.start, datetime):
                print(f"{event.start}  all day        {title}")
                continue
            floating = " (no zone in the file)" if event.start.tzinfo is None else ""
            begins, ends = (
                one.replace(tzinfo=zone) if one.tzinfo is None else one.astimezone(zone)
                for one in (event.start, event.end)
            )
            timed.append((begins, ends, title + floating))
    timed.sort()
    for begins, ends, title in timed:
        print(f"{begins:%Y-%m-%d  %H:%M}-{ends:%H:%M}    {title}")
    latest = None
    for one in timed:
        if latest and one[0] < latest[1]:
            print(f"overlap: {latest[2]!r} and {one[2]!r} at {one[0]:%Y-%m-%d %H:%M}")
        if not latest or one[1] > latest[1]:
            latest = one


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
