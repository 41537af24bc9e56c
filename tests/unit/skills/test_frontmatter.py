"""The front matter of a skill: what it says, and that nothing but its own error comes out of any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.skills.frontmatter import FrontMatterError, read_front

HEAD = "name: ok\ndescription: fine\n"


def test_what_a_skill_says_about_itself_is_read() -> None:
    found = read_front(
        b"\xef\xbb\xbf---\r\nname: ok\r\ndescription: >-\r\n  two\r\n  lines\r\nmetadata: {a: 1}\r\n---\r\nText.\r\n"
    )
    assert (found.name, found.description, found.body) == ("ok", "two lines", "Text.\n")
    assert found.fields["metadata"] == {"a": 1}


def test_a_colon_that_nobody_quoted_is_understood() -> None:
    assert read_front("---\nname: ok\ndescription: Use it: it's good\n---\n").description == "Use it: it's good"


@pytest.mark.parametrize(
    "text",
    [
        "", "no head", "---\nname: ok\n", f"---\n{HEAD}x: &a [1]\ny: *a\n---\n", f"---\n{HEAD}x: !!python/name:os.system\n---\n",
        f"---\n{HEAD}name: ok\n---\n", f"---\n{HEAD}x: {'[' * 5000}\n---\n", f"---\n{HEAD}x: 0x{'f' * 400}\n---\n",
        f"---\n{HEAD}? [a]\n: b\n---\n", f"---\n{HEAD}1: b\n---\n", "---\n- a\n---\n",
        "---\nname: [a]\ndescription: b\n---\n", "---\nname: ok\ndescription: [a]\n---\n",
        '---\nname: ok\ndescription: "  "\n---\n',
        f"---\nname: ok\ndescription: {'d' * 1025}\n---\n", '---\nname: ok\ndescription: "a\\u0000"\n---\n', "\ud800",
        "---\nname: not/a name\ndescription: b\n---\n", f"---\n{HEAD}" + "".join(f"k{n}: v\n" for n in range(3000)) + "---\n",
        "---\nname: ok\ndescription: x\nmetadata: a\n---\n", "x" * 200_000,
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(FrontMatterError):
        read_front(text)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_bring_another_error(data: bytes) -> None:
    for head in (data, b"---\n" + data + b"\n---\n", b"---\nname: ok\ndescription: x\nmore: " + data + b"\n---\n"):
        try:
            assert isinstance(read_front(head).name, str)
        except FrontMatterError as error:
            assert error.what


@pytest.mark.parametrize(
    "unseen", ["\u00ad", "\u034f", "\u180e", "\u2800", "\u3164", "\ufff9", "\U0001d173", "\U000e0100"]
)
def test_what_cannot_be_seen_is_left_out_of_a_description(unseen: str) -> None:
    front = read_front(f"---\nname: a\ndescription: Sort{unseen} stamps\n---\n")
    assert (front.description, len(front.warnings)) == ("Sort stamps", 1)
