"""A run as chunks: what was sent is never taken back, nothing is lost, and what else happens is told beside the text."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from melete.core.event import (
    Answered,
    Asked,
    CallDelta,
    Event,
    Notice,
    Question,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from melete.core.message import Message, Text, ToolCall, ToolResult, Usage
from melete.surfaces.api.chat_chunks import BREAK, DONE, LONGEST_ARGUMENTS, Answer, Chunks, shows, usage_of

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STARTED = RunStarted(run="r1", session="s1", seq=2, at=AT, model="m1")
ENDED = RunEnded(run="r1", session="s1", seq=9, stop="done", text="two", steps=2, usage=Usage(input=3, output=2))


def reply(text: str, **more: Any) -> Reply:
    """A finished message of the model."""
    return Reply(message=Message(role="assistant", parts=(Text(text=text),) if text else ()), **more)


def sent(events: Sequence[Event], *, ended: RunEnded = ENDED, **options: Any) -> list[dict[str, Any]]:
    """The chunks of a run as a client reads them."""
    chunks = Chunks(**{"redact": str, **options})
    found = [chunks.begin(STARTED)]
    for event in events:
        found += chunks.of(event)
    found += chunks.end(ended)
    assert found.pop() == DONE
    for frame in found:
        assert frame.startswith(b"data: {")
        assert frame.endswith(b"}\n\n")
        assert frame.count(b"\n") == 2
    return [msgspec.json.decode(frame.removeprefix(b"data: ")) for frame in found]


def text_of(chunks: Sequence[dict[str, Any]]) -> str:
    """The text that a client has in the end."""
    return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])


def beside(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is told beside the text, the run's own end apart."""
    return [chunk["melete"] for chunk in chunks[:-1] if "melete" in chunk]


def again(seq: int = 0) -> Retried:
    """The model is asked again."""
    return Retried(attempt=1, cause="StalledError", reason="it was silent", delay=0.1, seq=seq)


# ---- chunks ----------------------------------------------------------------------------------------------------------------


def test_chunks_are_those_of_openai() -> None:
    first, *pieces, last = sent([TextDelta(text="He"), TextDelta(text="llo"), reply("Hello")])
    assert first == {
        "id": "chatcmpl-r1",
        "object": "chat.completion.chunk",
        "created": int(AT.timestamp()),
        "model": "m1",
        "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None, "logprobs": None}
        ],
    }
    assert [piece["choices"][0]["delta"] for piece in pieces] == [{"content": "He"}, {"content": "llo"}]
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None}]
    ran = {"session": "s1", "run": "r1", "stop": "done", "steps": 2}
    assert last["melete"] == {"type": "run.ended", "seq": 9, "ran": ran}
    assert {chunk["id"] for chunk in (first, *pieces, last)} == {"chatcmpl-r1"}


def test_usage_comes_last_and_only_when_it_is_asked_for() -> None:
    assert all("usage" not in chunk for chunk in sent([reply("x")]))
    *others, last = sent([reply("x")], counted=True)
    assert all(chunk["usage"] is None for chunk in others)
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 5)


def test_tokens_are_counted_as_openai_counts_them() -> None:
    found = usage_of(Usage(input=100, output=20, cache_read=40, cache_write=10, reasoning=5))
    assert (found.prompt_tokens, found.completion_tokens, found.total_tokens) == (150, 20, 170)
    assert found.prompt_tokens_details.cached_tokens == 40
    assert found.completion_tokens_details.reasoning_tokens == 5


def test_texts_of_several_steps_are_one_answer() -> None:
    call = ToolCall(id="c1", name="look", arguments="{}")
    events = [
        TextDelta(text="Let me look."), reply("Let me look."), ToolStarted(call=call, seq=4),
        ToolEnded(result=ToolResult(call="c1", name="look", content="a lot"), seconds=0.5, seq=5),
        reply(""), TextDelta(text="It "), TextDelta(text="is."), reply("It is."),
    ]  # fmt: skip
    chunks = sent(events)
    assert text_of(chunks) == f"Let me look.{BREAK}It is."
    assert beside(chunks) == [
        {"type": "tool.started", "seq": 4, "call": "c1", "name": "look", "arguments": "{}"},
        {"type": "tool.ended", "seq": 5, "call": "c1", "name": "look", "outcome": "ok", "seconds": 0.5},
    ]
    assert all(chunk["choices"][0]["delta"] == {} for chunk in chunks if "melete" in chunk)


def test_reasoning_is_told_apart_from_the_answer() -> None:
    chunks = sent([ThinkingDelta(text="Hm."), TextDelta(text="Yes."), reply("Yes.")])
    assert text_of(chunks) == "Yes."
    assert chunks[1]["choices"][0]["delta"] == {"reasoning_content": "Hm."}


def test_questions_are_told_with_their_ids() -> None:
    question = Question(id="q1", kind="approval", text="May I?", choices=("yes", "no"), call="c1")
    assert beside(sent([Asked(question=question, seq=4), Answered(question="q1", value="yes", seq=5)])) == [
        {"type": "asked", "seq": 4, "call": "c1", "question": "q1", "text": "May I?", "choices": ["yes", "no"]},
        {"type": "answered", "seq": 5, "question": "q1", "outcome": "accepted"},
    ]


