"""Any text is a valid query, and any text can be found again."""

# ruff: noqa: RUF001 - letters of many scripts

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.store.searched import Searched, filled

INDEX = filled({f"s-{number}": [f"message {number} of a talk about herons"] for number in range(30)})
PIECES = st.sampled_from(
    [
        '"',
        "'",
        "AND",
        "OR",
        "NOT",
        "NEAR(",
        "-",
        "*",
        "(",
        ")",
        "^",
        ":",
        "\\",
        "%",
        "_",
        "herons",
        "message",
        "\0",
        "🎉",
        "脚本",
    ]
)


@given(
    st.text(st.characters(codec=None), max_size=200)
    | st.lists(PIECES, max_size=12).map(" ".join)
    | st.lists(PIECES).map("".join)
)
@settings(max_examples=300, deadline=None)
def test_no_query_raises(text: str) -> None:
    for hit in INDEX.hits(text):
        assert all(0 <= start < end <= len(hit.snippet) for start, end in hit.marks)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "word " * 20_000,
        "-" * 1_000,
        '"' * 999,
        "\ud800",
        "half \udfff a pair",
        "to be or not to be",
        "?!... --- ???",
        "SELECT a.b FROM t WHERE x LIKE '%y' AND z = \"q\" -- 1",
        'Traceback (most recent call last):\n  File "a.py", line 3',
        "e\u0301" * 500,
        "𠀋" * 300,
    ],
)
def test_strange_queries_are_answered(text: str) -> None:
    assert isinstance(INDEX.hits(text), list)


@given(st.text(min_size=1, max_size=80).filter(lambda text: text.strip()), st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_a_snippet_marks_its_own_text(text: str, query: str) -> None:
    index = Searched()
    index.add("s", text)
    for hit in index.hits(query) + index.hits(text):
        assert hit.session == "s"
        assert all(0 <= start < end <= len(hit.snippet) for start, end in hit.marks)
        ends = [place for mark in hit.marks for place in mark]
        assert ends == sorted(ends)


@given(
    st.lists(
        st.sampled_from(["heron", "kite", "otter", "boats", "went", "Zürich", "foo_bar.py", "钥匙"]),
        min_size=1,
        max_size=30,
    )
)
@settings(max_examples=60, deadline=None)
def test_a_message_is_found_by_each_of_its_words(words: list[str]) -> None:
    index = filled({"noise": ["something else entirely"] * 20})
    index.add("s", " ".join(words))
    for word in set(words):
        (hit,) = index.hits(word)
        assert hit.session == "s"
        assert word in [hit.snippet[start:end] for start, end in hit.marks]


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("spec.base_url", "await talk.spec.base_url.rstrip('/')"),
        ("talk.spec", "await talk.spec.base_url.rstrip('/')"),
        ("base_url", "base_url_of_v2 = 1"),
        (".event import", "from melete.core.event import Delta"),
        ("O'Brien", "Miles O'Brien's desk"),
        ("don't know", "I don’t know"),
        ("4,102 out", "tokens: 4,102 out of many"),
        ("caf\u00e9 au lait", "un cafe\u0301 au lait"),
        ("cafe\u0301 au lait", "un caf\u00e9 au lait"),
        ("Straße ist", "DIE STRASSE IST ZU"),
        ("strasse ist", "Die Straße ist zu"),
        ("financial flow", "the \ufb01nancial \ufb02ow"),
        ("Οδυσσεύς", "Ο ΟΔΥΣΣΕΎΣ γύρισε"),
        ("istanbul çok", "İSTANBUL ÇOK güzel"),
        ("数据库迁移", "我们把数据库迁移到服务器"),
    ],
)
def test_a_phrase_is_found_in_longer_names_and_in_any_spelling_of_its_letters(phrase: str, text: str) -> None:
    index = filled({"there": [text], "elsewhere": ["nothing of the kind"]})
    for order in ("best", "newest"):
        assert index.found(f'"{phrase}"', order=order) == ["there"]
    assert "there" not in index.found(f'kind -"{phrase}"')
