"""Facts folded into the state of a session."""

import msgspec

from melete.core.event import (
    Answered,
    Asked,
    Compacted,
    Fact,
    Framed,
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
    ToolStarted,
)
from melete.core.message import Message, Origin, Text, ToolCall, ToolResult, Usage, user
from melete.core.transcript import ASIDE, Bill, Transcript

A, B = ToolCall(id="a", name="t", arguments="{}"), ToolCall(id="b", name="t", arguments="{}")


def reply(text: str, *calls: ToolCall) -> Reply:
    return Reply(message=Message(role="assistant", parts=(Text(text=text), *calls)), usage=Usage(input=5))


def ended(call: str, content: str = "{}") -> ToolEnded:
    return ToolEnded(result=ToolResult(call=call, name="t", content=content))


def fold(*facts: Fact) -> Transcript:
    return Transcript(facts)


def test_results_stand_in_the_order_of_the_calls_once_all_are_there() -> None:
    state = fold(Said(message=user("hi")), reply("so", A, B), ended("b", "2"))
    assert [call.id for call in state.open_calls] == ["a"]
    assert [message.role for message in state.messages] == ["user", "assistant"]
    state.apply(ended("a", "1"))
    assert not state.open_calls
    assert [part.content for part in state.messages[-1].parts if isinstance(part, ToolResult)] == ["1", "2"]


def test_a_second_result_and_one_without_a_call_change_nothing() -> None:
    state = fold(reply("so", A), ended("a", "1"))
    before = state.messages
    state.apply(ended("a", "2"))
    state.apply(ended("a/1", "inner"))
    state.apply(ended("zzz"))
    assert state.messages == before


def test_what_began_is_known_until_the_next_reply() -> None:
    state = fold(reply("so", A, B), ToolStarted(call=A))
    assert set(state.started) == {"a"}
    state.apply(reply("next"))
    assert not state.started


def test_the_answer_is_the_last_reply_of_the_latest_run_alone() -> None:
    state = fold(RunStarted(), reply("first"), RunEnded(stop="done"))
    assert state.answer == "first"
    state.apply(RunStarted())
    assert state.answer == ""
    state.apply(reply("let me see", A))
    assert state.answer == "let me see"


def test_a_question_is_open_until_it_is_decided_or_its_run_ends() -> None:
    asked = [Asked(question=Question(id=name, kind="clarify", text="?")) for name in "xyz"]
    state = fold(RunStarted(), *asked)
    state.apply(Answered(question="x", status="lost"))
    assert set(state.questions) == {"x", "y", "z"}
    state.apply(Answered(question="x", status="accepted"))
    state.apply(Answered(question="y", status="timeout"))
    assert set(state.questions) == {"z"}
    assert state.answered == {"x"}
    state.apply(RunEnded(stop="done"))
    assert not state.questions


def test_a_run_is_running_until_its_end_is_stored() -> None:
    state = fold(Opened(title="t"))
    assert (state.running, state.title) == (False, "t")
    state.apply(RunStarted())
    assert state.running
    state.apply(RunEnded(stop="done"))
    state.apply(Titled(title="other"))
    assert (state.running, state.title) == (False, "other")


def test_a_compaction_replaces_the_messages_and_names_the_segment() -> None:
    state = fold(
        Said(message=user("long")), reply("so"), Compacted(segment="s2", parent="s1", messages=(user("short"),))
    )
    assert [message.text for message in state.messages] == ["short"]
    assert state.segment == "s2"


def test_the_bill_is_the_runs_and_the_total_the_sessions() -> None:
    one = Spent(run="r1", usage=Usage(input=10), usd=0.5)
    two = (Spent(run="r2", usage=Usage(output=3)), Spent(run="r2", usage=Usage(output=4), usd=0.25))
    state = fold(one, Reply(run="r2", message=Message(role="assistant", parts=())), *two)
    assert state.spent_in("r2") == Bill(1, Usage(output=7), 0.25)
    assert state.spent_in("r1") == Bill()
    assert (state.usage, state.usd) == (Usage(input=10, output=7), 0.75)


def test_what_the_inbox_brought_is_remembered() -> None:
    assert fold(Said(message=user("hi"), inbox="m1")).inbox == {"m1"}


def test_what_was_used_last_shrinks_with_the_conversation() -> None:
    shortened = Compacted(segment="s", parent="", messages=(), tokens_before=900, tokens_after=200)
    last = Reply(message=Message(role="assistant", parts=()), usage=Usage(input=1_000, output=50))
    assert fold(last, shortened).last_usage.total == 350
    assert fold(last, Compacted(segment="s", parent="", messages=(), tokens_before=5_000)).last_usage.total == 0
    assert fold(shortened).last_usage == Usage()  # nobody has counted yet


def test_the_trail_holds_what_decides_how_a_request_begins_and_no_content() -> None:
    note = user("Tools are off.", by=Origin(kind="runtime"))
    state = fold(
        Framed(system=("s",), tools=(), seq=1),
        Said(message=user("secret"), seq=2),
        reply("secret", A),
        ended("a", "secret"),
        Notice(text="t", seq=3),
        Notice(text="t", about=f"{ASIDE}1", seq=4),
        Said(message=note, seq=5),
        Compacted(segment="s", parent="", messages=(user("secret"),), seq=6),
    )
    assert [type(fact).__name__ for fact in state.trail] == ["Framed", "Reply", "Notice", "Said", "Compacted"]
    assert b"secret" not in msgspec.json.encode(list(state.trail))
    assert state.aside == f"{ASIDE}1"
