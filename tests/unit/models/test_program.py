"""What a program in a model's place prints, and what it is told."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from melete.core.message import Image, Message, Text, Thinking, ToolCall, ToolResult, user
from melete.core.model import ModelRequest
from melete.models.program import Printed, last_lines, told

PIECES = st.lists(
    st.sampled_from(["one", "\u00e9\u4e16", "\n", "\r\n", "50%\r", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x07"]),
    max_size=30,
)


def printed(data: bytes, cuts: list[int], most: int) -> tuple[str, str]:
    """What is kept of bytes that come in pieces, and what was shown on the way."""
    kept, shown = Printed(most), ""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        shown += kept.add(data[start:end])
    shown += kept.end()
    return kept.text, shown


@given(PIECES, st.lists(st.integers(0, 500)))
def test_where_it_is_cut_makes_no_difference(pieces: list[str], cuts: list[int]) -> None:
    data = "".join(pieces).encode()
    assert printed(data, cuts, 1_000) == printed(data, [], 1_000)
    text, shown = printed(data, cuts, 1_000)
    assert text == shown
    assert not {"\x1b", "\r", "\x07"} & {*text}


@given(st.integers(0, 400), st.lists(st.integers(0, 500)))
def test_beginning_and_end_of_very_much_are_kept(lines: int, cuts: list[int]) -> None:
    whole = "".join(f"{number}\n" for number in range(lines))
    text, shown = printed(whole.encode(), cuts, 100)
    if len(whole) <= 100:
        assert (text, shown) == (whole, whole[:50])
    else:
        gap = f"\n[{len(whole) - 100} characters left out here]\n"
        assert (text, shown) == (f"{whole[:50]}{gap}{whole[-50:]}", whole[:50])


def test_a_character_that_is_none_is_shown_as_such() -> None:
    assert printed(b"caf\xc3", [], 100)[0] == "caf\ufffd"


def test_last_lines_are_those_that_say_something() -> None:
    text = "".join(f"line {number}\n\n" for number in range(20))
    assert last_lines(text).splitlines() == [f"line {number}" for number in range(12, 20)]
    assert len(last_lines("x" * 10_000)) == 1_500


def test_one_message_stands_by_itself_and_several_say_whose_they_are() -> None:
    asked = ModelRequest(model="p", system=("Be brief.",), messages=(user("Count."),))
    assert told(asked) == "Be brief.\n\nCount.\n"
    call, result = (
        ToolCall(id="1", name="read_file", arguments="{}"),
        ToolResult(call="1", name="read_file", content="{}"),
    )
    before = (
        user("Count."),
        Message(role="assistant", parts=(Thinking(text="hm"), Text(text="Nine."), call)),
        Message(role="tool", parts=(result, Image(data="AAAA"))),
    )
    text = told(ModelRequest(model="p", messages=(*before, user("Again."))))
    parts = [
        "You were told:\nCount.",
        "You said:\nNine.",
        "[called read_file {}]",
        "[result of read_file] {}",
        "[image left out]",
    ]
    at = [text.index(part) for part in (*parts, "You were told:\nAgain.")]
    assert at == sorted(at)
    assert "hm" not in text
