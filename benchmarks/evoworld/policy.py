"""The model of the world: a process that answers requests in the openai-chat form and knows nothing but what they say.

    python -m benchmarks.evoworld.policy --seed 1 --log FILE

It prints its port. Each request is a line of the log: what it was for, what it took, and what was done.
"""

import argparse
import json
import re
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.evoworld.deciding import Move, decide
from benchmarks.evoworld.reading import Request, read
from benchmarks.evoworld.reviewing import Reviewer

MODEL = "evoworld"
CHARS_PER_TOKEN = 4
INDEX = re.compile(r"<available_skills>.*</available_skills>", re.DOTALL)
WORD = re.compile(r"[a-z]+")
CACHED_FOR = 300.0
"""Seconds of the world's clock after its last use for which a prompt cache holds a request."""


class Policy:
    """Answers, and keeps the log."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._seed: int = given.seed
        self._reviewer = Reviewer(briefs=tuple(given.brief), seed=given.seed, noise=given.noise, late=given.late)
        self._log = Path(given.log).open("a", encoding="utf-8")  # noqa: SIM115 - open as long as the process
        self._lock = threading.Lock()
        self._now = 0.0
        self._warm: list[tuple[str, float]] = []

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def tell(self, now: float) -> None:
        """The time in the world, which stands still within a session."""
        with self._lock:
            self._now = now

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reply as one whole `chat.completion`."""
        request = read(body)
        kind, move = self._move(request)
        sent = json.dumps([body.get("tools"), body.get("messages")])
        message = _message(move, len(request.events))
        with self._lock:
            kept = self._kept(sent)
            out = len(json.dumps(message)) // CHARS_PER_TOKEN
            tokens = {"in": len(sent) // CHARS_PER_TOKEN, "kept": kept // CHARS_PER_TOKEN, "out": out}
            piece = request.pieces[-1] if request.pieces else None
            told: dict[str, Any] = {"kind": kind, "item": piece.item if piece else "", **tokens}
            told["did"] = [name for name, _ in move.calls] or ["answer"]
            told["skills"] = [arguments["name"] for name, arguments in move.calls if name == "skill_view"]
            told["notes"] = move.notes
            listed = INDEX.search(request.system)
            told["index"] = len(listed[0]) // CHARS_PER_TOKEN if listed else 0
            told["listed"] = bool(piece) and any(
                piece.verb in WORD.findall(f"{one} {about}") for one, about in request.listed().items()
            )
            self._log.write(json.dumps(told) + "\n")
            self._log.flush()
        usage = {
            "prompt_tokens": tokens["in"],
            "completion_tokens": tokens["out"],
            "total_tokens": tokens["in"] + tokens["out"],
            "prompt_tokens_details": {"cached_tokens": tokens["kept"]},
        }
        finish = "tool_calls" if move.calls else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {
            "id": "e",
            "object": "chat.completion",
            "created": 1,
            "model": MODEL,
            "choices": [choice],
            "usage": usage,
        }

    def _kept(self, sent: str) -> int:
        """How many characters of a request were sent before and are still in the cache, which holds all of it from now on."""
        warm = [(one, at, _shared(sent, one)) for one, at in self._warm if self._now - at <= CACHED_FOR]
        apart = [
            (one, at) for one, at, shared in warm if shared < len(one) - len("]]")
        ]  # the others are part of this one
        self._warm = [*apart, (sent, self._now)]
        return max((shared for _, _, shared in warm), default=0)

    def _move(self, request: Request) -> tuple[str, Move]:
        if self._reviewer.wanted(request):
            return "review", self._reviewer.review(request)
        kind = "task" if request.pieces and "terminal" in request.tools else "other"
        return kind, decide(request, self._seed)


def _message(move: Move, place: int) -> dict[str, Any]:
    calls = [
        {
            "index": number,
            "id": f"call_{place}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for number, (name, given) in enumerate(move.calls)
    ]
    return {"role": "assistant", "content": move.text or None, **({"tool_calls": calls} if calls else {})}


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def events(whole: dict[str, Any]) -> bytes:
    """A reply as a stream of server-sent events."""
    choice = whole["choices"][0]
    head = {"id": whole["id"], "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    pieces = [
        head | {"choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]},
        head | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        head | {"choices": [], "usage": whole["usage"]},
    ]
    return b"".join(f"data: {json.dumps(piece)}\n\n".encode() for piece in pieces) + b"data: [DONE]\n\n"


class Handler(BaseHTTPRequestHandler):
    """The endpoint."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    policy: Policy

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.endswith("/clock"):
            self.policy.tell(body["now"])
            self._send(200, "application/json", b"{}")
            return
        if not self.path.endswith("/chat/completions"):
            self._send(404, "application/json", b"{}")
            return
        whole = self.policy.reply(body)
        if body.get("stream"):
            self._send(200, "text/event-stream", events(whole))
        else:
            self._send(200, "application/json", json.dumps(whole).encode())

    def do_GET(self) -> None:
        known = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
        found = self.path.endswith("/models")
        self._send(200 if found else 404, "application/json", json.dumps(known).encode() if found else b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the log is the policy's own."""

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", required=True)
    parser.add_argument("--brief", action="append", default=[], help="first words of a request for a review")
    parser.add_argument("--noise", action="store_true", help="make the mistakes of a reviewer")
    parser.add_argument("--late", action="store_true", help="write descriptions that name the verb at their end")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its input, behind whoever it answers
    Handler.policy = Policy(given)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    sys.stdin.read()  # ends with whoever started it
    server.shutdown()
    thread.join()
    server.server_close()
    Handler.policy.close()


if __name__ == "__main__":
    main()
