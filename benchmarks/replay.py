"""Runs of many shapes over four wires, recorded and then made again offline: how many come out equal, byte for byte.

Three comparisons: the facts that the loop makes again with those of the log, their bytes with the bytes of the log's file, and
the requests that are rebuilt from the log with the bodies that the server got, in the canonical form that a provider caches.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import say
from benchmarks.shapes import SHAPES, Recorded, Shape, environ_of, record
from melete import load
from melete.app.clock import SystemClock
from melete.app.replay import ReplayEnded, Runs, ended
from melete.app.requests import Bodies, wire_of
from melete.core.event import Fact, Reply
from melete.core.model import ModelRequest
from melete.core.session import SessionRef
from melete.store import open_store
from melete.store.record import decode_fact, encode_fact, scan, seed
from melete.testing.wires.anthropic_messages import AnthropicMessages
from melete.testing.wires.base import WireFormat
from melete.testing.wires.gemini import Gemini
from melete.testing.wires.openai_chat import OpenAIChat
from melete.testing.wires.openai_responses import OpenAIResponses

WIRES: dict[str, WireFormat] = {
    wire.name: wire for wire in (OpenAIChat(), OpenAIResponses(), AnthropicMessages(), Gemini())
}


class Compared:
    """What was compared, and what did not come out equal, in words."""

    def __init__(self) -> None:
        self.total = ReplayEnded()
        self.bodies = 0
        self.lines = 0
        self.seconds = 0.0
        self.wrong: list[str] = []

    def figures(self) -> dict[str, Any]:
        """The figures, by what they are."""
        total = self.total
        return {
            "runs": total.runs,
            "runs that have no end": total.open,
            "steps": total.steps,
            "facts": total.facts,
            "requests with an equal checksum": total.requests,
            "bodies equal to what the server got": self.bodies,
            "lines of logs equal to the facts that were made again": self.lines,
            "seconds for making them again": round(self.seconds, 3),
            "differences": len(self.wrong),
        }


async def recorded(shapes: Sequence[Shape], root: Path, wires: Sequence[str]) -> list[Recorded]:
    """Record each shape over each wire, in one home."""
    environ = environ_of(root / "home")
    (root / "home").mkdir()
    found: list[Recorded] = []
    for wire in wires:
        for number, shape in enumerate(shapes):
            say(f"{wire}: {shape.name}")
            found.append(await record(shape, root / wire / str(number), wire=wire, environ=environ))
    return found


async def compare(state: Path, recordings: Sequence[Recorded]) -> Compared:
    """Make every run again that was recorded in the home whose state this is."""
    store = open_store(state, clock=SystemClock())
    found = Compared()
    for one in recordings:
        for ref in (one.session, *await _original(store.facts(one.session))):
            await _compare(found, one, await store.facts(ref), state / "sessions" / f"{ref.id}.log")
    await store.aclose()
    return found


async def _original(facts: Any) -> list[SessionRef]:
    first = (await facts)[0]
    return [SessionRef(id=first.forked_from)] if first.forked_from else []


async def _compare(found: Compared, one: Recorded, facts: Sequence[Fact], log: Path) -> None:
    bodies, name = Bodies(), f"{one.wire}, {one.shape.name}"

    def check(request: ModelRequest, reply: Reply) -> None:
        sent, made = one.sent.get(reply.request_id), bodies.body(request, reply)
        if not one.shape.exact or sent is None or made is None:
            return
        found.bodies += 1
        wire = WIRES[wire_of(reply)]
        if wire.prompt(json.loads(made)) != wire.prompt(sent):
            found.wrong.append(f"{name}: the request of fact {reply.seq} is not what the server got")

    before = time.perf_counter()
    made: dict[int, Fact] = {}
    async for played in Runs(facts).play(on_request=check):
        found.total += ended(played)
        made |= {fact.seq: fact for fact in played.facts}
        if played.difference:
            found.wrong.append(f"{name}: {played.difference}")
    found.seconds += time.perf_counter() - before
    for seq, line in _lines(log):
        if seq in made:
            found.lines += 1
            if encode_fact(made[seq]) != line:
                found.wrong.append(f"{name}: the line of fact {seq} has other bytes")


def _lines(log: Path) -> Iterator[tuple[int, bytes]]:
    for record_ in scan(log.read_bytes(), seed(log.stem)).records:
        yield decode_fact(record_.body, log.stem).seq, record_.body


def main() -> None:
    """Record, compare and print."""
    made = argparse.ArgumentParser(prog="replay", description=__doc__)
    made.add_argument("--wire", nargs="+", choices=list(WIRES), default=list(WIRES), help="over these wires")
    made.add_argument("--shape", default="", help="only the shapes whose name holds this")
    made.add_argument("--json", action="store_true", help="one JSON object")
    options = made.parse_args()
    shapes = [shape for shape in SHAPES if options.shape in shape.name]
    with tempfile.TemporaryDirectory() as root:
        recordings = asyncio.run(recorded(shapes, Path(root), options.wire))
        state = load(environ=environ_of(Path(root) / "home")).home.state
        found = asyncio.run(compare(state, recordings))
    figures = found.figures()
    print(
        json.dumps(figures) if options.json else "\n".join(f"{value:>10,}  {what}" for what, value in figures.items())
    )
    for line in found.wrong:
        print(line)
    if found.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
