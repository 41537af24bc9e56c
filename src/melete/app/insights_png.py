"""Insights as a picture, drawn with matplotlib, which the extra `plot` brings. Nothing else imports this. Composition root."""

import math
import re
import warnings
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from melete.app.figures import WEEKDAYS, cost, day_text, duration, money, percent, plural, short
from melete.app.insights import Insights, periods, span
from melete.app.insights_html import span_text
from melete.app.insights_svg import ticks

INK, DIM, LINE, COLD = "#1d1f23", "#62666d", "#e2e0da", "#f1efea"
BLUE, SKY, GREEN, ORANGE, RED = "#0072b2", "#7cc4ee", "#009e73", "#e69f00", "#c2410c"
CLASSES = (
    ("input", BLUE, "read anew"),
    ("cache_read", SKY, "read from a cache"),
    ("cache_write", GREEN, "written into a cache"),
    ("output", ORANGE, "written"),
)
WIDTH, DPI = 10.0, 150
ROWS, LONGEST, LABELS = 8, 26, 8
HOURS = 24
STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.unicode_minus": False,
    "grid.color": LINE,
    "xtick.color": DIM,
    "ytick.color": DIM,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}
_matplotlib: Any = mpl
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def picture(insights: Insights) -> bytes:
    """A PNG of 1,500 points in width: the sums, the days, the hours of the week, models and tools."""
    rows = max(2, min(ROWS, max(len(insights.statistics.models), len(insights.statistics.tools))))
    heights = [0.9, 2.3, 2.3, 0.45 + 0.32 * rows]
    with _matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # what the font lacks is shown as a box
        figure: Any = Figure(figsize=(WIDTH, sum(heights) + 1.4), dpi=DPI, facecolor="white", layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.add_gridspec(4, 2, height_ratios=heights)
        _head(figure.add_subplot(grid[0, :]), insights)
        _over_time(figure.add_subplot(grid[1, :]), insights)
        _week(figure.add_subplot(grid[2, :]), insights)
        _models(figure.add_subplot(grid[3, 0]), insights, rows=rows)
        _tools(figure.add_subplot(grid[3, 1]), insights, rows=rows)
        figure.get_layout_engine().set(w_pad=0.15, h_pad=0.12)
        made = BytesIO()
        figure.savefig(made, format="png", metadata={"Software": "Melete"})
    return made.getvalue()


def _head(axes: Any, insights: Insights) -> None:
    """What it is about, and the sums in large figures."""
    axes.axis("off")
    counts, spending = insights.statistics.counts, insights.statistics.spending
    axes.text(
        0, 1, f"Insights: {span_text(insights)}", fontsize=15, fontweight="bold", va="top", transform=axes.transAxes
    )
    figures = (
        (cost(spending), {"estimated": "estimated cost", "actual": "cost as billed"}.get(spending.status, "cost")),
        (short(spending.usage.total), "tokens"),
        (percent(spending.cache_share), "read from a cache"),
        (
            f"{counts.sessions:,}",
            f"{plural(counts.sessions, 'session')}, {short(counts.said)} {plural(counts.said, 'prompt')}",
        ),
        (f"{counts.tool_calls:,}", f"tool {plural(counts.tool_calls, 'call')}, {short(counts.tool_errors)} failed"),
        (duration(counts.seconds), f"in {short(counts.runs)} {plural(counts.runs, 'run')}"),
    )
    for number, (value, name) in enumerate(figures):
        x = number / len(figures)
        axes.text(x, 0.26, value, fontsize=14, fontweight="bold", transform=axes.transAxes)
        axes.text(x, 0, name, color=DIM, fontsize=8, transform=axes.transAxes)


def _over_time(axes: Any, insights: Insights) -> None:
    """Money where every price is known, else tokens in their classes."""
    found = periods(insights)
    places = list(range(len(found)))
    each = span(insights)
    bottom = [0.0] * len(found)
    if insights.priced:
        axes.set_title(f"Cost per {each}")
        bottom = [period.spending.usd or 0.0 for period in found]
        axes.bar(places, bottom, color=BLUE, width=0.76)
    else:
        axes.set_title(f"Tokens per {each}")
        for name, colour, label in CLASSES:
            values = [float(getattr(period.spending.usage, name)) for period in found]
            if any(values):
                axes.bar(places, values, bottom=bottom, color=colour, width=0.76, label=label)
                bottom = [low + value for low, value in zip(bottom, values, strict=True)]
        if any(bottom):
            axes.legend(frameon=False, ncols=4, loc="lower right", bbox_to_anchor=(1, 1), labelcolor=DIM, fontsize=8)
    marks = ticks(max(bottom, default=0.0))
    axes.set_yticks(marks, [money(mark) if insights.priced else short(mark) for mark in marks])
    axes.set_ylim(0, marks[-1] * 1.02)
    axes.set_xlim(-0.6, len(found) - 0.4)
    every = max(1, math.ceil(len(found) / LABELS))
    axes.set_xticks(places[::every], [day_text(period.start) for period in found[::every]])
    axes.tick_params(axis="x", pad=7)
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)


