"""What the facts of one run say about how it went: who was asked, what it began with, what came from outside. Layer 2, pure.

A run that is made again needs no settings of today: all that its loop was given is read off its own facts.
"""

from collections.abc import Iterator, Sequence

from melete.agent.agent import RUNTIME, WRONG_FORM
from melete.agent.cachewatch import TOOLS_OFF
from melete.agent.loopwatch import is_warned
from melete.agent.results import NOT_BEGUN, UNKNOWN, fields_of
from melete.core.event import (
    Answered,
    Asked,
    CancelAsked,
    Compacted,
    Delegated,
    Fact,
    Framed,
    Learned,
    Notice,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Spent,
    Steered,
    Stop,
    Titled,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Message
from melete.core.transcript import ASIDE

MADE = frozenset({"crash", "reply", "stream"})
"""What the loop's own notices are about that follow from what it has read."""
GIVEN = frozenset({"cache", "window"})
"""Notices whose words depend on prices and windows of that day; the aside's is the third."""
INNER = (Reply, Retried, Steered, ToolStarted, ToolEnded, Compacted)
"""Facts that only a run makes, and only between its beginning and its end."""
NEVER = -1


class Recording:
    """The facts of one run in order, and what follows from them."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self.facts = tuple(facts)
        self.run = next((fact.run for fact in facts if fact.run), "")
        self.gap = next((at for at, fact in enumerate(facts) if fact.seq != facts[0].seq + at), len(facts))
        """The place of the first fact before which one is missing."""
        begun = next((at for at, fact in enumerate(facts) if isinstance(fact, RunStarted)), len(facts))
        started = facts[begun] if begun < len(facts) else None
        self.started = started if isinstance(started, RunStarted) else RunStarted()
        self.ended = next((fact for fact in reversed(facts) if isinstance(fact, RunEnded)), None)
        self.opening = tuple(self._opening(begun + 1))
        prompt = self._prompt(begun + 1 + len(self.opening))
        said = self.facts[prompt] if prompt != NEVER else None
        self.prompt: Message | None = said.message if isinstance(said, Said) else None
        self.guarded = any(isinstance(fact, ToolEnded) and is_warned(fact) for fact in facts)
        self.asked_by = dict(self._askers())
        """The call that each question stopped, by the question's id."""
        self.foreign = frozenset(self._foreign(begun, prompt))
        self.cancel_at = self._cancel_at()

    @property
    def whole(self) -> bool:
        """Whether the run has an end."""
        return self.ended is not None

    @property
    def cancelled(self) -> bool:
        """Whether a cancel that was asked for took effect, as far as is known."""
        return self.ended is None or self.ended.stop == Stop.CANCELLED

    @property
    def error(self) -> str:
        """What the run ended with, where it failed."""
        return (self.ended.error or "") if self.ended else ""

    def _opening(self, begin: int) -> Iterator[Framed | Notice]:
        """What was stored with the beginning: the frame, and remarks of whoever started the run."""
        for fact in self.facts[begin:]:
            if not isinstance(fact, Framed) and not (isinstance(fact, Notice) and not _is_loops(fact)):
                return
            yield fact

    def _prompt(self, begin: int) -> int:
        """The place of the prompt; a run may be without one."""
        for at, fact in enumerate(self.facts[begin:], begin):
            if isinstance(fact, Said) and not fact.inbox and fact.message.by != RUNTIME:
                return at
            if not (isinstance(fact, Notice) and fact.about == "crash"):
                break
        return NEVER

    def _askers(self) -> Iterator[tuple[str, str]]:
        """Who asked what; a question that names no call is of the one that was begun last and is at work."""
        at_work: dict[str, None] = {}
        calls = {call.id for fact in self.facts if isinstance(fact, Reply) for call in fact.message.calls}
        for fact in self.facts:
            match fact:
                case ToolStarted():
                    at_work[fact.call.id] = None
                case ToolEnded():
                    at_work.pop(fact.result.call, None)
                case Asked():
                    named = fact.question.call
                    known = named in calls or named in at_work
                    if known or at_work:
                        yield fact.question.id, named if known else list(at_work)[-1]
                case _:
                    pass

    def _foreign(self, begun: int, prompt: int) -> Iterator[int]:
        """The places of facts that the loop does not make: work beside the run, children, what tools note."""
        given = range(begun + 1, begun + 1 + len(self.opening))
        strange = {fact.question.id for fact in self.facts if isinstance(fact, Asked)} - self.asked_by.keys()
        others = {fact.run for fact in self.facts if isinstance(fact, RunStarted)}
        for at, fact in enumerate(self.facts):
            match fact:
                case Delegated() | Learned():
                    yield at
                case Asked() if fact.question.id not in self.asked_by:
                    yield at
                case Answered() if fact.question in strange:
                    yield at
                case _ if fact.run != self.run and (fact.run in others or not isinstance(fact, INNER)):
                    yield at
                case Spent() if fact.role != "main":
                    yield at
                case Titled() if prompt == NEVER or at != prompt + 1:
                    yield at
                case Framed() | Notice() if at not in given and not _is_loops(fact):
                    yield at
                case Said() if at != prompt and not fact.inbox and not _is_loops_word(fact):
                    yield at
                case _:
                    pass

    def _cancel_at(self) -> int:
        """The place before which a cancel came that left no fact of its own, such as Ctrl-C; NEVER without one."""
        at = end = self.facts.index(self.ended) if self.ended else len(self.facts)
        while at and _is_closing(self.facts[at - 1]):
            at -= 1
        step = max((place for place, fact in enumerate(self.facts) if isinstance(fact, Reply)), default=0)
        at = min([at, *(place for place in range(step, end) if _is_stopped(self.facts[place]))])
        asked = (isinstance(fact, CancelAsked) and fact.status == "accepted" for fact in self.facts[:at])
        if not self.cancelled or any(asked) or (self.ended is None and not self._was_stopped(at, end)):
            return NEVER
        return at

    def _was_stopped(self, at: int, end: int) -> bool:
        """Whether a run without an end was cancelled before this place: a call that was at work would be told so."""
        closing = [fact for fact in self.facts[at:end] if isinstance(fact, ToolEnded)]
        return bool(closing) and all(fact.outcome != "unknown" for fact in closing)


def comes_by_mail(fact: Fact) -> bool:
    """Whether somebody's answer or cancel made the fact: they act at once, whatever the loop is doing."""
    return isinstance(fact, Answered | CancelAsked) and bool(fact.inbox)


def is_delivered(fact: Fact) -> bool:
    """Whether a message of the inbox made the fact that enters at a boundary between steps."""
    return isinstance(fact, Steered | Said) and bool(fact.inbox)


def is_closed(fact: ToolEnded) -> bool:
    """Whether the outcome is none of the call's own, but was given to it when the run stopped."""
    words = {"unknown": UNKNOWN, "not_run": NOT_BEGUN}.get(fact.outcome)
    return words is not None and fields_of(fact).get("error") == words


def _is_stopped(fact: Fact) -> bool:
    return isinstance(fact, ToolEnded) and fact.outcome == "cancelled"


def _is_closing(fact: Fact) -> bool:
    return isinstance(fact, ToolEnded) and (fact.outcome == "cancelled" or is_closed(fact))


def _is_loops(fact: Fact) -> bool:
    """Whether a notice is one of the loop's."""
    return isinstance(fact, Notice) and (fact.about in MADE | GIVEN or fact.about.startswith(ASIDE))


def _is_loops_word(fact: Said) -> bool:
    return fact.message.by == RUNTIME and (TOOLS_OFF in fact.message.text or fact.message.text.startswith(WRONG_FORM))
