"""Where the work stands, read off the facts of the whole log: goal, rules, plan, files, commands, values. Layer 2, pure.

No model has a hand in it. What is kept is bounded; when it has no room, what is said over and over goes first, then what has least
to do with the person's words, then what is oldest.
"""

import math
import posixpath
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from melete.agent.notable import sentences as sentences_of
from melete.agent.notable import skeleton, stems, values, weigh
from melete.agent.results import object_of
from melete.core.event import Compacted, Fact, Reply, Said, Steered, ToolEnded, ToolStarted
from melete.core.message import Message, Taint, Text, ToolCall
from melete.core.taskstate import RECALLED, Kept, Step, TaskState
from melete.security.taint import UNTRUSTED
from melete.security.threats import scan

ADDED: Final = (
    "[From the skill library",
    "[The person calls for the skill",
    RECALLED,
    "[From memory",
)
"""How texts begin that the runtime has put behind a person's words."""
HELD, LINES = 6_000, 4_000
"""Values and lines of the past that a fold holds."""
OFTEN: Final = 3.0
"""What being said over and over may take off a weight."""
COMMANDS, TROUBLES, FILES = 12, 4, 30
LINE: Final = 160
"""Characters of a line of the past, of a command and of a step."""
BINDS: Final = 3.0
WORST: tuple[Taint, ...] = ("web", "import", "tool", "none")
SHARES: Final = {"binding": 0.4, "plan": 0.15, "values": 0.3, "said": 0.3, "files": 0.1, "worked": 0.08, "failed": 0.06}
"""Shares of the room that each may take at first; what is left goes to the first that wants it."""


class Line(NamedTuple):
    """One message of the past in a line; `who` is `person`, `model` or a tool's name."""

    seq: int
    who: str
    text: str
    taint: Taint = "none"


class _Value(NamedTuple):
    kept: Kept
    key: str
    weight: float
    stems: frozenset[str]


class _Sentence(NamedTuple):
    kept: Kept
    weight: float
    form: str
    stems: frozenset[str]


