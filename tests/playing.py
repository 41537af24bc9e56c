"""A scripted model that many tests share: what it does follows from the first word of the last thing that a person said."""

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from melete.testing import Call, Calls, Fault, Reply, Say

PATIENCE = 30.0
POEM = "Sing, goddess, of the light that comes again each morning over the grey water. "
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def play(body: dict[str, Any], index: int) -> Reply | str:
    """The reply to the first word of the last message of a person; a steer in between changes nothing."""
    messages = [message for message in body["messages"] if message["role"] != "system"]
    said = [n for n, message in enumerate(messages) if message["role"] == "user" and _word(message) in REPLIES]
    if not said:
        return Say(text=f"You said: {_text(messages[-1])}")
    words, after = _text(messages[said[-1]]), messages[said[-1] + 1 :]
    return REPLIES[_word(messages[said[-1]])](words, [message for message in after if message["role"] == "tool"])


def wait_until(there: Callable[[], object], what: str = "it") -> Any:
    """Wait for something to be true and return it; fails when it does not come."""
    until = time.monotonic() + PATIENCE
    while not (found := there()):
        assert time.monotonic() < until, f"{what} did not come"
        time.sleep(0.01)
    return found


def waits(folder: Path) -> Callable[[str], None]:
    """Lets a `wait NAME` go on: it waits for a file of that name in the folder."""
    return lambda name: (folder / name).touch()


def _word(message: dict[str, Any]) -> str:
    return _text(message).split(" ", 1)[0].strip()


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", f"<{part['type']}>") for part in content)


def _wait(words: str, results: Sequence[Any]) -> Reply:
    """`wait NAME`: a call that ends when there is a file NAME in the working folder, and counts itself in NAME.calls."""
    name = words.split()[1]
    if results:
        return Say(text=f"Waited for {name}.")
    command = f"echo x >> {name}.calls; while [ ! -e {name} ]; do sleep 0.02; done; echo {name} came"
    return Call("terminal", {"command": command, "timeout": 60}, text="I wait.")


def _ask(words: str, results: Sequence[Any]) -> Reply:
    """`ask`: a call that needs a person's approval."""
    if results:
        return Say(text="Denied." if "denied" in _text(results[-1]) or "refused" in _text(results[-1]) else "Removed.")
    return Call("terminal", {"command": "find build -delete"})


def _work(words: str, results: Sequence[Any]) -> Reply:
    """`work STEPS [NAME]`: words in small pieces, thoughts and two calls at each step; then, with a name, a wait for it."""
    steps, *name = words.split()[1:]
    if len(results) < 2 * int(steps):
        calls = [Call("terminal", {"command": f"echo {n} {POEM}; echo done"}) for n in (len(results), len(results) + 1)]
        return Calls(calls=calls, text=POEM * 3, thinking=POEM, pieces=5)
    if name and len(results) == 2 * int(steps):
        return Call("terminal", {"command": f"while [ ! -e {name[0]} ]; do sleep 0.02; done", "timeout": 60})
    return Say(text=POEM * 3, pieces=5)


def _slow(words: str, results: Sequence[Any]) -> Reply:
    """`slow SECONDS`: an answer in pieces with so much time between any two."""
    found = re.search(r"[\d.]+", words)
    return Fault("slow", seconds=float(found[0]) if found else 0.02, reply=Say(text=POEM, pieces=4))


def _many(words: str, results: Sequence[Any]) -> Reply:
    """`many PIECES`: an answer in so many pieces."""
    return Say(text="ab " * int(words.split()[1]), pieces=3)


REPLIES: dict[str, Callable[[str, Sequence[Any]], Reply]] = {
    "wait": _wait,
    "ask": _ask,
    "work": _work,
    "slow": _slow,
    "many": _many,
    "say": lambda words, _: Say(text=words.partition(" ")[2]),
    "stall": lambda *_: Fault("stall", seconds=60.0, reply=Say(text="late")),
    "fail": lambda *_: Fault("bad_request"),
}
