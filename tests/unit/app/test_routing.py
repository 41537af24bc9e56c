"""Which messages a cheaper model may answer."""

import pytest

from melete.app.routing import is_simple
from melete.app.sections import Routing
from melete.core.message import Image, Message, Text, user


@pytest.mark.parametrize("text", ["Hello!", "What is the capital of Peru?", "Danke, das war alles.", "你好"])
def test_small_talk_and_small_questions_are_simple(text: str) -> None:
    assert is_simple(user(text), Routing())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "Fix the bug",
        "run it again",
        "What does `x` do?",
        "Look at https://example.com",
        "and a/b?",
        "open notes.md",
        "one\ntwo",
        "word " * 29,
        "x" * 161,
        "Refactor this",
        "$HOME",
    ],
)
def test_what_looks_like_work_is_not(text: str) -> None:
    assert not is_simple(user(text), Routing())


def test_a_picture_is_not_simple() -> None:
    assert not is_simple(Message(role="user", parts=(Text(text="Nice?"), Image(data="aGk="))), Routing())


def test_the_limits_can_be_set() -> None:
    assert not is_simple(user("Hello there"), Routing(max_words=1))
    assert not is_simple(user("Hello"), Routing(max_chars=4))
