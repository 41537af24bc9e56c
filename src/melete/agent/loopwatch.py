"""Notices when a run goes round in circles: warns the model, then stops the run. Layer 2.

What counts: the same call failing in the same way, one tool failing again and again whatever its arguments, the same call
with the same result, and cycles of two to four calls (A-B-A-B) whose results repeat. Failures of one command with ever other
options are a search for the right way, which ends by itself: they count once.
"""

import re
from collections import Counter
from typing import Any, Final, NamedTuple

import msgspec

from melete.agent.results import fields_of
from melete.core.event import ToolEnded
from melete.core.message import ToolCall


class Rule(NamedTuple):
    """How often is noticed and how often is too often."""

    warn: int
    stop: int


SAME_FAILURE = Rule(2, 5)
TOOL_FAILURES = Rule(3, 8)
NO_PROGRESS = Rule(3, 6)
CYCLE = Rule(2, 4)
LONGEST_CYCLE = 4
STOPPING = "The run is being stopped."
OTHERWISE = "Do something else, or say what is in the way."
_OPTION: Final = re.compile(r"(?<!\S)(?:--[A-Za-z][\w-]*(?:=\S*| +[A-Za-z]\w*(?!\S))?|-[A-Za-z]+)(?!\S)")
"""An option with a value that is a plain word; a path or a name with a dot in it is what the command works on."""


class _Command(msgspec.Struct, frozen=True, kw_only=True):
    command: str


class LoopWatch:
    """The memory of one run's calls; `tripped` says why the run must end, or nothing."""

    def __init__(self) -> None:
        self.tripped = ""
        self._failures: Counter[tuple[str, str, str]] = Counter()
        self._streaks: Counter[str] = Counter()
        self._tried: dict[str, tuple[str, set[frozenset[str]]]] = {}
        self._trail: list[tuple[str, str, str]] = []

    def note(self, call: ToolCall, ended: ToolEnded) -> ToolEnded:
        """Take in an outcome; it comes back with a warning for the model where one is due."""
        if ended.outcome in ("cancelled", "not_run"):
            return ended
        seen = (call.name, call.arguments, ended.result.content)
        self._trail.append(seen)
        found = self._judge(seen, failed=ended.result.error)
        if not found:
            return ended
        what, times, rule = found
        if times >= rule.stop:
            self.tripped = what
            return _with_warning(ended, f"{what} {STOPPING}")
        return _with_warning(ended, f"{what} {OTHERWISE}")

    def _judge(self, seen: tuple[str, str, str], *, failed: bool) -> tuple[str, int, Rule] | None:
        name = seen[0]
        if failed:
            self._failures[seen] += 1
            self._streaks[name] += not self._searches(name, seen[1])
        else:
            self._streaks[name] = 0
            self._tried.pop(name, None)
        candidates = [
            (
                f"This exact call has failed {self._failures[seen]} times in the same way.",
                self._failures[seen],
                SAME_FAILURE,
            ),
            (f"{name} has failed {self._streaks[name]} times in a row.", self._streaks[name], TOOL_FAILURES),
            *self._repetition(),
        ]
        due = [c for c in candidates if c[1] >= c[2].warn]
        return max(due, key=lambda c: c[1] / c[2].stop, default=None)

    def _searches(self, name: str, arguments: str) -> bool:
        """Whether a failed call is the one before it with options that were not tried together since one succeeded."""
        bare, options = _way(arguments)
        last, tried = self._tried.get(name, ("", set[frozenset[str]]()))
        new = bare == last and options not in tried
        self._tried[name] = (bare, {*tried, options} if bare == last else {options})
        return new and bool(bare)

    def _repetition(self) -> list[tuple[str, int, Rule]]:
        trail = self._trail
        found: list[tuple[str, int, Rule]] = []
        for length in range(1, LONGEST_CYCLE + 1):
            cycle, times = trail[-length:], 1
            while len(cycle) == length and trail[-length * (times + 1) : -length * times] == cycle:
                times += 1
            if length == 1:
                found.append((f"The same call has given the same result {times} times.", times, NO_PROGRESS))
            elif len(set(cycle)) > 1:
                found.append(
                    (f"The same {length} calls have gone round {times} times with the same results.", times, CYCLE)
                )
        return found


def is_warned(ended: ToolEnded) -> bool:
    """Whether a stored outcome carries a warning of the watch."""
    return _warning(ended).endswith((STOPPING, OTHERWISE))


def unwarned(ended: ToolEnded) -> ToolEnded:
    """The outcome as it was before the watch warned; the same object where it did not."""
    if not is_warned(ended):
        return ended
    fields = fields_of(ended)
    last = list(fields)[-1] == "warning"
    kept = {name: value for name, value in fields.items() if name != "warning"} if last else {**fields, "warning": ""}
    return _with_content(ended, kept)


def _way(arguments: str) -> tuple[str, frozenset[str]]:
    """A call's command without its options, and these; empty for a call of another form."""
    try:
        command = msgspec.json.decode(arguments, type=_Command).command
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return "", frozenset()
    return " ".join(_OPTION.sub(" ", command).split()), frozenset(" ".join(o.split()) for o in _OPTION.findall(command))


def _warning(ended: ToolEnded) -> str:
    if '"warning"' not in ended.result.content:
        return ""
    text = fields_of(ended).get("warning")
    return text if isinstance(text, str) else ""


def _with_warning(ended: ToolEnded, text: str) -> ToolEnded:
    return _with_content(ended, {**msgspec.json.decode(ended.result.content), "warning": text})


def _with_content(ended: ToolEnded, fields: dict[str, Any]) -> ToolEnded:
    content = msgspec.json.encode(fields).decode()
    return msgspec.structs.replace(ended, result=msgspec.structs.replace(ended.result, content=content))
