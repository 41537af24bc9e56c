"""What a lesson says already is reviewed no more: not in a later session, and not in one that ended before the lesson was made."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.story.frobbing import Frobbing, frobbing


@pytest.fixture
def world(own_home: Path) -> Iterator[Frobbing]:
    yield from frobbing(own_home)


def test_of_several_sessions_with_the_same_trouble_one_is_reviewed(world: Frobbing) -> None:
    world.frob()
    world.frob()
    assert world("learn", "work").stdout.startswith("learned: w-frob (created)")
    assert len(world.asked_to_review()) == 1
    assert world.reviews() == ["a begun", "a ended", "b ended"]
    world.frob()
    assert world("learn", "work").stdout == "nothing is due\n"
    assert len(world.asked_to_review()) == 1
    assert world.ledger("learn.review")[-1]["said"] == "nothing new: w-frob says it"


def test_what_was_taken_back_is_reviewed_again(world: Frobbing) -> None:
    world.frob()
    world("learn", "work")
    number = world.ledger("learn.proposal")[0]["number"]
    assert world("learn", "undo", str(number)).returncode == 0
    world.frob()
    world("learn", "work")
    assert len(world.asked_to_review()) == 2
