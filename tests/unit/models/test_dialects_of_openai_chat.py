"""What servers make of the wire: numbered well, badly or not at all, in pieces or whole."""

from typing import Any

import msgspec
import pytest

from melete.core.event import Delta
from melete.core.message import Text, Thinking, Usage
from melete.models.openai_reply import ReplyAssembler, counted


def assembled(*deltas: dict[str, Any], taken: tuple[str, ...] = ()) -> tuple[ReplyAssembler, list[Delta]]:
    """An answer out of these deltas."""
    reply = ReplyAssembler(taken=set(taken))
    shown = [item for delta in deltas for item in reply.feed({"choices": [{"delta": delta}]})]
    return reply, shown


def calls(*pieces: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of the calls in these pieces, one piece a delta."""
    reply, _ = assembled(*({"tool_calls": [piece]} for piece in pieces))
    return [(c.id, c.name, c.arguments) for c in reply.message().calls]


def piece(
    index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """One streamed piece of a call."""
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    found: dict[str, Any] = {"function": function}
    if index is not None:
        found["index"] = index
    if call_id is not None:
        found["id"] = call_id
    return found


TWO = [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


@pytest.mark.parametrize(
    "pieces",
    [
        [
            piece(0, "a", "f", ""),
            piece(0, None, None, '{"x"'),
            piece(0, None, None, ":1}"),
            piece(1, "b", "g", '{"y":2}'),
        ],
        [piece(0, "a", "f", '{"x":1}'), piece(0, "b", "g", '{"y":2}')],
        [piece(None, "a", "f", '{"x":1}'), piece(None, "b", "g", '{"y":2}')],
        [piece(None, "a", "f", '{"x"'), piece(None, None, None, ":1}"), piece(None, "b", "g", '{"y":2}')],
        [piece(0, "a", "f", '{"x"'), piece(0, "a", "f", ":1}"), piece(1, "b", "g", '{"y"'), piece(1, "b", "g", ":2}")],
        [piece(0, "a", "f"), piece(1, "b", "g"), piece(0, None, None, '{"x":1}'), piece(1, None, None, '{"y":2}')],
        [piece(0, "a", "f", {"x": 1}), piece(1, "b", "g", {"y": 2})],
        [piece(0, "a", "f", '{"x":1}'), piece(0, "a", "f", '{"x":1}'), piece(1, "b", "g", '{"y":2}')],
        [piece(0, "a", "f", '{"x":1}'), piece(0, "", "", ""), piece(1, "b", "g", '{"y":2}')],
        [piece(None, "a", "f", '{"x"'), piece(None, "b", "g", '{"y":2}'), piece(None, "a", None, ":1}")],
    ],
)
def test_two_calls_come_out_however_they_are_numbered(pieces: list[dict[str, Any]]) -> None:
    assert calls(*pieces) == TWO


def test_calls_without_ids_get_some() -> None:
    found = calls(piece(None, None, "f", '{"x":1}'), piece(None, None, "f", '{"x":2}'), piece(0, "", "g", "{}"))
    assert found == [("call_1", "f", '{"x":1}'), ("call_2", "f", '{"x":2}'), ("call_3", "g", "{}")]


def test_ids_of_the_conversation_are_not_used_again() -> None:
    reply, _ = assembled({"tool_calls": [piece(0, "c", "f", "{}")]}, taken=("c", "c_2"))
    assert reply.message().calls[0].id == "c_3"


def test_several_calls_in_one_delta_and_a_call_that_is_no_list() -> None:
    reply, _ = assembled(
        {"tool_calls": [piece(0, "a", "f", "{}"), piece(1, "b", "g", "{}")]}, {"tool_calls": piece(2, "c", "h")}
    )
    assert [c.name for c in reply.message().calls] == ["f", "g", "h"]


def test_unknown_fields_of_a_call_stay_with_it() -> None:
    signed = piece(0, "a", "f", "{}") | {"type": "function", "extra_content": {"google": {"thought_signature": "QQ=="}}}
    reply, _ = assembled({"tool_calls": [signed]})
    wire = reply.message().wire
    assert wire is not None
    assert msgspec.json.decode(wire.body)["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        | {"extra_content": signed["extra_content"]}
    ]


def body_of(*deltas: dict[str, Any]) -> dict[str, Any]:
    """The provider's own message out of these deltas."""
    wire = assembled(*deltas)[0].message().wire
    assert wire is not None
    return msgspec.json.decode(wire.body)


def test_reasoning_details_are_joined_by_index_and_kept() -> None:
    body = body_of(
        {"reasoning_details": [{"type": "reasoning.text", "text": "Let ", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "me.", "signature": "c2ln", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "QUJD", "id": "r1", "index": 1}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "REVG", "id": "r2", "index": 1}]},
    )
    assert body["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Let me.", "index": 0, "signature": "c2ln"},
        {"type": "reasoning.encrypted", "data": "QUJD", "id": "r1", "index": 1},
        {"type": "reasoning.encrypted", "data": "REVG", "id": "r2", "index": 1},
    ]


