"""A response is made of the events of its runs: the same from the pieces of a stream and from the facts of a log."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.app.answers import AnswerSchema
from melete.core.event import (
    Answered,
    Asked,
    Event,
    Question,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
)
from melete.core.message import Message, Part, Text, Thinking, ToolCall, ToolResult, Usage
from melete.surfaces.api.response_events import (
    Completed,
    EndedEarly,
    Failed,
    ItemAdded,
    ItemDone,
    ResponseEvent,
    ThoughtWords,
    WordsAdded,
    WordsDone,
)
from melete.surfaces.api.response_numbers import BLOCK
from melete.surfaces.api.response_stream import ABOUT, Writer
from melete.surfaces.api.response_types import OutputMessage, ReasoningItem, Response, ToolItem, Wish

RUN, AGAIN = "0123456789abcdef", "fedcba9876543210"
AT = datetime(2026, 11, 22, 9, 0, 0, tzinfo=UTC)
USAGE = Usage(input=100, output=20, cache_read=40, cache_write=10, reasoning=5)
THOUGHT, REMARK, ANSWER = "I should look.", "Let me look.", "There are three files."
SCHEMA = AnswerSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


def started(run: str = RUN, **about: str) -> RunStarted:
    return RunStarted(run=run, session="s", model="m", at=AT, about=about)


def reply(*parts: Part, run: str = RUN, **fields: Any) -> Reply:
    return Reply(run=run, message=Message(role="assistant", parts=parts), **fields)


def returned(call: str = "c1", run: str = RUN, **fields: Any) -> ToolEnded:
    content = '{"output":"a b c"}'
    return ToolEnded(run=run, result=ToolResult(call=call, name="terminal", content=content), **fields)


def ended(stop: str = "done", run: str = RUN, **fields: Any) -> RunEnded:
    return RunEnded(run=run, session="s", stop=stop, at=AT, **({"text": ANSWER, "usage": USAGE, "steps": 2} | fields))


CALL = ToolCall(id="c1", name="terminal", arguments='{"command": "ls"}')
FACTS: Sequence[Event] = (
    started(),
    reply(Thinking(text=THOUGHT), Text(text=REMARK), CALL, stop="tool_calls"),
    returned(),
    reply(Text(text=ANSWER)),
    ended(),
)


def tell(events: Sequence[Event], writer: Writer | None = None) -> list[ResponseEvent]:
    writer = writer or Writer(RUN)
    return [made for event in events for made in writer.take(event)]


def final(events: Sequence[Event], writer: Writer | None = None) -> Response:
    writer = writer or Writer(RUN)
    tell(events, writer)
    return writer.response()


def pieces(draw: st.DrawFn, text: str, kind: type[TextDelta] | type[ThinkingDelta]) -> list[Event]:
    """The text cut anywhere; its end may be missing, as a delta may be lost."""
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)) | {0})
    ends = [*cuts[1:], draw(st.sampled_from([len(text), cuts[-1]]))]
    return [kind(run=RUN, text=text[a:b]) for a, b in zip(cuts, ends, strict=True)]


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """The facts with deltas among them, as a model streams."""
    first, call, result, second, end = FACTS
    thought = pieces(draw, THOUGHT, ThinkingDelta)
    words = pieces(draw, REMARK, TextDelta) if "".join(p.text for p in thought) == THOUGHT else []  # pyright: ignore
    return [first, *thought, *words, call, result, *pieces(draw, ANSWER, TextDelta), second, end]


def plain(event: ResponseEvent) -> dict[str, Any]:
    return msgspec.to_builtins(event)


def texts(events: Sequence[ResponseEvent]) -> dict[str, str]:
    """What the words of each item add up to."""
    found: dict[str, str] = {}
    for event in events:
        if isinstance(event, WordsAdded | ThoughtWords):
            found[event.item_id] = found.get(event.item_id, "") + event.delta
    return found


def without_words(events: Sequence[ResponseEvent]) -> list[dict[str, Any]]:
    return [plain(event) for event in events if not isinstance(event, WordsAdded | ThoughtWords)]


# ---- one stream, however it comes --------------------------------------------------------------------------------------


@given(streams())
def test_a_log_tells_the_same_events_under_the_same_numbers_as_a_stream(stream: list[Event]) -> None:
    live, stored = tell(stream), tell(FACTS)
    assert without_words(live) == without_words(stored)
    assert texts(live) == texts(stored)
    for made in (live, stored):
        numbers = [event.sequence_number for event in made]
        assert numbers == sorted(set(numbers))
        assert numbers[:2] == [0, 1]


@given(streams(), st.data())
def test_a_reader_who_was_cut_off_goes_on_from_the_log_without_a_gap(stream: list[Event], data: st.DataObject) -> None:
    live = tell(stream)
    at = data.draw(st.integers(0, len(live) - 1))
    rest = tell(FACTS, Writer(RUN, after=live[at].sequence_number))
    assert without_words([*live[: at + 1], *rest]) == without_words(live)
    both = texts(live[: at + 1])
    for item, text in texts(rest).items():
        both[item] = both.get(item, "") + text
    assert both == texts(live)


def test_the_events_come_in_the_order_that_clients_know() -> None:
    kinds = [event.__struct_config__.tag for event in tell(FACTS)]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_the_response_holds_what_was_told() -> None:
    made = final(FACTS)
    events = tell(FACTS)
    done = [event.item for event in events if isinstance(event, ItemDone)]
    assert list(made.output) == done
    thought, remark, tool, answer = made.output
    assert isinstance(thought, ReasoningItem)
    assert thought.summary[0].text == THOUGHT
    assert isinstance(remark, OutputMessage)
    assert (remark.phase, remark.content[0].text) == ("commentary", f"{REMARK}\n\n")
    assert isinstance(tool, ToolItem)
    assert (tool.status, tool.output, tool.error) == ("completed", '{"output":"a b c"}', None)
    assert isinstance(answer, OutputMessage)
    assert (answer.phase, answer.content[0].text) == ("final_answer", ANSWER)
    assert made.usage is not None
    assert (made.usage.input_tokens, made.usage.output_tokens, made.usage.total_tokens) == (150, 20, 170)
    assert made.usage.input_tokens_details.cached_tokens == 40
    assert made.usage.output_tokens_details.reasoning_tokens == 5
    assert (made.status, made.completed_at, made.melete.session) == ("completed", int(AT.timestamp()), "s")
    indexes = [event.output_index for event in events if isinstance(event, ItemAdded)]
    assert indexes == [0, 1, 2, 3]


def test_what_was_asked_for_is_told_again() -> None:
    wish = Wish(metadata={"a": "b"}, instructions="Be brief.", previous="resp_1", background=True, temperature=0.5)
    made = final([started(**{ABOUT: msgspec.json.encode(wish).decode()}), ended()])
    assert (made.metadata, made.instructions, made.previous_response_id) == ({"a": "b"}, "Be brief.", "resp_1")
    assert (made.background, made.temperature, made.truncation) == (True, 0.5, "disabled")
    assert final([started(**{ABOUT: "{not json"}), ended()]).metadata == {}


# ---- answers that were given up ----------------------------------------------------------------------------------------


def again() -> Retried:
    return Retried(run=RUN, attempt=1, cause="ConnectionFailedError", reason="cut", delay=0.1)


def test_text_of_an_answer_that_broke_off_is_told_to_be_incomplete_and_is_no_part_of_the_response() -> None:
    stream = [started(), TextDelta(run=RUN, text="Roses are"), again(), reply(Text(text=ANSWER)), ended()]
    events = tell(stream)
    items = [event.item for event in events if isinstance(event, ItemDone)]
    assert [(item.status, item.id) for item in items] == [
        ("incomplete", f"msg_{RUN}_1"),
        ("completed", f"msg_{RUN}_2"),
    ]
    assert [event.output_index for event in events if isinstance(event, ItemAdded)] == [0, 1]
    made = final(stream)
    assert [item.id for item in made.output] == [f"msg_{RUN}_2"]
    stored = tell([started(), again(), reply(Text(text=ANSWER)), ended()])
    numbers = {event.sequence_number for event in events}
    assert {event.sequence_number for event in stored} <= numbers


def test_a_model_that_failed_leaves_no_half_answer_behind() -> None:
    failed = ended("failed", text="", error="it broke", cause="UnavailableError")
    events = tell([started(), ThinkingDelta(run=RUN, text="hm"), TextDelta(run=RUN, text="Roses"), failed])
    assert isinstance(events[-1], Failed)
    made = events[-1].response
    assert (made.status, made.output) == ("failed", ())
    assert made.error is not None
    assert (made.error.code, made.error.message) == ("server_error", "it broke")
    assert [e.item.status for e in events if isinstance(e, ItemDone)] == ["completed", "incomplete"]


def test_words_that_turn_out_to_be_others_end_with_the_right_ones() -> None:
    stream = [started(), TextDelta(run=RUN, text="<call>"), reply(Text(text=ANSWER)), ended()]
    events = tell(stream)
    assert [event.text for event in events if isinstance(event, WordsDone)] == [ANSWER]
    assert final(stream).output == final([started(), reply(Text(text=ANSWER)), ended()]).output


def test_words_that_were_a_call_are_no_message() -> None:
    stream = [started(), TextDelta(run=RUN, text="<call>"), reply(CALL), returned(), ended("cancelled", text="")]
    assert [item.id for item in final(stream).output] == [f"mcp_{RUN}_1_1"]
    assert [e.item.status for e in tell(stream) if isinstance(e, ItemDone)] == ["incomplete", "completed"]


def test_blocks_leave_room_for_answers_of_any_length() -> None:
    long = "x" * (3 * BLOCK)
    events = tell([started(), TextDelta(run=RUN, text=long), reply(Text(text=long)), ended(text=long)])
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    after = next(e.sequence_number for e in events if isinstance(e, WordsAdded)) - 10
    rest = tell([started(), reply(Text(text=long)), ended(text=long)], Writer(RUN, after=after))
    assert isinstance(rest[0], WordsAdded)
    assert rest[0].delta == "x" * 10


# ---- thoughts and words in turn ----------------------------------------------------------------------------------------


def test_thoughts_between_words_are_items_of_their_own_and_the_words_one_message() -> None:
    parts = (Thinking(text="a"), Text(text="one"), Thinking(text="b"), Text(text="two"))
    stream: list[Event] = [
        started(),
        ThinkingDelta(run=RUN, text="a"),
        TextDelta(run=RUN, text="one"),
        ThinkingDelta(run=RUN, text="b"),
        TextDelta(run=RUN, text="\n\ntwo"),
        reply(*parts),
        ended(text="one\n\ntwo"),
    ]
    live, stored = tell(stream), tell([started(), reply(*parts), ended(text="one\n\ntwo")])
    assert without_words(live) == without_words(stored)
    assert (
        texts(live)
        == texts(stored)
        == {
            f"rs_{RUN}_1_1": "a",
            f"msg_{RUN}_1": "one\n\ntwo",
            f"rs_{RUN}_1_2": "b",
        }
    )


# ---- calls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("ok", "completed"),
        ("error", "failed"),
        ("denied", "failed"),
        ("timeout", "failed"),
        ("unknown", "incomplete"),
        ("not_run", "incomplete"),
        ("cancelled", "incomplete"),
    ],
)
def test_a_call_that_did_not_succeed_says_so(outcome: str, status: str) -> None:
    made = final([started(), reply(CALL), returned(outcome=outcome), ended(text="")])
    tool = made.output[0]
    assert isinstance(tool, ToolItem)
    assert tool.status == status
    assert tool.output == '{"output":"a b c"}'
    assert (tool.error is None) == (outcome == "ok")


def test_calls_side_by_side_end_in_any_order_in_their_own_places() -> None:
    other = ToolCall(id="c2", name="read_file", arguments="{}")
    stream = [started(), reply(CALL, other), returned("c2"), returned("c1"), returned("c1/1"), ended(text="")]
    events = tell(stream)
    assert [item.id for item in final(stream).output] == [f"mcp_{RUN}_1_1", f"mcp_{RUN}_1_2"]
    assert [event.output_index for event in events if isinstance(event, ItemDone)] == [1, 0]


def test_a_question_is_shown_while_it_is_open() -> None:
    question = Question(id="q1", kind="approval", text="Run it?", choices=("once", "deny"))
    writer = Writer(RUN)
    tell([started(), reply(CALL)], writer)
    asked = writer.take(Asked(run=RUN, question=question))
    assert asked[0].response.melete.questions == (question,)  # pyright: ignore
    answered = writer.take(Answered(run=RUN, question="q1"))
    assert answered[0].response.melete.questions == ()  # pyright: ignore
    assert not writer.take(Answered(run=RUN, question="q1", status="lost"))


# ---- how it ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "text", "status", "reason"),
    [
        ("out_of_steps", "so far", "incomplete", "max_messages"),
        ("looping", "so far", "incomplete", "max_messages"),
        ("out_of_budget", "so far", "incomplete", "max_output_tokens"),
        ("out_of_budget", "", "failed", None),
        ("context_full", "", "failed", None),
        ("cancelled", "", "cancelled", None),
        ("failed", "", "failed", None),
    ],
)
def test_a_response_that_ends_early_says_why(stop: str, text: str, status: str, reason: str | None) -> None:
    parts = (Text(text=text),) if text else ()
    events = tell([started(), reply(*parts), ended(stop, text=text)])
    made = events[-1].response  # pyright: ignore
    assert isinstance(events[-1], Failed if status == "failed" else EndedEarly)
    assert (made.status, made.melete.stop, made.completed_at) == (status, stop, None)
    assert (made.incomplete_details and made.incomplete_details.reason) == reason
    assert (made.error is not None) == (status == "failed")


@pytest.mark.parametrize(("stop", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_answer_that_was_cut_off_is_incomplete(stop: Any, reason: str) -> None:
    made = final([started(), reply(Text(text=ANSWER), stop=stop), ended()])
    assert (made.status, made.output[0].status) == ("incomplete", "incomplete")
    assert made.incomplete_details is not None
    assert made.incomplete_details.reason == reason


def test_an_answer_that_an_earlier_run_had_stored_is_told() -> None:
    made = final([started(), ended(steps=0)])
    assert [item.content[0].text for item in made.output if isinstance(item, OutputMessage)] == [ANSWER]


def test_nobody_works_on_it_any_more() -> None:
    writer = Writer(RUN)
    tell([started(), reply(CALL)], writer)
    assert writer.response().status == "in_progress"
    writer.given_up = "gone"
    assert writer.response().status == "failed"


# ---- a form of the answer ----------------------------------------------------------------------------------------------


def test_words_are_held_back_until_they_have_the_form() -> None:
    answer = '```json\n{"n": 4}\n```'
    writer = Writer(RUN, schema=SCHEMA)
    shown = tell([started(), reply(Text(text=REMARK), CALL), returned(), TextDelta(run=RUN, text="```")], writer)
    assert all(f"msg_{RUN}" not in item for item in texts(shown))
    rest = tell([reply(Text(text="four")), reply(Text(text=answer)), ended(text=answer)], writer)
    assert {item: text for item, text in texts([*shown, *rest]).items() if item.startswith("msg")} == {
        f"msg_{RUN}_3": '{"n": 4}'
    }
    made = writer.response()
    assert [item.__struct_config__.tag for item in made.output] == ["reasoning", "mcp_call", "reasoning", "message"]
    assert isinstance(rest[-1], Completed)


def test_last_words_without_the_form_are_told_all_the_same() -> None:
    made = final(
        [started(), reply(Text(text="It was too much.")), ended("out_of_steps", text="It was too much.")],
        Writer(RUN, schema=SCHEMA),
    )
    assert [item.content[0].text for item in made.output if isinstance(item, OutputMessage)] == ["It was too much."]


# ---- after a restart ---------------------------------------------------------------------------------------------------


def test_a_run_that_another_server_goes_on_with_is_one_response() -> None:
    before = [started(), reply(Text(text=REMARK), CALL), returned(), TextDelta(run=RUN, text="There")]
    cut = [ended("failed", text=REMARK, steps=1, cost_usd=0.5)]
    after = [started(AGAIN, resumes=RUN), reply(Text(text=ANSWER), run=AGAIN), ended(run=AGAIN, cost_usd=0.25)]
    live = tell(before)
    writer = Writer(RUN, after=live[-1].sequence_number)
    writer.last = AGAIN
    rest = tell([*before[:-1], *cut, *after], writer)
    made = writer.response()
    assert (made.id, made.status, made.melete.run) == (f"resp_{RUN}", "completed", AGAIN)
    assert made.usage is not None
    assert (made.usage.output_tokens, made.melete.cost_usd, made.melete.steps) == (40, 0.75, 3)
    assert [item.id for item in made.output] == [f"msg_{RUN}_1", f"mcp_{RUN}_1_1", f"msg_{RUN}_4"]
    assert rest[0].__struct_config__.tag == "response.in_progress"
    assert texts(rest) == {f"msg_{RUN}_4": ANSWER}
    assert min(event.sequence_number for event in rest) > live[-1].sequence_number
