"""The scan of text from outside: how much that wants to steer an agent is found, and how much ordinary text is suspected.

The corpus is a folder with `cases.jsonl.gz` (text, label injection or benign, source).
"""

import time
from collections import Counter
from pathlib import Path

from benchmarks.report import Row, parser, show
from benchmarks.secrets import rows
from benchmarks.subjects import programs
from melete.security.threats import scan


def measure(corpus: Path) -> list[Row]:
    cases = rows(corpus / "cases.jsonl.gz")
    scan(cases[0]["text"])
    seen, suspected = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    begun = time.perf_counter()
    for case in cases:
        suspect = bool(scan(case["text"]))
        for source in ("all", case["source"]):
            seen[case["label"], source] += 1
            suspected[case["label"], source] += suspect
    spent = time.perf_counter() - begun
    found = [
        Row(
            what=f"{label}, {source} ({suspected[label, source]} of {count})",
            unit="%",
            values={"melete": 100 * suspected[label, source] / count},
            less_is_better=label == "benign",
        )
        for (label, source), count in sorted(seen.items())
    ]
    size = sum(len(case["text"]) for case in cases)
    return [*found, Row(what="10 kB", unit="ms", values={"melete": 1000 * spent / size * 10_000})]


def main() -> None:
    made = parser("Measure the scan of text from outside.", rounds=1)
    made.add_argument("corpus", type=Path, help="the folder of the corpus")
    options = made.parse_args()
    show(measure(options.corpus), programs(options.melete, None, alone=True), as_json=options.json)


if __name__ == "__main__":
    main()
