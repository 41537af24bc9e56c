"""Skills: do real ones load, is the right one found among many, and what does a library of ten thousand cost?

The corpus is a folder that holds `skills_load` (real SKILL.md files, each with what is expected of it) and `skill-retrieval`
(tasks, the skills that they need, and other people's skills beside them). Nothing in it is followed or run. The ten thousand are
made of its texts, cut and joined anew.
"""

import argparse
import gzip
import hashlib
import json
import math
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import run
from benchmarks.report import Row, chosen, parser, say, show
from benchmarks.startup import Figures, one_answer
from benchmarks.subjects import Subject, make
from melete.skills.folders import Shelf
from melete.skills.format import read_skill
from melete.skills.frontmatter import FrontMatterError
from melete.skills.library import Library
from melete.testing import ScriptedModel

MANY = 10_000
STOP = frozenset(
    {
        "a", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "do", "does",
        "each", "for", "from", "has", "have", "how", "if", "in", "into", "is", "it", "its", "may", "more", "must",
        "no", "not", "of", "on", "one", "only", "or", "other", "our", "should", "so", "such", "than", "that", "the",
        "their", "then", "there", "these", "they", "this", "to", "use", "using", "was", "we", "were", "what", "when",
        "where", "which", "will", "with", "you", "your",
    }
)  # fmt: skip
"""The words that plain BM25 leaves out."""
Ranked = Callable[[str], Sequence[str]]
"""A task's text to the ids of skills, the best first."""


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write(folder: Path, name: str, about: str, body: str) -> None:
    """A SKILL.md as its author would have written it."""
    folder.mkdir(parents=True)
    text = f"---\nname: {json.dumps(name)}\ndescription: {json.dumps(' '.join(about.split())[:1024])}\n---\n{body}"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")


# ---- loading ---------------------------------------------------------------------------------------------------------


def loading(corpus: Path) -> Iterator[Row]:
    """How many real files load, and how long that takes."""
    asked, right, untyped = Counter[str](), Counter[str](), 0
    texts: list[bytes] = []
    for row in rows(corpus / "skill_md.jsonl.gz"):
        data, expect = row["text"].encode(), row["expect"]
        asked[expect] += 1
        try:
            skill, _ = read_skill(data, folder=row["dir"])
        except FrontMatterError:
            right[expect] += expect not in ("load", "load-lenient")
        except Exception as error:  # noqa: BLE001 - any other error is the finding
            say(f"{row['repo']}/{row['path']}: {type(error).__name__}: {error}")
            untyped += 1
        else:
            right[expect] += expect == "load" or (expect == "load-lenient" and bool(skill.warnings))
            texts.append(data)
    spent: list[float] = []
    for _ in range(5):
        begun = time.perf_counter()
        for data in texts:
            read_skill(data, folder="skill")
        spent.append((time.perf_counter() - begun) / len(texts))
    for expect, count in sorted(asked.items()):
        yield Row(what=f"{expect} ({count}): as expected", unit="files", values={"melete": right[expect]}, digits=0)
    yield Row(what="other errors", unit="number", values={"melete": untyped}, digits=0)
    yield Row(what="reading one, warm", unit="ms", values={"melete": 1000 * min(spent)})


# ---- retrieval -------------------------------------------------------------------------------------------------------


