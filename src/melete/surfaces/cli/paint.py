"""Colours and widths: what a terminal can show, and how many columns a text takes."""

import os
import unicodedata
from collections.abc import Mapping
from typing import TextIO

from melete.surfaces.cli.output import is_terminal

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
WIDEST = 10_000
NARROWEST = 12


class Paint:
    """How to write on one stream: `width` in columns, without end where it is no terminal; colours only where they show."""

    def __init__(self, stream: TextIO | None, variables: Mapping[str, str]) -> None:
        self.terminal = is_terminal(stream)
        self.plain = variables.get("TERM", "") in ("dumb", "")
        self.colours = self.terminal and not self.plain and not variables.get("NO_COLOR")
        self.width = _columns(stream, variables) if stream is not None and self.terminal else WIDEST

    @property
    def redraws(self) -> bool:
        """Whether a line can be taken back and written anew."""
        return self.terminal and not self.plain

    def __call__(self, style: str, text: str) -> str:
        """The text in a style; unchanged where there are no colours."""
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.colours and text else text

    def fit(self, text: str, *, taken: int = 0) -> str:
        """The text cut to what is left of a line of which `taken` columns are used."""
        return cut(text, max(NARROWEST, self.width - taken))


def _columns(stream: TextIO, variables: Mapping[str, str]) -> int:
    if (given := variables.get("COLUMNS", "")).isdecimal() and int(given):
        return max(NARROWEST, int(given))
    try:
        return max(NARROWEST, os.get_terminal_size(stream.fileno()).columns or 80)
    except OSError:
        return 80


def columns(text: str) -> int:
    """How many columns a text takes on a terminal: wide characters take two, marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def cut(text: str, width: int) -> str:
    """The text within `width` columns, an ellipsis at its end where something is missing."""
    if columns(text) <= width:
        return text
    kept = ""
    room = width - 1
    for character in text:
        room -= columns(character)
        if room < 0:
            break
        kept += character
    return f"{kept.rstrip()}…"
