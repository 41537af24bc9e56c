"""Draws the README's picture: what `melete demo` shows on a terminal of 80 columns, as an SVG that loads nothing from anywhere."""

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
COLUMNS = 80
LAST = "What to try next:"
"""The picture ends before this line."""
NAMESPACE = "http://www.w3.org/2000/svg"
FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" xml:space="preserve">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


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
        picture = console.export_svg(title="melete demo", theme=MONOKAI, unique_id="melete", code_format=FORMAT)
    if outside := set(re.findall(r"https?://[^\"\s]+", picture)) - {NAMESPACE}:
        raise SystemExit(f"the picture would load or name {', '.join(sorted(outside))}")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture, encoding="utf-8")
    print(f"written: {PICTURE.name}, {PICTURE.stat().st_size:,} bytes")


def last_state(line: str) -> str:
    """A line as it stands after everything in it was written over."""
    return re.split(r"\r|\x1b\[2?K", line)[-1]


if __name__ == "__main__":
    main()
