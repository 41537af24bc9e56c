"""Pages of HTML in one file: nothing is fetched, no script runs, light or dark. Part of the composition root."""

from collections.abc import Sequence
from pathlib import Path

from melete.app.insights_svg import Series, safe

STYLE = Path(__file__).with_name("insights.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
Cell = tuple[str, str]
"""The class of a table's cell and its HTML."""


def whole(title: str, body: str, footer: str) -> str:
    """The whole page; `body` is HTML, the others are text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{safe(title)}</title>\n<style>\n{STYLE.read_text('utf-8')}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{safe(title)}</h1>\n{body}<footer>{safe(footer)}</footer>\n</main>\n</body>\n</html>\n"
    )


def cards(rows: Sequence[tuple[str, str, str]]) -> str:
    """Figures side by side: a name, the figure, and what else there is to say."""
    shown = (
        f'<div class="card"><span>{safe(name)}</span><b>{safe(value)}</b><span>{safe(more)}</span></div>'
        for name, value, more in rows
    )
    return f'<div class="cards">{"".join(shown)}</div>\n'


def section(title: str, body: str) -> str:
    """A part of the page under its title; nothing without a body, which is HTML."""
    return f"<section>\n<h2>{safe(title)}</h2>\n{body}\n</section>\n" if body else ""


def coded(text: str) -> str:
    """Text in which what stands between backquotes is code."""
    parts = safe(text).split("`")
    if len(parts) % 2 == 0:
        return safe(text)
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def legend(series: Sequence[Series]) -> str:
    """The colours of a chart and what they stand for."""
    square = '<svg viewBox="0 0 10 10"><rect class="{}" width="10" height="10" rx="2"/></svg>'
    return f'<div class="legend">{"".join(f"<span>{square.format(one.style)}{safe(one.name)}</span>" for one in series)}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table; a heading stands as the cells below it do. Nothing where there are no rows."""
    if not rows:
        return ""
    styles = ["n" if style.startswith("n") else "" for style, _ in rows[0]]
    names = "".join(f'<th class="{style}">{safe(name)}</th>' for style, name in zip(styles, head, strict=True))
    lines = "".join("<tr>" + "".join(f'<td class="{s}">{html}</td>' for s, html in row) + "</tr>\n" for row in rows)
    return f'<div class="scroll"><table>\n<thead><tr>{names}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>'
