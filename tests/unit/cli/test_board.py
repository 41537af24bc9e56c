"""The board of children: who works at what, within the width of the terminal, and nothing that could move the cursor."""

import io
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from melete.core.event import ChildNow
from melete.surfaces.cli.board import MOST, Board, clock, short
from melete.surfaces.cli.paint import Paint, columns


def paint(width: int) -> Paint:
    made = Paint(io.StringIO(), {})
    made.width = width
    return made


def now(child: str, *, parent: str = "top", goal: str = "look", depth: int = 1, **more: object) -> ChildNow:
    return ChildNow(child=child, parent=parent, goal=goal, depth=depth, **more)  # pyright: ignore[reportArgumentType]


def test_each_stands_below_the_one_that_delegated_to_it() -> None:
    board = Board()
    for one in (now("a"), now("b"), now("c", parent="a", depth=2), now("d", parent="c", depth=3), now("e")):
        board.put(one)
    heads = [line.split("look")[0] for line in board.lines(paint(80))]
    assert heads == ["  • ", "    • ", "      • ", "  • ", "  • "]


def test_a_line_says_tool_steps_tokens_money_and_time() -> None:
    board = Board()
    board.put(now("a", goal="Read the parser", tool="terminal", steps=3, tokens=12_345, usd=0.0421, seconds=75.0))
    (line,) = board.lines(paint(80))
    assert columns(line) < 80
    assert line.split("  ") != [line]
    assert [*line.split()] == ["•", "Read", "the", "parser", "terminal", "3", "st", "12.3k", "tok", "$0.042", "1:15"]
    assert board.total() == "1 child at work · 12.3k tokens · $0.0421"


def test_an_end_takes_its_line_away_and_counts() -> None:
    board = Board()
    board.put(now("a", tokens=10))
    board.put(now("b", tokens=5))
    assert board.put(now("a", status="completed", tokens=1_000, usd=0.5))
    assert not board.put(now("a", status="completed")), "an end is told once"
    assert not board.put(now("never", status="failed")), "nobody saw it begin"
    assert len(board.lines(paint(80))) == 1
    assert board.clear() == "1 child · 1k tokens · $0.5000"
    assert (board.clear(), board.total(), board.lines(paint(80))) == ("", "", [])


def test_of_many_the_first_are_shown() -> None:
    board = Board()
    for number in range(MOST + 5):
        board.put(now(str(number)))
    *shown, last = board.lines(paint(80))
    assert len(shown) == MOST
    assert "5 more" in last


@given(goal=st.text(max_size=200), tool=st.text(max_size=40), width=st.integers(20, 200), depth=st.integers(1, 5))
def test_no_line_is_wider_than_the_terminal_or_moves_the_cursor(goal: str, tool: str, width: int, depth: int) -> None:
    board = Board()
    board.put(now("a", goal=goal, tool=tool, depth=depth, tokens=999_999_999, usd=123.456, steps=999, seconds=35_999))
    (line,) = board.lines(paint(width))
    assert columns(line) < width
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") for character in line)


def test_figures_are_short() -> None:
    counts = (0, 999, 1_000, 12_345, 999_499, 999_500, 1_234_567, 2_000_000_000)
    assert [short(count) for count in counts] == ["0", "999", "1k", "12.3k", "999k", "1M", "1.23M", "2G"]
    assert all(len(short(10**n + 567 * n)) <= 5 for n in range(12))
    assert [clock(seconds) for seconds in (0, 59.9, 60, 3_599, 36_000)] == ["0:00", "0:59", "1:00", "59:59", "600:00"]
