"""The charts of the insights page as SVG, drawn here: columns per day, the hours of the week, bars of a table. Composition root.

Colours are the page's classes, so that it may be light or dark; what a shape stands for is told in its <title>.
"""

import math
import re
from collections.abc import Sequence
from html import escape

from msgspec import Struct

from melete.app.figures import WEEKDAYS

WIDTH, HEIGHT = 760, 210
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 10, 26
HOURS = 24
CELL = 28
LABELS = 7
TICKS = 4
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Series(Struct, frozen=True, kw_only=True):
    """One class of values of a chart: its name, the page's class for its colour, and a value for each column."""

    name: str
    style: str
    values: Sequence[float]


def safe(text: str) -> str:
    """The text for a page: escaped, and without what cannot be seen."""
    return escape(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text))


def ticks(top: float, *, count: int = TICKS) -> list[float]:
    """Round values from 0 up to the first that is not below `top`, at most twice `count` of them."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


def columns(labels: Sequence[str], series: Sequence[Series], *, titles: Sequence[str], figures: Sequence[str]) -> str:
    """Stacked columns; `labels` stand below, as many as there is room for, `titles` tell each column, `figures` each tick.

    The ticks are those of the highest column.
    """
    marks = ticks(highest(series))
    scale = (HEIGHT - TOP - BOTTOM) / marks[-1]
    slot = (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    parts = [_grid(mark, figure, scale) for mark, figure in zip(marks, figures, strict=True)]
    every = max(1, math.ceil(len(labels) / LABELS))
    for number, (label, title) in enumerate(zip(labels, titles, strict=True)):
        x = LEFT + slot * number
        parts.append(f'<g class="column"><title>{safe(title)}</title>')
        parts.append(f'<rect class="catch" x="{x:.1f}" y="{TOP}" width="{slot:.1f}" height="{HEIGHT - TOP - BOTTOM}"/>')
        parts += _stack(series, number, x=x + slot * 0.12, width=slot * 0.76, scale=scale)
        parts.append("</g>")
        if number % every == 0:
            parts.append(f'<text x="{x + slot / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{safe(label)}</text>')
    return _svg(parts, WIDTH, HEIGHT)


def highest(series: Sequence[Series]) -> float:
    """The sum of the highest column."""
    return max((sum(values) for values in zip(*(one.values for one in series), strict=True)), default=0.0)


def _grid(mark: float, figure: str, scale: float) -> str:
    y = HEIGHT - BOTTOM - mark * scale
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{safe(figure)}</text>'
    )


def _stack(series: Sequence[Series], number: int, *, x: float, width: float, scale: float) -> list[str]:
    parts: list[str] = []
    y = float(HEIGHT - BOTTOM)
    for one in series:
        if (tall := one.values[number] * scale) > 0:
            y -= tall
            shape = f'x="{x:.1f}" y="{y:.2f}" width="{width:.1f}" height="{tall:.2f}"'
            parts.append(f'<rect class="{one.style}" {shape}/>')
    return parts


def week(grid: Sequence[Sequence[int]], *, thing: str) -> str:
    """The hours of the week, a row for each day from Monday; the more of a `thing`, the stronger the colour."""
    top = max(max(row) for row in grid) or 1
    left = 40
    parts = [f'<text x="{left + hour * CELL}" y="12">{hour:02}</text>' for hour in range(0, HOURS, 3)]
    for day, row in enumerate(grid):
        y = 20 + day * (CELL - 4)
        parts.append(f'<text x="{left - 8}" y="{y + 16}" text-anchor="end">{WEEKDAYS[day]}</text>')
        for hour, value in enumerate(row):
            strength = 0.15 + 0.85 * math.sqrt(value / top) if value else 0.0
            style = f'class="hot" fill-opacity="{strength:.2f}"' if value else 'class="cold"'
            title = f"{WEEKDAYS[day]} {hour:02}:00: {value:,} {thing}{'' if value == 1 else 's'}"
            place = f'x="{left + hour * CELL}" y="{y}" width="{CELL - 3}" height="{CELL - 7}" rx="3"'
            parts.append(f"<rect {style} {place}><title>{safe(title)}</title></rect>")
    return _svg(parts, left + HOURS * CELL, 20 + len(grid) * (CELL - 4))


def bar(parts: Sequence[tuple[str, float]], *, title: str) -> str:
    """A bar for a cell of a table: classes with their shares of its whole length."""
    shapes: list[str] = []
    x = 0.0
    for style, share in parts:
        width = max(0.0, min(1.0, share)) * 100
        shapes.append(f'<rect class="{style}" x="{x:.2f}" y="0" width="{width:.2f}" height="8"/>')
        x += width
    return (
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{safe(title)}">'
        f"<title>{safe(title)}</title>{''.join(shapes)}</svg>"
    )


def interval(low: float, value: float, high: float, *, style: str) -> str:
    """An interval within -1 and 1 for a cell of a table, its value as a mark, nothing in the middle as a line."""
    left, right = (max(0.0, min(100.0, 50 + 50 * end)) for end in (low, high))
    title = safe(f"{value:+.2f}, from {low:+.2f} to {high:+.2f}")
    mark = max(0.0, min(98.0, 49 + 50 * value))
    return (
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{title}"><title>{title}</title>'
        f'<rect class="{style}" fill-opacity="0.45" x="{left:.2f}" y="1" width="{right - left:.2f}" height="6"/>'
        f'<rect class="{style}" x="{mark:.2f}" y="0" width="2" height="8"/>'
        '<line class="zero" x1="50" x2="50" y1="0" y2="8"/></svg>'
        f'<span class="dim">{title}</span>'
    )


def _svg(parts: Sequence[str], width: float, height: float) -> str:
    return f'<div class="wide"><svg viewBox="0 0 {width:g} {height:g}" role="img">{"".join(parts)}</svg></div>'
