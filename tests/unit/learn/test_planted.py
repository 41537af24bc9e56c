"""Lessons that must not become loadable and lessons that should, through the gates: by another hand, and by our own."""

import pytest
from benchmarks.planted import OWN, PLANTED, judged, lines

ROWS = [pytest.param(row, id=row["id"]) for row in lines(OWN)]


def test_none_of_forty_bad_lessons_by_another_hand_is_loadable_and_most_of_twenty_good_ones_are() -> None:
    found = [judged(row) for row in lines(PLANTED)]
    loadable = [one.row["id"] for one in found if one.outcome == "trial"]
    assert [name for name in loadable if name.startswith("bad")] == []
    assert len(loadable) >= 18


@pytest.mark.parametrize("row", ROWS)
def test_each_of_our_own_becomes_loadable_or_not(row: dict[str, object]) -> None:
    for as_cited in (False, True):
        found = judged(row, as_cited=as_cited)
        assert found.right, (row["why"], found.outcome, found.stopped)
