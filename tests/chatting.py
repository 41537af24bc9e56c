"""A scripted model that one server can share among many tests: what it answers follows from the last thing that was said to it."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from melete.core.message import Usage
from melete.testing import Call, Fault, Reply, Say

POEM = "Roses are red, violets are blue, and the stream was cut in the middle of this line."
OTHER = "Roses are red, but this time the answer is another one."
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
USAGE = Usage(input=100, output=20, cache_read=40, cache_write=10, reasoning=5)
_seen: dict[str, int] = {}


def answer(body: dict[str, Any], index: int) -> Reply | str:
    """The reply to the first words of the last message of a user."""
    if index == 0:  # another model begins
        _seen.clear()
    messages = body["messages"]
    last = max(n for n, message in enumerate(messages) if message["role"] == "user")
    words = text_of(messages[last])
    after = messages[last + 1 :]
    for start, reply in REPLIES.items():
        if words.startswith(start):
            return reply(words, after)
    return Say(text=f"You said: {words}")


def text_of(message: Mapping[str, Any]) -> str:
    """The words of a message as the model's wire has it."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", f"<{part['type']}>") for part in content)


def _tool(words: str, after: list[Any]) -> Reply:
    if any(message["role"] == "tool" for message in after):
        return Say(text="The tool is done.")
    return Call(name="terminal", arguments={"command": "echo from the tool"}, text="Let me look.")


def _ask(words: str, after: list[Any]) -> Reply:
    if any(message["role"] == "tool" for message in after):
        return Say(text=f"So be it: {text_of(after[-1])}")
    return Call(name="clarify", arguments={"question": "Which colour?", "choices": ["red", "blue"]})


def _once(first: Reply, then: Reply) -> Callable[[str, list[Any]], Reply]:
    """The first reply when these words come for the first time, then the other."""

    def reply(words: str, after: list[Any]) -> Reply:
        _seen[words] = _seen.get(words, 0) + 1
        return first if _seen[words] == 1 else then

    return reply


def _slow(words: str, after: list[Any]) -> Reply:
    found = re.search(r"[\d.]+", words)
    return Fault("slow", seconds=float(found[0]) if found else 0.2, reply=Say(text=POEM, pieces=8))


REPLIES: dict[str, Callable[[str, list[Any]], Reply]] = {
    "think": lambda words, after: Say(text="It is four.", thinking="Two and two.", usage=USAGE),
    "tool": _tool,
    "ask": _ask,
    "long": lambda words, after: Say(text="This is cut", stop="length"),
    "filtered": lambda words, after: Say(text="This is", stop="content_filter"),
    "empty": lambda words, after: Fault("empty"),
    "json": lambda words, after: Say(text='{"n": 4}'),
    "fenced": lambda words, after: Say(text='```json\n{"n": 5}\n```'),
    "no json": lambda words, after: Say(text="four"),
    "[Note from the runtime] This answer does not have the form": lambda words, after: Say(text='{"n": 4}'),
    "cut same": _once(Fault("cut", after=6, reply=Say(text=POEM, pieces=8)), Say(text=POEM, pieces=5)),
    "cut other": _once(Fault("cut", after=6, reply=Say(text=POEM, pieces=8)), Say(text=OTHER, pieces=5)),
    "slow": _slow,
    "stall": lambda words, after: Fault("stall", seconds=60.0, reply=Say(text="late")),
    "unauthorized": lambda words, after: Fault("unauthorized"),
    "quota": lambda words, after: Fault("quota"),
    "unknown": lambda words, after: Fault("unknown_model"),
    "overflow": lambda words, after: Fault("overflow"),
    "bad": lambda words, after: Fault("bad_request"),
    "broken": lambda words, after: Fault("cut", after=6, reply=Say(text=POEM, pieces=8)),
}
