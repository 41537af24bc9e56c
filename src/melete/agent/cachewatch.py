"""What a provider's prompt cache did with each request, and which event broke it. Layer 2, pure.

A request's beginning is the request before, byte for byte, so a provider that caches prompts finds it again. Where it did not,
one of the facts in between says why; where none does, our side sent the same bytes and the provider let them go. The watch
reads facts one after the other: live from `Transcript.trail`, later from the whole log.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from melete.agent.budget import price
from melete.core.event import Compacted, Fact, Framed, Notice, Reply, Retried, RunStarted, Said
from melete.core.message import Usage
from melete.core.model import Capabilities
from melete.core.transcript import ASIDE

LEAST = 1_024
"""Tokens below which no provider caches a prompt."""
LIFE = 300.0
"""Seconds that a cached prompt lives unless it is used again."""
LIVES = {"5m": LIFE, "1h": 3_600.0}
"""The same by the name of the setting, where the wire lets us choose."""
KEPT = 0.5
"""Share of the request before that must come from the cache; providers cache in blocks, so it is never all."""
TOOLS_OFF = "Tools are off now."
"""What the note that opens a run's last words says; some providers take another choice of tools for another prompt."""
KEY_FAULTS = frozenset({"AuthError", "RateLimitError", "QuotaError"})

Kind = Literal["compaction", "tools", "system", "model", "key", "aside", "pause", "last_turn", "provider"]


class Break(Struct, frozen=True, kw_only=True):
    """Why a request was read anew: `why` in words, `seq` of the fact that did it (0 for none), `tokens` that were read anew.

    `again` is True where the same kind of cause was found in this run before.
    """

    kind: Kind
    why: str
    seq: int = 0
    tokens: int = 0
    again: bool = False


class Request(Struct, frozen=True, kw_only=True):
    """One request of the conversation as its provider counted it; `seq` is its reply's."""

    number: int
    seq: int
    at: datetime
    model: str
    provider: str
    usage: Usage
    broken: Break | None = None

    @property
    def prompt(self) -> int:
        """All tokens that the request held."""
        return prompt_of(self.usage)

    @property
    def share(self) -> float:
        """The part of the prompt that came from the cache, from 0 to 1."""
        return self.usage.cache_read / self.prompt if self.prompt else 0.0


class Cause(NamedTuple):
    """Something that changes what a request begins with."""

    kind: Kind
    seq: int
    text: str


class Speaker(NamedTuple):
    """Who answers: the names that a reply carries."""

    provider: str
    model: str
    wire: str = ""

    @property
    def title(self) -> str:
        """As people write it."""
        return f"{self.provider}/{self.model}" if self.provider and self.model else self.model or self.provider

    def same(self, other: "Speaker") -> bool:
        """Whether both are one, as far as both are named."""
        return all(not a or not b or a == b for a, b in zip(self, other, strict=True))


