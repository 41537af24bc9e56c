"""The items of an input become a prompt and what stands before it."""

from typing import Any

import pytest
from tests.chatting import PIXEL

from melete.core.event import Opened, Reply, RunStarted, Said, ToolEnded
from melete.core.message import File, Image, Message, Text, user
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.response_items import Input, input_items, page_of, read_input
from melete.surfaces.api.response_types import ItemPage

PDF = "data:application/pdf;base64,JVBERi0xLjQ="


def read(given: Any, *, most: int = 100) -> Input:
    return read_input(given, most=most)


def words(message: Message | None) -> list[str]:
    assert message is not None
    return [part.text for part in message.parts if isinstance(part, Text)]


def test_a_text_is_the_prompt() -> None:
    found = read("Hello")
    assert (words(found.prompt), words(found.folded), found.history, found.instructions) == (
        ["Hello"],
        ["Hello"],
        (),
        "",
    )


def test_the_last_item_is_the_prompt_and_the_others_stand_before_it() -> None:
    found = read(
        [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "one"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "two", "annotations": []}],
            },
            {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "three"}, {"type": "input_image", "image_url": PIXEL}],
            },
        ]
    )
    assert found.instructions == "Be kind.\n\nBe brief."
    assert [type(fact) for fact in found.history] == [Said, Reply]
    assert words(found.prompt) == ["three"]
    assert found.prompt is not None
    assert isinstance(found.prompt.parts[1], Image)
    assert words(found.folded) == ["one", "[assistant]\ntwo", "three"]
    assert [type(part) for part in found.folded.parts] == [Text, Text, Text, Image]


def test_calls_of_one_turn_belong_together_and_each_has_a_result() -> None:
    found = read(
        [
            {"role": "user", "content": "go"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "content": "Let me look."},
            {"type": "function_call", "call_id": "a", "name": "ls", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "b", "name": "sql", "input": "select"},
            {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "x"}]},
            {
                "type": "mcp_call",
                "id": "c",
                "name": "cat",
                "arguments": "{}",
                "output": "text",
                "server_label": "melete",
            },
            {
                "type": "mcp_call",
                "id": "d",
                "name": "rm",
                "arguments": "{}",
                "error": {"type": "http_error", "code": 5},
            },
            {"role": "user", "content": "and?"},
        ]
    )
    replies = [fact for fact in found.history if isinstance(fact, Reply)]
    assert [[call.name for call in reply.message.calls] for reply in replies] == [["ls", "sql"], ["cat"], ["rm"]]
    ends = {fact.result.call: fact for fact in found.history if isinstance(fact, ToolEnded)}
    assert list(ends) == ["a", "b", "c", "d"]
    assert "x" in ends["a"].result.content
    assert ends["b"].outcome == "unknown"
    assert ends["c"].result.content == "text"
    assert "http_error" in ends["d"].result.content


def test_the_output_of_a_call_that_is_not_here_is_something_that_the_user_says() -> None:
    found = read([{"type": "function_call_output", "call_id": "c9", "output": "forty"}])
    assert words(found.prompt) == ["[output of c9]\nforty"]


def test_items_of_other_types_are_shown_as_they_are() -> None:
    found = read(
        [
            {"role": "user", "content": "find"},
            {"type": "web_search_call", "id": "ws_1"},
            {"role": "user", "content": "so?"},
        ]
    )
    reply = found.history[1]
    assert isinstance(reply, Reply)
    assert "web_search_call" in reply.message.text


def test_a_document_is_given_to_the_model() -> None:
    part = {"type": "input_file", "file_data": PDF, "filename": "a.pdf"}
    found = read([{"role": "user", "content": [{"type": "input_text", "text": "read"}, part]}])
    assert found.prompt is not None
    assert isinstance(found.prompt.parts[1], File)


@pytest.mark.parametrize(
    ("given", "code", "param"),
    [
        (None, "invalid_request", "input"),
        ([5], "invalid_request", "input[0]"),
        ([{"role": "user"}], "invalid_request", "input[0]"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "invalid_request", "input[0].content[0]"),
        ([{"type": 5}], "invalid_request", "input[0].type"),
        ([{"type": "reasoning"}], "empty_input", "input"),
        ([{"role": "system", "content": "x"}], "no_user_message", "input"),
        ([{"type": "reasoning"}, {"role": "user", "content": "  "}], "empty_input", "input[1].content"),
        (
            [{"type": "reasoning"}, {"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}],
            "unsupported_image",
            "input[1].content[0].image_url",
        ),
        ([{"role": "user", "content": "x"}] * 101, "too_many_parts", "input"),
        (
            [{"role": "user", "content": [{"type": "input_text", "text": "x"}] * 101}],
            "too_many_parts",
            "input",
        ),
    ],
)
def test_what_cannot_be_read_is_named(given: Any, code: str, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(given)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, param)


def test_what_a_run_was_asked_with_is_read_off_its_session() -> None:
    history = read(
        [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}, {"role": "user", "content": "x"}]
    )
    facts = [
        Opened(seq=1),
        *history.history,
        RunStarted(run="a"),
        Said(run="a", message=user("three")),
        Reply(run="a", message=Message(role="assistant", parts=(Text(text="four"),))),
        RunStarted(run="b"),
        Said(run="b", message=user("five")),
    ]
    first = input_items(facts, "a", said="Be kind.")
    assert [(item.role, item.content[0].text) for item in first] == [  # pyright: ignore
        ("developer", "Be kind."),
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]
    assert [item.content[0].text for item in input_items(facts, "b", said="")] == ["five"]  # pyright: ignore
    assert not input_items(facts, "c", said="")


def test_pages_are_cut_where_they_are_asked_to_be() -> None:
    facts = [RunStarted(run="a"), Said(run="a", message=user("one"))]
    items = input_items(facts, "a", said="x")
    page = page_of(items, ItemPage(limit=1, order="asc"))
    assert (page.has_more, page.first_id, page.last_id) == (True, items[0].id, items[0].id)
    rest = page_of(items, ItemPage(order="asc", after=items[0].id))
    assert (rest.has_more, [item.id for item in rest.data]) == (False, [items[1].id])
    assert page_of([], ItemPage()).first_id is None
    with pytest.raises(ApiError):
        page_of(items, ItemPage(after="nobody"))
