"""A model whose calls and thoughts stand in its text, and one that is told its tools in words: what goes in, what comes out."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
import pytest

from melete.core.event import CallDelta, Delta, Reply, Retried, TextDelta, ThinkingDelta, ToolSchema
from melete.core.message import Image, Message, Part, Text, Thinking, ToolCall, ToolResult, Wire, user
from melete.core.model import (
    BadRequestError,
    Capabilities,
    ModelError,
    ModelRequest,
    UnavailableError,
    UnknownModelError,
)
from melete.models.text_calls import TextCalls, refuses_tools
from tests.unit.models.test_text_calls import read, words

Item = Delta | Retried | Reply
Step = ModelError | Sequence[Item]
SCHEMA = msgspec.Raw(
    b'{"type":"object","required":["command"],"properties":{"command":{"type":"string"},"timeout":{"type":"integer","default":180}}}'
)
PLAN = msgspec.Raw(
    b'{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","required":["id"],"properties":'
    b'{"id":{"type":"string","description":"Its name."},"state":{"enum":["open","done"]}}},"description":"All of them."}}}'
)
TOOLS = (
    ToolSchema(name="terminal", about="Run a command.\nWith care.", parameters=SCHEMA),
    ToolSchema(name="plan", about="The plan.", parameters=PLAN),
)


class Inner:
    """A model client that plays steps and keeps what it is asked."""

    name, provider, wire, can = "m", "test", "openai-chat", Capabilities()

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Item]:
        """Play the next step."""
        self.asked.append(request)
        step = self.steps.pop(0)
        if isinstance(step, ModelError):
            raise step
        for item in step:
            yield item

    async def aclose(self) -> None:
        """Nothing to close."""


def says(text: str, *more: Part, stop: Any = "end", wire: Wire | None = None) -> list[Item]:
    """A streamed reply of these words."""
    parts = ((Text(text=text),) if text else ()) + more
    deltas = [TextDelta(text=text[at : at + 5]) for at in range(0, len(text), 5)]
    return [*deltas, Reply(message=Message(role="assistant", parts=parts, wire=wire), stop=stop)]


def ask(client: TextCalls, request: ModelRequest) -> list[Item]:
    async def main() -> list[Item]:
        return [item async for item in client.stream(request)]

    return asyncio.run(main())


def last(items: Sequence[Item]) -> Reply:
    (reply,) = [item for item in items if isinstance(item, Reply)]
    assert items[-1] is reply
    return reply


REQUEST = ModelRequest(model="m", system=("Be.",), tools=TOOLS, messages=(user("Go"),))
WIRE = Wire(name="openai-chat", body=msgspec.Raw(b'{"role":"assistant","content":"x"}'))
CALL = '<tool_call>{"name": "terminal", "arguments": {"command": "ls -l"}}</tool_call>'


def test_a_call_in_text_becomes_a_call() -> None:
    items = ask(TextCalls(Inner(says(f"I look.\n{CALL}", wire=WIRE))), REQUEST)
    reply = last(items)
    assert reply.stop == "tool_calls"
    assert reply.message == Message(
        role="assistant",
        parts=(Text(text="I look."), ToolCall(id="call_1", name="terminal", arguments='{"command":"ls -l"}')),
    )
    assert words(items) == "I look."
    assert [item.name for item in items if isinstance(item, CallDelta)] == ["terminal"]


def test_ids_are_new_in_the_conversation() -> None:
    before = (
        user("Go"),
        Message(role="assistant", parts=(ToolCall(id="call_2", name="plan", arguments="{}"),)),
        Message(role="tool", parts=(ToolResult(call="call_2", name="plan", content="{}"),)),
    )
    request = msgspec.structs.replace(REQUEST, messages=before)
    reply = last(ask(TextCalls(Inner(says(CALL + CALL))), request))
    assert [call.id for call in reply.message.calls] == ["call_3", "call_4"]


def test_a_reply_without_markup_is_passed_on_as_it_is() -> None:
    step = says("Three files.", Thinking(text="Hm."), wire=WIRE)
    items = ask(TextCalls(Inner(step)), REQUEST)
    assert items[-1] is step[-1]
    assert words(items) == "Three files."


def test_calls_of_its_own_make_text_be_text() -> None:
    own = ToolCall(id="x", name="plan", arguments="{}")
    text, *rest = says(CALL, own, stop="tool_calls")
    step = [text, *rest[:-1], CallDelta(index=0, id="x", name="plan"), rest[-1]]
    items = ask(TextCalls(Inner(step)), REQUEST)
    assert items[-1] is step[-1]
    assert words(items) == CALL


def test_thoughts_in_text_keep_the_providers_bytes() -> None:
    own = ToolCall(id="x", name="plan", arguments="{}")
    items = ask(TextCalls(Inner(says("<think>Hm.</think>Well.", own, stop="tool_calls", wire=WIRE))), REQUEST)
    assert last(items).message == Message(
        role="assistant", parts=(Thinking(text="Hm."), Text(text="Well."), own), wire=WIRE
    )
    assert (words(items, ThinkingDelta), words(items)) == ("Hm.", "Well.")


def test_a_server_that_tells_thoughts_apart_is_believed() -> None:
    step: list[Item] = [ThinkingDelta(text="Hm."), *says("<think> is a tag.", Thinking(text="Hm."))]
    items = ask(TextCalls(Inner(step)), REQUEST)
    assert items[-1] is step[-1]
    assert words(items) == "<think> is a tag."


def test_no_call_is_read_where_calling_is_off_or_there_is_no_tool() -> None:
    for off in (msgspec.structs.replace(REQUEST, tool_choice="none"), msgspec.structs.replace(REQUEST, tools=())):
        step = says(CALL)
        items = ask(TextCalls(Inner(step)), off)
        assert items[-1] is step[-1]
        assert words(items) == CALL


def test_a_cut_off_call_keeps_its_stop() -> None:
    reply = last(ask(TextCalls(Inner(says('<tool_call>{"name": "terminal", "argu', stop="length"))), REQUEST))
    assert (reply.stop, [call.name for call in reply.message.calls]) == ("length", ["terminal"])


def test_a_reply_that_was_not_streamed_is_read_as_well() -> None:
    parts = (Text(text="<think>Hm.</think>I look."), Text(text=CALL))
    reply = last(ask(TextCalls(Inner([Reply(message=Message(role="assistant", parts=parts))])), REQUEST))
    assert [type(part) for part in reply.message.parts] == [Thinking, Text, ToolCall]


def test_what_was_begun_before_a_new_try_is_forgotten() -> None:
    again = Retried(attempt=1, cause="StalledError", reason="", delay=0)
    items = ask(TextCalls(Inner([TextDelta(text="Well <tool_"), again, *says("Done.")])), REQUEST)
    assert words(items) == "WellDone."
    assert last(items).message.text == "Done."


def test_errors_go_through() -> None:
    with pytest.raises(UnavailableError, match="tea"):
        ask(TextCalls(Inner(UnavailableError("out of tea", status=500))), REQUEST)


# ---- tools described in words ----------------------------------------------------------------------------------------

REFUSALS = [
    BadRequestError("(HTTP 400: registry/gemma does not support tools)", status=400),
    BadRequestError("(HTTP 400: `tool calling` is not supported with this model)", status=400),
    BadRequestError('(HTTP 400: "auto" tool choice requires --enable-auto-tool-choice)', status=400),
    UnavailableError("(HTTP 500: tools param requires --jinja flag)", status=500),
    UnknownModelError("(HTTP 404: No endpoints found that support tool use.)", status=404),
    BadRequestError("(HTTP 400: deepseek-reasoner does not support Function Calling)", status=400),
    BadRequestError("(HTTP 400: Function calling is not enabled for this model)", status=400),
    BadRequestError("(HTTP 422: tool use is not supported)", status=422),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=[str(error.what) for error in REFUSALS])
def test_a_refusal_of_tools_is_understood(refusal: ModelError) -> None:
    assert refuses_tools(refusal)
    inner = Inner(refusal, says(CALL), says("Done."))
    client = TextCalls(inner, always=False)
    items = ask(client, REQUEST)
    assert isinstance(items[0], Retried)
    assert items[0].delay == 0
    assert "takes no tools" in items[0].reason
    assert [call.name for call in last(items).message.calls] == ["terminal"]
    ask(client, REQUEST)
    assert [bool(request.tools) for request in inner.asked] == [True, False, False]


def test_other_refusals_are_not() -> None:
    for error in (
        BadRequestError("messages: at least one is required", status=400),
        UnknownModelError("no model", status=404),
    ):
        assert not refuses_tools(error)
    refused = BadRequestError("does not support tools", status=400)
    inner = Inner(refused, refused)
    with pytest.raises(BadRequestError):
        ask(TextCalls(inner), REQUEST)
    assert len(inner.asked) == 2


def test_without_always_nothing_is_read_before_a_refusal() -> None:
    step = says(f"<think>Hm.</think>{CALL}")
    assert ask(TextCalls(Inner(step), always=False), REQUEST) == step


def test_tools_calls_and_results_are_told_in_words() -> None:
    messages = (
        user("Go"),
        Message(
            role="assistant",
            parts=(
                Thinking(text="Hm."),
                Text(text="I look."),
                ToolCall(id="c1", name="terminal", arguments='{"command": "ls"}'),
            ),
            wire=WIRE,
        ),
        Message(
            role="tool",
            parts=(
                ToolResult(
                    call="c1", name="terminal", content='{"output":"</tool_result>"}', images=(Image(data="eA=="),)
                ),
            ),
        ),
    )
    inner = Inner(says("Done."))
    ask(TextCalls(inner, describe=True), msgspec.structs.replace(REQUEST, messages=messages, tool_choice="none"))
    (asked,) = inner.asked
    assert (asked.tools, asked.tool_choice) == ((), "auto")
    before, described = asked.system
    assert before == "Be."
    assert described.endswith(
        "- terminal(command: string, timeout?: integer = 180): Run a command.\n  With care.\n"
        '- plan(items?: {id: string, state?: "open"|"done"}[]): The plan.\n  items: All of them.'
    )
    assert asked.messages[0] is messages[0]
    assert asked.messages[1] == Message(
        role="assistant",
        parts=(Text(text='I look.\n<tool_call>{"name": "terminal", "arguments": {"command": "ls"}}</tool_call>'),),
    )
    told = '<tool_result name="terminal" call="c1">\n{"output":"<\\/tool_result>"}\n</tool_result>'
    assert asked.messages[2] == Message(role="user", parts=(Text(text=told, taint="tool"), Image(data="eA==")))


def test_what_was_told_stays_the_same_object() -> None:
    turn = [Message(role="assistant", parts=(ToolCall(id=f"c{n}", name="plan", arguments="{"),)) for n in range(3)]
    answers = [Message(role="tool", parts=(ToolResult(call=f"c{n}", name="plan", content="{}"),)) for n in range(3)]
    talk = [user("Go"), *itertools.chain.from_iterable(zip(turn, answers, strict=True))]
    inner = Inner(*(says("Done.") for _ in range(4)))
    client = TextCalls(inner, describe=True)
    for end in (1, 3, 7, 3):
        ask(client, msgspec.structs.replace(REQUEST, messages=tuple(talk[:end])))
    first, second, third, again = (request.messages for request in inner.asked)
    assert all(a is b for a, b in zip(first, second, strict=False))
    assert all(a is b for a, b in zip(second, third, strict=False))
    assert all(a is b for a, b in zip(third, again, strict=False))
    assert len({request.system for request in inner.asked}) == 1


def test_a_described_call_is_read_as_it_is_told() -> None:
    """What is told of earlier calls is the format that is read."""
    inner = Inner(says(CALL), says("Done."))
    client = TextCalls(inner, describe=True)
    reply = last(ask(client, REQUEST))
    ask(client, msgspec.structs.replace(REQUEST, messages=(*REQUEST.messages, reply.message)))
    told = inner.asked[1].messages[1].text
    reader, _ = read([told])
    assert [(call.name, call.arguments) for call in reader.calls] == [("terminal", '{"command":"ls -l"}')]
