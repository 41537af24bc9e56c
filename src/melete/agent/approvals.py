"""Questions to a person: one state machine for every surface, and the guard that asks before a risky call. Layer 2.

A question is a fact with an id. Whoever answers first decides; later answers are recorded as lost, answers to questions that
are no longer open as expired, and silence is a refusal that says so.
"""

import asyncio
from collections.abc import Callable
from uuid import uuid4

from melete.core.event import Answered, Asked, Question
from melete.core.message import Origin, ToolCall, ToolResult
from melete.core.session import InboxMessage, Session
from melete.core.tool import Go, Refused, ToolContext

ONCE, SESSION, DENY = "once", "session", "deny"
YES = frozenset({"once", "yes", "y", "approve", "session"})


class Desk:
    """The open questions of one session; implements `Approvals`."""

    def __init__(self, session: Session, *, attended: Callable[[], bool], timeout: float) -> None:
        self._session = session
        self._attended = attended
        self._timeout = timeout
        self._open: dict[str, asyncio.Future[str]] = {}

    @property
    def attended(self) -> bool:
        """Whether there is anybody who could answer."""
        return self._attended()

    async def ask(self, question: Question) -> str | None:
        """Ask and wait; None when nobody is there or nobody answered in time."""
        if not self.attended:
            return None
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open[question.id] = answer
        try:
            await self._session.record(Asked(question=question), durable=True)
            async with asyncio.timeout(self.patience(question)):
                return await asyncio.shield(answer)
        except TimeoutError:
            if question.id not in self._open:  # an answer is being stored at this very moment: it counts
                return await answer
            del self._open[question.id]
            await self._session.record(Answered(question=question.id, status="timeout"))
            return None
        finally:
            self._open.pop(question.id, None)

    def patience(self, question: Question) -> float:
        """How many seconds an answer is waited for."""
        return question.seconds or self._timeout

    async def answer(self, message: InboxMessage) -> Answered:
        """Store what became of an answer, then hand it to whoever waits."""
        waiting = self._open.get(message.question)
        asked_before = message.question in self._session.transcript.answered
        status = "accepted" if waiting and not waiting.done() else ("lost" if asked_before else "expired")
        if status == "accepted":
            self._open.pop(message.question, None)
        fact = Answered(question=message.question, value=message.text, status=status, by=message.by, inbox=message.id)
        try:
            await self._session.record(fact, durable=True)
        except BaseException:
            if waiting and status == "accepted":
                waiting.cancel()
            raise
        if waiting and status == "accepted" and not waiting.done():
            waiting.set_result(message.text)
        return fact


class ApprovalGuard:
    """Lets a call through when its tool's judgement allows it or a person does."""

    def __init__(self, desk: Desk, *, yolo: bool, granted: set[tuple[str, str]]) -> None:
        self._desk = desk
        self._yolo = yolo
        self._granted = granted

    async def __call__(self, call: ToolCall, ctx: ToolContext, go: Go) -> ToolResult:
        """Ask where the tool's judge says so; raises Refused with a reason that helps the model."""
        verdict = ctx.tool.judge(ctx.arguments) if ctx.tool.judge else None
        if verdict is None or verdict.verdict == "allow":
            return await go(call)
        if verdict.verdict == "forbid":
            raise Refused(f"Forbidden, whatever the settings: {verdict.reason} ({verdict.rule}). Find another way.")
        key = (call.name, repr(ctx.arguments))  # however the model spells the same call
        if self._yolo or key in self._granted:
            return await go(call)
        if not self._desk.attended:
            raise Refused(
                f"This needs a person's approval ({verdict.reason}, {verdict.rule}) and nobody is there to give it. "
                "Do it in a safer way, or leave it and say in your answer what is left to do."
            )
        answer = await ctx.ask(
            Question(
                id=uuid4().hex[:12],
                kind="approval",
                text=f"{call.name}: {verdict.reason}",
                detail=_shown(call),
                choices=(ONCE, SESSION, DENY),
                call=call.id,
            )
        )
        if answer is None:
            raise Refused("Nobody answered the request for approval in time, which counts as a no.")
        if answer.strip().lower() not in YES:
            note = "" if answer.strip().lower() in (DENY, "no", "n", "") else f" They said: {answer}"
            raise Refused(f"The person said no to this call.{note}")
        if answer.strip().lower() == SESSION:
            self._granted.add(key)
        return await go(call)


def _shown(call: ToolCall) -> str:
    """The call's arguments with everything made visible that a terminal would hide."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in call.arguments)


def person(surface: str, who: str = "") -> Origin:
    """The origin of something a person said on a surface."""
    return Origin(kind="person", who=who, surface=surface)
