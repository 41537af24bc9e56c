"""Two edits of one text put together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.skills.merge import merge

BASE = "one\ntwo\nthree\nfour\nfive\n"
LINES = st.lists(st.sampled_from("abc"), max_size=8).map(lambda lines: "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        (BASE, BASE.replace("two", "2"), BASE.replace("two", "2")),
        (BASE.replace("two", "2"), BASE, BASE.replace("two", "2")),
        (BASE.replace("one", "1"), BASE.replace("five", "5"), "1\ntwo\nthree\nfour\n5\n"),
        (BASE + "six\n", "zero\n" + BASE, "zero\n" + BASE + "six\n"),
        (BASE.replace("two\n", ""), BASE + "six\n", "one\nthree\nfour\nfive\nsix\n"),
        (BASE.replace("two", "2"), BASE.replace("two", "2"), BASE.replace("two", "2")),
        (BASE.replace("two", "2"), BASE.replace("two", "zwei"), None),
        (BASE.replace("two\n", ""), BASE.replace("two", "2"), None),
        ("", BASE.replace("two", "2"), None),
    ],
)
def test_what_one_side_changed_is_taken_and_what_both_changed_is_a_conflict(
    ours: str, theirs: str, both: str | None
) -> None:
    assert merge(BASE, ours, theirs) == both
    assert merge(BASE, theirs, ours) == both


@given(base=LINES, ours=LINES)
def test_an_edit_of_one_side_alone_is_the_result(base: str, ours: str) -> None:
    assert merge(base, ours, base) == ours
    assert merge(base, base, ours) == ours
    assert merge(base, ours, ours) == ours
