"""A run's stream of events, cut anywhere and resumed with the last whole id: is any event lost, doubled or changed?

The run has thoughts, words in small pieces, calls side by side and a stop of its model; it lives while it is read, so deltas
count as facts do. Cuts fall on every byte in turn, or on `--cuts` of them. A second kind of reader is cut again and again while
the events happen.
"""

import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.report import Row, parser, say, show
from melete.testing import Call, Calls, Fault, Reply, Say, ScriptedModel

WORDS = "Sing, goddess, of the light that comes again each morning over the grey water. "
STEPS = 6
PATIENCE = 60.0
GO = "go"
"""The file for which the run waits: while it does, its stream has no end."""


def script(body: dict[str, Any], _: int) -> Reply:
    """Steps of words and calls, one of them slow, then a wait; the answer comes behind it."""
    said = max(n for n, message in enumerate(body["messages"]) if message["role"] == "user")
    results = len(body["messages"]) - said - 1 - sum(m["role"] == "assistant" for m in body["messages"][said:])
    step = results // 2
    if step < STEPS:
        calls = [Call("terminal", {"command": f"echo {n} {WORDS}"}) for n in (results, results + 1)]
        reply = Calls(calls=calls, text=WORDS * 2, thinking=WORDS, pieces=4)
        return Fault("slow", seconds=0.01, reply=reply) if step == STEPS // 2 else reply
    if results == 2 * STEPS:
        return Call("terminal", {"command": f"while [ ! -e {GO} ]; do sleep 0.02; done", "timeout": 600})
    return Say(text=WORDS, pieces=4)


class Stream:
    """The events of a run of the server at `port`: where it ends for now is known once `whole` was read."""

    def __init__(self, port: int, run: str) -> None:
        self.port = port
        self.path = f"/v1/runs/{run}/events"
        self.whole = b""
        self.live: list[bytes] = []
        """What readers made of it that were cut while it happened."""
        self._ends: list[int] = []

    def read_whole(self) -> None:
        """Read it uncut, up to the call that waits."""
        with self.opened() as answer:
            while not waits(self.whole):
                piece = answer.read1(65_536)
                assert piece, "the stream ended too early"
                self.whole += piece
        self._ends = [n + 2 for n in range(len(self.whole)) if self.whole.startswith(b"\n\n", n)]

    @contextmanager
    def opened(self, last: str = "") -> Generator[http.client.HTTPResponse]:
        """The answer to a request for what is behind the event `last`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", self.path, headers={"last-event-id": last} if last else {})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield answer
        finally:
            connection.close()

    def wrong_when_cut(self, at: int) -> str:
        """What goes wrong for a reader that is cut behind so many bytes; empty when nothing does."""
        with self.opened() as answer:
            head = answer.read(at)
        if head != self.whole[:at]:
            return f"the first {at} bytes are others"
        kept = max((end for end in self._ends if end <= at), default=0)
        with self.opened(last_id(self.whole[:kept])) as answer:
            tail = answer.read(len(self.whole) - kept)
        return "" if tail == self.whole[kept:] else f"cut at {at}: {differs(self.whole[kept:], tail)}"

    def cut_again_and_again(self, chance: Random, *, longest: int) -> tuple[bytes, int]:
        """Everything up to the call that waits, at most `longest` bytes by one connection, also while it happens; and how many."""
        read, cuts, more = b"", 0, 0
        while not waits(read):
            with self.opened(last_id(read)) as answer:
                piece, many = b"", chance.randint(1, longest) + more
                while len(piece) < many and not waits(read + piece):
                    piece += answer.read1(many - len(piece))
            whole = piece[: piece.rfind(b"\n\n") + 2] if b"\n\n" in piece else b""
            more = 0 if whole else more + longest  # an event may be longer than a piece
            read += whole
            cuts += 1
        return read, cuts


def waits(events: bytes) -> bool:
    """Whether the last of some events is the beginning of the call that waits."""
    last = events[:-2].rpartition(b"\n\n")[2] if events.endswith(b"\n\n") else b""
    return b"event: tool.started" in last and b"sleep 0.02" in last


def last_id(events: bytes) -> str:
    """The id of the last of whole events; empty without any."""
    return events[events.rfind(b"id: ") + 4 :].partition(b"\n")[0].decode() if events else ""


def differs(wanted: bytes, got: bytes) -> str:
    """Where two readings part."""
    same = next(
        (n for n, (one, other) in enumerate(zip(wanted, got, strict=False)) if one != other), min(len(wanted), len(got))
    )
    return f"from {same} on {got[same : same + 80]!r} instead of {wanted[same : same + 80]!r}"


@contextmanager
def server(program: Sequence[str], home: Path) -> Generator[tuple[int, Path]]:
    """A server with the scripted model, and the folder that its commands run in."""
    with ScriptedModel(script) as model:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "MELETE_HOME": str(home / ".melete"),
            "MELETE_LEARNING": "false",
            "MELETE_BASE_URL": model.base_url,
            "MELETE_MODEL": "scripted",
        }
        command = [*program, "serve", "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=env, cwd=home) as process:
            assert process.stdout
            try:
                line = process.stdout.readline().decode()
                yield int(line.partition("127.0.0.1:")[2].partition('"')[0]), home
            finally:
                (home / GO).touch()
                process.terminate()
                process.wait(PATIENCE)


def begin(port: int) -> str:
    """Begin the run and return its id."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", "/v1/runs", body=b'{"input": "sing"}')
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer.partition('"id":"')[2].partition('"')[0]


def main() -> None:
    options = parser("Cuts and resumes a stream of events.", rounds=1)
    options.add_argument("--cuts", type=int, default=2_000, help="how many single cuts; 0 is every byte")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    program = given.melete or Path(sys.executable).with_name("melete")
    chance = Random(given.seed)
    with tempfile.TemporaryDirectory() as folder, server([str(program)], Path(folder)) as (port, _):
        stream = Stream(port, begin(port))
        with ThreadPoolExecutor() as pool:
            live = [pool.submit(stream.cut_again_and_again, Random(given.seed + n), longest=3_000) for n in range(3)]
            stream.read_whole()
            chains = [chain.result() for chain in live]
        size = len(stream.whole)
        places = range(size + 1) if not given.cuts else sorted(chance.randrange(size + 1) for _ in range(given.cuts))
        began = time.perf_counter()
        wrong = [found for at in places if (found := stream.wrong_when_cut(at))]
        for found in wrong[:5]:
            say(f"  {found}")
        chains += [stream.cut_again_and_again(chance, longest=2_000) for _ in range(3)]
        wrong += [differs(stream.whole, read) for read, _ in chains if read != stream.whole]
        taken = time.perf_counter() - began
        rows = [
            Row(what="events", unit="", values={"melete": stream.whole.count(b"\n\n")}, less_is_better=None, digits=0),
            Row(what="bytes", unit="", values={"melete": size}, less_is_better=None, digits=0),
            Row(what="cuts", unit="", values={"melete": len(places)}, less_is_better=None, digits=0),
            Row(
                what="cuts in chains",
                unit="",
                values={"melete": sum(n for _, n in chains)},
                less_is_better=None,
                digits=0,
            ),
            Row(what="readings that were wrong", unit="", values={"melete": len(wrong)}, digits=0),
            Row(what="seconds", unit="s", values={"melete": taken}, less_is_better=None),
        ]
    show(rows, {"melete": program}, as_json=given.json)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