class Fold:
    """Takes in a session's facts in order; what it knows then is what any state is made of."""

    def __init__(self) -> None:
        self.seq = 0
        self.summary = ""
        self.summed = 0
        """The last summary that a model wrote, and the fact that holds it."""
        self.lines: deque[Line] = deque(maxlen=LINES)
        self.places: list[int] = []
        """The facts that the messages in view stand in."""
        self._first: Kept | None = None
        self._last: Kept | None = None
        self._people = self._replies = 0
        self._sentences: list[_Sentence] = []
        self._values: deque[_Value] = deque(maxlen=HELD)
        self._plan: tuple[Step, ...] = ()
        self._files: dict[str, None] = {}
        self._worked: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._calls: dict[str, ToolCall] = {}
        self._open: set[str] = set()
        self._asked: tuple[list[str], frozenset[str]] = ([], frozenset())

    @property
    def asked(self) -> str:
        """What the person said last, and first."""
        return "\n".join(dict.fromkeys(kept.text for kept in (self._last, self._first) if kept))

    def take(self, facts: Iterable[Fact]) -> None:
        """Take in the next facts."""
        for fact in facts:
            self.seq = max(self.seq, fact.seq)
            match fact:
                case Said() | Steered():
                    self.places.append(fact.seq)
                    self._said(fact.message, fact.seq)
                case Reply():
                    self._reply(fact)
                case ToolStarted():
                    self._calls[fact.call.id] = fact.call
                    if fact.effect != "read":
                        self._wrote(fact.call)
                case ToolEnded():
                    self._result(fact)
                case Compacted():
                    self._compacted(fact)
                case _:
                    pass

    def _said(self, message: Message, seq: int) -> None:
        if message.by and message.by.kind in ("runtime", "child"):
            return
        text = own_words(message)
        self._people += 1
        kept = Kept(text=text, number=self._people, seq=seq)
        self._first, self._last = self._first or kept, kept
        self.lines.append(Line(seq, "person", _short(text)))
        for one in sentences_of(text):
            if weight := weigh(one):
                said = Kept(text=one, number=self._people, seq=seq)
                self._sentences.append(_Sentence(said, weight, skeleton(one), stems(one)))

    def _reply(self, fact: Reply) -> None:
        self._replies += 1
        self.places.append(fact.seq)
        calls = fact.message.calls
        self._calls = {call.id: call for call in calls}
        self._open = set(self._calls)
        made = ", ".join(f"{call.name}({_arguments(call)})" for call in calls)
        text = " ".join(fact.message.text.split())
        self.lines.append(Line(fact.seq, "model", _short(f"{text} → {made}" if text and made else text or made)))

    def _result(self, fact: ToolEnded) -> None:
        result, call = fact.result, self._calls.get(fact.result.call)
        if result.call in self._open:
            self._open.discard(result.call)
            if not self._open:
                self.places.append(fact.seq)
        if result.name == "todo" and not result.error:
            self._planned(result.content)
        elif result.name == "terminal" and call:
            self._ran(call, ok=not result.error and fact.outcome == "ok")
        if result.error and result.name != "terminal":
            self.lines.append(Line(fact.seq, result.name, _short(f"failed: {result.content}"), result.taint))
        for one in values(result.content, wanted=self._wanted()):
            kept = Kept(text=one.text, number=self._replies, seq=fact.seq, source=result.name, taint=result.taint)
            self._values.append(_Value(kept, one.key, one.weight, stems(one.text)))

    def _compacted(self, fact: Compacted) -> None:
        if fact.summary:
            self.summary, self.summed = fact.summary, fact.seq
        count = len(fact.messages)
        if count == len(self.places):
            return
        kept = sum(place >= fact.since for place in self.places) if fact.since else 0
        tail = self.places[len(self.places) - kept :] if kept else []
        self.places = [*[fact.seq] * (count - len(tail)), *tail][-count:]

    def _planned(self, content: str) -> None:
        try:
            self._plan = tuple(msgspec.json.decode(content, type=_Plan).todos)
        except msgspec.DecodeError:  # shortened, or of another version: the plan before it stands
            return

    def _ran(self, call: ToolCall, *, ok: bool) -> None:
        command = " ".join(str(object_of(call.arguments).get("command", "")).split())
        if not command:
            return
        words = [posixpath.basename(word) for word in command.split()[:2]]
        kind = " ".join(word for word in words if word.replace("-", "").replace(".", "").isalnum()) or command[:20]
        self._failed.pop(kind, None)
        self._worked.pop(kind, None) if ok else None
        (self._worked if ok else self._failed)[kind] = _short(command)

    def _wrote(self, call: ToolCall) -> None:
        fields = object_of(call.arguments)
        named = [str(fields[key]) for key in ("path", "file_path", "file") if fields.get(key)]
        patch = str(fields.get("patch", ""))
        named += [
            line.partition(": ")[2].strip() for line in patch.splitlines() if line.startswith("*** ") and ": " in line
        ]
        for path in named:
            self._files.pop(path, None)
            self._files[path] = None

    # ---- choosing ----------------------------------------------------------------------------------------------------

    def state(self, *, room: int, since: int = 0) -> TaskState:
        """Where the work stands, rendered in about `room` characters; what stands in facts from `since` on is in view anyhow."""
        words = max(200, room // 6)
        goal, latest = _shortened(self._first, words), _shortened(self._last, words)
        if latest and goal and latest.seq == goal.seq:
            latest = None
        said = self._ranked(since)
        binding, told = [one for one in said if one.weight >= BINDS], [one for one in said if one.weight < BINDS]
        open_first = sorted(self._plan, key=lambda step: step.status in ("completed", "cancelled"))
        picked = _Picked(room - sum(len(one.text) + 30 for one in (goal, latest) if one))
        picked.wants("binding", [one.kept for one in binding], _size)
        picked.wants("plan", open_first, lambda step: len(step.content) + 8)
        picked.wants("values", [one for one in self._valued(since) if not scan(one.text)] if room else [], _size)
        picked.wants("files", [*reversed(self._files)][:FILES], len)
        picked.wants("worked", [*reversed(self._worked.values())][:COMMANDS], len)
        picked.wants("failed", [*reversed(self._failed.values())][:TROUBLES], len)
        picked.wants("said", [one.kept for one in told], _size)
        found = picked.fill()
        chosen = {step.id for step in found["plan"]}
        return TaskState(
            goal=goal,
            latest=latest,
            binding=_in_order(found["binding"]),
            said=_in_order(found["said"]),
            plan=tuple(step for step in self._plan if step.id in chosen),
            files=tuple(reversed(found["files"])),
            worked=tuple(reversed(found["worked"])),
            failed=tuple(reversed(found["failed"])),
            values=_in_order(found["values"]),
            left_out=picked.left_out,
        )

    def _ranked(self, since: int) -> list[_Sentence]:
        """The person's sentences that are out of view, the weightiest first; of two that are alike the newer one."""
        often = Counter(one.form for one in self._sentences)
        newest = {one.kept.text: one for one in self._sentences if not since or one.kept.seq < since}
        common = Counter(stem for one in newest.values() for stem in one.stems)
        asked = stems(self._last.text) if self._last else frozenset[str]()

        def worth(one: _Sentence) -> float:
            near = sum(math.log2(1 + len(newest) / common[stem]) / 8 for stem in one.stems & asked)
            return one.weight + min(near, 2.0) - min(OFTEN, math.log2(max(1, often[one.form] - 1)))

        weights = [one._replace(weight=worth(one)) for one in newest.values()]
        return sorted(weights, key=lambda one: (-one.weight, -one.kept.seq))

    def _valued(self, since: int) -> list[Kept]:
        """The values that are out of view, those first that are likeliest wanted."""
        there = [one for one in self._values if not since or one.kept.seq < since]
        distinct = {(one.key, one.kept.text): one for one in there}
        often = Counter(one.key for one in distinct.values())
        common = Counter(stem for one in distinct.values() for stem in one.stems)
        wanted = self._wanted()
        total = len(distinct) or 1

        def worth(one: _Value) -> tuple[float, int]:
            near = sum(math.log2(1 + total / common[stem]) / 4 for stem in one.stems & wanted)
            return one.weight - min(OFTEN, math.log2(often[one.key]) / 2) + min(near, OFTEN), one.kept.seq

        return [one.kept for one in sorted(distinct.values(), key=worth, reverse=True)]

    def _wanted(self) -> frozenset[str]:
        """The words of what the person wants, and of the steps that are open."""
        texts = [one.kept.text for one in self._sentences if one.weight >= BINDS][-200:]
        texts += [kept.text for kept in (self._first, self._last) if kept]
        texts += [step.content for step in self._plan if step.status not in ("completed", "cancelled")]
        if texts != self._asked[0]:
            self._asked = (texts, stems(" ".join(texts)))
        return self._asked[1]


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    todos: list[Step]


class _Picked:
    """Shares a room out: first each takes its share, then what is left goes to the first that wants it."""

    def __init__(self, room: int) -> None:
        self.left_out = 0
        self._room = max(0, room)
        self._wants: dict[str, tuple[Sequence[Any], Callable[[Any], int]]] = {}

    def wants(self, name: str, items: Sequence[Any], size: Callable[[Any], int]) -> None:
        """Name what wants room, the best items first."""
        self._wants[name] = (items, size)

    def fill(self) -> dict[str, list[Any]]:
        """The items that have room, the best first."""
        found: dict[str, list[Any]] = {name: [] for name in self._wants}
        left = self._room
        for last in (False, True):
            for name, (items, size) in self._wants.items():
                share = left if last else min(left, int(self._room * SHARES[name]))
                for item in items[len(found[name]) :]:
                    if (need := size(item) + 3) > share:
                        break
                    share, left = share - need, left - need
                    found[name].append(item)
        self.left_out = sum(len(items) - len(found[name]) for name, (items, _) in self._wants.items())
        return found


def own_words(message: Message) -> str:
    """What a person wrote, without what the runtime put behind it."""
    texts = (part.text for part in message.parts if isinstance(part, Text) and part.taint not in UNTRUSTED)
    return "\n\n".join(text for text in texts if text and not text.startswith(ADDED))


def worst(taints: Iterable[Taint]) -> Taint:
    """The taint of a text that is made of several."""
    found = {*taints}
    for one in WORST:
        if one in found:
            return one
    return "none"


def rendered(state: TaskState, *, goal: bool = True, latest: bool = True) -> str:
    """The state as the model reads it, without the values that tools returned; `goal` and `latest` where they are not in view."""
    parts: list[str] = []
    if goal and state.goal:
        parts.append(f"Asked for first: {state.goal.text}")
    if latest and state.latest:
        parts.append(f"Asked for last (message {state.latest.number}): {state.latest.text}")
    parts += _listed("What the person laid down or decided, in their words:", map(_told, state.binding))
    parts += _listed("What the person also said:", map(_told, state.said))
    marks = {"completed": "x", "cancelled": "-", "in_progress": ">"}
    parts += _listed("Plan:", (f"[{marks.get(step.status, ' ')}] {step.content}" for step in state.plan))
    parts += _listed("Files written:", state.files)
    parts += _listed("Commands that worked:", state.worked)
    parts += _listed("Commands that failed last:", state.failed)
    if state.left_out:
        parts.append(f"({state.left_out} more such lines had no room here; the log has them.)")
    return "\n".join(parts)


def rendered_values(state: TaskState) -> str:
    """The values that tools returned, a line for each call; empty where there are none."""
    lines: dict[tuple[int, str], list[str]] = {}
    for one in state.values:
        lines.setdefault((one.number, one.source), []).append(" ".join(one.text.split()))
    return "\n".join(f"- step {number}, {source}: {'; '.join(texts)}" for (number, source), texts in lines.items())


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = [f"- {' '.join(line.split())}" for line in lines]  # a path or a step must not look like lines of its own
    if found:
        yield "\n".join((title, *found))


def _told(kept: Kept) -> str:
    return f"({kept.number}) {kept.text}"


def _size(kept: Kept) -> int:
    return len(kept.text) + (len(kept.source) + 12 if kept.source else 6)


def _in_order(kept: Iterable[Kept]) -> tuple[Kept, ...]:
    return tuple(sorted(kept, key=lambda one: one.seq))


def _shortened(kept: Kept | None, most: int) -> Kept | None:
    if kept is None or len(kept.text) <= most:
        return kept
    head, tail = most * 3 // 4, most // 4
    text = f"{kept.text[:head]} […{len(kept.text) - head - tail} characters left out…] {kept.text[-tail:]}"
    return msgspec.structs.replace(kept, text=text)


def _short(text: str) -> str:
    line = " ".join(text[: 4 * LINE].split())
    return line if len(line) <= LINE else f"{line[: LINE - 1]}…"


def _arguments(call: ToolCall) -> str:
    return ", ".join(str(value)[:60] for value in object_of(call.arguments).values() if isinstance(value, str | int))