class CacheWatch:
    """Reads a session's facts in order and says of each reply what its cache did; `life` in seconds."""

    def __init__(self, *, life: float = LIFE) -> None:
        self._life = life
        self._seen = 0
        self._number = 0
        self._frame: Framed | None = None
        self._chosen: RunStarted | None = None
        self._last: tuple[Request, Speaker] | None = None
        self._wanted: Speaker | None = None  # while another stands in for it
        self._causes: list[Cause] = []
        self._retried: list[Retried] = []
        self._reporting: set[str] = set()
        self._told: set[Kind] = set()

    def read(self, trail: Sequence[Fact]) -> list[Request]:
        """Take in what is new in a trail and return the requests in it, the oldest first."""
        new = list(takewhile(lambda fact: fact.seq > self._seen, reversed(trail)))
        return [request for fact in reversed(new) if (request := self.apply(fact)) is not None]

    def apply(self, fact: Fact) -> Request | None:
        """Take in the next fact; a reply gives the request that it answers."""
        self._seen = max(self._seen, fact.seq)
        match fact:
            case Reply():
                return self._reply(fact)
            case RunStarted():
                self._begun(fact)
            case Framed():
                self._causes += _framed(self._frame, fact, begun=self._number > 0)
                self._frame = fact
            case Compacted():
                self._causes.append(Cause("compaction", fact.seq, f"the conversation was shortened ({fact.how})"))
            case Retried():
                self._retried.append(fact)
            case Notice() if fact.about.startswith(ASIDE):
                self._causes.append(Cause("aside", fact.seq, "the text that is added unseen to each request changed"))
            case Said() if fact.message.by and fact.message.by.kind == "runtime" and TOOLS_OFF in fact.message.text:
                self._causes.append(Cause("last_turn", fact.seq, "tools were switched off for the run's last words"))
            case _:
                pass
        return None

    def _begun(self, fact: RunStarted) -> None:
        """A run began: with another model, where somebody chose one."""
        self._told.clear()
        before, self._chosen = self._chosen, fact
        if before and (before.provider, before.model) != (fact.provider, fact.model):
            now = Speaker(fact.provider, fact.model)
            if self._wanted and (self._wanted.same(now) or (self._last and self._last[1].same(now))):
                return  # the wanted model is back, or another still stands in for it: nobody chose
            text = f"{now.title} was chosen in place of {Speaker(before.provider, before.model).title}"
            self._causes.append(Cause("model", fact.seq, text))
            self._wanted = None

    def _reply(self, reply: Reply) -> Request:
        self._number += 1
        request = Request(
            number=self._number,
            seq=reply.seq,
            at=reply.at,
            model=reply.model,
            provider=reply.provider,
            usage=reply.usage,
        )
        if not request.prompt:  # a server that counts nothing: there is nothing to judge
            return request
        wire = reply.message.wire
        speaker = Speaker(reply.provider, reply.model, wire.name if wire else "")
        if reply.usage.cache_read or reply.usage.cache_write:
            self._reporting.add(reply.provider)
        if self._last:
            before, spoke = self._last
            broken = self._broken(request, reply, before=before, speakers=(spoke, speaker))
            request = msgspec.structs.replace(request, broken=broken)
        self._last = (request, speaker)
        self._causes.clear()
        self._retried.clear()
        return request

    def _broken(
        self, request: Request, reply: Reply, *, before: Request, speakers: tuple[Speaker, Speaker]
    ) -> Break | None:
        """Why the request before was not found in the cache; None where it was, or where nobody would know."""
        causes = list(self._decisive(request, reply, before=before, speakers=speakers))
        lost = before.prompt >= LEAST and request.usage.cache_read < KEPT * before.prompt
        if not lost or not self._reporting & {before.provider, request.provider}:
            return None
        if not causes:
            causes = [Cause("provider", 0, "nothing that is sent changed: the provider let it go")]
        first = next((cause for cause in causes if cause.kind != "compaction"), causes[0])
        again = first.kind in self._told
        self._told.add(first.kind)
        return Break(
            kind=first.kind,
            why="; ".join(_told(cause) for cause in causes),
            seq=first.seq,
            tokens=min(before.prompt, request.prompt) - request.usage.cache_read,
            again=again,
        )

    def _decisive(
        self, request: Request, reply: Reply, *, before: Request, speakers: tuple[Speaker, Speaker]
    ) -> Iterator[Cause]:
        """What made the request begin otherwise than the one before, the weightiest first."""
        other = self._other_speaker(*speakers)
        if other:
            yield other
        yield from (cause for cause in self._causes if cause.kind not in ("model", "last_turn"))
        if not other:
            yield from self._other_key()
        away = (request.at - before.at).total_seconds() - reply.seconds
        if away > self._life:
            text = f"{away / 60:.0f} min passed, and a cached prompt lives {self._life / 60:.0f}"
            yield Cause("pause", 0, text)
        yield from (cause for cause in self._causes if cause.kind == "last_turn")

    def _other_speaker(self, before: Speaker, now: Speaker) -> Cause | None:
        """Another model, provider or wire than before, and how it came to answer."""
        if before.same(now):
            return None
        chosen = next((cause for cause in self._causes if cause.kind == "model"), None)
        if chosen:
            return chosen
        if self._wanted and self._wanted.same(now):
            self._wanted = None
            return Cause("model", 0, f"{now.title} answers again; {before.title} had stood in for it")
        fell = next((r for r in reversed(self._retried) if r.provider and r.provider != before.provider), None)
        fell = fell or next((r for r in reversed(self._retried) if r.model and r.model != before.model), None)
        if fell:
            self._wanted = self._wanted or before
            return Cause("model", fell.seq, f"{now.title} stood in for {before.title} after {fell.cause}")
        if (before.provider, before.model) == (now.provider, now.model):
            return Cause("model", 0, f"{now.title} was asked over the wire {now.wire} in place of {before.wire}")
        return Cause("model", 0, f"{now.title} answered in place of {before.title}")

    def _other_key(self) -> Iterator[Cause]:
        """A key that was swapped: caches belong to an account."""
        for fact in self._retried:
            if fact.cause in KEY_FAULTS and not fact.delay:
                yield Cause("key", fact.seq, f"another key is used ({fact.reason})")
                return


