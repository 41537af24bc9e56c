"""Sizes in bytes as people write and read them. Part of the composition root, pure."""

import re

from melete.core.errors import UsageError

PATTERN = r"^ *\d+(\.\d+)? *([kKmMgGtT]i?)?[bB]? *$"
FORMS = "2GB, 500MB, 1.5GiB or a number of bytes"

_SIZE = re.compile(r" *(\d+(?:\.\d+)?) *(?:([kmgt])(i?))?b? *", re.IGNORECASE | re.ASCII)
_UNITS = "kmgt"
_THOUSAND = 1_000


def size_of(text: str | int, *, where: str) -> int:
    """The bytes that `2GB` (10^9 each), `2GiB` (2^30 each) or a plain number stand for; raises UsageError."""
    found = _SIZE.fullmatch(str(text))
    if found is None:
        raise UsageError(f"{where}: {text!r} is no size", next=f"write {FORMS}")
    number, unit, binary = found.groups()
    step = 1024 if binary else _THOUSAND
    return int(float(number) * step ** (_UNITS.index(unit.lower()) + 1 if unit else 0))


def size_text(size: float) -> str:
    """Bytes in the largest decimal unit that fits, with three figures: `1.23 MB`."""
    left, places = float(round(size)), 0
    while round(left, 2) >= _THOUSAND and places < len(_UNITS):
        left /= _THOUSAND
        places += 1
    if not places:
        return f"{left:.0f} B"
    return f"{left:.{max(0, 3 - len(str(int(left))))}f} {('kB', 'MB', 'GB', 'TB')[places - 1]}"
