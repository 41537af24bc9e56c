"""What a child brings back: its entry in the result, made from its log alone, so that one can be made of a dead child too."""

import logging
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from melete.agent import results
from melete.agent.claim_words import claims
from melete.app.child_copy import WORKTREE, find_copy
from melete.app.places import key_of
from melete.app.verifying import checked, last_run
from melete.app.wire import Melete
from melete.core.delegation import DELEGATE, PROGRAM, Outcome, Status, Trace
from melete.core.errors import EnvironmentFailure, StoreError
from melete.core.event import Delegated, Fact, Reply, RunEnded, Said, Spent, Steered, Stop, ToolEnded, ToolStarted
from melete.core.message import Taint, Text, ToolCall, ToolResult, Usage
from melete.core.ports import Environment
from melete.core.session import Session, SessionRef
from melete.core.tool import ToolError
from melete.core.transcript import Transcript
from melete.security.taint import UNTRUSTED, spilled_name, worst

log = logging.getLogger("melete.delegation")
FINISHED, SAID = 12, 100
"""Finished calls of a child that was cut off which its entry tells in words, and characters of the arguments of each."""
TRACED = 40
"""Calls of a child that its entry lists, the last ones."""
WRITES = frozenset({"write_file", "patch"})
KILLED = "the program that ran it was stopped; what it had done is kept"
BY_PROGRAM = (
    "a program did this, with tools and permissions of its own: toolsets do not bind it, its calls are not seen, and its tokens "
    "and its cost are not known"
)
WHY: dict[str, str] = {
    Stop.OUT_OF_STEPS: "all its steps were used (delegation.max_iterations)",
    Stop.OUT_OF_BUDGET: "its share of the budget or of the time was used up",
    Stop.CONTEXT_FULL: "its context window was full",
    Stop.LOOPING: "it was going round in circles",
    Stop.CANCELLED: "it was stopped",
}


class End(Struct, frozen=True, kw_only=True):
    """How a child ended, as its parent knows it.

    `asked` is the parent's session, which keeps what is too long, and `env` where the files that the child names can be looked at.
    """

    asked: SessionRef
    status: Status = "completed"
    error: str = ""
    seconds: float = 0.0
    most: int = 24_000
    env: Environment | None = None


def prepare(app: Melete) -> None:
    """Compile what reads a report, which takes tens of milliseconds once: best while a child's model is waited for."""
    claims(app.redact("I ran the tests of 0123-abcdefghijklmnop."))


def status_of(ended: RunEnded) -> Status:
    """The status of a child whose run ended so."""
    if ended.stop == Stop.DONE:
        return "completed"
    return "interrupted" if ended.stop == Stop.CANCELLED else "failed"


def error_of(ended: RunEnded) -> str:
    """Why such a run is no success; empty where it is one."""
    return "" if ended.stop == Stop.DONE else ended.error or WHY.get(ended.stop, ended.stop)


async def outcome_of(app: Melete, ref: SessionRef, end: End) -> Outcome:
    """What the child in this session brings back, whether its run has an end or not."""
    told = await app.store.facts(ref)
    facts = last_run(told)
    state = Transcript(facts)
    bills = [fact for fact in facts if isinstance(fact, Spent)]
    usage = sum((bill.usage for bill in bills), Usage())
    known = [bill.usd for bill in bills if bill.usd is not None]
    ended = state.ended
    program = state.run is not None and state.run.provider == PROGRAM
    text = (ended.text if ended else "") or state.answer or _last_words(facts)
    model = next(
        (fact.model for fact in reversed(facts) if isinstance(fact, Reply)), state.run.model if state.run else ""
    )
    heard = _outside(told)  # by runs before this one as well
    if program:
        heard.append((model, "import"))
    taint: Taint = worst([of for _, of in heard]) if heard else "tool"
    fields: dict[str, Any] = {
        "status": end.status,
        "summary": await _capped(app, ref, end, app.redact(text), taint=taint) or None,
        "session": ref.id,
        "api_calls": sum(isinstance(fact, Reply) for fact in facts),
        "duration_seconds": round(end.seconds, 2),
        "model": model,
        "exit_reason": ended.stop if ended and end.status != "timeout" else end.status,
        "tokens": {"input": usage.total - usage.output, "output": usage.output},
    }
    optional = {
        "cost_usd": round(sum(known), 6) if known else None,
        "tool_trace": [msgspec.to_builtins(one) for one in traced(facts)[-TRACED:]],
        "files_changed": changed(facts),
        "finished": [] if end.status == "completed" else [app.redact(line) for line in finished(facts)],
        "checked": await checked(app, ref, text, facts=facts, env=end.env),
        "error": app.redact(end.error),
        "note": BY_PROGRAM if program else "",
        "next": ""
        if end.status == "completed"
        else "what it finished stands; go on with resume=session, or do the rest yourself",
    }
    fields |= {name: value for name, value in optional.items() if value}
    source = ", ".join(dict.fromkeys(name for name, _ in heard))
    return Outcome(status=end.status, session=ref.id, fields=fields, taint=taint, source=source)