def test_encrypted_items_without_a_number_are_never_joined() -> None:
    item = {"type": "reasoning.encrypted", "data": "QUJD"}
    assert body_of({"reasoning_details": [item]}, {"reasoning_details": [item]})["reasoning_details"] == [item, item]


def test_the_same_thought_under_two_names_is_shown_once() -> None:
    details = [{"type": "reasoning.text", "text": "Hm.", "index": 0}]
    reply, shown = assembled({"reasoning": "Hm.", "reasoning_details": details}, {"content": "Yes."})
    assert len(shown) == 2
    assert reply.message().parts == (Thinking(text="Hm."), Text(text="Yes."))
    assert body_of({"reasoning": "Hm.", "reasoning_details": details})["reasoning"] == "Hm."


def test_content_as_items_with_thinking_among_them() -> None:
    deltas = (
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
        {"content": [{"type": "text", "text": "Y"}]},
        {"content": [{"type": "text", "text": "es."}]},
    )
    message = assembled(*deltas)[0].message()
    assert message.text == "Yes."
    assert body_of(*deltas)["content"][1] == {"type": "text", "text": "Yes."}


def test_plain_text_beside_items_is_kept_in_both_forms() -> None:
    thought, text = {"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}
    for deltas in ([{"content": [thought]}, {"content": "Yes."}], [{"content": "Yes."}, {"content": [thought]}]):
        message = assembled(*deltas)[0].message()
        assert message.text == "Yes."
        content = body_of(*deltas)["content"]
        assert sorted(content, key=str) == sorted([thought, text], key=str)


def test_a_refusal_is_text_and_unknown_fields_keep_their_last_value() -> None:
    body = body_of({"refusal": "I ca"}, {"refusal": "n't.", "mood": "low"}, {"mood": "fine", "audio": None})
    assert body == {"role": "assistant", "content": None, "mood": "fine", "refusal": "I can't."}
    assert assembled({"refusal": "No."})[0].message().text == "No."


@pytest.mark.parametrize(
    "chunk", [{}, {"choices": None}, {"choices": [None]}, {"choices": [{"delta": None}]}, {"usage": None}]
)
def test_chunks_that_say_nothing_are_passed_over(chunk: dict[str, Any]) -> None:
    assert list(ReplyAssembler(taken=set()).feed(chunk)) == []


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 7}, Usage(input=100, output=7)),
        (
            {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens": 7},
            Usage(input=40, output=7, cache_read=60),
        ),
        (
            {"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "completion_tokens": 1},
            Usage(input=36, output=1, cache_read=64),
        ),
        (
            {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 20}},
            Usage(input=30, cache_read=50, cache_write=20),
        ),
        (
            {"prompt_tokens": 5, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 8}},
            Usage(input=5, output=9, reasoning=8),
        ),
        ({"prompt_tokens": None, "completion_tokens": "many"}, Usage()),
        ({"prompt_tokens": 2**64 - 1, "completion_tokens": 3}, Usage(output=3)),
    ],
)
def test_tokens_under_every_name(usage: dict[str, Any], expected: Usage) -> None:
    assert counted(usage) == expected


def test_usage_is_found_in_the_choice_and_beside_it() -> None:
    reply = ReplyAssembler(taken=set())
    list(reply.feed({"choices": [{"delta": {}, "usage": {"prompt_tokens": 3}}]}))
    assert reply.usage.input == 3
    list(reply.feed({"x_groq": {"usage": {"prompt_tokens": 4}}, "choices": []}))
    assert reply.usage.input == 4
