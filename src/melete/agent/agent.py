"""Everything that the loop needs, in one object. Layer 2; made by the composition root for one session."""

from collections.abc import Callable
from dataclasses import dataclass

from melete.agent.budget import price
from melete.agent.compact import Compactor
from melete.agent.dispatch import Dispatch
from melete.agent.loopwatch import LoopWatch
from melete.core.event import Notice, Reply, Spent, Stop
from melete.core.message import Message, Origin, user
from melete.core.model import ModelClient, ModelRequest
from melete.core.policy import Limits, Step
from melete.core.session import Session

RUNTIME = Origin(kind="runtime")


@dataclass(kw_only=True)
class Agent:
    """A model, its tools and its limits for one session."""

    model: ModelClient
    dispatch: Dispatch
    compactor: Compactor
    limits: Limits
    watch: LoopWatch
    late: Callable[[], bool]
    """Whether the run's time is used up."""
    ephemeral: str = ""
    effort: str = ""

    def request(self, session: Session, *, calls_off: bool = False) -> ModelRequest:
        """The next request: the session's stored frame, its messages, and nothing that was not there before."""
        frame = session.transcript.frame
        return ModelRequest(
            model=self.model.name,
            system=frame.system if frame else (),
            tools=frame.tools if frame else (),
            messages=tuple(session.messages),
            tool_choice="none" if calls_off else "auto",
            ephemeral=self.ephemeral,
            effort=self.effort,
            cache_key=session.ref.id,
        )

    def spent(self, reply: Reply) -> Spent:
        """The bill of a reply."""
        usd = price(self.model.can, reply.usage)
        return Spent(
            usage=reply.usage,
            model=reply.model or self.model.name,
            provider=reply.provider or self.model.provider,
            usd=usd,
            source="price list" if usd is not None else "unknown",
        )

    def remarks(self, reply: Reply) -> tuple[Notice, ...]:
        """What a person should know about a reply that is not what it seems."""
        text = {
            "length": "the reply was cut off at the output limit",
            "content_filter": "the provider's content filter cut the reply off",
        }.get(reply.stop)
        if not text and not reply.message.calls and not reply.message.text.strip():
            text = "the model answered with neither text nor a call"
        return (Notice(text=text, level="warning", about="reply"),) if text else ()

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
            Stop.OUT_OF_BUDGET: "The time for this run is used up.",
        }[stop]
        return user(
            f"[Note from the runtime] {why} Tools are off now. Answer with what is done, what you found, and what is left.",
            by=RUNTIME,
        )

    def refusal(self, reply: Reply, *, calls_off: bool) -> str:
        """Why the calls of a reply must not run, or nothing."""
        if calls_off:
            return "Not run: tools are off in the last turn of a run."
        if reply.stop == "length":
            return "Not run: the reply was cut off at the output limit, so the call may be incomplete. Send it again, shorter."
        if reply.stop == "content_filter":
            return "Not run: the provider's content filter cut the reply off, so the call may be incomplete."
        return ""
