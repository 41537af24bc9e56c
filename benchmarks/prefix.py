"""How much of a request's prefix the next request keeps, over turns that are each a process of their own.

The prefix is tools, then messages, each as compact JSON in the order in which they were sent: what a provider's cache reads.
Every turn makes three tool calls and an answer; each turn continues the session of the one before.
"""

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.measure import run
from benchmarks.report import Row, by_name, chosen, parser, say, show
from benchmarks.subjects import Subject, make
from melete.testing import Call, Reply, ScriptedModel
from melete.testing.counting import common_prefix
from melete.testing.wires.openai_chat import OpenAIChat

CALLS = 3


def script(request: dict[str, Any], _: int) -> Reply | str:
    """Three calls after each user message, then an answer."""
    if not request.get("tools"):
        return "A title"
    messages = request["messages"]
    latest = max(number for number, message in enumerate(messages) if message["role"] == "user")
    done = sum(message["role"] == "tool" for message in messages[latest:])
    turn = sum(message["role"] == "user" for message in messages)
    return Call("terminal", {"command": f"echo {turn}.{done}"}) if done < CALLS else f"Turn {turn} is done."


def latest_words(request: dict[str, Any]) -> str:
    """The last user message: a review or another errand of the program's own has one that is not the person's."""
    return str(next(m["content"] for m in reversed(request["messages"]) if m["role"] == "user"))


def converse(subject: Subject, server: ScriptedModel, turns: int) -> list[list[bytes]]:
    """The prefixes of each turn's requests."""
    wire = OpenAIChat()
    found: list[list[bytes]] = []
    for turn in range(turns):
        before = len(server.requests)
        prompt = f"Question number {turn + 1}: what does it say?"
        run(subject.talk(prompt, go_on=turn > 0), env=subject.env, cwd=subject.cwd)
        asked = [request.json for request in server.requests[before:]]
        found.append([wire.prompt(body) for body in asked if body.get("tools") and prompt in latest_words(body)])
        if not found[-1]:
            raise RuntimeError(f"{subject.name} sent no request in turn {turn + 1}")
    return found


def shares(turns: list[list[bytes]]) -> tuple[list[float], list[float]]:
    """The kept share of each request's prefix: within turns, and from a turn's last request to the next turn's first."""
    within = [share(a, b) for turn in turns for a, b in pairwise(turn)]
    across = [share(a[-1], b[0]) for a, b in pairwise(turns)]
    return within, across


def share(one: bytes, other: bytes) -> float:
    return common_prefix(one, other) / len(one)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__ or "", rounds=12).parse_args()
    found = chosen(options)
    kept: dict[str, tuple[list[float], list[float]]] = {}
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as root, ScriptedModel(script) as server:
        for name, path in found.items():
            say(f"{name}: {options.rounds} turns")
            subject = make(name, Path(root), program=path, base_url=server.base_url)
            turns = converse(subject, server, options.rounds)
            kept[name], sizes[name] = shares(turns), len(turns[-1][-1])

    def row(what: str, figure: Callable[[str], float]) -> Row:
        return Row(what=what, unit="share", values=by_name(list(found), figure), less_is_better=False, digits=4)

    rows = [
        row("kept within turns, mean", lambda name: mean(kept[name][0])),
        row("kept within turns, least", lambda name: min(kept[name][0])),
        row("kept from turn to turn, mean", lambda name: mean(kept[name][1])),
        row("kept from turn to turn, least", lambda name: min(kept[name][1])),
        row("kept over all, mean", lambda name: mean([*kept[name][0], *kept[name][1]])),
        Row(what="prefix of the last request", unit="bytes", values=dict(sizes), digits=0),
    ]
    show(rows, found, as_json=options.json)


if __name__ == "__main__":
    main()
