"""The segments of a session: linked in order, without gaps, found by number, id or the beginning of one."""

from melete.core.event import Compacted, Opened, Said
from melete.core.message import user
from melete.core.segments import segment_named, segments


def test_segments_follow_one_another_without_a_gap() -> None:
    facts = [
        Opened(seq=1),
        Said(seq=2, message=user("a")),
        Compacted(seq=3, segment="aa11cc", parent="x", messages=(user("a"),), tokens_before=9, tokens_after=4, how="h"),
        Said(seq=4, message=user("b")),
        Compacted(seq=5, segment="ab22", parent="aa11cc", messages=(user("b"),), summary="S", focus="f"),
    ]
    found = segments(facts, "s-1")
    assert [(one.number, one.id, one.parent, one.first, one.last) for one in found] == [
        (1, "s-1", "", 1, 2),
        (2, "aa11cc", "s-1", 3, 4),
        (3, "ab22", "aa11cc", 5, 5),
    ]
    assert (found[1].tokens_before, found[1].tokens_after, found[1].how) == (9, 4, "h")
    assert (found[2].summary, found[2].focus) == ("S", "f")
    names = {
        name: one.number for name in ("1", "s-1", "2", "aa11c", "ab22", "3") if (one := segment_named(found, name))
    }
    assert names == {"1": 1, "s-1": 1, "2": 2, "aa11c": 2, "ab22": 3, "3": 3}
    assert [segment_named(found, name) for name in ("aa1", "", "4", "zzzz")] == [None] * 4


def test_a_session_that_was_never_shortened_is_one_segment() -> None:
    (only,) = segments([Opened(seq=1)], "s-1")
    assert (only.id, only.first, only.last) == ("s-1", 1, 1)
    assert segments([], "s-1")[0].last == 0
