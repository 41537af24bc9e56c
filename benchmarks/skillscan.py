"""The scan of skills: how many malicious ones are kept out, how many honest ones, and what a look costs.

The corpus is a folder with `skills.jsonl.gz` (files, label malicious, benign or dual-use, source). Each is judged as a stranger's.
"""

import time
from collections import Counter
from pathlib import Path
from statistics import mean, median

from benchmarks.report import Row, parser, show
from benchmarks.secrets import rows
from benchmarks.subjects import programs
from melete.security.skillscan import allowed, scan


def measure(corpus: Path) -> list[Row]:
    seen, out = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    spent: list[float] = []
    cases = rows(corpus / "skills.jsonl.gz")
    scan({"a.md": b"```js\n1\n```\n```sh\nls\n```"})  # loads the parsers
    for case in cases:
        files = {path: text.encode("utf-8", "surrogatepass") for path, text in case["files"].items()}
        begun = time.process_time()
        report = scan(files)
        spent.append(1000 * (time.process_time() - begun))
        for source in ("all", case["source"]):
            seen[case["label"], source] += 1
            out[case["label"], source] += allowed(report.verdict, "community") != "allow"
    found = [
        Row(
            what=f"not allowed: {label}, {source} ({out[label, source]} of {count})",
            unit="%",
            values={"melete": 100 * out[label, source] / count},
            less_is_better=label == "benign",
        )
        for (label, source), count in sorted(seen.items())
    ]
    costs = (("median", median(spent)), ("mean", mean(spent)), ("longest", max(spent)))
    return [*found, *(Row(what=f"a skill, {what}", unit="ms", values={"melete": value}) for what, value in costs)]


def main() -> None:
    made = parser("Measure the scan of skills.", rounds=1)
    made.add_argument("corpus", type=Path, help="the folder of the corpus")
    options = made.parse_args()
    show(measure(options.corpus), programs(options.melete, None, alone=True), as_json=options.json)


if __name__ == "__main__":
    main()
