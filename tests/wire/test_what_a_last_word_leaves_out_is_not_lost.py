"""Servers that say less at the end than they streamed, number nothing, or repeat themselves: nothing of a call or text is lost."""

import asyncio
import json
from typing import Any

import pytest

from melete.core.event import Reply
from melete.models import anthropic_messages, openai_chat, openai_responses
from tests.wire.adapters import answered, asking, spec
from tests.wire.raw import head, sending, serving

ARGUMENTS = '{"path":"x"}'
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read_file", "arguments": ARGUMENTS}
HI = {
    "type": "message",
    "id": "m_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}


def event(name: str, **fields: Any) -> bytes:
    """One event of the Responses API."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


def reply_to(open_model: Any, *pieces: bytes) -> Reply:
    """The reply out of these bytes."""

    async def main() -> Reply:
        async with serving(sending(head(), *pieces)) as port:
            client = open_model(spec(f"http://127.0.0.1:{port}/v1"))
            try:
                return await answered(client, asking("Go"))
            finally:
                await client.aclose()

    return asyncio.run(main())


def last_word(*output: Any) -> Reply:
    """The reply to a stream of a text and a call that ends with this output."""
    streamed = [
        event("response.output_text.delta", item_id="m_1", output_index=0, content_index=0, delta="Hi"),
        event("response.output_item.done", output_index=0, item=HI),
        event("response.output_item.added", output_index=1, item={**CALL, "arguments": ""}),
        event("response.function_call_arguments.delta", item_id="fc_1", output_index=1, delta=ARGUMENTS),
        event("response.output_item.done", output_index=1, item=CALL),
    ]
    end = event("response.completed", response={"status": "completed", "output": list(output)})
    return reply_to(openai_responses.open_model, *streamed, end)


@pytest.mark.parametrize(
    "output",
    [
        ({**HI, "content": []}, CALL),
        (HI, {**CALL, "arguments": ""}),
        ({**HI, "content": None}, {**CALL, "arguments": None}),
        (CALL,),
        (HI,),
        (HI, CALL),
    ],
)
def test_what_was_streamed_stays(output: tuple[Any, ...]) -> None:
    message = last_word(*output).message
    assert message.text == "Hi"
    assert [(call.id, call.name, call.arguments) for call in message.calls] == [("c1", "read_file", ARGUMENTS)]


def test_arguments_that_an_items_end_leaves_out_are_those_that_were_streamed() -> None:
    reply = reply_to(
        openai_responses.open_model,
        event("response.output_item.added", output_index=0, item={**CALL, "arguments": ""}),
        event("response.function_call_arguments.delta", item_id="fc_1", output_index=0, delta=ARGUMENTS),
        event("response.output_item.done", output_index=0, item={**CALL, "arguments": ""}),
        event("response.completed", response={"status": "completed", "output": []}),
    )
    assert [call.arguments for call in reply.message.calls] == [ARGUMENTS]


@pytest.mark.parametrize("repeated", [("id",), ("name",), ("id", "name")], ids=" and ".join)
def test_long_calls_that_repeat_their_name_in_each_piece_are_told_apart(repeated: tuple[str, ...]) -> None:
    texts = [json.dumps({"path": f"{number}{{}}" + "a" * 700}) for number in range(2)]
    pieces: list[bytes] = []
    for number, text in enumerate(texts):
        for at in range(0, len(text), 3):
            head_ = {"id": f"c{number}"} if not at or "id" in repeated else {}
            name = {"name": "read_file"} if not at or "name" in repeated else {}
            call = {"index": 0, **head_, "function": {**name, "arguments": text[at : at + 3]}}
            pieces.append(b"data: " + json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}).encode() + b"\n\n")
    end = b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n'
    reply = reply_to(openai_chat.open_model, *pieces, end)
    assert [call.arguments for call in reply.message.calls] == texts


def test_blocks_without_a_number_are_those_that_began_last() -> None:
    """A server of the Messages API that counts nothing."""
    from_server = [
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop"},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "c1", "name": "read_file"}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": ARGUMENTS[:5]}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": ARGUMENTS[5:]}},
        {"type": "content_block_stop"},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    pieces = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in from_server]
    message = reply_to(anthropic_messages.open_model, *pieces).message
    assert message.text == "Hi"
    assert [call.arguments for call in message.calls] == [ARGUMENTS]