def test_arguments_that_are_long_are_left_to_the_events_of_the_run() -> None:
    call = ToolCall(id="c1", name="write", arguments="x" * (LONGEST_ARGUMENTS + 1))
    assert "arguments" not in beside(sent([ToolStarted(call=call)]))[0]


def test_other_events_make_no_chunks() -> None:
    events: list[Event] = [Notice(text="x"), CallDelta(index=0, name="look"), ToolProgress(call="c1", text="line")]
    assert len(sent(events)) == 2
    assert not any(map(shows, events))
    assert shows(TextDelta(text="x"))
    assert shows(ENDED)


def test_the_end_says_why_it_is_one() -> None:
    def finish(last: Reply, stop: str = "done") -> str:
        return sent([last], ended=msgspec.structs.replace(ENDED, stop=stop))[-1]["choices"][0]["finish_reason"]

    assert finish(reply("x")) == "stop"
    assert finish(reply("x", stop="length")) == "length"
    assert finish(reply("x", stop="content_filter")) == "content_filter"
    assert finish(reply("x"), "out_of_steps") == "length"


def test_a_form_that_was_asked_for_is_sent_whole_when_it_is_right() -> None:
    events = [
        TextDelta(text="No"),
        reply("No"),
        TextDelta(text='{"n":'),
        again(),
        TextDelta(text='{"n": 1}'),
        reply('{"n": 1}'),
    ]
    ended = msgspec.structs.replace(ENDED, text='```\n{"n": 1}\n```')
    chunks = sent(events, ended=ended, whole=True, read=lambda text: text.strip("`\n"))
    assert text_of(chunks) == '{"n": 1}'


def test_secrets_are_taken_out_of_everything() -> None:
    call = ToolCall(id="c1", name="look", arguments="sesame")
    events = [
        ThinkingDelta(text="sesame"), TextDelta(text="sesame"), reply("sesame"), ToolStarted(call=call), again(),
        Asked(question=Question(id="q", kind="clarify", text="sesame?")),
    ]  # fmt: skip
    ended = msgspec.structs.replace(ENDED, stop="out_of_budget", error="sesame")
    chunks = sent(events, ended=ended, redact=lambda text: text.replace("sesame", "***"))
    assert "sesame" not in msgspec.json.encode(chunks).decode()


# ---- the answer as it grows ------------------------------------------------------------------------------------------------


def test_what_is_the_same_is_not_sent_twice() -> None:
    events = [TextDelta(text="The answer is"), again(), TextDelta(text="The ans"), TextDelta(text="wer is 42.")]
    chunks = sent([*events, reply("The answer is 42.")])
    assert text_of(chunks) == "The answer is 42."
    assert [told["type"] for told in beside(chunks)] == ["retried"]


def test_what_differs_follows_whole_and_says_what_it_replaces() -> None:
    events = [TextDelta(text="The answer is"), again(3), TextDelta(text="The re", seq=4), TextDelta(text="sult: 42.")]
    chunks = sent([*events, reply("The result: 42.")])
    assert text_of(chunks) == f"The answer is{BREAK}The result: 42."
    assert beside(chunks)[-1] == {"type": "text.void", "seq": 4, "void": len("The answer is")}


def test_an_answer_that_turns_out_shorter_is_sent_as_well() -> None:
    chunks = sent([TextDelta(text="Yes, but"), again(), TextDelta(text="Yes"), reply("Yes")])
    assert text_of(chunks) == f"Yes, but{BREAK}Yes"


def test_what_no_delta_told_comes_with_the_message() -> None:
    assert text_of(sent([reply("Hello.")])) == "Hello."
    assert text_of(sent([TextDelta(text="Hel"), reply("Hello.")])) == "Hello."


words = st.text(alphabet="ab ", min_size=0, max_size=6)


@given(st.lists(st.tuples(st.lists(st.lists(words, max_size=3), max_size=3), words), min_size=1, max_size=4))
@example([([["ab"], ["a"]], "a"), ([], "b")])
@example([([["ab"], ["ab"]], "ab")])
@example([([["ab"], ["b"], ["ab"]], "abb")])
def test_every_answer_is_in_the_text_whatever_was_tried_before(steps: list[tuple[list[list[str]], str]]) -> None:
    """Steps of attempts of pieces, each step ended by its whole text: a reader finds all whole texts, in order."""
    answer, told = Answer(), ""
    for attempts, last in steps:
        for pieces in attempts:
            for piece in pieces:
                told += answer.add(piece)
            answer.again()
        for piece in [last[: len(last) // 2], last[len(last) // 2 :]]:
            told += answer.add(piece)
        told += answer.end(last)
    assert told == answer.sent
    place = 0
    for _, last in steps:
        assert last in told[place:]
        place = told.index(last, place) + len(last)


@given(st.lists(words.filter(lambda text: bool(text.strip())), min_size=1, max_size=5))
def test_without_failures_the_text_is_that_of_the_steps(texts: list[str]) -> None:
    answer = Answer()
    told = "".join(answer.add(text) + answer.end(text) for text in texts)
    assert told == BREAK.join(texts)
