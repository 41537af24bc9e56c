"""Forks: every step of every log gives a session that can go on, and what was paid once is not paid twice."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from msgspec import structs
from tests.unit.store.past import pasts

from melete.app.fork import Point, entitled, forked, point
from melete.core.errors import UsageError
from melete.core.event import (
    Answered,
    Asked,
    Compacted,
    Fact,
    Notice,
    Opened,
    Question,
    Reply,
    RunEnded,
    RunStarted,
    Said,
    Spent,
    Titled,
    ToolEnded,
)
from melete.core.message import Message, Text, ToolCall, ToolResult, Usage, user
from melete.core.steps import steps
from melete.core.transcript import Transcript

NOW = datetime(2026, 11, 22, tzinfo=UTC)
NEW = Opened(forked_from="s-1", at=NOW)


def numbered(*facts: Fact) -> list[Fact]:
    return [structs.replace(fact, seq=number) for number, fact in enumerate(facts, 1)]


def reply(text: str, *calls: str) -> Reply:
    parts = (Text(text=text), *(ToolCall(id=call, name="terminal", arguments="{}") for call in calls))
    return Reply(run="r-1", message=Message(role="assistant", parts=parts))


def ended(call: str) -> ToolEnded:
    return ToolEnded(run="r-1", result=ToolResult(call=call, name="terminal", content="{}"))


LOG = numbered(
    Opened(),
    RunStarted(run="r-1"),
    Said(run="r-1", message=user("Do it.")),
    reply("First", "a", "b"),
    Spent(run="r-1", usage=structs.replace(Reply(message=user("")).usage, input=7), usd=1.0),
    Asked(run="r-1", question=Question(id="q-1", kind="approval", text="May I?")),
    ended("b"),
    ended("a"),
    reply("Second", "c"),
    ended("c"),
    reply("Third"),
    Notice(run="r-1", text="nearly done"),
    RunEnded(run="r-1", stop="done", text="Third", steps=3),
    Titled(title="Work"),
    Said(message=user("And now?")),
)


@given(facts=pasts())
def test_every_step_of_every_log_gives_a_conversation_to_go_on_from(facts: Sequence[Fact]) -> None:
    for number in [0, *(step.number for step in steps(facts) if step.whole)]:
        at = point(facts, number)
        made = forked(facts, at, NEW)
        opened, state = made[0], Transcript(made)
        assert isinstance(opened, Opened)
        assert [fact.seq for fact in made] == list(range(1, len(made) + 1))
        assert [step.number for step in steps(made)] == list(range(1, number + 1))
        assert (opened.forked_from, opened.forked_at) == ("s-1", at.seq)
        assert state.messages == Transcript(fact for fact in facts if fact.seq <= at.seq).messages
        assert not state.open_calls or not number
        assert not state.running
        assert not state.questions
        assert not any(isinstance(fact, Spent) for fact in made)
        own = [structs.replace(fact, seq=0) for fact in made[1 : opened.copied]]
        there = [fact for fact in facts[1:] if fact.seq <= at.seq and not isinstance(fact, Spent)]
        assert own == [structs.replace(fact, seq=0) for fact in there]


@pytest.mark.parametrize(
    ("step", "last", "ends"),
    [(0, Said, True), (1, ToolEnded, True), (2, ToolEnded, True), (3, RunEnded, False), (None, RunEnded, False)],
)
def test_a_fork_is_cut_behind_its_step_and_the_end_of_a_run_belongs_to_its_last(
    step: int | None, last: type[Fact], ends: bool
) -> None:
    at = point(LOG, step)
    made = forked(LOG, at, NEW)
    opened = made[0]
    assert isinstance(opened, Opened)
    assert isinstance(made[opened.copied - 1], last)
    assert at.step == (3 if step is None else step)
    own = made[opened.copied :]
    assert any(isinstance(fact, RunEnded) for fact in own) == ends
    if ends:
        assert isinstance(own[-1], RunEnded)
        assert (own[-1].run, own[-1].steps, own[-1].at) == ("r-1", at.step, NOW)
        assert "s-1" in (own[-1].error or "")


def test_a_question_that_was_open_expires() -> None:
    log = numbered(*(fact for fact in LOG if not isinstance(fact, ToolEnded) or fact.result.call != "c"))
    made = forked(log, point(log, 1), NEW)
    answers = [fact for fact in made if isinstance(fact, Answered)]
    assert [(fact.question, fact.status) for fact in answers] == [("q-1", "expired")]


def test_a_step_that_is_not_there_names_those_that_are() -> None:
    for step in (4, -1):
        with pytest.raises(UsageError, match=r"no step .*1 to 3"):
            point(LOG, step)
    with pytest.raises(UsageError, match="no steps yet"):
        point(LOG[:3], 1)
    with pytest.raises(UsageError, match="step 2 has calls without an outcome"):
        point(LOG[:9], 2)
    assert point(LOG[:9]) == Point(step=1, seq=8)
    assert point(LOG[:3]) == Point(step=0, seq=3)


def test_the_title_says_where_it_left_and_no_more() -> None:
    assert entitled("Work", 2) == "Work (fork at step 2)"
    assert entitled("Work (fork at step 2)", 7) == "Work (fork at step 7)"
    assert entitled("", 7) == ""
    made = forked(LOG, point(LOG), structs.replace(NEW, title="Other"))
    assert Transcript(made).title == "Other"


def test_a_compaction_names_the_fact_at_which_the_rest_begins_by_its_new_number() -> None:
    tail, cost = Said(message=user("Two.")), Spent(run="r-1", usage=Usage())
    log = numbered(
        Opened(), Said(message=user("One.")), cost, cost, reply("First"), tail,
        Compacted(segment="s-2", parent="s-1", messages=(tail.message,), since=6), reply("Second"),
    )  # fmt: skip
    made = forked(log, Point(step=2, seq=8), NEW)
    (fact,) = (one for one in made if isinstance(one, Compacted))
    assert made[fact.since - 1] == structs.replace(tail, seq=fact.since)
