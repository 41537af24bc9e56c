"""Bars, columns and shades of block characters, for terminals and pipes alike."""

import math
from collections.abc import Sequence

EIGHTHS = " ▁▂▃▄▅▆▇█"
PARTS = " ▏▎▍▌▋▊▉█"
SHADES = "·░▒▓█"
FULL = "█"


def bar(share: float, width: int) -> str:
    """A bar that fills a share of the width, in eighths of a character; what is more than nothing is seen."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    eighths = max(eighths, 1) if share > 0 else eighths
    return (FULL * (eighths // 8) + PARTS[eighths % 8].strip()).ljust(width)


def shade(value: float, top: float) -> str:
    """The character whose darkness shows the root of a value, so that one high one hides no others; nothing has its own."""
    if value <= 0 or top <= 0:
        return SHADES[0]
    return SHADES[min(len(SHADES) - 1, max(1, math.ceil(math.sqrt(value / top) * (len(SHADES) - 1) - 1e-9)))]


def upright(values: Sequence[float], *, height: int, width: int) -> list[str]:
    """Columns side by side, as lines from the top; neighbours share a column where there is no room for each."""
    values = squeezed(values, width)
    top = max(values, default=0.0)
    each = pace(len(values), width)
    heights = [0 if value <= 0 else max(1, round(value / top * height * 8)) for value in values]
    return [
        "".join(
            EIGHTHS[max(0, min(8, eighths - row * 8))] * max(1, each - 1) + " " * (each > 1) for eighths in heights
        ).rstrip()
        for row in range(height - 1, -1, -1)
    ]


def squeezed(values: Sequence[float], width: int) -> list[float]:
    """The values, neighbours added up until there are no more than `width`."""
    step = -(-len(values) // max(1, width)) or 1
    return [sum(values[at : at + step]) for at in range(0, len(values), step)]


def pace(count: int, width: int) -> int:
    """The characters that each of some columns takes, with the gap behind it."""
    return max(1, min(4, width // max(1, count)))
