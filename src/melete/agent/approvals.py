"""Questions to a person: one state machine for every surface, and the guard that asks before a risky call. Layer 2.

A question is a fact with an id. Whoever answers first decides; later answers are recorded as lost, answers to questions that
are no longer open as expired, those of somebody who was not asked as refused, and silence is a refusal that says so.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from uuid import uuid4

import msgspec
from msgspec import Struct, structs

from melete.agent.smart import Smart
from melete.core.errors import StoreError
from melete.core.event import Answered, Asked, Question
from melete.core.message import Origin, ToolCall, ToolResult
from melete.core.plugin import Lazy
from melete.core.policy import OWNED, UNJUDGED, Decision, Grant, Grants, Scope, Verdict, Whereabouts
from melete.core.session import InboxMessage, Session
from melete.core.tool import Act, Go, Refused, ToolContext
from melete.security.reached import made_up
from melete.security.taint import UNTRUSTED, harmless, sources
from melete.security.visible import LONGEST, digest, measure, visible

if TYPE_CHECKING:
    from melete.agent.sealing import Ready, Sealed

_look: "Lazy[Callable[..., Awaitable[Sealed]]]" = Lazy("melete.agent.sealing:look")
_seal: "Lazy[Callable[..., Awaitable[Ready]]]" = Lazy("melete.agent.sealing:seal")
_unseal: Lazy[Callable[..., Awaitable[None]]] = Lazy("melete.agent.sealing:unseal")

log = logging.getLogger("melete.approvals")
ONCE, SESSION, ALWAYS, DENY = "once", "session", "always", "deny"
MEANT: Final[dict[str, Scope]] = {
    "once": "once", "yes": "once", "y": "once", "approve": "once", "session": "session", "always": "always",
}  # fmt: skip
UNBOUND = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "ash", "busybox", "toybox", "env", "sudo", "su", "python", "python3", "node", "perl",
    "ruby", "ssh",
})  # fmt: skip
"""Programs that alone run whatever they are given: a yes to one of them is never kept."""
AFTER_UNTRUSTED = "after-untrusted"
KEPT_IN = "after-untrusted-kept-in"
WORK = "session covers every command and change of files in this session that does not name what reaches a network"
INSTEAD = "Do it in a safer way, or leave it and say in your answer what is left to do."
SHOWN_SCRIPT = 4_000
"""Bytes of a script that are shown in a question; of a longer one the digest is."""


class Desk:
    """The open questions of one session; implements `Approvals`."""

    def __init__(self, session: Session, *, attended: Callable[[], bool], timeout: float) -> None:
        self._session = session
        self._attended = attended
        self._timeout = timeout
        self._open: dict[str, asyncio.Future[str]] = {}
        self.answered_by: dict[str, str] = {}
        """Who answered a question, by its id."""

    @property
    def attended(self) -> bool:
        """Whether there is anybody who could answer."""
        return self._attended()

    async def ask(self, question: Question) -> str | None:
        """Ask and wait; None when nobody is there or nobody answered in time."""
        if not self.attended:
            return None
        question = structs.replace(question, seconds=question.seconds or self._timeout)
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
        if status == "accepted" and not self._was_asked(message.by):
            status = "refused"
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
            self.answered_by[message.question] = f"{message.by.surface} {message.by.who}".strip() if message.by else ""
            waiting.set_result(message.text)
        return fact

    def _was_asked(self, by: Origin | None) -> bool:
        """Whether an answer comes from a person, and from the session's owner: a name that is not given is the home's owner."""
        return by is None or (by.kind == "person" and by.who in ("", self._session.ref.owner))


class Rules(Struct, frozen=True, kw_only=True):
    """How risky calls are decided: fixed when the process starts, and nothing that a tool can reach."""

    mode: Literal["manual", "smart", "off"] = "manual"
    after_untrusted: Literal["ask", "walls", "allow"] = "ask"
    home: str = ""
    own: str = ""


class Case(Struct, frozen=True, kw_only=True):
    """A call that has to be asked about: why, what it would run, and the digest of all of it where a grant can be bound.

    `kind` stands for all calls that one yes for the session covers; empty where it covers this call alone.
    """

    call: ToolCall
    verdict: Verdict
    sealed: "Sealed | None"
    detail: str
    digest: str
    bound: bool
    kind: str = ""


class ApprovalGuard:
    """Lets a call through when its tool's judgement allows it or a person does; one for each run.

    `session` holds the digests that were granted for the session, `lasting` those for good. Text from outside that only a call
    inside a call has read counts to the end of the run.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        rules: Rules,
        session: set[str],
        lasting: Grants | None = None,
        smart: Smart | None = None,
    ) -> None:
        self._desk = desk
        self._rules = rules
        self._session = session
        self._lasting = lasting
        self._smart = smart
        self._inner: dict[str, None] = {}
        self._refused: dict[str, str] = {}
        """What a person has said no to in this run: it is not asked about again, however often a page has it repeated."""

    async def __call__(self, call: ToolCall, ctx: ToolContext, go: Go) -> ToolResult:
        """Ask where the judge or the text that was read says so; raises Refused with a reason that helps the model."""
        verdict = self._judged(ctx)
        if verdict.verdict == "forbid":
            raise Refused(
                f"Forbidden, whatever the settings: {verdict.reason} ({verdict.rule}). Find another way.",
                _refusal("policy", verdict, digest(_written(ctx))),
            )
        if verdict.verdict == "ask":
            ctx.decision, sealed = await self._decided(call, ctx, verdict)
            return await self._run_sealed(call, ctx, go, sealed) if sealed else await self._online(call, ctx, go)
        if verdict.rule == KEPT_IN:
            if self._rules.after_untrusted == "ask":
                ctx.decision = Decision(by="grant", rule=AFTER_UNTRUSTED, scope="session", digest=_work(ctx))
            return await self._offline(call, ctx, go)
        return self._heard(call, ctx, await go(call))

    async def _run_sealed(self, call: ToolCall, ctx: ToolContext, go: Go, sealed: "Sealed") -> ToolResult:
        """Run what was approved, in a form that runs just that."""
        ready = await _seal.load()(ctx.env, sealed, detached=getattr(ctx.arguments, "background", False))
        ctx.arguments = structs.replace(ctx.arguments, **{sealed.act.argument: ready.text})
        try:
            return await self._online(call, ctx, go)
        finally:
            await _unseal.load()(ctx.env, ready)

    async def _online(self, call: ToolCall, ctx: ToolContext, go: Go) -> ToolResult:
        """Run what was allowed, for which the network is open; what it leaves in the background keeps it until other work."""
        if ctx.tool.enclosed:
            _shut(ctx, closed=False)
        try:
            return self._heard(call, ctx, await go(call))
        finally:
            if self._rules.mode != "off" and self._follows(ctx) and not getattr(ctx.arguments, "background", False):
                _shut(ctx, closed=True)

    async def _offline(self, call: ToolCall, ctx: ToolContext, go: Go) -> ToolResult:
        """Run what may not reach the network; if it wanted to, the same call once more asks for that."""
        before = _shut(ctx, closed=True)
        try:
            return self._heard(call, ctx, await go(call))
        finally:
            if _shut(ctx, closed=True) != before:
                self._session.add(_wanting(ctx))

    def _heard(self, call: ToolCall, ctx: ToolContext, result: ToolResult) -> ToolResult:
        """The result; what a call inside a call has read counts at once."""
        if result.taint in UNTRUSTED and "/" in call.id:
            self._inner[call.name] = None
            _shut(ctx, closed=self._rules.mode != "off" and self._rules.after_untrusted != "allow")
        return result

    def _follows(self, ctx: ToolContext) -> dict[str, None]:
        """The tools whose text from outside is in view; none where that is not asked about."""
        if self._rules.after_untrusted == "allow":
            return {}
        return dict.fromkeys((*sources(ctx.session.messages), *self._inner))

    def _judged(self, ctx: ToolContext) -> Verdict:
        act = _act(ctx)
        contained = bool(getattr(ctx.env, "contained", False))
        where = Whereabouts(
            cwd=act.cwd if act else ctx.env.cwd, home=self._rules.home, own=self._rules.own, contained=contained
        )
        verdict = ctx.tool.judge(ctx.arguments, where) if ctx.tool.judge else Verdict()
        if verdict.verdict != "allow" or verdict.reads:
            return verdict
        return self._after_untrusted(ctx, verdict)

    def _after_untrusted(self, ctx: ToolContext, verdict: Verdict) -> Verdict:
        """The verdict about an allowed call that changes or sends something, with what was read before it in mind."""
        found = self._follows(ctx)
        if not found:
            _shut(ctx, closed=False)
            return verdict
        where = ", ".join(found)
        if ctx.tool.reaches and made_up(ctx.tool.reaches(ctx.arguments), ctx.session.messages):
            reason = f"fetches an address that nobody wrote out, after text from outside ({where})"
            return Verdict(verdict="ask", rule=AFTER_UNTRUSTED, reason=reason, sends=True)
        contained = bool(getattr(ctx.env, "contained", False))
        if harmless(ctx.tool, contained=contained, offline=bool(getattr(ctx.env, "offline", False))):
            return verdict
        wants = verdict.sends or _wanting(ctx) in self._session
        covered = self._rules.after_untrusted == "walls" or _work(ctx) in self._session
        kept_in = ctx.tool.enclosed and contained and not wants and self._rules.mode != "off"
        if kept_in and covered and _shut(ctx, closed=True) is not None:
            return Verdict(rule=KEPT_IN, reason="follows text from outside, and has no network to send anything by")
        if (denied := _denied(ctx)).verdict == "forbid":  # a yes would change nothing
            return denied
        reason = f"follows text from outside ({where}), which may have asked for it"
        return Verdict(verdict="ask", rule=AFTER_UNTRUSTED, reason=reason, sends=wants)

    async def _decided(self, call: ToolCall, ctx: ToolContext, verdict: Verdict) -> "tuple[Decision, Sealed | None]":
        """Why the call may run, and what of it is to be sealed. Raises Refused."""
        if self._rules.mode == "off":
            if verdict.rule == UNJUDGED:
                raise Refused(
                    f"This cannot be judged whole ({verdict.reason}), and nobody is asked (approvals.mode: off). Do it in smaller "
                    "steps, or write the text into a file with write_file first.",
                    _refusal("policy", verdict, digest(_written(ctx))),
                )
            return Decision(by="off", rule=verdict.rule, digest=digest(_written(ctx))), None
        kind = _kind(ctx, verdict)
        if kind and kind in self._session:
            return Decision(by="grant", rule=verdict.rule, scope="session", digest=kind), None
        case = await self._case(call, ctx, verdict)
        if len(case.detail) > LONGEST:
            raise Refused(
                f"This needs a person's approval ({verdict.reason}, {verdict.rule}), and {len(case.detail):,} characters are "
                f"more than can be shown whole ({LONGEST:,}). Do it in smaller steps.",
                _refusal("policy", verdict, case.digest),
            )
        decision = await self._granted(case) or await self._judged_by_model(case, ctx) or await self._asked(case, ctx)
        return decision, case.sealed

    async def _case(self, call: ToolCall, ctx: ToolContext, verdict: Verdict) -> Case:
        act = _act(ctx)
        sealed = await _look.load()(ctx.env, act) if act else None
        whole = (ctx.env.name, call.name, verdict.rule, _written(ctx))
        bound = sealed.bound if sealed else ()
        granted = bound is not None and not (act and _is_bare(act.command))
        return Case(
            call=call,
            verdict=verdict,
            sealed=sealed,
            detail=_shown(ctx, sealed),
            digest=digest(repr((*whole, *(bound or ())))),
            bound=granted,
            kind=_kind(ctx, verdict),
        )

    async def _granted(self, case: Case) -> Decision | None:
        """A grant of before that covers the call; one whose file cannot be read covers nothing."""
        if not case.bound:
            return None
        scope: Scope | None = "session" if case.digest in self._session else None
        try:
            if not scope and self._lasting and await self._lasting.holds(case.digest):
                scope = "always"
        except StoreError as error:
            log.warning("no lasting grant counts: %s", error)
        return Decision(by="grant", rule=case.verdict.rule, scope=scope, digest=case.digest) if scope else None

    async def _judged_by_model(self, case: Case, ctx: ToolContext) -> Decision | None:
        """The judging model's yes, in mode `smart`; it never speaks about what follows text from outside."""
        if self._rules.mode != "smart" or not self._smart or case.verdict.rule in {AFTER_UNTRUSTED, UNJUDGED, OWNED}:
            return None
        if sources(ctx.session.messages) or self._inner:
            return None
        if not await self._smart.allows(ctx.session, case.verdict, case.detail):
            return None
        return Decision(by="smart", rule=case.verdict.rule, digest=case.digest)

    async def _asked(self, case: Case, ctx: ToolContext) -> Decision:
        verdict = case.verdict
        if (by := self._refused.get(case.digest)) is not None:
            why = f"The person has said no to this very call before, and is not asked twice in one run. {INSTEAD}"
            raise Refused(why, _refusal("person", verdict, case.digest, who=by))
        if not self._desk.attended:
            raise Refused(
                f"This needs a person's approval ({verdict.reason}, {verdict.rule}) and nobody is there to give it. {INSTEAD}",
                _refusal("nobody", verdict, case.digest),
            )
        lasts = (SESSION, ALWAYS) if self._lasting and not case.kind else (SESSION,)
        question = Question(
            id=uuid4().hex[:12],
            kind="approval",
            text=visible(f"{case.call.name}: {verdict.reason}"),
            detail=f"{case.detail}\n{WORK}" if case.kind else case.detail,
            choices=(ONCE, *(lasts if case.bound or case.kind else ()), DENY),
            call=case.call.id,
        )
        answer = await ctx.ask(question)
        if answer is None:
            why = f"Nobody answered the request for approval in time, which counts as a no. {INSTEAD}"
            raise Refused(why, _refusal("nobody", verdict, case.digest))
        said = answer.strip().lower()
        if said in (numbers := [str(number) for number in range(1, len(question.choices) + 1)]):
            said = question.choices[numbers.index(said)]
        scope = MEANT.get(said)
        who = self._desk.answered_by.pop(question.id, "")
        if scope is None:
            self._refused[case.digest] = who
            note = "" if said in (DENY, "no", "n", "") else f" They said: {answer}"
            refusal = _refusal("person", verdict, case.digest, who=who)
            raise Refused(f"The person said no to this call.{note}", refusal)
        return await self._kept(case, scope if scope in question.choices else "once", who)

    async def _kept(self, case: Case, scope: Scope, who: str) -> Decision:
        """The decision; what is to last is kept, for the session where it cannot be for good."""
        if scope != "once":
            self._session.add(case.kind or case.digest)
        if scope == "always" and self._lasting:
            grant = Grant(
                digest=case.digest,
                tool=case.call.name,
                shown=case.detail,
                cwd=case.sealed.place if case.sealed else "",
                rule=case.verdict.rule,
                who=who,
            )
            try:
                await self._lasting.add(grant)
            except StoreError as error:
                log.warning("a grant lasts for this session only: %s", error)
                scope = "session"
        return Decision(by="person", rule=case.verdict.rule, scope=scope, digest=case.digest, who=who)


