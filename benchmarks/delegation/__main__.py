"""Delegation: what a batch of three children costs, what many leave behind, what a kill loses, what a budget lets through.

`--part overhead` (the default) is measured beside the peer; `soak`, `kills` and `trees` are Melete's alone.
"""

from benchmarks.delegation import overhead
from benchmarks.report import chosen, parser, show


def main() -> None:
    """Measure and print."""
    made = parser(__doc__ or "", rounds=5)
    made.add_argument(
        "--part", choices=["overhead", "soak", "kills", "trees"], default="overhead", help="what to measure"
    )
    made.add_argument("--env", default="", help="overhead: Melete's environment; what a user has by default without it")
    made.add_argument("--batches", type=int, default=4, help="overhead: batches in a run")
    options = made.parse_args()
    found = chosen(options)
    figures = overhead.measure(found, rounds=options.rounds, times=options.batches, env=options.env)
    show(figures, found, as_json=options.json)


if __name__ == "__main__":
    main()
