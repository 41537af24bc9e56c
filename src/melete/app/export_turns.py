"""A session as people read it: what was said, steps with their calls, and what happened beside them. Composition root, pure.

Both readable forms of an export, Markdown and HTML, are written from this.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct, structs

from melete.app.export_text import clean, one_line, tokens, when
from melete.app.figures import duration, money, plural
from melete.core.event import (
    EPOCH,
    Answered,
    Asked,
    CancelAsked,
    Compacted,
    Delegated,
    Fact,
    Framed,
    Learned,
    Notice,
    Opened,
    Question,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Spent,
    Steered,
    Stop,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Audio, File, Image, Thinking
from melete.core.transcript import Transcript

OPEN = "open"
"""The outcome of a call that has none yet."""
STOPS = {
    Stop.DONE: "Done",
    Stop.OUT_OF_STEPS: "Stopped: the limit of steps was reached",
    Stop.OUT_OF_BUDGET: "Stopped: the budget is used up",
    Stop.CONTEXT_FULL: "Stopped: the conversation no longer fits the model's window",
    Stop.LOOPING: "Stopped: it went round in circles",
    Stop.CANCELLED: "Cancelled",
    Stop.FAILED: "Failed",
}
Level = Literal["info", "warning", "error"]


class Words(Struct, frozen=True, kw_only=True):
    """What somebody said: a person, or with `aside` the runtime, an import or another session."""

    seq: int
    at: datetime
    who: str
    text: str
    images: tuple[Image, ...] = ()
    others: tuple[str, ...] = ()
    aside: bool = False


class Call(Struct, frozen=True, kw_only=True):
    """A call of a step with its outcome; `outcome` is `open` while there is none."""

    id: str
    name: str
    arguments: str
    outcome: str = OPEN
    content: str = ""
    seconds: float = 0.0
    spilled: str = ""
    images: tuple[Image, ...] = ()


class Turn(Struct, frozen=True, kw_only=True):
    """One step: the model's words and thoughts, and its calls."""

    number: int
    seq: int
    at: datetime
    model: str
    text: str
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    seconds: float = 0.0
    note: str = ""


class Mark(Struct, frozen=True, kw_only=True):
    """Something that happened beside the conversation, in one line."""

    seq: int
    at: datetime
    text: str
    level: Level = "info"


Entry = Words | Turn | Mark


class Page(Struct, frozen=True, kw_only=True):
    """A session from its head to its end; `about` are names and values, `line` the most important of them on one line."""

    id: str
    title: str
    at: datetime
    about: tuple[tuple[str, str], ...]
    line: tuple[str, ...]
    entries: tuple[Entry, ...]


def read(facts: Sequence[Fact], session: str) -> Page:
    """The page of a session."""
    reader = _Reader()
    for fact in facts:
        reader.take(fact)
    state = Transcript(facts)
    opened = state.opened or Opened()
    began = facts[0].at if facts else EPOCH
    ended = max((fact.at for fact in facts), default=EPOCH)
    calls = [call for entry in reader.entries if isinstance(entry, Turn) for call in entry.calls]
    failed = sum(call.outcome not in ("ok", OPEN) for call in calls)
    cost = _cost(facts)
    worked = sum(fact.seconds for fact in facts if isinstance(fact, RunEnded))
    steps = reader.steps
    shortened = sum(isinstance(fact, Compacted) for fact in facts)
    about = (
        ("Session", session),
        ("Began", when(began)),
        ("Last changed", when(ended)),
        ("Model", ", ".join(reader.models)),
        ("Folder", one_line(opened.cwd)),
        ("Source", one_line(opened.source)),
        ("Imported as", one_line(opened.about.get("imported", ""))),
        ("Forked from", f"{one_line(opened.forked_from)} at fact {opened.forked_at}" if opened.forked_from else ""),
        ("Child of", one_line(opened.parent)),
        ("Steps", f"{steps:,}" if steps else ""),
        ("Segments", f"{shortened + 1:,}" if shortened else ""),
        ("Tool calls", f"{len(calls):,}" + (f", {failed:,} failed" if failed else "") if calls else ""),
        ("Tokens", tokens(state.usage)),
        ("Cost", cost),
        ("Time at work", duration(worked) if worked else ""),
    )
    line = (reader.models[-1] if reader.models else "", when(began), _steps(steps) if steps else "", cost)
    return Page(
        id=session,
        title=one_line(state.title) or "Untitled session",
        at=began,
        about=tuple((name, value) for name, value in about if value),
        line=tuple(part for part in line if part),
        entries=tuple(reader.entries),
    )


def _cost(facts: Sequence[Fact]) -> str:
    spent = [fact.usd for fact in facts if isinstance(fact, Spent)]
    known = [usd for usd in spent if usd is not None]
    if not spent:
        return ""
    if not known:
        return "unknown"
    return money(sum(known)) + (" and some of unknown price" if len(known) < len(spent) else "")


def _steps(count: int) -> str:
    return f"{count:,} {plural(count, 'step')}"


