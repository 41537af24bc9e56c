"""What rich lays out on a terminal. The only importer of rich, loaded when there is a table to draw: it is slow to start."""

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from melete.surfaces.cli.paint import Paint, columns

GAP = 2
LEAST = 8
NARROW = 40
HEIGHT = 100  # of no consequence: nothing here fills a screen


def table(head: Sequence[str], rows: Sequence[Sequence[str]], paint: Paint, right: Sequence[str]) -> str:
    """The rows as a table within the terminal's width, long cells wrapped; as blocks where no table fits."""
    widths = [max(columns(row[n]) for row in (head, *rows)) for n in range(len(head))]
    whole = [n == 0 or name in right for n, name in enumerate(head)]
    least = sum(width if fixed else min(width, LEAST) for width, fixed in zip(widths, whole, strict=True))
    if least + GAP * (len(head) - 1) > paint.width:
        return _text(_blocks(head, rows), paint)
    drawn = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim", show_header=any(head))
    for name, fixed in zip(head, whole, strict=True):
        drawn.add_column(name, justify="right" if name in right else "left", no_wrap=fixed, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return _text([drawn], paint)


def entry(mark: tuple[str, str], name: str, texts: Sequence[str], *, paint: Paint, indent: int) -> str:
    """A marked name with its texts behind it from column `indent` on, each wrapped; below it where that is too narrow."""
    style, sign = mark
    title = Text.assemble((sign, style), " ", (name, "bold"))
    if paint.width < NARROW:
        return _text([title, *(Padding(Text(text), (0, 0, 0, 2)) for text in texts)], paint)
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=indent - 1)
    grid.add_column(overflow="fold")
    for number, text in enumerate(texts):
        grid.add_row(Text() if number else title, Text(text))
    return _text([grid], paint)


def _blocks(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[Text]:
    for count, row in enumerate(rows):
        if count:
            yield Text()
        for number, (name, cell) in enumerate(zip(head, row, strict=True)):
            if cell:
                yield Text(f"{name.lower()}: {cell}" if number and name else cell)


def _text(parts: Iterable[RenderableType], paint: Paint) -> str:
    """The parts as text with an end of line, and the escapes of the colours that the terminal shows."""
    console = Console(
        file=StringIO(),
        width=paint.width,
        height=HEIGHT,
        force_terminal=paint.colours,
        color_system="standard" if paint.colours else None,
        no_color=not paint.colours,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part, overflow="fold", highlight=False, markup=False, emoji=False)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().removesuffix("\n").split("\n"))