def failed(status: Status, error: str) -> Outcome:
    """The outcome of a child that never began."""
    fields = {"status": status, "summary": None, "api_calls": 0, "duration_seconds": 0.0, "error": error}
    return Outcome(status=status, session="", fields=fields)


def traced(facts: Sequence[Fact]) -> list[Trace]:
    """The finished calls of a run, calls inside calls left out."""
    sizes = {f.call.id: len(f.call.arguments.encode()) for f in facts if isinstance(f, ToolStarted)}
    return [
        Trace(
            tool=fact.result.name,
            args_bytes=sizes.get(fact.result.call, 0),
            result_bytes=len(fact.result.content.encode()),
            status=fact.outcome,
        )
        for fact in facts
        if isinstance(fact, ToolEnded) and "/" not in fact.result.call
    ]


def changed(facts: Sequence[Fact]) -> list[str]:
    """The paths that the file tools have written in a run, in order, those of its own children included."""
    asked: dict[str, str] = {}
    found: list[Any] = []
    for fact in facts:
        match fact:
            case ToolStarted() if fact.call.name in WRITES:
                asked[fact.call.id] = str(results.object_of(fact.call.arguments).get("path", ""))
            case ToolEnded() if fact.outcome == "ok" and fact.result.call in asked:
                several = results.object_of(fact.result.content).get("files") or ()
                found += [one[name] for one in several for name in ("path", "moved_to") if name in one]
                found.append(asked[fact.result.call])
            case Delegated() if fact.entry:
                found += results.object_of(fact.entry).get("files_changed", ())
            case _:
                pass
    return [*dict.fromkeys(path for path in found if path)]


def finished(facts: Sequence[Fact]) -> list[str]:
    """What a run has done, a line a call, the last ones: for a parent whose child did not get to its report."""
    begun = {fact.call.id: fact.call for fact in facts if isinstance(fact, ToolStarted)}
    lines: list[str] = []
    for fact in facts:
        if isinstance(fact, ToolEnded) and "/" not in fact.result.call and (call := begun.get(fact.result.call)):
            said = " ".join(" ".join(map(str, results.object_of(call.arguments).values())).split())
            shown = said if len(said) <= SAID else f"{said[: SAID - 1]}…"
            lines.append(f"{call.name} {shown}: {fact.outcome}")
    return lines[-FINISHED:]


def reached(facts: Sequence[Fact]) -> bool:
    """Whether the child's model has ever answered."""
    return any(isinstance(fact, Reply) for fact in facts)


async def diagnose(app: Melete, ref: SessionRef, about: str) -> str:
    """Write down what is known of a child that never reached its model; the file's path, empty where it cannot be written."""
    facts = last_run(await app.store.facts(ref))
    if reached(facts) or app.ephemeral:
        return ""
    now = app.clock.now()
    path = app.loaded.home.logs / f"subagent-timeout-{ref.id}-{now:%Y%m%dT%H%M%S}.log"
    rows = [f"{fact.at:%H:%M:%S} {app.redact(msgspec.json.encode(fact).decode())}" for fact in facts]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([app.redact(about), *rows, ""]), encoding="utf-8")
    except OSError as error:
        log.warning("what is known of the child %s could not be written: %s", ref.id, error)
        return ""
    return str(path)


