"""What the command policy says about shell commands: dangerous ones found, plain ones left alone, and how long that takes.

`--corpus` is a folder with `dangerous.jsonl.gz` and `benign.jsonl.gz` (id, cmd, source, group, tier). A command counts as stopped
when it is asked for or forbidden; with approvals off only what is forbidden stops. Nothing is run. `--half` splits the rows at
random by their id: rules may be written from one half and measured on the other. `--misses` lists what went wrong.
"""

import argparse
import gzip
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Row, chosen, parser, quantile, show
from melete.security.commands import judge_command

PACKS = "dcg-packs"
SPOOFS = "authored"


def _rows(folder: Path, half: str) -> Iterator[dict[str, Any]]:
    for name in ("dangerous", "benign"):
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                first = random.Random(row["id"]).random() < 0.5
                if not half or first is (half == "a"):
                    yield row


def _group(row: Mapping[str, Any]) -> str:
    if row["label"] == "benign":
        return f"benign {row['tier']}" if row["source"] != SPOOFS else "look-alikes"
    if row["source"] == PACKS:
        return "cloud and databases"
    return {"hardline": "hardline", "ask": "other dangerous", "abuse": "living off the land"}[row["tier"]]


def main() -> int:
    options = _options()
    judge_command("true")  # the grammar is loaded once
    verdicts: dict[str, list[str]] = defaultdict(list)
    seconds: list[float] = []
    for row in _rows(options.corpus, options.half):
        begun = time.perf_counter()
        verdict = judge_command(row["cmd"])
        seconds.append(time.perf_counter() - begun)
        group = _group(row)
        verdicts[group].append(verdict.verdict)
        wrong = verdict.verdict == "allow" if row["label"] == "dangerous" else verdict.verdict != "allow"
        if options.misses and (wrong or (group == "hardline" and verdict.verdict != "forbid")):
            print(f"{group}: {verdict.verdict} {verdict.rule}: {row['cmd']!r}", file=sys.stderr)
    show(_figures(verdicts, seconds), chosen(options), as_json=options.json)
    return 0


def _options() -> argparse.Namespace:
    made = parser(__doc__ or "", rounds=1)
    made.add_argument("--corpus", type=Path, required=True, help="the folder with the commands")
    made.add_argument("--half", choices=["a", "b"], default="", help="only one half of the rows")
    made.add_argument("--misses", action="store_true", help="list what went wrong on standard error")
    return made.parse_args()


def _figures(verdicts: Mapping[str, Sequence[str]], seconds: Sequence[float]) -> list[Row]:
    rows: list[Row] = []
    for group, found in sorted(verdicts.items()):
        better = group.startswith(("benign", "look"))
        stopped = 100 * sum(one != "allow" for one in found) / len(found)
        forbidden = 100 * sum(one == "forbid" for one in found) / len(found)
        rows.append(_row(f"{group} ({len(found)}): asked or forbidden", "%", stopped, less=better))
        rows.append(_row(f"{group}: forbidden", "%", forbidden, less=better))
    milliseconds = [1000 * one for one in seconds]
    rows.append(_row("time for a command, median", "ms", quantile(milliseconds, 0.5), less=True))
    rows.append(_row("time for a command, worst", "ms", max(milliseconds), less=True))
    return rows


def _row(what: str, unit: str, value: float, *, less: bool) -> Row:
    return Row(what=what, unit=unit, values={"melete": value}, less_is_better=less)


if __name__ == "__main__":
    sys.exit(main())
