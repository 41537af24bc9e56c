"""Fits what each cue of a correction weighs: src/melete/learn/corrections.json, from scripts/corrections_training.jsonl.

    python scripts/fit_corrections.py

A logistic regression with an L2 penalty. Penalty and threshold are chosen on the training sentences alone, each language scored by
weights of the other four: a cue must weigh the same in a language that it was not fitted on. The threshold is the lowest at
which precision reaches WANTED. The sentences of tests/data are not read here.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from melete.learn.corrections import WEIGHTS, Weights, features

TRAINING = Path(__file__).with_name("corrections_training.jsonl")
ROUNDS = 400
PENALTIES = (0.3, 1.0, 3.0, 10.0)
WANTED = 0.95
Row = tuple[dict[str, float], bool, str]


def score(fitted: Weights, found: dict[str, float]) -> float:
    """The probability of a correction."""
    return 1 / (
        1 + math.exp(-fitted.bias - sum(fitted.weights.get(name, 0.0) * value for name, value in found.items()))
    )


def fit(rows: Sequence[Row], penalty: float) -> Weights:
    """Weights by gradient descent with a step for each weight that shrinks as it moves (Adagrad)."""
    names = sorted({name for found, _, _ in rows for name in found})
    weights, moved = dict.fromkeys(["", *names], 0.0), dict.fromkeys(["", *names], 1e-8)
    for _ in range(ROUNDS):
        slope = {name: penalty * weights[name] for name in names} | {"": 0.0}
        now = Weights(bias=weights[""], weights=weights)
        for found, label, _ in rows:
            error = score(now, found) - label
            slope[""] += error
            for name, value in found.items():
                slope[name] += error * value
        for name, by in slope.items():
            moved[name] += by * by
            weights[name] -= 0.5 * by / math.sqrt(moved[name])
    bias = weights.pop("")
    return Weights(bias=round(bias, 3), weights={name: round(value, 3) for name, value in weights.items()})


def held_out(rows: Sequence[Row], penalty: float) -> list[tuple[float, bool]]:
    """The score of each row by weights that were fitted without its language."""
    scored: list[tuple[float, bool]] = []
    for tongue in sorted({row[2] for row in rows}):
        fitted = fit([row for row in rows if row[2] != tongue], penalty)
        scored += [(score(fitted, found), label) for found, label, spoken in rows if spoken == tongue]
    return scored


def lowest(scored: Sequence[tuple[float, bool]]) -> tuple[float, float]:
    """The lowest threshold with the wanted precision, and the recall that it leaves."""
    right = all_ = 0
    best = (1.0, 0.0)
    total = sum(label for _, label in scored)
    for value, label in sorted(scored, reverse=True):
        right, all_ = right + label, all_ + 1
        if right / all_ >= WANTED:
            best = (value, right / total)
    return best


def main() -> None:
    """Choose, fit, write, tell."""
    lines = [json.loads(line) for line in TRAINING.read_text(encoding="utf-8").splitlines()]
    rows = [(features(row["text"], row["before"]), row["kind"] == "correction", row["lang"]) for row in lines]
    tried: dict[float, tuple[float, float, float]] = {}
    for penalty in PENALTIES:
        scored = held_out(rows, penalty)
        loss = -sum(math.log(value if label else 1 - value) for value, label in scored) / len(scored)
        tried[penalty] = (loss, *lowest(scored))
        print(f"penalty {penalty}: loss {loss:.3f}, threshold {tried[penalty][1]:.3f}, recall {tried[penalty][2]:.3f}")
    penalty = min(tried, key=lambda one: tried[one][0])
    fitted = fit(rows, penalty)
    fitted = msgspec.structs.replace(fitted, threshold=round(tried[penalty][1], 3))
    WEIGHTS.write_bytes(msgspec.json.format(msgspec.json.encode(fitted), indent=1) + b"\n")
    print(f"{len(rows)} sentences, {len(fitted.weights)} weights, penalty {penalty}: {WEIGHTS}")


if __name__ == "__main__":
    main()
