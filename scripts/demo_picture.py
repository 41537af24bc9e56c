"""Draws the README's picture: what `melete demo` shows on a terminal of 92 columns, as an SVG without outside fonts."""

import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "assets" / "demo.svg"
COLUMNS = 92
FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}")
LAST = "What to try next:"
"""The picture ends before this line."""


def shown() -> str:
    """Everything that the demo writes to a terminal."""
    ours, theirs = pty.openpty()
    with tempfile.TemporaryDirectory() as home:
        variables = {"HOME": home, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        demo = subprocess.Popen([sys.executable, "-m", "melete", "demo"], env=variables, stdout=theirs, stderr=theirs)
        os.close(theirs)
        pieces: list[bytes] = []
        try:
            while piece := os.read(ours, 1 << 16):
                pieces.append(piece)
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(ours)
        if demo.wait():
            raise SystemExit(f"the demo ended with status {demo.returncode}")
    return b"".join(pieces).decode().replace("\r\n", "\n")


def main() -> None:
    """Run the demo and write the picture."""
    text = "\n".join(last_state(line) for line in shown().partition(LAST)[0].rstrip().split("\n"))
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(text), highlight=False)
        picture = console.export_svg(title="melete demo", theme=MONOKAI, unique_id="melete")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(FONT_FACE.sub("", picture), encoding="utf-8")
    print(f"written: {PICTURE.name}, {PICTURE.stat().st_size:,} bytes")


def last_state(line: str) -> str:
    """A line as it stands after everything in it was written over."""
    return re.split(r"\r|\x1b\[2?K", line)[-1]


if __name__ == "__main__":
    main()
