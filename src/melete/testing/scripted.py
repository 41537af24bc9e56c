"""A model that answers from a script, over real HTTP on loopback. Part `testing`; the demo, the tests and the benchmarks use it.

In a test:

    with ScriptedModel([Call("terminal", {"command": "ls"}), Say("There are three files.")]) as server:
        ...  # point the program at server.base_url
    assert b"three" not in server.requests[0].body

As a process, which prints its base URL as its first line and serves until it is terminated:

    python -m melete.testing.scripted --script FILE.json [--port N] [--record FILE]

FILE.json is a list of replies, played in order; a string is an answer in words, and `type` names the others (replies.py):

    [
      {"type": "call", "name": "terminal", "arguments": {"command": "ls"}, "thinking": "Let me look."},
      {"type": "fault", "kind": "rate_limited", "retry_after": 1},
      {"type": "calls", "calls": [{"type": "call", "name": "read_file", "arguments": {"path": "a.txt"}}]},
      {"type": "say", "text": "Done.", "usage": {"input": 100, "output": 3}},
      "A last word."
    ]

The record is JSON lines: `{"event": "request", "index", "at", "method", "target", "headers", "body"}` when a request has
arrived and `{"event": "replied", "index", "at"}` when its reply has left; `at` is the system's monotonic clock in seconds.
"""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from melete.testing.counting import PromptCache
from melete.testing.delivery import Parcel, deliver
from melete.testing.faults import Plan, Refusal, plan
from melete.testing.replies import OVER, Call, Calls, Fault, Play, Reply, Say
from melete.testing.server import Connection, LoopbackServer, Received
from melete.testing.wires.anthropic_messages import AnthropicMessages
from melete.testing.wires.base import Asked, WireFormat
from melete.testing.wires.gemini import Gemini
from melete.testing.wires.openai_chat import OpenAIChat
from melete.testing.wires.openai_responses import OpenAIResponses

Script = Sequence[Reply | str | Play] | Play


class Recorded(Received, frozen=True, kw_only=True):
    """A model request as it arrived: its number from 0, and the wire that it was made in."""

    index: int
    wire: str

    @property
    def json(self) -> Any:
        """The body's JSON; raises msgspec.DecodeError when it is none."""
        return msgspec.json.decode(self.body)


