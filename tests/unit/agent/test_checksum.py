"""The checksum of a request: made step by step it is the one made at once, and it tells which part is another one."""

import msgspec
import pytest

from melete.agent.checksum import Checksum, differing
from melete.core.event import ToolSchema
from melete.core.message import Message, Text, ToolCall, ToolResult, Wire, user
from melete.core.model import ModelRequest

TOOLS = (ToolSchema(name="look", about="Look.", parameters=msgspec.Raw(b'{"type":"object"}')),)
SYSTEM = ("Be brief.",)


def conversation(steps: int) -> tuple[Message, ...]:
    made = [user("Go.")]
    for number in range(steps):
        call = ToolCall(id=f"c{number}", name="look", arguments="{}")
        body = msgspec.Raw(b'{"role":"assistant","n":%d}' % number)
        made.append(Message(role="assistant", parts=(call,), wire=Wire(name="openai-chat", body=body)))
        result = ToolResult(call=call.id, name="look", content=f'{{"n":{number}}}')
        made.append(Message(role="tool", parts=(result,)))
    return tuple(made)


def request(messages: tuple[Message, ...]) -> ModelRequest:
    return ModelRequest(model="m", system=SYSTEM, tools=TOOLS, messages=messages)


def fresh(asked: ModelRequest) -> str:
    return Checksum().of(asked, segment="")


def test_it_grows_with_the_conversation_as_if_made_at_once() -> None:
    whole, growing = conversation(5), Checksum()
    sums = [growing.of(request(whole[:count]), segment="") for count in (1, 3, 5, 5, 11)]
    assert sums == [fresh(request(whole[:count])) for count in (1, 3, 5, 5, 11)]
    assert len(set(sums)) == 4
    assert all(len(one) == 24 for one in sums)


def test_another_segment_is_read_anew() -> None:
    whole, growing = conversation(3), Checksum()
    growing.of(request(whole), segment="")
    shortened = (user("Go. (shortened)"), *whole[1:])
    assert growing.of(request(shortened), segment="s1") == fresh(request(shortened))
    later = (*shortened, user("More."))
    assert growing.of(request(later), segment="s1") == fresh(request(later))


def test_a_conversation_that_does_not_go_on_is_read_anew() -> None:
    whole, growing = conversation(3), Checksum()
    growing.of(request(whole), segment="")
    other = (*whole[:-1], user("Other."), user("Words."))
    assert growing.of(request(other), segment="") == fresh(request(other))
    assert growing.of(request(whole[:2]), segment="") == fresh(request(whole[:2]))


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"system": ("Be brief!",)}, ["system text"]),
        ({"tools": ()}, ["tools"]),
        ({"messages": (user("Go!"),)}, ["messages"]),
        ({"system": (), "messages": ()}, ["system text", "messages"]),
        ({"model": "other", "temperature": 1.0, "effort": "high", "ephemeral": "unseen", "prefill": (user("x"),)}, []),
        ({"tool_choice": "none", "max_output": 5, "cache_key": "k"}, []),
    ],
)
def test_it_tells_which_part_is_another(changed: dict[str, object], parts: list[str]) -> None:
    asked = request(conversation(0))
    assert differing(fresh(asked), fresh(msgspec.structs.replace(asked, **changed))) == parts


def test_where_one_message_ends_counts() -> None:
    one = Message(role="user", parts=(Text(text="a"), Text(text="b")))
    assert fresh(request((one,))) != fresh(request((user("a"), user("b"))))