def requests(facts: Iterable[Fact], *, life: float = LIFE) -> list[Request]:
    """The requests of a session, the oldest first."""
    watch = CacheWatch(life=life)
    return [request for fact in facts if (request := watch.apply(fact)) is not None]


def prompt_of(usage: Usage) -> int:
    """All tokens that were read, wherever they came from."""
    return usage.input + usage.cache_read + usage.cache_write


def saved(can: Capabilities, usage: Usage) -> float | None:
    """USD that caching saved, below zero where it cost more than it gave; None where prices are not known."""
    if can.usd_cache_read is None and can.usd_cache_write is None:
        return None
    plain = msgspec.structs.replace(usage, input=prompt_of(usage), cache_read=0, cache_write=0)
    return _difference(can, plain, usage)


def dearer(can: Capabilities, usage: Usage, tokens: int) -> float | None:
    """USD that a request cost more because `tokens` of it did not come from the cache; None where prices are not known."""
    if can.usd_cache_read is None:
        return None
    written = min(tokens, usage.cache_write)
    warm = msgspec.structs.replace(
        usage,
        cache_write=usage.cache_write - written,
        input=max(0, usage.input - (tokens - written)),
        cache_read=usage.cache_read + tokens,
    )
    return _difference(can, usage, warm)


def remark(request: Request, can: Capabilities) -> Notice | None:
    """What a person should know at once: a break that nobody wanted, the first of its kind in a run."""
    broken = request.broken
    if broken is None or broken.again or broken.kind == "compaction":
        return None
    usd = dearer(can, request.usage, broken.tokens)
    cost = f", about ${usd:.4f} more than from the cache" if usd else ""
    text = f"the prompt cache was lost: {broken.why}; {broken.tokens:,} tokens were read anew{cost}"
    return Notice(text=text, level="warning", about="cache")


def _difference(can: Capabilities, one: Usage, other: Usage) -> float | None:
    more, less = price(can, one), price(can, other)
    return None if more is None or less is None else more - less


def _told(cause: Cause) -> str:
    return f"{cause.text} (fact {cause.seq})" if cause.seq else cause.text


def _framed(before: Framed | None, now: Framed, *, begun: bool) -> Iterator[Cause]:
    """What another frame changed; one that is too far back to be seen was another one."""
    if before is None:
        if begun:
            yield Cause("tools", now.seq, "the tools or the system text changed")
        return
    old, new = ({tool.name: tool for tool in frame.tools} for frame in (before, now))
    came = [f"+{name}" for name in new if name not in old]
    went = [f"-{name}" for name in old if name not in new]
    others = [f"other schema of {name}" for name in new if name in old and new[name] != old[name]]
    if changed := [*came, *went, *others]:
        yield Cause("tools", now.seq, f"the tools changed: {', '.join(changed)}")
    elif list(old) != list(new):
        yield Cause("tools", now.seq, "the tools came in another order")
    if before.system != now.system:
        yield Cause("system", now.seq, "the system text changed")
