"""What in a session may be worth learning from: signals with a weight, found in its facts without a model. Pure.

A fold over facts in their order that can stop and go on: what it has to know is a small value, kept beside the log, so that a long
session is never read again. Kinds and weights are those of docs/concepts/learning.md.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct, structs

from melete.core.event import Fact, Notice, Reply, RunEnded, RunStarted, Said, Steered, Stop, ToolEnded, ToolStarted
from melete.core.message import Message, Text
from melete.core.skill import CALLED, SUGGESTED
from melete.learn.corrections import Correction, correction
from melete.learn.results import Cause, Result, fields_of, result_of
from melete.learn.verbs import taught, tokens, verbs
from melete.security.redact import without_shapes
from melete.security.words import names

T = TypeVar("T")
Kind = Literal["fixed", "corrected", "failed_skill", "remember", "retries", "sequence", "failed", "positive"]
WEIGHTS: Final[Mapping[Kind, int]] = {
    "fixed": 3,
    "corrected": 5,
    "failed_skill": 5,
    "remember": 8,
    "retries": 2,
    "sequence": 2,
    "failed": 2,
    "positive": 0,
}
"""What each kind adds to the debt. What only the surroundings caused adds nothing."""
SHELL: Final = "terminal"
VIEW: Final = "skill_view"
EXPLAINED: Final = names(
    "read_file write_file patch search_files todo clarify memory session_search skills_list skill_search skill_view skill_manage"
    " process tool_search web_search web_extract"
)
"""Our own tools whose errors say what to do instead: mending such a call teaches nothing."""
RETRIES: Final = 3
LONG: Final = 6
"""Calls of a sequence that is worth keeping."""
FOLLOWED: Final = 0.3
"""The share of a skill's commands and options that was used, from which it gets credit and blame."""
FEEDBACK: Final = "feedback:"
"""How the `about` of a notice begins that holds a person's verdict: `feedback:good`, `feedback:bad`, `feedback:undone`."""
MOST: Final = 40
"""Failures and skills that are remembered at once, and facts of one of them."""
MOST_CALLS: Final = 200
BEFORE: Final = 2_000
WORDS: Final = 100
UNLEARNABLE: Final = names(
    "RateLimitError QuotaError AuthError UnknownModelError OverloadedError UnavailableError TooLargeError MalformedReplyError"
    " ConnectionFailedError StalledError EmptyReplyError StorageError EnvironmentFailure ContentFilterError"
)
"""Errors that ended a run for which nothing that it did was to blame."""


class Signal(Struct, frozen=True, kw_only=True):
    """Something that may be worth a review.

    `turn` is the fact with which its turn began, `facts` the ones that show it, `what` one line for a person. `verb` is what
    was done (of a `sequence` its fingerprint), `skill` the skill that it is about. `cause` says that the surroundings were to
    blame; such a signal weighs nothing and no lesson may be made of it. `sure` is the score of a correction.
    """

    kind: Kind
    weight: int
    turn: int
    facts: tuple[int, ...]
    what: str
    verb: str = ""
    skill: str = ""
    cause: Cause = ""
    sure: float = 1.0


class Failure(Struct, frozen=True, kw_only=True):
    """A verb that failed and has not worked since: where, how often it was tried again in its turn, and why."""

    facts: tuple[int, ...]
    turn: int
    retries: int = 0
    cause: Cause = ""


class Loaded(Struct, frozen=True, kw_only=True):
    """A skill that the model has before it: what it teaches, what of that was used since and in which turn last.

    `suspect` are verbs that failed just as it says to use them; `blamed` is the last turn for which it was told of.
    """

    version: str
    taught: tuple[str, ...]
    used: tuple[str, ...] = ()
    facts: tuple[int, ...] = ()
    turn: int = 0
    suspect: tuple[str, ...] = ()
    blamed: int = 0

    @property
    def followed(self) -> float | None:
        """The share of its commands and options that was used; None for a skill that teaches none."""
        return len(self.used) / len(self.taught) if self.taught else None


class Call(Struct, frozen=True, kw_only=True):
    """A call that is at work, or that ended: its fact, its tool, its verbs and, while a shell is at work, its text."""

    seq: int
    tool: str
    verbs: tuple[str, ...]
    command: str = ""
    writes: bool = False


