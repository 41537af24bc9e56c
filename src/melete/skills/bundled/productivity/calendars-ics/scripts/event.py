"""Write an .ics file with one event, its zone inside.

usage: event.py OUT.ics TITLE 2026-03-23T09:00 MINUTES ZONE [RRULE]    (RRULE such as FREQ=WEEKLY;COUNT=3)
"""

import sys
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

from icalendar import Calendar, Event, vRecur


def main(out, title, begins, minutes, zone, rule=""):
    """Write the file, read it back, and print when the event begins."""
    start = datetime.fromisoformat(begins).replace(tzinfo=ZoneInfo(zone))
    event = Event()
    event.add("uid", f"{uuid.uuid4()}@local")
    event.add("dtstamp", datetime.now(timezone.utc))
    event.add("summary", title)
    event.add("dtstart", start)
    event.add("dtend", start + timedelta(minutes=int(minutes)))
    if rule:
        event.add("rrule", vRecur.from_ical(rule))
    calendar = Calendar()
    calendar.add("prodid", "-//local//event//EN")
    calendar.add("version", "2.0")
    calendar.add_component(event)
    calendar.add_missing_timezones()
    Path(out).write_bytes(calendar.to_ical())
    read = Calendar.from_ical(Path(out).read_bytes())
    print(f"{read.events[0].start:%A %Y-%m-%d %H:%M %Z} ({start.astimezone(timezone.utc):%H:%M} UTC)")


if __name__ == "__main__":
    if len(sys.argv) not in (6, 7):
        sys.exit(__doc__)
    main(*sys.argv[1:])
