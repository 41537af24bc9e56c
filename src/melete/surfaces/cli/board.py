"""The board: which children of an agent are at work, what each is at, and what it has used so far."""

import time
from collections.abc import Sequence

from melete.app.figures import plural
from melete.core.event import ChildNow
from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.paint import Paint, columns

MOST = 12
"""Children that are shown at a time."""
WIDE, NARROW = 70, 46
"""Columns from which all figures are shown, and from which some are."""


class Board:
    """The children that work now, in the order in which they began, each below the one that delegated to it."""

    def __init__(self) -> None:
        self._rows: dict[str, ChildNow] = {}
        self._at: dict[str, float] = {}
        self._ended: list[ChildNow] = []

    def put(self, now: ChildNow) -> bool:
        """Take in what is known of a child; True when it has just ended."""
        if now.status == "running":
            self._rows[now.child] = now
            self._at[now.child] = time.monotonic() - now.seconds
            return False
        if self._rows.pop(now.child, None) is None:
            return False
        self._ended.append(now)
        return True

    def clear(self) -> str:
        """Forget all; what those that have ended took, in a few words, empty where there were none."""
        told = _sum(self._ended)
        self._rows.clear()
        self._ended.clear()
        return told

    def total(self) -> str:
        """All that are at work in a few words; empty while none is."""
        return _sum([*self._rows.values()], " at work")

    def lines(self, paint: Paint) -> Sequence[str]:
        """A line for each child, none wider than the terminal; nothing while none is at work."""
        rows = self._ordered()
        shown = [self._line(row, paint) for row in rows[:MOST]]
        if len(rows) > MOST:
            shown.append(paint.fit(f"  … and {len(rows) - MOST} more", taken=1))
        return shown

    def _ordered(self) -> list[ChildNow]:
        found: list[ChildNow] = []
        waiting = [row for row in reversed(self._rows.values()) if row.parent not in self._rows]
        while waiting:
            row = waiting.pop()
            found.append(row)
            waiting += [one for one in reversed(self._rows.values()) if one.parent == row.child]
        return found

    def _line(self, row: ChildNow, paint: Paint) -> str:
        width = paint.width - 1
        doing = one_line(row.tool) or "thinking"
        cells = [f"{row.steps:>3} st", f"{clock(time.monotonic() - self._at[row.child]):>5}"]
        if width >= NARROW:
            cells = [f"{paint.fit(doing, taken=paint.width - 13):<13}", *cells]
        if width >= WIDE:
            price = f"${row.usd:.3f}" if row.usd is not None else "-"
            cells[2:2] = [f"{short(row.tokens):>6} tok", f"{price:>7}"]
        end = "  ".join(cells)
        indent = "  " * min(row.depth, 3)
        room = max(8, width - columns(indent) - columns(end) - 4)
        goal = paint.fit(one_line(row.goal) or row.child, taken=paint.width - room)
        return paint.fit(f"{indent}• {goal}{' ' * max(0, room - columns(goal))}  {end}", taken=1)


def _sum(rows: Sequence[ChildNow], state: str = "") -> str:
    if not rows:
        return ""
    known = [row.usd for row in rows if row.usd is not None]
    money = f" · ${sum(known):.4f}" if known else ""
    tokens = short(sum(row.tokens for row in rows))
    return f"{len(rows)} {plural(len(rows), 'child', many='children')}{state} · {tokens} tokens{money}"


def short(count: int) -> str:
    """A count in at most five characters."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= 0.9995 * size:  # what would be rounded to 1000 is one of the next
            return f"{count / size:.3g}{unit}"
    return str(count)


def clock(seconds: float) -> str:
    """Seconds as minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