class State(Struct, frozen=True, kw_only=True):
    """What the fold has to know to go on behind the fact `seq`; `before` is what the agent said and did last.

    It holds words of the log as they were said: it belongs beside the log, under the same rights.
    """

    seq: int = 0
    turn: int = 0
    run: str = ""
    before: str = ""
    open: dict[str, Call] = {}
    calls: tuple[Call, ...] = ()
    worked: bool = True
    failing: dict[str, Failure] = {}
    skills: dict[str, Loaded] = {}
    known: tuple[str, ...] = ()


def signals(facts: Iterable[Fact]) -> Sequence[Signal]:
    """All signals of a session's facts."""
    fold = Signals()
    return [signal for fact in facts for signal in fold.feed(fact)]


class Signals:
    """Takes in facts one by one and tells what each brought; `state` is where it stands.

    `known` are fingerprints of sequences that other sessions have brought already.
    """

    def __init__(self, state: State | None = None, *, known: Collection[str] = ()) -> None:
        self.state = state or State()
        self._known = known

    def feed(self, fact: Fact) -> Sequence[Signal]:
        """The signals that this fact brings; none for one that was taken in before."""
        if fact.seq <= self.state.seq:
            return ()
        self._set(seq=fact.seq)
        found: Sequence[Signal] = ()
        match fact:
            case Said() | Steered():
                found = self._said(fact)
            case RunStarted():
                found = self._begun(fact)
            case Reply():
                self._replied(fact)
            case ToolStarted():
                self._called(fact)
            case ToolEnded():
                found = self._returned(fact)
            case RunEnded():
                found = self._over(fact)
            case Notice() if fact.about.startswith(FEEDBACK):
                found = self._judged(fact)
            case _:
                pass
        return found

    def _set(self, **changes: object) -> None:
        self.state = structs.replace(self.state, **changes)

    def _signal(self, kind: Kind, facts: tuple[int, ...], what: str, **more: Any) -> Signal:
        weight = 0 if more.get("cause") else WEIGHTS[kind]
        return Signal(kind=kind, weight=weight, turn=self.state.turn, facts=facts, what=what, **more)

    # what a person says

    def _said(self, fact: Said | Steered) -> Sequence[Signal]:
        text = spoken(fact.message)
        if text is None:
            return ()
        judged = correction(text, self.state.before)
        found = self._verdict(fact.seq, judged, _line(text))
        if isinstance(fact, Said):
            self._set(turn=fact.seq, calls=(), worked=True, before="")
            for part in fact.message.parts:
                if isinstance(part, Text) and part.text.startswith(CALLED):
                    name = part.text[len(CALLED) :].partition(".]")[0].strip()
                    self._load(name, "", part.text)
        if judged.remember:
            found.append(self._signal("remember", (fact.seq,), f"to remember: {_line(text)}"))
        return found

    def _verdict(self, seq: int, judged: Correction, line: str) -> list[Signal]:
        """What a person's words say of what was done before them."""
        facts = (*(call.seq for call in self.state.calls[-RETRIES:]), seq)
        if judged.is_correction:
            told = self._signal("corrected", facts, f"corrected: {line}", verb=self._verb(), sure=judged.score)
            return [told, *self._blame(seq, self._in_use())]
        if judged.positive and self.state.before:
            return [self._signal("positive", facts, f"content: {line}", verb=self._verb(), sure=1 - judged.score)]
        return []

    def _judged(self, fact: Notice) -> Sequence[Signal]:
        """What a person said of the answer with a command made for it."""
        facts = (*(call.seq for call in self.state.calls[-RETRIES:]), fact.seq)
        if fact.about == f"{FEEDBACK}good":
            return (self._signal("positive", facts, "the person called it good", verb=self._verb()),)
        what = "the person took it back" if fact.about == f"{FEEDBACK}undone" else "the person called it bad"
        why = f": {_line(fact.text)}" if fact.about == f"{FEEDBACK}bad" and fact.text not in ("", "bad") else ""
        told = self._signal("corrected", facts, what + why, verb=self._verb())
        return (told, *self._blame(fact.seq, self._in_use()))

    def _verb(self) -> str:
        """What was done last that changes something, or at all."""
        calls = self.state.calls
        last = next((call for call in reversed(calls) if call.writes), calls[-1] if calls else None)
        return last.verbs[-1] if last and last.verbs else ""

    # skills

    def _load(self, name: str, version: str, text: str) -> None:
        one = Loaded(version=version, taught=tuple(sorted(taught(text))), facts=(self.state.seq,))
        self._set(skills=_latest({**self.state.skills, name: one}))

    def _follow(self, call: Call) -> None:
        """Note what of the skills a call used."""
        used = tokens(call.command) if call.command else frozenset(call.verbs)
        skills = dict(self.state.skills)
        for name, one in skills.items():
            if known := used.intersection(one.taught):
                more = tuple(sorted(known.difference(one.used)))
                facts = (*one.facts, call.seq)[:MOST]
                skills[name] = structs.replace(one, used=one.used + more, facts=facts, turn=self.state.turn)
        self._set(skills=skills)

    def _in_use(self) -> list[str]:
        """The skills whose commands were used in this turn."""
        return [name for name, one in self.state.skills.items() if one.turn == self.state.turn]

    def _suspect(self, call: Call) -> None:
        """A call failed; a skill that says to do just this may be wrong, or what it is for is not done yet."""
        said, skills = tokens(call.command), dict(self.state.skills)
        for name, one in skills.items():
            if said <= set(one.taught):
                skills[name] = structs.replace(one, suspect=tuple(dict.fromkeys((*one.suspect, *call.verbs))))
        self._set(skills=skills)

    def _acquit(self, call: Call) -> list[Signal]:
        """It works now: just as a skill says, or in another way."""
        said, skills, wrong = tokens(call.command), dict(self.state.skills), list[str]()
        for name, one in skills.items():
            if not set(one.suspect).isdisjoint(call.verbs):
                left = tuple(verb for verb in one.suspect if verb not in call.verbs)
                skills[name] = structs.replace(one, suspect=left)
                wrong += () if said <= set(one.taught) else (name,)
        self._set(skills=skills)
        return self._blame(call.seq, wrong)

    def _blame(self, seq: int, suspects: Iterable[str]) -> list[Signal]:
        """A signal for each of these skills that was followed, once in a turn."""
        found: list[Signal] = []
        for name in suspects:
            one = self.state.skills[name]
            if one.blamed == self.state.turn or (one.followed or 0.0) < FOLLOWED:
                continue
            now = structs.replace(one, blamed=self.state.turn, suspect=())
            self._set(skills={**self.state.skills, name: now})
            what = f"skill {name} was followed and it failed"
            found.append(self._signal("failed_skill", (*one.facts, seq), what, verb=self._verb(), skill=name))
        return found

    # calls

    def _replied(self, fact: Reply) -> None:
        asked = " ".join(call.arguments for call in fact.message.calls)
        self._set(before=f"{self.state.before}\n{fact.message.text}\n{asked}".strip()[-BEFORE:])

    def _called(self, fact: ToolStarted) -> None:
        command = str(fields_of(fact.call.arguments).get("command", "")) if fact.call.name == SHELL else ""
        done = verbs(command) if command else (fact.call.name,)
        call = Call(seq=fact.seq, tool=fact.call.name, verbs=done, command=command, writes=fact.effect != "read")
        self._set(open={**self.state.open, fact.call.id: call})

    def _returned(self, fact: ToolEnded) -> Sequence[Signal]:
        waiting = dict(self.state.open)
        call = waiting.pop(fact.result.call, None)
        self._set(open=waiting)
        result = result_of(fact, call.command if call else "")
        if call is None or result.status == "none":  # it never began, or nobody knows
            return ()
        call = structs.replace(call, seq=fact.seq)
        kept = structs.replace(call, command="")
        self._set(calls=(*self.state.calls, kept)[-MOST_CALLS:], worked=result.status != "failed")
        self._follow(call)
        if call.tool == VIEW and result.status == "ok":
            shown = fields_of(fact.result.content)
            self._load(str(shown.get("name", "")), str(shown.get("version", "")), str(shown.get("content", "")))
        if call.tool in EXPLAINED or result.status == "answer":
            return ()
        return self._failed(call, result) if result.status == "failed" else self._mended(call)

    def _failed(self, call: Call, result: Result) -> Sequence[Signal]:
        """Remember the failure; tell of the third try again in a turn."""
        failing, found = dict(self.state.failing), list[Signal]()
        for verb in call.verbs:
            known = failing.pop(verb, None)
            again = known.retries + 1 if known and known.turn == self.state.turn else 0
            seen = (*(known.facts if known else ()), call.seq)[-MOST:]
            cause = result.cause if not known or known.cause else ""
            failing[verb] = Failure(facts=seen, turn=self.state.turn, retries=again, cause=cause)
            if again == RETRIES:
                what = f"`{verb}` failed {again + 1} times in a row"
                found.append(self._signal("retries", seen, what, verb=verb, cause=cause))
        self._set(failing=_latest(failing))
        if call.command and not result.cause:
            self._suspect(call)
        return found

    def _mended(self, call: Call) -> Sequence[Signal]:
        """It works: if it did not before, that is what a lesson is made of."""
        failing = dict(self.state.failing)
        mended = [(verb, failing.pop(verb)) for verb in call.verbs if verb in failing]
        self._set(failing=failing)
        blamed = self._acquit(call) if call.command else []
        if not mended:
            return blamed
        verb, failure = mended[-1]
        times = len(failure.facts)
        what = f"`{verb}` failed {'once' if times == 1 else f'{times} times'}, then worked"
        return [self._signal("fixed", (*failure.facts, call.seq), what, verb=verb, cause=failure.cause), *blamed]

    # runs

    def _begun(self, fact: RunStarted) -> Sequence[Signal]:
        before = self.state.run
        self._set(run=fact.run, open={})
        if before in ("", fact.run):
            return ()
        return (self._signal("failed", (fact.seq,), "the run before was cut off", cause="environment"),)

    def _over(self, fact: RunEnded) -> Sequence[Signal]:
        self._set(run="")
        suspects = [name for name, one in self.state.skills.items() if one.suspect]
        if fact.stop == Stop.DONE:
            return [*self._sequence(fact), *self._blame(fact.seq, suspects)]
        cause: Cause = "environment" if fact.stop == Stop.OUT_OF_BUDGET or fact.cause in UNLEARNABLE else ""
        what = f"the run ended as {fact.stop.replace('_', ' ')}" + (f" ({fact.cause})" if fact.cause else "")
        told = self._signal("failed", (fact.seq,), what, verb=self._verb(), cause=cause)
        return [told, *self._blame(fact.seq, suspects if cause else self._in_use())]

    def _sequence(self, fact: RunEnded) -> Sequence[Signal]:
        """A way of six calls or more that led to its end for the first time."""
        calls = self.state.calls
        if len(calls) < LONG or not self.state.worked or not any(call.writes for call in calls):
            return ()
        way = [verb for call in calls for verb in call.verbs]
        steps = [verb for at, verb in enumerate(way) if not at or way[at - 1] != verb]
        mark = hashlib.sha256("\n".join(steps).encode()).hexdigest()[:16]
        if mark in self.state.known or mark in self._known:
            return ()
        self._set(known=(*self.state.known, mark)[-MOST_CALLS:])
        what = f"{len(calls)} calls led to the end: {', '.join(list(dict.fromkeys(steps))[:LONG])}"
        return (self._signal("sequence", (*(call.seq for call in calls), fact.seq), what, verb=mark),)


def spoken(message: Message) -> str | None:
    """A person's own words in a message; None where a person did not write it, or only passed it on."""
    if message.role != "user" or (message.by is not None and message.by.kind != "person"):
        return None
    texts = [part for part in message.parts if isinstance(part, Text) and part.text.strip()]
    own = [part.text for part in texts if not part.text.startswith((CALLED, SUGGESTED)) and part.taint == "none"]
    return "\n\n".join(own) if own else None


def _latest(rows: Mapping[str, T]) -> dict[str, T]:
    """The newest rows, as many as are remembered."""
    return dict(list(rows.items())[-MOST:])


def _line(text: str) -> str:
    """A person's words in one line, without what looks like a secret."""
    line = " ".join(without_shapes(text).split())
    return line if len(line) <= WORDS else f"{line[: WORDS - 1]}…"
