"""Each wire on its own: exec to the first request, and what the adapter costs a request without the network.

The first is the whole program, pointed at the scripted model over each wire in turns. The second takes a conversation that grows by
a call and its result from request to request, and times encoding the body and reading a recorded answer, in this process.
"""

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from benchmarks.measure import run
from benchmarks.report import Row, parser, say, show
from benchmarks.subjects import Melete, programs
from melete.core.event import ToolSchema
from melete.core.message import Message, ToolCall, ToolResult, Usage, user
from melete.core.model import ModelRequest
from melete.models import anthropic_messages, gemini, openai_chat, openai_responses
from melete.models.adapter import Format
from melete.models.spec import ModelSpec
from melete.models.sse import EventParser, ServerEvent
from melete.models.surrogates import Halves
from melete.testing import ScriptedModel
from melete.testing.faults import Answer
from melete.testing.wires.anthropic_messages import AnthropicMessages
from melete.testing.wires.base import Asked
from melete.testing.wires.gemini import Gemini
from melete.testing.wires.openai_chat import OpenAIChat
from melete.testing.wires.openai_responses import OpenAIResponses

FORMATS: dict[str, Format] = {
    wire.name: wire for wire in (openai_chat.FORMAT, openai_responses.FORMAT, anthropic_messages.FORMAT, gemini.FORMAT)
}
MESSAGES = 200
STREAMED = "/v1beta/models/m:streamGenerateContent?alt=sse"
TOOL = ToolSchema(name="terminal", about="Run a command.", parameters=msgspec.Raw(b'{"type":"object","properties":{}}'))


def first_requests(wire: str, program: Path, rounds: int) -> float:
    """The median seconds from exec to the first request over a wire."""
    taken: list[float] = []
    with tempfile.TemporaryDirectory() as root, ScriptedModel(lambda *_: "Hi there.") as server:
        subject = Melete(Path(root) / "home", program=program, base_url=server.base_url)
        subject.env["MELETE_WIRE"] = wire
        for turn in range(rounds + 1):
            before = len(server.requests)
            ran = run(subject.once("Say hi"), env=subject.env, cwd=subject.cwd)
            if server.requests[before].wire != wire or "Hi there." not in ran.output:
                raise RuntimeError(f"{wire}: {ran.output[-300:]}")
            if turn:
                taken.append(server.requests[before].at - ran.started)
    return median(taken)


def recorded(wire: str) -> bytes:
    """The bytes of one streamed answer with thinking, text and a call."""
    speaks = next(one for one in (OpenAIChat(), OpenAIResponses(), AnthropicMessages(), Gemini()) if one.name == wire)
    call = ToolCall(id="call_1", name="terminal", arguments='{"command": "seq 1 100 | tail -n 3"}')
    answer = Answer(text="Let me look at that.", thinking="Hm, " * 30, calls=(call,), stop="tool_calls")
    asked = Asked(body={"model": "m", "stream": True}, index=0, usage=Usage(input=1000, output=50), target=STREAMED)
    return b"".join(speaks.stream(asked, answer).pieces)


def costs(wire: str) -> list[float]:
    """Milliseconds for encoding and reading each request of a growing conversation, from 200 messages on."""
    made = FORMATS[wire]
    spec = ModelSpec(model="m", base_url="http://127.0.0.1/v1", wire=wire)
    encoder = made.encoder(spec)
    events = list(_events(recorded(wire)))
    request = ModelRequest(model="m", system=("Be brief.",), tools=(TOOL,), messages=(user("Go"),))
    taken: list[float] = []
    while len(request.messages) < MESSAGES + 100:
        began = time.perf_counter()
        encoder.body(request)
        message = _read(made, encoder.call_ids(request), events)
        took = (time.perf_counter() - began) * 1000
        if len(message.calls) != 1:
            raise RuntimeError(f"{wire}: the recorded answer was not read: {message}")
        results = tuple(ToolResult(call=c.id, name=c.name, content='{"output":"98\\n99\\n100"}') for c in message.calls)
        more = (message, Message(role="tool", parts=results))
        request = msgspec.structs.replace(request, messages=request.messages + more)
        if len(request.messages) > MESSAGES:
            taken.append(took)
    return taken


def _events(data: bytes) -> list[ServerEvent]:
    parser_ = EventParser()
    return [*parser_.feed(data), *parser_.close()]


def _read(made: Format, taken: set[str], events: list[ServerEvent]) -> Message:
    assembler, halves = made.assembler(taken, "127.0.0.1"), Halves()
    for event in events:
        if event.data != b"[DONE]":
            value: Any = halves.decode(event.data)
            list(assembler.feed(value))
    return assembler.message()


def main() -> None:
    """Measure and print."""
    options = parser(__doc__ or "", rounds=7).parse_args()
    program = programs(options.melete, options.hermes, alone=True)["melete"]
    rows: list[Row] = []
    for wire in FORMATS:
        say(wire)
        first = first_requests(wire, program, options.rounds)
        rows.append(Row(what=f"{wire}: exec to first request", unit="s", values={"melete": first}, digits=3))
    for wire in FORMATS:
        each = sorted(costs(wire))
        for what, value in (("median", median(each)), ("95th percentile", each[int(len(each) * 0.95)])):
            rows.append(Row(what=f"{wire}: cost of a request, {what}", unit="ms", values={"melete": value}, digits=3))
    show(rows, {"melete": program}, as_json=options.json)


if __name__ == "__main__":
    main()
