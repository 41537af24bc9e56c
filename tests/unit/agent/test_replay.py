"""Runs that are rare in life, written by hand as a log would hold them, and made again."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from melete.agent.agent import RUNTIME
from melete.agent.replay import Played, replay
from melete.agent.results import NOT_BEGUN, UNKNOWN, failure
from melete.agent.tape import SoFar
from melete.core.event import (
    Answered,
    Asked,
    CancelAsked,
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
    Titled,
    ToolEnded,
    ToolStarted,
)
from melete.core.message import Message, Text, ToolCall, ToolResult, Usage, user
from melete.store.record import encode_fact

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CALLS = tuple(ToolCall(id=name, name="look", arguments='{"at": 1}') for name in ("a", "b"))
START = (
    RunStarted(model="m", provider="p", max_steps=9),
    Framed(system=("Be brief.",), tools=()),
    Said(message=user("Go.")),
    Titled(title="Go."),
)
USAGE = Usage(input=7, output=3)


def says(text: str = "", calls: Sequence[ToolCall] = ()) -> tuple[Reply, Spent]:
    parts = (*((Text(text=text),) if text else ()), *calls)
    message = Message(role="assistant", parts=parts)
    stop = "tool_calls" if calls else "end"
    reply = Reply(message=message, stop=stop, usage=USAGE, model="m", provider="p", seconds=0.5)
    return reply, Spent(usage=USAGE, model="m", provider="p", usd=0.01, source="a list")


def begins(call: ToolCall) -> ToolStarted:
    return ToolStarted(call=msgspec.structs.replace(call, arguments='{"at":1}'))


def ends(call: ToolCall) -> ToolEnded:
    return ToolEnded(result=ToolResult(call=call.id, name=call.name, content='{"ok":1}'), seconds=0.25)


def unknown(call: ToolCall) -> ToolEnded:
    return failure(call, UNKNOWN, outcome="unknown")


def not_begun(call: ToolCall) -> ToolEnded:
    return failure(call, NOT_BEGUN, outcome="not_run")


def cancelled(call: ToolCall) -> ToolEnded:
    return failure(call, "Stopped by the user.", outcome="cancelled")


def over(stop: str = "done", text: str = "", *, steps: int = 1, error: str | None = None) -> RunEnded:
    usage, usd = Usage(), None
    for _ in range(steps):
        usage, usd = usage + USAGE, (usd or 0.0) + 0.01
    return RunEnded(stop=stop, text=text, steps=steps, usage=usage, cost_usd=usd, error=error, seconds=3.0)


def made_again(*facts: Fact) -> Played:
    """Number and stamp the facts of a run, and make it again."""
    stamped = [
        msgspec.structs.replace(fact, seq=number, session="s", run="r1", at=BEGAN + timedelta(seconds=number))
        for number, fact in enumerate(facts, 2)
    ]
    so_far = SoFar()
    so_far.apply(Opened(seq=1, session="s", owner="me"))
    return asyncio.run(replay(stamped, so_far, encode=encode_fact))


A, B = CALLS
FAILED = "KeyError: 'x'"
QUESTION = Question(id="q", kind="clarify", text="Which?")

RUNS: dict[str, Sequence[Fact]] = {
    "an answer": (*START, *says("Hi."), over(text="Hi.")),
    "nothing could be stored while one call was at work, which stopped the other": (
        *START, *says(calls=CALLS), begins(A), begins(B), cancelled(B), unknown(A),
    ),
    "nothing could be stored while both were": (
        *START, *says(calls=CALLS), begins(A), begins(B), unknown(A), unknown(B),
    ),
    "nothing could be stored before a call began": (*START, *says(calls=CALLS), not_begun(A), not_begun(B)),
    "nothing could be stored between two calls": (*START, *says(calls=CALLS), begins(A), ends(A), not_begun(B)),
    "a cancel that was followed by a kill": (*START, *says(calls=CALLS), begins(A), cancelled(A), not_begun(B)),
    "an unexpected failure at work": (
        *START, *says(calls=CALLS), begins(A), unknown(A), not_begun(B), over("failed", error=FAILED),
    ),
    "an unexpected failure in a request": (*START, over("failed", steps=0, error=FAILED)),
    "stopped between the answer and its end": (*START, *says("Hi."), over("cancelled", "Hi.")),
    "a cancel that came too late": (
        *START, *says("Hi."), CancelAsked(inbox="i"), over(text="Hi."),
    ),
    "a cancel by mail between two steps": (
        *START, *says(calls=[A]), begins(A), ends(A), CancelAsked(inbox="i"), over("cancelled"),
    ),
    "one call ends although it was cancelled": (
        *START, *says(calls=CALLS), begins(A), begins(B), cancelled(A), ends(B), over("cancelled"),
    ),
    "work beside the run": (
        *START, Spent(usage=USAGE, role="title", model="n"), Titled(title="Named"), *says(calls=[A]), begins(A),
        Delegated(child="c", status="completed"), ends(A), Learned(number=1, what="w", status="s"),
        Notice(text="by a tool", about="tool"), *says("Hi."),
        msgspec.structs.replace(over(text="Hi.", steps=2), usage=USAGE + USAGE + USAGE),
    ),
    "a question of nobody": (
        *START, Asked(question=QUESTION), Answered(question="q", value="x", inbox="i"), *says("Hi."), over(text="Hi."),
    ),
    "a question without the name of its call": (
        *START, *says(calls=CALLS), begins(A), begins(B), Asked(question=QUESTION),
        Answered(question="q", value="x", inbox="i"), ends(B), ends(A), *says("Hi."), over(text="Hi.", steps=2),
    ),
    "a call of a call": (
        *START, *says(calls=[A]), begins(A), begins(ToolCall(id="a/1", name="in", arguments="")),
        ends(ToolCall(id="a/1", name="in", arguments="")), ends(A), *says("Hi."), over(text="Hi.", steps=2),
    ),
    "a doubtful overflow": (
        *START, Retried(
            attempt=1, cause="ContextOverflowError", delay=0.25, model="m", provider="p",
            reason="too long; but it is small beside that model's window: asked again",
        ), *says("Hi."), over(text="Hi."),
    ),
    "an answer of the wrong form for the third time": (
        *START, *says("no"),
        Said(message=user("[Note from the runtime] This answer does not have the form that was asked for: x", by=RUNTIME)),
        *says("no"), over("failed", "no", steps=2, error="not the form"),
    ),
    "a reply of a server that gives no name": (
        *START, msgspec.structs.replace(says("Hi.")[0], model="", provider=""),
        Spent(usage=USAGE, model="stand-in", provider="other", usd=0.01, source="a list"), over(text="Hi."),
    ),
    "notices of that day": (
        *START, Notice(text="unseen text", about="aside:12345678"), Notice(text="too small", about="window"), *says("Hi."),
        Notice(text="the prompt cache was lost", level="warning", about="cache"), over(text="Hi."),
    ),
}  # fmt: skip


@pytest.mark.parametrize("facts", RUNS.values(), ids=RUNS)
def test_it_comes_out_equal(facts: Sequence[Fact]) -> None:
    played = made_again(*facts)
    assert played.difference is None
    assert len(played.facts) == len(facts)
    assert played.whole == isinstance(facts[-1], RunEnded)
    assert (played.requests, played.unrecorded) == (0, played.steps)


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ((*START, over(text="Hi.")), "the loop asks the model in its place"),
        ((*START, *says("Hi."), *says("More."), over(text="More.", steps=2)), "it goes on with run.ended"),
        ((*START, *says(calls=[A]), begins(A), *says("Hi."), over(text="Hi.", steps=2)), "does not come to this fact"),
        ((*START, *says(calls=[A]), ends(A), begins(A), *says("Hi.")), "the loop asks the model in its place"),
        ((*START, *says("Hi."), over(text="Hi."), Said(message=user("More."), inbox="i")), "ends before this fact"),
        ((*START[:3], *says("Hi."), over(text="Hi.")), "in its place the loop makes session.titled"),
        ((*START, *says("Hi."), over(text="Hi.", steps=2)), "the loop makes another one"),
    ],
)
def test_a_run_that_no_loop_makes_is_left_where_it_parts(facts: Sequence[Fact], what: str) -> None:
    played = made_again(*facts)
    assert played.difference is not None
    assert what in played.difference.what


@pytest.mark.parametrize("kind", [ToolStarted, ToolEnded, Reply])
def test_a_fact_that_bears_another_runs_id_is_found(kind: type[Fact]) -> None:
    whole = made_again(*RUNS["work beside the run"])
    assert whole.difference is None
    stray = next(place for place, fact in enumerate(whole.facts) if isinstance(fact, kind))
    facts = list(whole.facts)
    facts[stray] = msgspec.structs.replace(facts[stray], run="r2")
    so_far = SoFar()
    so_far.apply(Opened(seq=1, session="s", owner="me"))
    found = asyncio.run(replay(facts, so_far, encode=encode_fact))
    assert found.difference is not None
    assert found.difference.seq == facts[stray].seq