class _Reader:
    """Takes facts in order; `entries` is what they add up to."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.models: list[str] = []
        self.steps = 0
        self._places: dict[str, int] = {}
        self._questions: dict[str, Question] = {}

    def take(self, fact: Fact) -> None:
        """The next fact."""
        match fact:
            case Said() | Steered():
                self.entries.append(_words(fact))
            case Reply():
                self._reply(fact)
            case ToolStarted():
                self._change(fact.call.id, arguments=fact.call.arguments)
            case ToolEnded():
                self._ended(fact)
            case RunStarted():
                self._model(fact)
            case Asked():
                self._questions[fact.question.id] = fact.question
                self._mark(fact, f"Asked: {fact.question.text}", level="warning")
            case Answered():
                self._answered(fact)
            case _:
                self._beside(fact)

    def _reply(self, fact: Reply) -> None:
        self.steps += 1
        calls = tuple(Call(id=call.id, name=call.name, arguments=call.arguments) for call in fact.message.calls)
        self._places |= {call.id: len(self.entries) for call in calls}
        thoughts = (part.text for part in fact.message.parts if isinstance(part, Thinking))
        self.entries.append(
            Turn(
                number=self.steps,
                seq=fact.seq,
                at=fact.at,
                model=one_line(fact.model) or "Assistant",
                text=clean(fact.message.text),
                thinking=clean("\n\n".join(text for text in thoughts if text)),
                calls=calls,
                seconds=fact.seconds,
                note={"length": "cut off at the limit of length", "content_filter": "cut off by a content filter"}.get(
                    fact.stop, ""
                ),
            )
        )

    def _ended(self, fact: ToolEnded) -> None:
        result = fact.result
        self._change(
            result.call,
            outcome=fact.outcome,
            content=result.content,
            seconds=fact.seconds,
            spilled=fact.spilled,
            images=result.images,
        )

    def _change(self, call: str, **values: object) -> None:
        place = self._places.get(call)
        turn = None if place is None else self.entries[place]
        if place is None or not isinstance(turn, Turn):
            return
        calls = tuple(structs.replace(one, **values) if one.id == call else one for one in turn.calls)
        self.entries[place] = structs.replace(turn, calls=calls)

    def _model(self, fact: RunStarted) -> None:
        name = one_line(f"{fact.provider}/{fact.model}" if fact.provider else fact.model)
        if self.models and name and self.models[-1] != name:
            self._mark(fact, f"The model is {name} from here on")
        if name and name not in self.models[-1:]:
            self.models = [*(one for one in self.models if one != name), name]

    def _answered(self, fact: Answered) -> None:
        if fact.status == "timeout":
            self._mark(fact, "Nobody answered in time", level="warning")
        elif fact.status == "accepted":
            self._mark(fact, f"Answered: {fact.value or '(nothing)'}")

    def _beside(self, fact: Fact) -> None:
        match fact:
            case Framed() if fact.why != "start":
                self._mark(fact, f"The tools or the system's words changed ({fact.why})")
            case Compacted():
                how = f" ({fact.how})" if fact.how else ""
                told = f"Shortened: {fact.tokens_before:,} → {fact.tokens_after:,} tokens{how}"
                self._mark(fact, f"{told}; segment {fact.segment} begins, the child of {fact.parent}")
                if fact.summary:
                    self.entries.append(
                        Words(seq=fact.seq, at=fact.at, who="Summary", text=clean(fact.summary), aside=True)
                    )
            case Retried():
                self._mark(fact, f"Asked again: {fact.reason}", level="warning")
            case CancelAsked():
                self._mark(fact, "Somebody asked to stop")
            case Delegated():
                self._mark(fact, f"Delegated to {fact.child}: {fact.status}. {fact.goal}")
            case Learned():
                self._mark(fact, f"Learned: {fact.what} ({fact.status}) {fact.about}")
            case Notice():
                self._mark(fact, fact.text, level=fact.level)
            case RunEnded():
                self._end(fact)
            case _:
                pass

    def _end(self, fact: RunEnded) -> None:
        parts = [STOPS.get(fact.stop, fact.stop), fact.error or "", _steps(fact.steps) if fact.steps else ""]
        parts += [tokens(fact.usage), "" if fact.cost_usd is None else money(fact.cost_usd)]
        parts += [duration(fact.seconds)] if fact.seconds else []
        self._mark(
            fact, " · ".join(part for part in parts if part), level="error" if fact.stop == Stop.FAILED else "info"
        )

    def _mark(self, fact: Fact, text: str, *, level: Level = "info") -> None:
        self.entries.append(Mark(seq=fact.seq, at=fact.at, text=one_line(text), level=level))


def _words(fact: Said | Steered) -> Words:
    by, message = fact.message.by, fact.message
    kind, who = (by.kind, one_line(by.who)) if by else ("person", "")
    text = clean(message.text)
    if kind == "import" and who:
        text = text.removeprefix(f"[{who}]\n")
    names = {"runtime": "Runtime", "child": "Another session", "schedule": "Schedule"}
    return Words(
        seq=fact.seq,
        at=fact.at,
        who=names.get(kind, "") or who or ("User" if isinstance(fact, Said) else "User, while it ran"),
        text=text,
        images=tuple(part for part in message.parts if isinstance(part, Image)),
        others=tuple(_named(part) for part in message.parts if isinstance(part, Audio | File)),
        aside=kind in names or (kind == "import" and bool(who)),
    )


def _named(part: Audio | File) -> str:
    return one_line(f"{part.name} ({part.media_type})" if isinstance(part, File) else f"sound ({part.media_type})")
