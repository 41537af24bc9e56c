"""A message is encoded once, and what was sent before is sent again byte for byte, however the conversation goes on."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from melete.core.message import Message, Text, ToolCall, ToolResult, user
from melete.core.model import ModelRequest
from melete.models.openai_request import RequestEncoder
from melete.models.spec import ModelSpec

SPEC = ModelSpec(model="m", base_url="http://h/v1")
CALLS = tuple(ToolCall(id=f"c{n}", name="f", arguments="{}") for n in range(3))
MESSAGES = st.one_of(
    st.builds(user, st.text(max_size=5)),
    st.builds(
        lambda text, calls: Message(role="assistant", parts=(Text(text=text), *calls)),
        st.text(max_size=5),
        st.lists(st.sampled_from(CALLS), unique=True, max_size=3),
    ),
    st.builds(
        lambda ids: Message(role="tool", parts=tuple(ToolResult(call=i, name="f", content=i) for i in ids)),
        st.lists(st.sampled_from(["c0", "c1", "c2", "gone"]), unique=True, min_size=1, max_size=3),
    ),
)


def fresh(messages: tuple[Message, ...]) -> bytes:
    """The body by an encoder that has met none of the messages."""
    return RequestEncoder(SPEC).body(ModelRequest(model="m", messages=messages))


@given(st.lists(MESSAGES, max_size=12), st.lists(st.integers(0, 12), max_size=12))
def test_what_is_kept_changes_no_byte(messages: list[Message], lengths: list[int]) -> None:
    encoder = RequestEncoder(SPEC)
    for length in lengths:
        part = tuple(messages[:length])
        body = encoder.body(ModelRequest(model="m", messages=part))
        assert body == fresh(part)


@given(st.lists(MESSAGES, max_size=12))
def test_every_request_is_one_that_servers_accept(messages: list[Message]) -> None:
    """After a message with calls come exactly their results; nowhere else stands a result."""
    sent = msgspec.json.decode(fresh(tuple(messages)))["messages"]
    due: list[str] = []
    for message in sent:
        if message["role"] == "tool":
            assert due.pop(0) == message["tool_call_id"]
            continue
        assert not due
        due = [call["id"] for call in message.get("tool_calls", ())]
        assert due or message["content"]
    assert not due


def test_equal_messages_that_are_other_objects_are_met_again() -> None:
    encoder = RequestEncoder(SPEC)
    for _ in range(3):
        again = msgspec.json.decode(msgspec.json.encode([user("a"), user("b")] * 2000), type=tuple[Message, ...])
        assert encoder.body(ModelRequest(model="m", messages=again)) == fresh(again)


def test_a_long_conversation_forgets_what_it_no_longer_holds() -> None:
    encoder = RequestEncoder(SPEC)
    for start in range(3):
        messages = tuple(user(f"{start} {n}") for n in range(1500))
        assert encoder.body(ModelRequest(model="m", messages=messages)) == fresh(messages)
    last = tuple(user(str(n)) for n in range(3))
    assert encoder.body(ModelRequest(model="m", messages=last)) == fresh(last)
