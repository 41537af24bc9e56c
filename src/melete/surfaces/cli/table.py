"""Tables: laid out by rich on a terminal, and plain columns that no width changes for whatever reads a pipe."""

from collections.abc import Callable, Sequence

from melete.core.plugin import Lazy
from melete.surfaces.cli.output import one_line, visible
from melete.surfaces.cli.paint import Paint, columns

GAP = "  "
_drawn: Lazy[Callable[..., str]] = Lazy("melete.surfaces.cli.drawn:table")
_drawn_entry: Lazy[Callable[..., str]] = Lazy("melete.surfaces.cli.drawn:entry")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], paint: Paint, *, right: Sequence[str] = ()) -> str:
    """The rows under their heads as text with an end of line; columns named in `right` are set to the right.

    The first column and those in `right` are never wrapped; heads that are all empty are left out.
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    if paint.terminal:
        return _drawn.load()(head, cells, paint, right)
    lines = [head, *cells] if any(head) else cells
    widths = [max(columns(row[n]) for row in lines) for n in range(len(head))]
    return "".join(f"{_line(row, head, widths, right)}\n" for row in lines)


def entry(mark: tuple[str, str], name: str, texts: Sequence[str], *, paint: Paint, indent: int) -> str:
    """A name behind its mark, which is a style and a sign, and texts that begin in column `indent`, a line or more each."""
    shown = [visible(text) for text in texts]
    if paint.terminal:
        return _drawn_entry.load()(mark, name, shown, paint=paint, indent=indent)
    title = f"{mark[1]} {name}"
    heads = [f"{title:<{indent}}", *(" " * indent for _ in shown[1:])]
    return "".join(f"{head}{text}".rstrip() + "\n" for head, text in zip(heads, shown, strict=False))


def _line(row: Sequence[str], head: Sequence[str], widths: Sequence[int], right: Sequence[str]) -> str:
    cells: list[str] = []
    for cell, name, width in zip(row, head, widths, strict=True):
        space = " " * (width - columns(cell))
        cells.append(f"{space}{cell}" if name in right else f"{cell}{space}")
    return GAP.join(cells).rstrip()