def _refusal(by: Literal["person", "nobody", "policy"], verdict: Verdict, of: str, *, who: str = "") -> Decision:
    return Decision(by=by, allowed=False, rule=verdict.rule, digest=of, who=who)


def _kind(ctx: ToolContext, verdict: Verdict) -> str:
    """What stands for all calls that a yes for the session covers: work after text from outside that names no network."""
    return _work(ctx) if verdict.rule == AFTER_UNTRUSTED and ctx.tool.enclosed and not verdict.sends else ""


def _work(ctx: ToolContext) -> str:
    return digest(f"{ctx.env.name}\0{WORK}")


def _wanting(ctx: ToolContext) -> str:
    """What stands for a call that was kept from the network and wanted it."""
    return digest(f"network\0{ctx.env.name}\0{ctx.tool.name}\0{_written(ctx)}")


def _shut(ctx: ToolContext, *, closed: bool) -> int | None:
    """Keep commands from the network, or no longer; None where the environment cannot."""
    shut: Callable[..., int | None] | None = getattr(ctx.env, "shut", None)
    return shut(closed=closed) if shut else None


def _denied(ctx: ToolContext) -> Verdict:
    """What the list of files says that no tool writes."""
    judge: Callable[..., Verdict] | None = getattr(ctx.env, "judge_file", None)
    path = getattr(ctx.arguments, "path", "") if ctx.tool.effect == "write" else ""
    return judge(path, write=True) if judge and path and "\0" not in path else Verdict()


