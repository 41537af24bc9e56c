"""What a review brought is said in one line, as much of it as the person wants to hear, and a session is reviewed when they ask."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.story.cli import lines
from tests.story.frobbing import Frobbing, frobbing

Make = Callable[..., Frobbing]


@pytest.fixture
def make(own_home: Path) -> Iterator[Make]:
    opened: list[Iterator[Frobbing]] = []

    def made(**learning: Any) -> Frobbing:
        opened.append(frobbing(own_home, **learning))
        return next(opened[-1])

    yield made
    for one in opened:
        assert next(one, None) is None


def test_a_lesson_that_waits_is_proposed(make: Make) -> None:
    world = make(autonomy="ask")
    world.frob()
    assert world("learn", "work").stdout == "proposed: w-frob (created) · decide: melete learn inbox\n"
    assert "w-frob" in world("learn", "inbox").stdout
    assert "w-frob" not in world("skills", "list").stdout


def test_nothing_is_said_where_nobody_wants_to_hear_it(make: Make) -> None:
    world = make(notify="off")
    world.frob()
    assert world("learn", "work").stdout.endswith(" ended\n")
    assert "w-frob" in world("skills", "list").stdout
    rows = [lines(world("sessions", "export", row["id"]).stdout) for row in _sessions(world)]
    assert not [fact for facts in rows for fact in facts if fact.get("type") == "learned"]


def test_with_verbose_a_review_without_a_lesson_is_told_as_well(make: Make) -> None:
    world = make(notify="verbose")
    assert world("run", "Say four").stdout == "Four.\n"
    assert world("learn", "work").stdout == "nothing is due\n"
    world.kept = False
    assert world("learn", "review").stdout == "learned: a review found nothing to keep\n"


def test_a_session_is_reviewed_when_it_is_asked_for_and_not_twice(make: Make) -> None:
    world = make()
    world.kept = False
    world("run", "Say four")
    assert "ended; nothing was kept" in world("learn", "review").stdout
    assert world.reviews() == ["a begun", "a ended"]
    assert world("learn", "review").stdout.startswith("there is nothing new to review")
    assert world("learn", "review", "nothing-of-this-name").returncode != 0


def test_what_was_reviewed_for_its_signals_is_not_reviewed_again(make: Make) -> None:
    world = make()
    world.frob()
    world("learn", "work")
    assert world("learn", "review").stdout.startswith("there is nothing new to review")


def test_where_learning_is_off_the_commands_say_so(make: Make) -> None:
    world = make(enabled=False)
    world.more_ = {"MELETE_LEARNING": ""}
    done = world("learn", "work")
    assert done.returncode == 2
    assert done.stderr == "melete: learning is off (learning.enabled); melete config set learning.enabled true\n"


def _sessions(world: Frobbing) -> list[dict[str, Any]]:
    found = lines(world("sessions", "list", "--json").stdout)
    return found[0] if found and isinstance(found[0], list) else found
