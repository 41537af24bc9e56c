"""A server reviews what was asked of it once the session is idle, tells it in the session's events, and stops cleanly meanwhile."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.served import Served, served
from tests.story.frobbing import Frobbing, frobbing, stalled, until


@pytest.fixture
def world(own_home: Path) -> Iterator[Frobbing]:
    yield from frobbing(own_home, idle_seconds=1)


@contextmanager
def serving(world: Frobbing) -> Generator[Served]:
    more = {**world.more, "MELETE_HOME": str(world.home)}
    with served(world.home.parent, world.model, env=more) as server:
        yield server


def test_a_client_reads_what_was_learned_among_the_events(world: Frobbing) -> None:
    with serving(world) as server:
        begun = server.run("Frob it")
        assert server.ended(begun["id"])["status"] == "done"
        with server.stream(f"/api/sessions/{begun['session']}/events") as sent:
            line = next(event for event in sent if event.event == "learned").data
        assert (line["status"], line["what"]) == ("learned", "w-frob (created)")
        assert line["about"] == f"why: melete learn show {line['number']}"
        assert world.reviews() == ["a begun", "a ended"]


def test_a_server_that_stops_cancels_its_review_and_the_next_one_goes_on(world: Frobbing) -> None:
    world.late = stalled
    with serving(world) as server:
        begun = server.run("Frob it")
        server.ended(begun["id"])
        until(world.asked_to_review)
    assert world.reviews() == ["a begun", "a cancelled"]
    world.late = None
    with serving(world):
        until(lambda: "a ended" in world.reviews())
    assert world.reviews() == ["a begun", "a cancelled", "a begun", "a ended"]
