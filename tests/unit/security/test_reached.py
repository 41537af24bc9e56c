"""Which addresses were made up after text from outside came in."""

import pytest

from melete.core.message import Message, Origin, Text, ToolCall, ToolResult
from melete.security.reached import made_up

PAGE = ToolResult(
    call="1",
    name="web_extract",
    taint="web",
    content='{"content":"See\\nhttps://shop.test/list?page=2 and [more](https://shop.test/more/).\\nhttps://eve.test/?q=LONG"}',
)
FILE = ToolResult(call="2", name="read_file", taint="tool", content='{"content":"https://file.test/?k=1"}')
MESSAGES = (
    Message(role="user", parts=(Text(text="Read https://docs.test/start, and (http://other.test:8080/x?y=1)."),)),
    Message(role="user", parts=(Text(text="a skill of others: https://skill.test/?q=1", taint="tool"),)),
    Message(role="tool", parts=(PAGE, FILE)),
    Message(role="assistant", parts=(Text(text="I shall fetch https://eve.test/?q=secret"),)),
    Message(role="user", by=Origin(kind="runtime"), parts=(Text(text="woken by https://woken.test/"),)),
)


@pytest.mark.parametrize(
    "address",
    [
        "https://docs.test/start", "https://docs.test/start/", "https://docs.test/start#part", "https://docs.test/any/other",
        "http://other.test:8080/x?y=1", "https://shop.test/list?page=2", "https://shop.test/more", "https://eve.test/?q=LONG",
    ],
)  # fmt: skip
def test_what_somebody_wrote_out_is_known(address: str) -> None:
    assert made_up([address], MESSAGES) == ()


@pytest.mark.parametrize(
    "address",
    [
        "https://eve.test/?q=secret", "https://eve.test/?q=LO", "https://secret.eve.test/", "https://eve.test/secret",
        "https://docs.test/start?q=secret", "http://docs.test/other", "https://docs.test:444/other", "https://shop.test/secret",
        "https://shop.test/list", "https://file.test/?k=1", "https://woken.test/", "https://skill.test/?q=1",
        "file:///etc/passwd", "https://", "",
    ],
)  # fmt: skip
def test_what_the_model_may_have_written_something_into_is_not(address: str) -> None:
    assert made_up([address], MESSAGES) == (address,)


def test_nothing_is_read_without_addresses() -> None:
    assert made_up([], iter(())) == ()


def test_an_address_that_the_model_wrote_first_is_not_shown_by_what_repeats_it() -> None:
    call = ToolCall(
        id="3", name="web_extract", arguments='{"urls":["https://shop.test/more#https:\\/\\/eve.test/?q=secret"]}'
    )
    echo = ToolResult(
        call="3", name="web_extract", taint="web", content='{"url":"https://shop.test/more#https://eve.test/?q=secret"}'
    )
    printed = ToolResult(call="4", name="execute_code", taint="web", content='{"output":"https://eve.test/?q=printed"}')
    told = (
        *MESSAGES, Message(role="assistant", parts=(call,)), Message(role="tool", parts=(echo, printed)),
    )  # fmt: skip
    for address in ("https://eve.test/?q=secret", "https://eve.test/?q=printed"):
        assert made_up([address], told) == (address,)


def test_a_named_server_counts_until_something_of_it_was_read() -> None:
    call = ToolCall(id="3", name="web_extract", arguments='{"urls":["https://docs.test/start"]}')
    asked = (*MESSAGES, Message(role="assistant", parts=(call,)))
    assert made_up(["https://docs.test/other"], asked) == ()
    read = (*asked, Message(role="tool", parts=(ToolResult(call="3", name="web_extract", taint="web", content="{}"),)))
    assert made_up(["https://docs.test/other"], read) == ("https://docs.test/other",)
    assert made_up(["https://docs.test/start"], read) == ()


def test_what_is_brought_back_of_the_past_names_no_address() -> None:
    """A summary holds the model's words, and so may a passage that was found: what stands there was not shown by the web."""
    note = Message(
        role="user",
        by=Origin(kind="runtime"),
        parts=(Text(text="Summary: fetch https://eve.test/?q=secret later", taint="web"),),
    )
    found = "[From earlier in this conversation, found]\n- the agent (step 2): https://eve.test/?q=found"
    asked = Message(role="user", parts=(Text(text="Go on at https://docs.test/start."), Text(text=found, taint="none")))
    for addition in ((note,), (asked,), (note, asked)):
        for address in ("https://eve.test/?q=secret", "https://eve.test/?q=found"):
            assert made_up([address], addition) == (address,)
    assert made_up(["https://docs.test/start", "https://docs.test/other"], (asked,)) == ()
    assert made_up(["https://docs.test/start", "https://docs.test/secret"], (note, asked)) == (
        "https://docs.test/secret",
    )
