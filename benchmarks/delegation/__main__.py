"""Delegation: what a batch of three children costs, what many leave behind, what a kill loses, what a budget lets through.

`--part overhead` (the default) is measured beside the peer; `soak`, `kills` and `trees` are Melete's alone.
"""

import sys

from benchmarks.delegation import kills, overhead, product, soak, trees
from benchmarks.report import chosen, parser, say, show

PARTS = ["overhead", "soak", "kills", "trees"]
ROUNDS = {"overhead": 5, "soak": 40, "kills": 40, "trees": 1_000}


def main() -> None:
    """Measure and print; the status is 1 where something is not as it must be."""
    made = parser(__doc__ or "", rounds=0)
    made.add_argument("--part", choices=PARTS, default="overhead", help="what to measure")
    made.add_argument(
        "--env", default="", help="overhead, kills: Melete's environment; without it what a user has by default"
    )
    made.add_argument("--batches", type=int, default=4, help="overhead: batches in a run")
    made.add_argument("--seed", type=int, default=1, help="kills: of the moments")
    options = made.parse_args()
    part: str = options.part
    options.alone = options.alone or part != "overhead"
    found, rounds, wrong = chosen(options), options.rounds or ROUNDS[part], []
    match part:
        case "soak":
            rows, wrong = soak.measure(rounds=rounds)
        case "kills":
            rows, wrong = kills.measure(found["melete"], kills=rounds, seed=options.seed, env=options.env)
        case "trees":
            rows, wrong = trees.measure(rounds)
            more, also = product.measure(max(1, rounds // 40))
            rows, wrong = [*rows, *more], [*wrong, *also]
        case _:
            rows = overhead.measure(found, rounds=rounds, times=options.batches, env=options.env)
    show(rows, found, as_json=options.json)
    if wrong:
        say("\n".join(wrong))
        sys.exit(1)


if __name__ == "__main__":
    main()