class ScriptedModel:
    """A model server that plays `script` and records what it is asked.

    `script` is a list of replies played in order, or a function of the request's JSON and its number; functions may stand in
    the list too. When the list is over, the answer is "(script is over)". `requests` holds every model request byte for byte,
    `replied_at` the monotonic time when the last byte of each reply left (0.0 before), `hung_up` the numbers of requests whose
    client left before that, `others` every other request. A script function that raises is answered with status 500, and
    leaving the block raises its error. Raises OSError when the port is taken or the record cannot be written.
    """

    def __init__(
        self, script: Script = (), *, port: int = 0, model: str = "scripted-model", context: int = 128_000,
        record: Path | None = None,
    ) -> None:  # fmt: skip
        self.model = model
        self.requests: list[Recorded] = []
        self.others: list[Received] = []
        self.replied_at: list[float] = []
        self.hung_up: set[int] = set()
        self._context = context
        self._script: list[Reply | str | Play] = [] if callable(script) else list(script)
        self._function: Play | None = script if callable(script) else None
        self._played = 0
        self._failures: list[Exception] = []
        self._cache = PromptCache()
        self._wires: tuple[WireFormat, ...] = (
            OpenAIChat(),
            OpenAIResponses(),
            Gemini(),
            Gemini(streamed=False),
            AnthropicMessages(),
        )
        self._lock = threading.Lock()
        self._record = record.open("ab", buffering=0) if record else None
        try:
            self._server = LoopbackServer(self._handle, port=port)
        except OSError:
            if self._record:
                self._record.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if not self._failures:
            return
        if error is None:
            raise self._failures[0]
        error.add_note(f"and the script failed: {self._failures[0]!r}")

    @property
    def base_url(self) -> str:
        """What a client appends the wire's path to."""
        return f"http://127.0.0.1:{self._server.port}/v1"

    @property
    def left(self) -> int:
        """How many replies of the list have not been played."""
        return len(self._script) - self._played

    def play(self, *replies: Reply | str | Play) -> None:
        """Add to the end of the list."""
        with self._lock:
            self._script.extend(replies)

    def close(self) -> None:
        """End every connection and give the port back; a second call does nothing."""
        self._server.close()
        if self._record:
            self._record.close()

    # ---- one request ---------------------------------------------------------------------------------------------

    def _handle(self, connection: Connection, received: Received) -> None:
        wire = next((wire for wire in self._wires if wire.claims(received.path)), None)
        if wire is None or received.method != "POST":
            with self._lock:
                self.others.append(received)
            self._answer_other(connection, received)
            return
        request = self._keep(received, wire)
        try:
            self._reply(connection, request, wire)
        except OSError:
            self.hung_up.add(request.index)
            raise
        self._note_end(request.index)

    def _keep(self, received: Received, wire: WireFormat) -> Recorded:
        with self._lock:
            request = Recorded(index=len(self.requests), wire=wire.name, **msgspec.structs.asdict(received))
            self.requests.append(request)
            self.replied_at.append(0.0)
            body = request.body.decode("utf-8", "backslashreplace")
            self._write({"event": "request", **msgspec.structs.asdict(request), "body": body})
        return request

    def _reply(self, connection: Connection, request: Recorded, wire: WireFormat) -> None:
        try:
            body = msgspec.json.decode(request.body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            self._refuse(connection, request, wire, Refusal(status=400, code="invalid_json", message=str(error)))
            return
        todo = self._next(body, request.index)
        if isinstance(todo.what, Refusal):
            self._refuse(connection, request, wire, todo.what)
            return
        usage = self._cache.count(wire.prompt(body), todo.what)  # counted even if the delivery fails: it has been read
        asked = Asked(body=body, index=request.index, usage=usage, target=request.target)
        streamed = wire.streams(body)
        parcel = Parcel(
            body=wire.stream(asked, todo.what) if streamed else wire.whole(asked, todo.what),
            streamed=streamed,
            headers={"x-request-id": f"req_{request.index}"},
            error=wire.error_event(code="server_error", message="the model failed while it was answering")
            if streamed
            else wire.error(500, code="server_error", message="the model failed while it was answering"),
            last=lambda: self._note_last(request.index),
        )
        deliver(connection, parcel, todo.how)

    def _next(self, body: dict[str, Any], index: int) -> Plan:
        """The reply that is due; what a script function raises is kept and answered with status 500."""
        with self._lock:
            item: Reply | str | Play = OVER
            if self._function:
                item = self._function
            elif self._played < len(self._script):
                item = self._script[self._played]
                self._played += 1
        try:
            return plan(item(body, index) if callable(item) else item, index)
        except Exception as error:  # noqa: BLE001 - kept: leaving the block raises it
            self._failures.append(error)
            return Plan(what=Refusal(status=500, code="script_failed", message=f"the script failed: {error!r}"))

    def _refuse(self, connection: Connection, request: Recorded, wire: WireFormat, refusal: Refusal) -> None:
        if refusal.body is None:
            body = wire.error(refusal.status, code=refusal.code, message=refusal.message)
        else:
            body = refusal.body.encode()
        headers = {"content-type": refusal.content_type, "x-request-id": f"req_{request.index}"}
        if refusal.retry_after:
            headers["retry-after"] = refusal.retry_after
        connection.begin(refusal.status, headers=headers, length=len(body))
        self._note_last(request.index)
        connection.finish(body)

    def _answer_other(self, connection: Connection, received: Received) -> None:
        entry = {"id": self.model, "object": "model", "created": 0, "owned_by": "melete"}
        if received.method == "GET" and received.path.endswith("/models"):
            status, value = 200, {"object": "list", "data": [entry | {"context_length": self._context}]}
        else:
            status, value = 404, {"error": {"message": f"no such path: {received.path}", "code": "not_found"}}
        body = msgspec.json.encode(value)
        connection.begin(status, headers={"content-type": "application/json"}, length=len(body))
        connection.finish(body)

    # ---- the record ----------------------------------------------------------------------------------------------

    def _note_last(self, index: int) -> None:
        """The last byte is about to leave; noted before it does, because a client that has it may look at once."""
        self.replied_at[index] = time.monotonic()

    def _note_end(self, index: int) -> None:
        if not self.replied_at[index]:  # a reply that broke off
            self._note_last(index)
        with self._lock:
            self._write({"event": "replied", "index": index, "at": self.replied_at[index]})

    def _write(self, line: dict[str, Any]) -> None:
        if self._record and not self._record.closed:
            self._record.write(msgspec.json.encode(line) + b"\n")


def load(path: Path) -> list[Reply | str | Play]:
    """The replies in a JSON script; raises OSError, or msgspec.ValidationError that says where it is wrong."""
    return [*msgspec.json.decode(path.read_bytes(), type=list[str | Say | Call | Calls | Fault])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve a script until SIGTERM or SIGINT; the first line of standard output is the base URL."""
    parser = argparse.ArgumentParser(
        prog="python -m melete.testing.scripted", description="A model that answers from a script."
    )
    parser.add_argument("--script", type=Path, required=True, help="JSON list of replies")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; chosen by the system without it")
    parser.add_argument("--record", type=Path, help="file that gets a line for each request and reply")
    options = parser.parse_args(arguments)
    try:
        replies = load(options.script)
    except (OSError, msgspec.MsgspecError) as error:
        parser.error(f"cannot use the script {options.script}: {error}")
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)  # before threads start, so that all of them inherit it
    try:
        server = ScriptedModel(replies, port=options.port, record=options.record)
    except OSError as error:
        parser.error(f"cannot serve: {error}")
    with server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        signal.sigwait(stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