def retrieval(corpus: Path, root: Path) -> Iterator[Row]:
    """Recall of the skills that tasks need, for the library's own ranking and for BM25 over names and descriptions."""
    skills, tasks = rows(corpus / "skills.jsonl.gz"), rows(corpus / "queries.jsonl.gz")
    others = sorted(
        rows(corpus / "distractors.jsonl.gz"), key=lambda row: hashlib.sha256(row["id"].encode()).hexdigest()
    )
    needed: dict[str, set[str]] = defaultdict(set)
    for line in (corpus / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        task, _, skill = line.partition("\t")
        needed[task].add(skill.partition("\t")[0])
    every, with_body = {row["id"] for row in skills}, {row["id"] for row in skills if row.get("body")}
    for size in (len(skills), 1_000, len(skills) + len(others)):
        pool = [*skills, *others][:size]
        library = shelved(pool, root / str(size))
        ways: dict[str, Ranked] = {
            "name and description": bm25([(row["id"], f"{row['name']} {row['description']}") for row in pool]),
            "fused with the text": fused(library, [row["id"] for row in pool]),
        }
        for which, wanted in (("all skills", every), ("skills with a text", with_body)):
            for way, ranked in ways.items():
                for measure, value in recall(ranked, tasks, needed, wanted).items():
                    what = f"{size:,} skills, {which}, {way}: {measure}"
                    yield Row(what=what, unit="%", values={"melete": value}, digits=1, less_is_better=False)
        library.close()


def shelved(pool: Sequence[Mapping[str, Any]], folder: Path) -> Library:
    """A library of these skills, all indexed."""
    for number, row in enumerate(pool):
        text = row.get("body") or row.get("body_head") or ""
        write(folder / "user" / f"s{number}", row["name"], row["description"] or row["name"], text)
    library = Library([Shelf(kind="user", path=str(folder / "user"))], state=folder / "state")
    while library.fill():
        pass
    return library


def fused(library: Library, ids: Sequence[str]) -> Ranked:
    def ranked(text: str) -> list[str]:
        return [ids[int(Path(skill.folder).name[1:])] for skill, _ in library.rank(text, limit=10)]

    return ranked


def recall(
    ranked: Ranked, tasks: Sequence[Mapping[str, Any]], needed: Mapping[str, set[str]], wanted: set[str]
) -> dict[str, float]:
    """Averages over the tasks, in percent."""
    sums, count = defaultdict[str, float](float), 0
    for task in tasks:
        if not (right := needed[task["id"]] & wanted):
            continue
        count += 1
        found = ranked(task["text"])
        for most in (5, 10):
            sums[f"R@{most}"] += len(right & set(found[:most])) / len(right)
        sums["hit@5"] += bool(right & set(found[:5]))
        sums["MRR"] += next((1 / place for place, one in enumerate(found, 1) if one in right), 0.0)
    return {name: 100 * value / max(1, count) for name, value in sums.items()}


def bm25(texts: Sequence[tuple[str, str]]) -> Ranked:
    """The plain formula (k1 1.2, b 0.75) over words that say something, their plain endings cut off."""

    def terms(text: str) -> Counter[str]:
        found = (word for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 1 and word not in STOP)
        return Counter(re.sub(r"(?<=...)(ations?|ings?|edly|ed|es|s)$", "", word) for word in found)

    counted = [terms(text) for _, text in texts]
    spread = Counter(word for words in counted for word in words)
    average = sum(words.total() for words in counted) / len(counted)

    def ranked(text: str) -> list[str]:
        asked = {
            word: math.log(1 + (len(texts) - spread[word] + 0.5) / (spread[word] + 0.5)) * (1 + math.log(times))
            for word, times in terms(text).items()
        }
        scores = [
            sum(
                weight * words[word] * 2.2 / (words[word] + 1.2 * (0.25 + 0.75 * words.total() / average))
                for word, weight in asked.items()
                if word in words
            )
            for words in counted
        ]
        best = sorted(range(len(texts)), key=lambda at: -scores[at])[:10]
        return [texts[at][0] for at in best]

    return ranked


# ---- ten thousand ----------------------------------------------------------------------------------------------------


def ten_thousand(corpus: Path, folder: Path) -> list[str]:
    """Write as many skills in forty categories; returns the tasks to ask for."""
    chance = random.Random(7)
    known = [*rows(corpus / "skills.jsonl.gz"), *rows(corpus / "distractors.jsonl.gz")]
    for number in range(MANY):
        one, two = chance.choice(known), chance.choice(known)
        about = ". ".join([one["description"].partition(". ")[0], two["description"].rpartition(". ")[2]])
        first, second = (row.get("body") or row.get("body_head") or "" for row in (one, two))
        text = first[: len(first) // 2] + second[len(second) // 2 :]
        write(folder / f"category-{number % 40}" / f"skill-{number}", f"skill-{number}", about or "a skill", text)
    return [row["text"] for row in rows(corpus / "queries.jsonl.gz")]


ALONE = """
import json, sys, time
from pathlib import Path
from melete.core.skill import Here
from melete.skills.folders import Shelf
from melete.skills.index import Index
from melete.skills.library import Library
def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
before = peak()
begun = time.perf_counter()
library = Library([Shelf(kind="user", path=sys.argv[1])], state=Path(sys.argv[2]))
library.refresh()
block = Index(library).block(Here())
spent = time.perf_counter() - begun
print(json.dumps([spent, peak() - before, len(block.text.encode())]))
"""


def alone(folder: Path, state: Path) -> list[float]:
    """Seconds, kilobytes and bytes of the block, in a process of its own."""
    ran = run([sys.executable, "-c", ALONE, str(folder), str(state)], env={"PATH": "/usr/bin:/bin"}, cwd=folder)
    return json.loads(ran.output.splitlines()[-1])


def large(corpus: Path, root: Path, rounds: int) -> Iterator[Row]:
    """What the library takes by itself."""
    folder, state = root / "user", root / "state"
    tasks = ten_thousand(corpus, folder)
    cold = alone(folder, state)
    warm = [alone(folder, state) for _ in range(rounds)]
    yield row("the first look, nothing known", "s", cold[0], 2)
    yield row("a look with all known, and the block", "s", median(one[0] for one in warm), 3)
    yield row("memory for it", "MB", max(one[1] for one in (cold, *warm)) / 1024, 1)
    yield row("bytes in the prompt", "bytes", warm[0][2], 0)
    library = Library([Shelf(kind="user", path=str(folder))], state=state)
    begun = time.perf_counter()
    while library.fill():
        pass
    yield row("indexing all texts", "s", time.perf_counter() - begun, 1)
    spent: list[float] = []
    for task in tasks * 2:
        begun = time.perf_counter()
        library.rank(task)
        spent.append(time.perf_counter() - begun)
    yield row("finding by a whole task, median", "ms", 1000 * median(spent), 1)
    yield row("finding by a whole task, slowest", "ms", 1000 * max(spent), 1)
    library.close()


def row(what: str, unit: str, value: float, digits: int) -> Row:
    return Row(what=f"{MANY:,} skills: {what}", unit=unit, values={"melete": value}, digits=digits)


def started(options: argparse.Namespace, corpus: Path, root: Path) -> Iterator[Row]:
    """The whole program with ten thousand skills and with none, beside the peer with as many."""
    found = chosen(options)
    figures: dict[tuple[str, str], Figures] = {}
    with ScriptedModel(lambda *_: "Hi there.") as server:
        for name, program in found.items():
            for kind in ("none", "cold", "warm"):
                subject = make(name, root / kind, program=program, base_url=server.base_url)
                if kind != "none":
                    ten_thousand(corpus, skills_of(subject))
                into = figures[name, kind] = {}
                for turn in range(1 if kind == "cold" else options.rounds + 1):
                    say(f"{name}, {kind} {turn}")
                    one_answer(subject, server, into if turn or kind == "cold" else {})
    for kind in ("none", "cold", "warm"):
        for what, unit, key in STARTED:
            values = {name: median(figures[name, kind][key]) for name in found}
            about = {"none": "no skills", "cold": f"{MANY:,} skills, never seen", "warm": f"{MANY:,} skills"}[kind]
            yield Row(what=f"{about}: {what}", unit=unit, values=values, digits=0 if unit == "bytes" else 3)


STARTED = (
    ("exec to first request", "s", "first"),
    ("first request", "bytes", "bytes"),
)


def skills_of(subject: Subject) -> Path:
    """Where a person's skills stand in a subject's home."""
    env = subject.env
    return Path(env["MELETE_HOME"]) / "skills" / "user" if "MELETE_HOME" in env else Path(env["HERMES_HOME"]) / "skills"


def main() -> None:
    """Measure and print."""
    asked = parser(__doc__ or "", rounds=5)
    asked.add_argument(
        "--corpus", type=Path, required=True, help="the folder that holds skills_load and skill-retrieval"
    )
    asked.add_argument("--parts", default="loading,retrieval,large,started", help="which of the four to measure")
    options = asked.parse_args()
    parts, found = options.parts.split(","), chosen(options)
    measured: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        root, tasks = Path(name).resolve(), options.corpus / "skill-retrieval"
        if "loading" in parts:
            measured += loading(options.corpus / "skills_load")
        if "retrieval" in parts:
            measured += retrieval(tasks, root / "retrieval")
        if "large" in parts:
            measured += large(tasks, root / "large", options.rounds)
        if "started" in parts:
            measured += started(options, tasks, root / "started")
    show(measured, found, as_json=options.json)


if __name__ == "__main__":
    main()
