"""Lines that are blamed on the text that brought them, the search for what broke something, and what belongs to an undo."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from melete.learn.facts import Undo, fields_of
from melete.learn.lineage import BAD, GOOD, SKIP, Bisect, blamed, likeliest, named, of_session


@given(st.integers(2, 200), st.data())
def test_the_first_bad_one_is_found_in_few_looks(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count - 1))
    search, looks = Bisect(count), 0
    while (at := search.next) is not None:
        search.told(at, BAD if at >= first else GOOD)
        looks += 1
    assert (search.first, list(search.left)) == (first, [first])
    assert looks <= count.bit_length()


@given(st.integers(3, 40), st.data())
def test_those_that_were_skipped_stay_in_question(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count - 1))
    skipped = data.draw(st.sets(st.integers(1, count - 2)))
    search = Bisect(count)
    while (at := search.next) is not None:
        search.told(at, SKIP if at in skipped else BAD if at >= first else GOOD)
    assert first in search.left
    assert set(search.left[:-1]) <= skipped


def test_a_line_is_blamed_on_what_brought_it() -> None:
    texts = [("one", "a\nb\n"), ("two", "a\nnew\nb\n"), ("three", "a\nnew\nc\n")]
    assert blamed(texts) == [("one", "a"), ("two", "new"), ("three", "c")]
    back = [*texts, ("undo", "a\nb\n"), ("redo", "a\nnew\nc\n")]
    assert blamed(back) == blamed(texts), "what comes back is as old as it was"


def test_the_source_is_what_holds_most_of_a_line() -> None:
    sources = [("said", "look at the firewall"), ("call", "ufw status verbose")]
    assert likeliest("0. `ufw status`", sources) == "call"
    assert likeliest("Look at the firewall first.", sources) == "said"
    assert likeliest("Something else altogether.", sources) is None
    assert likeliest("2. Then run `ufw status verbose`, which says what is open, and from where.", sources) == "call"


def version(number: int, *, session: str = "", reason: str = "") -> dict[str, Any]:
    about = {"skill": "s", "version": f"v{number}", "session": session, "reason": reason, "author": "agent"}
    return {"number": number, "kind": "skill.version", "at": "2026-01-01T00:00:00Z", **about}


def undo(number: int, id_: str, *took: int, of: str = "") -> dict[str, Any]:
    made = Undo(id=id_, session="x", took=took, of=of)
    return {"number": number, "kind": "learn.undo", "at": "2026-01-01T00:00:00Z", **fields_of(made)}


@pytest.mark.parametrize(("upto", "wanted"), [(2, {2}), (4, {2, 4}), (6, {2, 4, 6})])
def test_a_session_means_what_took_it_back_and_brought_it_again_as_well(upto: int, wanted: Sequence[int]) -> None:
    rows = [
        version(1, session="before"), version(2, session="x"), undo(3, "aa", 2), version(4, reason="undo aa of session x"),
        undo(5, "bb", 4, of="aa"), version(6, reason="undo bb of undo 3"),
    ]  # fmt: skip
    assert of_session(rows[:upto], "x").numbers == wanted
    found = named(rows, "3")
    assert found
    assert (found.numbers, found.of and found.of.id) == ({4, 6}, "aa")
    assert named(rows, "a") is None, "a letter is no name"
    change = named(rows, "1")
    assert change
    assert (change.numbers, change.about) == ({1}, "change 1")
    assert named(rows, "99") is None
