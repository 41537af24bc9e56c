"""Which facts belong to which steps, and how steps are named."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.core.errors import UsageError
from melete.core.event import Fact, Opened, Reply, RunEnded, RunStarted, Said, Spent, ToolEnded
from melete.core.message import Message, ToolCall, ToolResult, Usage, user
from melete.core.steps import steps
from melete.surfaces.cli.step_span import facts_of, span, step_of


def numbered(*facts: Fact) -> list[Fact]:
    return [msgspec.structs.replace(fact, seq=number) for number, fact in enumerate(facts, 1)]


def reply(*calls: str) -> Reply:
    return Reply(
        message=Message(role="assistant", parts=tuple(ToolCall(id=c, name="t", arguments="{}") for c in calls))
    )


def ended(call: str) -> ToolEnded:
    return ToolEnded(result=ToolResult(call=call, name="t", content="{}"))


SPENT = Spent(usage=Usage())
LOG = numbered(
    Opened(), RunStarted(), Said(message=user("one")), reply("a"), SPENT, ended("a"),
    reply(), SPENT, RunEnded(stop="done", text=""),
    RunStarted(), Said(message=user("two")), reply(), SPENT, RunEnded(stop="done", text=""),
)  # fmt: skip


def test_what_is_said_belongs_to_the_reply_that_follows_and_the_end_of_a_run_to_the_one_before() -> None:
    found = steps(LOG)
    assert facts_of(found, LOG, first=1, last=1) == (1, 6)
    assert facts_of(found, LOG, first=2, last=2) == (7, 9)
    assert facts_of(found, LOG, first=3, last=3) == (10, 0)
    assert facts_of(found, LOG, first=1, last=3) == (1, 0)
    assert facts_of([], [], first=1, last=0) == (1, 0)
    assert [step_of(found, seq) for seq in (3, 4, 6, 7, 11, 12, 14)] == [1, 1, 1, 2, 3, 3, 3]
    assert step_of([], 3) == 0


def test_one_or_several_may_be_named() -> None:
    found = steps(LOG)
    assert [span(found, text) for text in ("2", " 1:2 ", "2:", ":2", "1:99", ":")] == [
        (2, 2), (1, 2), (2, 3), (1, 2), (1, 3), (1, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["0", "4", "4:9", "3:2", "", "x", "1-2", "-1", "1:2:3", "²"])
def test_what_names_none_is_told_with_what_there_is(text: str) -> None:
    with pytest.raises(UsageError, match=r"steps 1 to 3|--step 3:5"):
        span(steps(LOG), text)


def test_without_replies_there_are_no_steps_to_name() -> None:
    with pytest.raises(UsageError, match="no model has answered"):
        span([], "1")


def test_one_step_is_told_as_one() -> None:
    with pytest.raises(UsageError, match="the session has one step"):
        span(steps(LOG[:6]), "2")


parts: st.SearchStrategy[Sequence[Fact]] = st.lists(
    st.one_of(
        st.sampled_from(["", "a", "ab"]).map(lambda calls: reply(*calls)),
        st.sampled_from("ab").map(ended),
        st.sampled_from([SPENT, RunStarted(), RunEnded(stop="done", text=""), Said(message=user("more"))]),
    ),
    max_size=25,
)


@given(facts=parts)
def test_steps_one_by_one_are_all_facts_once(facts: Sequence[Fact]) -> None:
    log = numbered(Opened(), *facts)
    found = steps(log)
    seen: list[int] = []
    for step in found:
        first, last = facts_of(found, log, first=step.number, last=step.number)
        seen += range(first, (last or len(log)) + 1)
        assert first <= step.reply <= step.end <= (last or len(log))
    assert seen == ([fact.seq for fact in log] if found else [])
