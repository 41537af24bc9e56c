"""Tables that fit: columns are narrowed to the terminal, and where it is too narrow for any table rows become blocks."""

from collections.abc import Sequence

from melete.surfaces.cli.output import one_line
from melete.surfaces.cli.paint import Paint, columns, cut

GAP = 2
LEAST = 6


def table(head: Sequence[str], rows: Sequence[Sequence[str]], paint: Paint, *, right: Sequence[str] = ()) -> str:
    """The rows under their heads as text with an end of line; columns named in `right` are set to the right."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(columns(row[n]) for row in ([*head], *cells)) for n in range(len(head))]
    room = paint.width - GAP * (len(head) - 1)
    if sum(min(width, LEAST) for width in widths) > room:
        return _blocks(head, cells, paint)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    to_right = [name in right for name in head]
    lines = [paint("dim", _line(head, widths, to_right))]
    lines += [_line(row, widths, to_right) for row in cells]
    return "\n".join(lines) + "\n"


def _line(row: Sequence[str], widths: Sequence[int], to_right: Sequence[bool]) -> str:
    cells: list[str] = []
    for cell, width, right in zip(row, widths, to_right, strict=True):
        short = cut(cell, width)
        space = " " * (width - columns(short))
        cells.append(f"{space}{short}" if right else f"{short}{space}")
    return (" " * GAP).join(cells).rstrip()


def _blocks(head: Sequence[str], rows: Sequence[Sequence[str]], paint: Paint) -> str:
    blocks: list[str] = []
    for row in rows:
        lines = [
            paint.fit(f"{name.lower()}: {cell}" if number else cell)
            for number, (name, cell) in enumerate(zip(head, row, strict=True))
            if cell
        ]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)
