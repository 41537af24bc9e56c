"""Everything that the loop needs, in one object. Layer 2; made by the composition root for one session."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from melete.agent.budget import price
from melete.agent.cachewatch import TOOLS_OFF, CacheWatch, remark
from melete.agent.checksum import Checksum
from melete.agent.compact import Compactor
from melete.agent.dispatch import Door
from melete.agent.loopwatch import LoopWatch
from melete.core.claim import Checked
from melete.core.event import Notice, Reply, Retried, Spent, Stop
from melete.core.message import Message, Origin, Usage, user
from melete.core.model import MalformedReplyError, ModelClient, ModelRequest
from melete.core.policy import Limits, Step
from melete.core.session import Session
from melete.core.transcript import ASIDE

RUNTIME = Origin(kind="runtime")
TIME_IS_UP = "The time for this run is used up."
NOT_BORNE_OUT = "[Note from the runtime] The calls of this run do not bear out what you say"
MEND = "Do it now, or answer again and say only what is so."
WRONG_FORM = "[Note from the runtime] This answer does not have the form that was asked for"
SHOWN = 100
"""Characters of a claim in a remark."""
SLOW, ALL_OF_IT, LONG = 5.0, 0.98, 600
"""Seconds, share of the time before the first token, and characters: an answer beyond all three was held back on its way."""


@dataclass(kw_only=True)
class Agent:
    """A model, its tools and its limits for one session.

    `ephemeral` and `prefill` are added to each request and never stored; `effort`, `temperature`, `max_output` (tokens) and
    `answer_schema` (JSON Schema of the answer) go along with it.
    """

    model: ModelClient
    dispatch: Door
    compactor: Compactor
    limits: Limits
    watch: LoopWatch
    late: Callable[[], bool]
    """Whether the run's time is used up."""
    ephemeral: str = ""
    prefill: tuple[Message, ...] = ()
    effort: str = ""
    temperature: float | None = None
    max_output: int | None = None
    answer_schema: msgspec.Raw | None = None
    complaint: Callable[[str], str] | None = None
    """What is wrong with an answer that should be of a form, empty when nothing is."""
    corrections: int = 2
    """How often in this run an answer of the wrong form is still sent back."""
    redact: Callable[[str], str] = str
    """Takes known secrets out of what servers say of themselves."""
    base_url: str = ""
    """The address of the model, for display: without user, password and query."""
    role: str = "main"
    """What the requests are booked as."""
    cache_key: str = ""
    """The session whose requests these go on with, for the provider's cache; empty for the agent's own."""
    cache: CacheWatch = field(default_factory=CacheWatch)
    checksum: Checksum = field(default_factory=Checksum)
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """How seconds are waited for."""
    awaited: Callable[[], Sequence[str]] = tuple
    """What runs in the background and is still to be heard of by this run, in words."""
    verify: Callable[[str], Awaitable[Sequence[Checked]]] | None = None
    """What finds the claims of an answer and what the run's calls say of them; None where nobody wants to know."""
    doubts: int = 0
    """How often in this run an answer whose claims are not borne out is still sent back."""
    told_at_once: bool = False
    told_too_long: bool = False

    def request(self, session: Session, *, calls_off: bool = False) -> ModelRequest:
        """The next request: the session's stored frame, its messages, and nothing that was not there before."""
        frame = session.transcript.frame
        return ModelRequest(
            model=self.model.name,
            system=frame.system if frame else (),
            tools=frame.tools if frame else (),
            messages=tuple(session.messages),
            tool_choice="none" if calls_off else "auto",
            max_output=self.max_output,
            temperature=self.temperature,
            effort=self.effort,
            answer_schema=self.answer_schema,
            ephemeral=self.ephemeral,
            prefill=self.prefill,
            cache_key=self.cache_key or session.ref.id,
        )

    def sealed(self, reply: Reply, request: ModelRequest, session: Session) -> Reply:
        """The reply with the checksum of the request that it answers."""
        asked = self.checksum.of(request, segment=session.transcript.segment)
        return msgspec.structs.replace(reply, asked=asked)

    def spent(self, reply: Reply | Retried) -> Spent:
        """The bill of a reply, or of one that was thrown away before another try."""
        usd = price(self.model.can, reply.usage)
        return Spent(
            usage=reply.usage,
            role=self.role,
            model=reply.model or self.model.name,
            provider=reply.provider or self.model.provider,
            usd=usd,
            source=(self.model.can.source or "price list") if usd is not None else "unknown",
        )

    def thrown_away(self, retried: Retried) -> tuple[Spent, ...]:
        """The bill of what a failed try has used, where the provider counted it."""
        return (self.spent(retried),) if retried.usage != Usage() else ()

    def before_request(self, session: Session) -> Sequence[Notice]:
        """What is noted before a request: text that is added and not stored, and a window that is too small."""
        return (*self._aside(session), *self._too_long(session))

    def _too_long(self, session: Session) -> Sequence[Notice]:
        """A warning, once a run, of a first request that cannot fit; later ones are counted by the provider."""
        if self.told_too_long or session.transcript.last_usage.total:
            return ()
        taken, window = self.compactor.excess(self.request(session))
        if not taken:
            return ()
        self.told_too_long = True
        text = (
            f"the conversation takes about {taken:,} tokens and the window of {self.model.name} is {window:,}: the model may "
            "refuse it or read only a part; shorten it, or set model.context_length if the window is larger"
        )
        return (Notice(text=text, level="warning", about="window"),)

    def _aside(self, session: Session) -> Sequence[Notice]:
        """A note that text which is not stored is added to requests, where it is other text than before."""
        self.cache.read(session.transcript.trail)
        text = self.ephemeral + msgspec.json.encode(self.prefill).decode() if self.ephemeral or self.prefill else ""
        about = f"{ASIDE}{zlib.crc32(text.encode('utf-8', 'replace')):08x}" if text else ""
        known = session.transcript.aside
        if about == known or (not about and known == ASIDE):
            return ()
        if not about:
            return (Notice(text="nothing that is not stored is added to requests any more", about=ASIDE),)
        parts = [f"{len(self.ephemeral)} characters of text"] if self.ephemeral else []
        parts += [f"{len(self.prefill)} message{'' if len(self.prefill) == 1 else 's'}"] if self.prefill else []
        return (Notice(text=f"each request gets {' and '.join(parts)} that are not stored", about=about),)

    def after_reply(self, session: Session) -> Sequence[Notice]:
        """What a person should know of the prompt cache after a reply that is stored."""
        made = (remark(request, self.model.can) for request in self.cache.read(session.transcript.trail))
        return [notice for notice in made if notice is not None]

    def remarks(self, reply: Reply) -> tuple[Notice, ...]:
        """What a person should know about a reply that is not what it seems."""
        text = {
            "length": "the reply was cut off at the output limit",
            "content_filter": "the provider's content filter cut the reply off",
        }.get(reply.stop)
        if not text and not reply.message.calls and not reply.message.text.strip():
            text = "the model answered with neither text nor a call"
        found = (Notice(text=text, level="warning", about="reply"),) if text else ()
        return (*found, *self._at_once(reply))

    def _at_once(self, reply: Reply) -> tuple[Notice, ...]:
        """A remark, once a run, on a long answer of which nothing was seen before its end."""
        late = reply.seconds > SLOW and reply.first_token_seconds > reply.seconds * ALL_OF_IT
        if self.told_at_once or not late or len(reply.message.text) < LONG:
            return ()
        self.told_at_once = True
        text = (
            f"the answer came all at once after {reply.seconds:.0f} s: something between here and "
            f"{reply.provider or self.model.provider} holds streams back; nothing is lost, but nothing is seen before its end"
        )
        return (Notice(text=text, about="stream"),)

    def wrap_up(self, step: Step) -> str:
        """Why this step must be the last, as a value of `Stop`, or nothing."""
        if self.limits.loop_guard and self.watch.tripped:
            return Stop.LOOPING
        if step.grace:
            return Stop.OUT_OF_STEPS
        return Stop.OUT_OF_BUDGET if self.late() else ""

    def last_words(self, stop: str) -> Message:
        """The note that opens the grace call."""
        why = {
            Stop.LOOPING: f"This run is going round in circles: {self.watch.tripped}",
            Stop.OUT_OF_STEPS: f"All {self.limits.max_steps} steps of this run are used.",
            Stop.OUT_OF_BUDGET: TIME_IS_UP,
        }[stop]
        return user(
            f"[Note from the runtime] {why} {TOOLS_OFF} Answer with what is done, what you found, and what is left.",
            by=RUNTIME,
        )

    async def send_back(self, reply: Reply, session: Session) -> bool:
        """Ask again for an answer of the wrong form; False when it is of the right one. Raises MalformedReplyError at the third."""
        wrong = self.complaint(reply.message.text) if self.complaint else ""
        if not wrong:
            return False
        if not self.corrections:
            what = f"the answer of {self.model.name} does not have the form that was asked for: {wrong}"
            raise MalformedReplyError(
                what, next="ask for less, or choose another model", kept="the answer is in the session"
            )
        self.corrections -= 1
        text = f"{WRONG_FORM}: {wrong.rstrip('.')}. "
        await session.append(
            user(f"{text}Answer again: one JSON value of that form, and nothing round it.", by=RUNTIME)
        )
        return True

    async def doubt(self, reply: Reply, session: Session, *, last: bool = False) -> bool:
        """Remark on claims of an answer that the run's calls do not bear out, or send it back; False when it stands."""
        text = reply.message.text
        found = await self.verify(text) if self.verify and text.strip() else ()
        lines = [_doubted(one) for one in found if one.verdict != "verified"]
        if not lines:
            return False
        if self.doubts and not last:
            self.doubts -= 1
            told = "; ".join(lines)
            await session.append(user(f"{NOT_BORNE_OUT}: {self.redact(told)}. {MEND}", by=RUNTIME))
            return True
        await session.record(*(Notice(text=self.redact(line), level="warning", about="claims") for line in lines))
        return False

    def refusal(self, reply: Reply, *, calls_off: bool) -> str:
        """Why the calls of a reply must not run, or nothing."""
        if calls_off:
            return "Not run: tools are off in the last turn of a run."
        if reply.stop == "length":
            return "Not run: the reply was cut off at the output limit, so the call may be incomplete. Send it again, shorter."
        if reply.stop == "content_filter":
            return "Not run: the provider's content filter cut the reply off, so the call may be incomplete."
        return ""


def _doubted(one: Checked) -> str:
    """A claim that is not verified, and why."""
    state = "not true" if one.verdict == "false" else "not verified"
    words = one.claim if len(one.claim) <= SHOWN else f"{one.claim[: SHOWN - 1]}…"
    return f"{state}: “{words}”: {one.why}"
