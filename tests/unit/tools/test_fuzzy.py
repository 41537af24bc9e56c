"""A quoted piece of text is found although it was quoted a little wrongly, and never in two places by accident."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.tools.fuzzy import NotFoundError, SeveralError, replace

CODE = """\
class A:
    def f(self):
        if x:
            return 1
        return 2

    def g(self):
        return 3
"""


def test_exactly() -> None:
    done = replace(CODE, "return 3", "return 4")
    assert (done.text, done.count, done.overlooked) == (CODE.replace("return 3", "return 4"), 1, "")


def test_without_the_white_space_at_the_ends_of_lines() -> None:
    done = replace("a  \nb\nc\n", "a\nb\n", "x\ny\n")
    assert (done.text, done.overlooked) == ("x\ny\nc\n", "trailing white space")


def test_the_new_text_takes_the_indentation_of_the_file() -> None:
    done = replace(CODE, "if x:\n    return 1\nreturn 2", "if y:\n    if z:\n        return 5\nreturn 6")
    assert done.overlooked == "indentation"
    assert done.text == CODE.replace(
        "        if x:\n            return 1\n        return 2",
        "        if y:\n            if z:\n                return 5\n        return 6",
    )


def test_spaces_become_tabs_where_the_file_has_tabs() -> None:
    done = replace(
        "def f():\n\tif x:\n\t\treturn 1\n",
        "    if x:\n        return 1",
        "    if x:\n        if y:\n            return 2",
    )
    assert done.text == "def f():\n\tif x:\n\t\tif y:\n\t\t\treturn 2\n"


def test_too_much_indentation_is_taken_back() -> None:
    done = replace("def f():\n    return 1\n", "            return  1\n", "            return 2\n        x = 1\n")
    assert done.text == "def f():\n    return 2\nx = 1\n"


def test_any_white_space() -> None:
    done = replace("x = foo(1,  2)\n", "x  =  foo(1, 2)\n", "x = foo(3)\n")
    assert (done.text, done.overlooked) == ("x = foo(3)\n", "white space")


def test_typographic_quotes_in_the_text_or_in_the_quotation() -> None:
    done = replace("say \u201chi\u201d \u2013 now and then\n", 'say "hi" - now', "said")
    assert (done.text, done.overlooked) == ("said and then\n", "typographic characters")
    assert replace('say "hi"\n', "say \u201chi\u201d\n", "ok\n").text == "ok\n"


def test_deleting_lines_leaves_no_empty_one() -> None:
    assert replace("a\n  b\nc\n", "b \n", "").text == "a\nc\n"


def test_two_places_are_an_error_with_their_lines() -> None:
    with pytest.raises(SeveralError) as caught:
        replace("a\nb\na\n", "a", "c")
    assert caught.value.lines == [1, 3]
    with pytest.raises(SeveralError) as caught:
        replace("  a\nb\n    a\n", "a \n", "c\n")
    assert caught.value.lines == [1, 3]


def test_every_place_when_asked() -> None:
    assert replace("a\nb\na\n", "a", "c", every=True) == replace("a\nb\na\n", "a", "c", every=True)
    done = replace("  a\nb\n    a\n", "a \n", "c\n", every=True)
    assert (done.text, done.count) == ("  c\nb\n    c\n", 2)


def test_the_nearest_lines_are_shown() -> None:
    with pytest.raises(NotFoundError) as caught:
        replace(CODE, "        return 33 + 3", "x")
    assert "8|        return 3" in caught.value.near
    with pytest.raises(NotFoundError) as caught:
        replace(CODE, "nothing like this at all", "x")
    assert caught.value.near == ""


def test_blank_text_matches_no_blank_lines() -> None:
    with pytest.raises(NotFoundError):
        replace("a\n\nb\n", "   \t\n", "x")


@given(
    st.text(alphabet="ab \n\t'“", max_size=40),
    st.text(alphabet="ab \n\t'“", min_size=1, max_size=8),
    st.text(max_size=5),
)
def test_it_replaces_replaces_nothing_or_says_so(text: str, old: str, new: str) -> None:
    try:
        done = replace(text, old, new, every=True)
    except NotFoundError:
        assert old not in text
    else:
        assert done.count >= 1
        if old in text:
            assert done.text == text.replace(old, new)