def _week(axes: Any, insights: Insights) -> None:
    """The hours of the week: prompts where there are any, else requests."""
    hours = insights.statistics.hours
    prompts = any(use.said for use in hours)
    grid = [[0.0] * HOURS for _ in WEEKDAYS]
    for use in hours:
        grid[use.weekday][use.hour] = math.sqrt(use.said if prompts else use.requests)
    colours = LinearSegmentedColormap.from_list("melete", [COLD, SKY, BLUE, "#003a5c"])
    axes.pcolormesh(grid, cmap=colours, vmin=0, vmax=max(1.0, *map(max, grid)), edgecolors="white", linewidth=2)
    axes.invert_yaxis()
    axes.set_title(f"{'Prompts' if prompts else 'Requests'} by hour of the week, {_most(insights)}")
    axes.set_yticks([row + 0.5 for row in range(len(WEEKDAYS))], WEEKDAYS)
    axes.set_xticks([hour + 0.5 for hour in range(0, HOURS, 3)], [f"{hour:02}" for hour in range(0, HOURS, 3)])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _most(insights: Insights) -> str:
    hours = insights.statistics.hours
    top = max((use.said for use in hours), default=0) or max((use.requests for use in hours), default=0)
    return f"at most {top:,} in one of them"


def _models(axes: Any, insights: Insights, *, rows: int) -> None:
    found = insights.statistics.models[:ROWS]
    names = [use.model for use in found]
    texts = [
        f"{short(use.spending.usage.total)}, {cost(use.spending).replace('unknown', 'price unknown')}" for use in found
    ]
    _bars(axes, names, [([float(use.spending.usage.total) for use in found], BLUE)], texts=texts)
    axes.set_title("Models by tokens")
    axes.set_ylim(rows - 0.4, -0.6)


def _tools(axes: Any, insights: Insights, *, rows: int) -> None:
    found = insights.statistics.tools[:ROWS]
    good = [float(use.calls - use.errors) for use in found]
    bad = [float(use.errors) for use in found]
    texts = [f"{use.calls:,}{f', {use.errors:,} failed' if use.errors else ''}" for use in found]
    _bars(axes, [use.name for use in found], [(good, BLUE), (bad, RED)], texts=texts)
    axes.set_title("Tools by calls")
    axes.set_ylim(rows - 0.4, -0.6)


def _bars(
    axes: Any, names: Sequence[str], parts: Sequence[tuple[Sequence[float], str]], *, texts: Sequence[str]
) -> None:
    """Bars to the right, a text behind each; a line of text where there are none."""
    if not names:
        axes.axis("off")
        axes.text(0, 0.9, "none", color=DIM, va="top", transform=axes.transAxes)
        return
    ends = [0.0] * len(names)
    for values, colour in parts:
        axes.barh(range(len(names)), values, left=ends, color=colour, height=0.62)
        ends = [end + value for end, value in zip(ends, values, strict=True)]
    for row, (end, text) in enumerate(zip(ends, texts, strict=True)):
        axes.annotate(text, (end, row), xytext=(5, 0), textcoords="offset points", va="center", color=DIM, fontsize=8)
    axes.set_yticks(range(len(names)), [_cut(name) for name in names])
    axes.set_xlim(0, max(ends) * 1.45 or 1)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)


def _cut(name: str) -> str:
    name = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", name) or "-"
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
