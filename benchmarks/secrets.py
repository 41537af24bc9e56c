"""Redaction: how many made-up secrets survive in a text, how many harmless texts change, and how long it takes.

The corpus is a folder with `secrets.jsonl.gz` (kind, text, secret) and `benign.jsonl.gz` (group, text). A secret has leaked when a
part of it of twelve characters, or of half its length if that is more, is still there.
"""

import gzip
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.report import Row, parser, show
from benchmarks.subjects import programs
from melete.security.redact import Redactor


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def leaked(secret: str, text: str) -> bool:
    part = min(max(12, len(secret) // 2), len(secret))
    return any(secret[at : at + part] in text for at in range(len(secret) - part + 1))


def measure(corpus: Path, rounds: int) -> list[Row]:
    redact = Redactor({})
    asked, safe, harmless, changed = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for row in rows(corpus / "secrets.jsonl.gz"):
        asked[row["kind"]] += 1
        safe[row["kind"]] += not leaked(row["secret"], redact(row["text"]))
    for row in rows(corpus / "benign.jsonl.gz"):
        harmless[row["group"]] += 1
        changed[row["group"]] += redact(row["text"]) != row["text"]
    text = "".join(sorted(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py")))
    megabyte = (text * (1_000_000 // len(text) + 1))[:1_000_000]
    spent: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        redact(megabyte)
        spent.append(time.perf_counter() - begun)
    found = [
        Row(
            what=f"taken out, {kind}", unit="%", values={"melete": 100 * safe[kind] / asked[kind]}, less_is_better=False
        )
        for kind in sorted(asked)
    ]
    everything = {
        "all": (changed.total(), harmless.total()),
        **{g: (changed[g], n) for g, n in sorted(harmless.items())},
    }
    found += [
        Row(what=f"harmless but changed, {group} ({n} of {of})", unit="%", values={"melete": 100 * n / of})
        for group, (n, of) in everything.items()
    ]
    return [*found, Row(what="1 MB of code", unit="ms", values={"melete": 1000 * min(spent)})]


def main() -> None:
    made = parser("Measure the redaction.", rounds=5)
    made.add_argument("corpus", type=Path, help="the folder of the corpus")
    options = made.parse_args()
    show(measure(options.corpus, options.rounds), programs(options.melete, None, alone=True), as_json=options.json)


if __name__ == "__main__":
    main()
