"""Tables fit the terminal that they are shown on."""

import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from melete.core.session import SessionInfo
from melete.surfaces.cli.paint import WIDEST, Paint, columns, cut
from melete.surfaces.cli.table import entry, table
from melete.surfaces.cli.tables import session_table


class Tty(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def paint(width: int) -> Paint:
    return Paint(Tty(), {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": str(width)})


@given(
    rows=st.lists(st.tuples(st.text(max_size=60), st.text(max_size=10), st.text(max_size=200)), max_size=5),
    width=st.integers(min_value=12, max_value=200),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, str, str]], width: int) -> None:
    text = table(("NAME", "N", "TEXT"), rows, paint(width), right=("N",))
    assert all(cell_len(line) <= width for line in text.split("\n"))
    assert "…" not in text or any("…" in cell for row in rows for cell in row)


def test_nothing_is_cut_where_there_is_no_terminal() -> None:
    text = table(("A", "B"), [("x" * 300, "y")], Paint(io.StringIO(), {"TERM": "xterm"}))
    assert "x" * 300 in text
    assert "…" not in text


def test_what_does_not_fit_becomes_blocks() -> None:
    head = ("ID", "STATE", "CHANGED", "TITLE")
    text = table(head, [("20260101", "running", "3 d ago", "long title"), ("2", "", "1", "t")], paint(20))
    first = ["20260101", "state: running", "changed: 3 d ago", "title: long title"]
    assert text.splitlines() == [*first, "", "2", "changed: 1", "title: t"]


@pytest.mark.parametrize("where", [paint(80), Paint(io.StringIO(), {"TERM": "xterm"})], ids=["terminal", "pipe"])
def test_cells_are_set_left_or_right(where: Paint) -> None:
    text = table(("NAME", "N"), [("a", "1"), ("bcdefgh", "22")], where, right=("N",))
    assert text == "NAME      N\na         1\nbcdefgh  22\n"
    assert table(("", ""), [("a", "1"), ("bcdefgh", "22")], where) == "a        1\nbcdefgh  22\n"


def test_a_long_cell_is_wrapped_and_not_cut() -> None:
    text = table(("ID", "TEXT"), [("first-one", "many words in a narrow cell")], paint(24))
    assert text.splitlines() == ["ID         TEXT", "first-one  many words in", "           a narrow cell"]


def test_markup_in_a_cell_is_text() -> None:
    assert "[red]x[/red] :smile:" in table(("ID", "TEXT"), [("1", "[red]x[/red] :smile:")], paint(80))


def test_an_entry_has_its_texts_beside_it_or_below_where_it_is_narrow() -> None:
    mark = ("red", "✗")
    texts = ["something is quite wrong here", "→ mend it"]
    assert entry(mark, "home", texts, paint=Paint(io.StringIO(), {}), indent=9).splitlines() == [
        "✗ home   something is quite wrong here", "         → mend it",
    ]  # fmt: skip
    assert entry(mark, "home", texts, paint=paint(40), indent=20).splitlines() == [
        "✗ home              something is quite", "                    wrong here", "                    → mend it",
    ]  # fmt: skip
    assert entry(mark, "home", texts, paint=paint(20), indent=9).splitlines() == [
        "✗ home", "  something is quite", "  wrong here", "  → mend it",
    ]  # fmt: skip


@given(text=st.text(), width=st.integers(min_value=1, max_value=40))
def test_a_cut_text_fits_and_is_marked(text: str, width: int) -> None:
    short = cut(text, width)
    assert columns(short) <= width
    assert short == text or short.endswith("…")


def test_wide_characters_take_two_columns() -> None:
    assert columns("宽a") == 3
    assert cut("宽宽宽", 4) == "宽…"


def test_width_and_colours_follow_the_terminal_and_its_variables() -> None:
    assert Paint(io.StringIO(), {"TERM": "xterm"}).width == WIDEST
    assert Paint(Tty(), {"TERM": "xterm"})("red", "x") == "\x1b[31mx\x1b[0m"
    for variables in ({"TERM": "dumb"}, {}, {"TERM": "xterm", "NO_COLOR": "1"}):
        assert Paint(Tty(), variables)("red", "x") == "x"
    assert Paint(None, {"TERM": "xterm"})("red", "x") == "x"


def test_a_secret_in_any_column_of_a_listing_is_taken_out() -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    row = SessionInfo(id="s-1", title="a KEY", model="KEY", stop="KEY", started=now, updated=now)
    text = session_table([row], Paint(io.StringIO(), {}), now=now, redact=lambda text: text.replace("KEY", "[gone]"))
    assert "KEY" not in text
    assert text.count("[gone]") == 3
