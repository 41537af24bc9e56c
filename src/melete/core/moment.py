"""Points in time as people and models write them. Layer 0, pure."""

import re
from datetime import UTC, datetime, timedelta

FORMS = "15m, 2h, 3d, 1w, 2026-01-31 or 2026-01-31T12:00"
"""What can be written, for messages that say so."""

_AGO = re.compile(r"(\d+)\s*(?:([smhdw])|(sec|second|min|minute|hour|day|week)s?)(?: ago)?")
YESTERDAY = "1d"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str, *, now: datetime, local: bool = False) -> datetime:
    """The time that `text` means: `90s`, `15m`, `2h`, `3d`, `1w` before `now`, `3 days ago`, `yesterday`, or an ISO date or time.

    One without a zone is in UTC, or with `local` in the zone of this machine, as people are shown times.
    Raises ValueError for anything else.
    """
    try:
        if ago := _AGO.fullmatch(text.strip().lower().replace("yesterday", YESTERDAY)):
            return now - timedelta(**{_UNITS[(ago[2] or ago[3])[0]]: int(ago[1])})
        at = datetime.fromisoformat(text.strip())
        if at.tzinfo is None:
            at = at.astimezone() if local else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not a time: write {FORMS}") from error
    return at