def _act(ctx: ToolContext) -> Act | None:
    return ctx.tool.act(ctx, ctx.arguments) if ctx.tool.act else None


def _written(ctx: ToolContext) -> str:
    """The checked arguments in one form, however the model spelt them."""
    return msgspec.json.encode(ctx.arguments, order="deterministic").decode()


def _is_bare(command: str) -> bool:
    return all(word.rpartition("/")[2] in UNBOUND for word in command.split())


def _shown(ctx: ToolContext, sealed: "Sealed | None") -> str:
    """Everything that a yes would cover, as a person can read it: arguments that are not the defaults, scripts, variables."""
    rows: list[str] = []
    for field in structs.fields(cast("type[Struct]", type(ctx.arguments))):
        value: Any = getattr(ctx.arguments, field.name)
        if field.required or value != field.default:
            rows += _row(field.name, value if isinstance(value, str) else msgspec.json.encode(value).decode())
    if sealed:
        rows.append(visible(f"in {sealed.place or sealed.act.cwd}"))
        rows += [visible(note) for note in sealed.notes]
        for script in sealed.scripts:
            if len(script.data) <= SHOWN_SCRIPT:
                rows += _row(script.word, script.data.decode("utf-8", "replace"))
    return "\n".join(rows)


def _row(name: str, value: str) -> Sequence[str]:
    """A name and its value; the lines of a longer value stand behind a bar, so that none passes for another row."""
    head = visible(f"{name} ({size})" if (size := measure(value)) else name)
    if "\n" not in value:
        return [f"{head}: {visible(value)}"]
    return [f"{head}:", *(f"  | {line}" for line in visible(value).split("\n"))]


def person(surface: str, who: str = "") -> Origin:
    """The origin of something a person said on a surface."""
    return Origin(kind="person", who=who, surface=surface)
