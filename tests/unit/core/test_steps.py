"""Steps: one for each reply, with a number that stays whatever is added to the log."""

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from melete.core.event import Compacted, Fact, Opened, Reply, RunEnded, RunStarted, Said, Spent, Steered, ToolEnded
from melete.core.message import Message, Text, ToolCall, ToolResult, Usage, user
from melete.core.steps import steps
from melete.core.transcript import Transcript


def reply(*calls: str, text: str = "") -> Reply:
    parts = (Text(text=text), *(ToolCall(id=call, name=f"tool-{call}", arguments="{}") for call in calls))
    return Reply(message=Message(role="assistant", parts=parts), model="m-1")


def ended(call: str) -> ToolEnded:
    return ToolEnded(result=ToolResult(call=call, name=f"tool-{call}", content="{}"))


def numbered(facts: Sequence[Fact]) -> list[Fact]:
    return [msgspec.structs.replace(fact, seq=number) for number, fact in enumerate(facts, 1)]


def test_a_step_ends_with_the_last_outcome_of_its_calls() -> None:
    facts = numbered(
        [
            Opened(),
            Said(message=user("do it")),
            reply("a", "b"),
            Spent(usage=Usage()),
            ended("b"),
            ended("a"),
            reply(text="done"),
        ]
    )
    first, second = steps(facts)
    assert (first.number, first.reply, first.end, first.tools, first.whole) == (1, 3, 6, ("tool-a", "tool-b"), True)
    assert (second.number, second.reply, second.end, second.tools, second.whole) == (2, 7, 7, (), True)


def test_a_step_without_all_its_outcomes_is_not_whole() -> None:
    (only,) = steps(numbered([Opened(), reply("a", "b"), ended("a")]))
    assert (only.end, only.whole) == (3, False)
    (crashed, after) = steps(numbered([Opened(), reply("a"), reply(text="again")]))
    assert (crashed.whole, after.number) == (False, 2)


def test_an_outcome_of_an_unknown_call_or_a_second_one_changes_nothing() -> None:
    facts = numbered([Opened(), reply("a"), ended("a"), ended("a"), ended("x")])
    assert [(step.end, step.whole) for step in steps(facts)] == [(3, True)]


def test_there_are_none_without_a_reply() -> None:
    assert steps([]) == []
    assert steps(numbered([Opened(), Said(message=user("hello"))])) == []


calls = st.lists(st.sampled_from("abc"), unique=True, max_size=3)
some_fact: st.SearchStrategy[Fact] = st.one_of(
    calls.map(lambda names: reply(*names)),
    st.sampled_from("abcx").map(ended),
    st.sampled_from(
        [
            Said(message=user("more")),
            Steered(message=user("tabs")),
            RunStarted(),
            RunEnded(stop="done", text=""),
            Spent(usage=Usage()),
            Compacted(segment="s", parent="", messages=(user("in short"),), tokens_before=9, tokens_after=1),
        ]
    ),
)
logs = st.lists(some_fact, max_size=30).map(lambda facts: numbered([Opened(), *facts]))


@given(facts=logs)
def test_every_prefix_numbers_its_steps_as_the_whole_log_does(facts: list[Fact]) -> None:
    whole = steps(facts)
    assert [step.reply for step in whole] == [fact.seq for fact in facts if isinstance(fact, Reply)]
    assert [step.number for step in whole] == list(range(1, len(whole) + 1))
    for length in range(len(facts) + 1):
        part = steps(facts[:length])
        assert [(step.number, step.reply) for step in part] == [(s.number, s.reply) for s in whole[: len(part)]]
        assert part[:-1] == whole[: max(0, len(part) - 1)]  # only the last one can still grow


@given(facts=logs)
def test_up_to_the_end_of_a_whole_step_a_log_is_a_conversation_to_go_on_from(facts: list[Fact]) -> None:
    for step in steps(facts):
        state = Transcript(facts[: step.end])
        assert step.reply <= step.end
        assert step.whole == (not state.open_calls)