async def settle_calls(app: Melete, session: Session, *, env: Environment | None = None) -> int:
    """Give the delegations that a kill cut off what their children had; returns how many there were.

    A child that had ended is not run again: its entry stands in the parent's log. One that had not is reported with what it
    had, and can be resumed.
    """
    calls = [call for call in session.transcript.open_calls if call.name == DELEGATE]
    if not calls:
        return 0
    facts = await app.store.facts(session.ref)
    settled = 0
    for call in calls:
        begun = {fact.task: fact for fact in facts if isinstance(fact, Delegated) and fact.call == call.id}
        if not begun or any(fact.background for fact in begun.values()):
            continue
        await session.record(await _settled(app, session.ref, call, begun, env=env), durable=True)
        settled += 1
    return settled


async def _settled(
    app: Melete, parent: SessionRef, call: ToolCall, begun: dict[int, Delegated], *, env: Environment | None
) -> ToolEnded:
    asked = results.object_of(call.arguments).get("tasks") or [None]
    rows: list[dict[str, Any]] = []
    taints: list[str] = []
    for number in range(max(len(asked), max(begun) + 1)):
        fact = begun.get(number)
        if fact is not None and fact.entry:
            rows.append({"task_index": number, **msgspec.json.decode(fact.entry)})
            taints += [fact.taint]
            continue
        outcome = failed("interrupted", "it had not begun when the program was stopped")
        if fact is not None:
            ref = structs.replace(parent, id=fact.child)
            try:
                outcome = await _killed(app, ref, parent, env=env)
            except StoreError as error:
                outcome = failed("interrupted", f"{KILLED}; its log cannot be read: {error}")
        taints.append(outcome.taint)
        rows.append({"task_index": number, **outcome.fields})
    note = "the program was stopped in the middle of this call: what had ended is here, and was not run again"
    content = results.encode({"results": rows, "note": note})
    taint: Taint = worst(taints)
    result = ToolResult(call=call.id, name=call.name, content=content, taint=taint)
    return ToolEnded(result=result, outcome="cancelled")


async def _killed(app: Melete, ref: SessionRef, parent: SessionRef, *, env: Environment | None) -> Outcome:
    """The outcome of a child that a kill has ended; what it left in a copy of its own is put on its branch."""
    opened = Transcript(await app.store.facts(ref)).opened
    end = End(asked=parent, status="interrupted", error=KILLED, env=env)
    if opened is None or opened.about.get("isolation") != WORKTREE:
        return await outcome_of(app, ref, end)
    merge: dict[str, Any] = {"kept": f"its copy still stands in {opened.cwd}, and resume goes on there"}
    try:
        copy = await find_copy(env, key_of(ref, opened.about)) if env else None
    except (EnvironmentFailure, ToolError) as error:
        copy, merge = None, {"error": str(error), **merge}
    outcome = await outcome_of(app, ref, structs.replace(end, env=copy.moved(env) if env and copy else None))
    if copy:
        merge = await copy.deliver(ref.id, opened.title, others=[])
        await copy.aclose()
    return structs.replace(outcome, fields={**outcome.fields, "merge": merge})


def _outside(facts: Sequence[Fact]) -> list[tuple[str, Taint]]:
    """The texts from outside that a child had in view: what brought each, and its taint."""
    found: list[tuple[str, Taint]] = []
    for fact in facts:
        match fact:
            case ToolEnded():
                found.append((fact.result.name, fact.result.taint))
            case Said() | Steered():
                texts = [part for part in fact.message.parts if isinstance(part, Text)]
                found.extend(("what it was told", part.taint) for part in texts)
            case _:
                pass
    return [(name, taint) for name, taint in found if taint in UNTRUSTED]


def _last_words(facts: Sequence[Fact]) -> str:
    """What the child said last, where its run did not get to an answer."""
    replies = [fact.message.text for fact in facts if isinstance(fact, Reply) and fact.message.text.strip()]
    return replies[-1] if replies else ""


async def _capped(app: Melete, ref: SessionRef, end: End, text: str, *, taint: Taint) -> str:
    """The text within its limit; all of a longer one is in a file of the parent's, whose name tells its taint."""
    if len(text) <= end.most:
        return text
    name = spilled_name(f"report-{ref.id}-{time.time_ns()}.txt", taint)
    path = await app.store.spill(end.asked, name, text)
    room = max(0, end.most - 200)
    gap = f"…[{len(text) - room} characters left out; the whole report is in {path}]"
    return f"{text[: room * 3 // 4]}\n{gap}\n{text[len(text) - room // 4 :]}"
