"""The options that all measurements share, and their table."""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.subjects import programs, version_line


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure: `values` by subject; `less_is_better` decides which way the ratio reads, None means that none is better."""

    what: str
    unit: str
    values: Mapping[str, float]
    less_is_better: bool | None = True
    digits: int = 2

    def ratio(self) -> float | None:
        """How many times better than the peer; None where there is no peer or the figure is zero."""
        ours, peer = self.values.get("melete"), self.values.get("hermes")
        if not ours or not peer or self.less_is_better is None:
            return None
        return peer / ours if self.less_is_better else ours / peer


def parser(about: str, *, rounds: int) -> argparse.ArgumentParser:
    """A parser with the shared options."""
    made = argparse.ArgumentParser(prog=Path(sys.argv[0]).stem, description=about)
    made.add_argument("--melete", type=Path, help="the program; the one beside this Python by default")
    made.add_argument("--hermes", type=Path, help="the peer's program; found on the PATH by default")
    made.add_argument("--alone", action="store_true", help="measure Melete without the peer")
    made.add_argument("--only", choices=["melete", "hermes"], help="measure one of them")
    made.add_argument("--rounds", type=int, default=rounds, help="how often; medians are shown")
    made.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    return made


def chosen(options: argparse.Namespace) -> dict[str, Path]:
    """The programs to measure, by name."""
    found = programs(options.melete, options.hermes, alone=options.alone)
    return {name: path for name, path in found.items() if options.only in {None, name}}


def show(rows: Sequence[Row], found: Mapping[str, Path], *, as_json: bool) -> None:
    """Print the figures."""
    head = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": _commit(),
        "command": " ".join(sys.argv),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}",
        "versions": {name: version_line(path) for name, path in found.items()},
    }
    if as_json:
        figures = [{"what": r.what, "unit": r.unit, "values": dict(r.values), "ratio": r.ratio()} for r in rows]
        print(json.dumps(head | {"rows": figures}))
        return
    print(f"{head['date']} · {head['commit']} · {head['machine']} · {', '.join(head['versions'].values())}\n")
    names = list(found)
    print(_line(["", *names, *(["times better"] if len(names) > 1 else [])]))
    for row in rows:
        cells = [_number(row, row.values.get(name)) for name in names]
        ratio = row.ratio()
        print(
            _line([f"{row.what}, {row.unit}", *cells, *([f"{ratio:.1f}" if ratio else "–"] if len(names) > 1 else [])])
        )


def say(text: str) -> None:
    """Progress, apart from the figures."""
    print(text, file=sys.stderr, flush=True)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def by_name(names: Sequence[str], figure: Callable[[str], float]) -> dict[str, float]:
    """A figure for each subject."""
    return {name: figure(name) for name in names}


def _number(row: Row, value: float | None) -> str:
    return "–" if value is None else f"{value:,.{row.digits}f}"


def _line(cells: Sequence[str]) -> str:
    first, *rest = cells
    return f"{first:<52}" + "".join(f"{cell:>14}" for cell in rest)


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "no commit"
