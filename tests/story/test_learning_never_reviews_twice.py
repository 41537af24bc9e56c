"""A turn is reviewed once, also when two processes try, one is killed, or it is told to stop in the middle."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.story.cli import MELETE, variables
from tests.story.frobbing import Frobbing, frobbing, stalled, until


@pytest.fixture
def world(own_home: Path) -> Iterator[Frobbing]:
    yield from frobbing(own_home)


def begun(world: Frobbing) -> "subprocess.Popen[bytes]":
    """A process that is in the middle of a review: its model has been asked and does not answer."""
    world.late = stalled
    before = len(world.asked_to_review())
    process = subprocess.Popen(
        [*MELETE, "learn", "work"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables(world.model, **world.more),
        cwd=world.work,
    )
    until(lambda: len(world.asked_to_review()) > before)
    world.late = None
    return process


def test_of_two_at_once_one_reviews(world: Frobbing) -> None:
    world.frob()
    with begun(world) as first:
        second = world("learn", "work")
        assert (second.returncode, second.stdout) == (0, "another process is learning already\n")
        first.send_signal(signal.SIGTERM)
        first.communicate()
    assert len(world.asked_to_review()) == 1


def test_what_a_killed_process_began_is_gone_on_with(world: Frobbing) -> None:
    world.frob()
    with begun(world) as first:
        first.kill()
        first.communicate()
    assert world.reviews() == ["a begun"]
    assert world("learn", "work").stdout.startswith("learned: w-frob (created)")
    assert world.reviews() == ["a begun", "a begun", "a ended"]
    logs = {row["log"] for row in world.ledger("learn.review") if row["log"]}
    assert len(logs) == 1
    assert world("learn", "work").stdout == "nothing is due\n"
    assert len({row["id"] for row in world.ledger("learn.proposal")}) == 1


def test_one_that_is_told_to_stop_says_so_and_another_goes_on(world: Frobbing) -> None:
    world.frob()
    with begun(world) as first:
        first.send_signal(signal.SIGINT)
        _, complaints = first.communicate()
        assert first.returncode == 130 and b"Traceback" not in complaints
    assert world.reviews() == ["a begun", "a cancelled"]
    assert world("learn", "work").stdout.startswith("learned: w-frob (created)")
    assert world.reviews() == ["a begun", "a cancelled", "a begun", "a ended"]


def test_a_review_that_kills_its_process_each_time_is_given_up(world: Frobbing) -> None:
    world.frob()
    for _ in range(3):
        with begun(world) as process:
            process.kill()
            process.communicate()
    asked = len(world.asked_to_review())
    assert world("learn", "work").stdout == "nothing is due\n"
    assert world.reviews() == ["a begun", "a begun", "a begun", "a failed"]
    assert world("learn", "work").stdout == "nothing is due\n"
    assert len(world.asked_to_review()) == asked


def test_a_clock_that_was_ahead_once_hides_no_session(world: Frobbing) -> None:
    world.more_ = {"MELETE_CLOCK": "2040-01-01T00:00:00+00:00"}
    assert world("run", "Hello").stdout == "Four.\n"
    assert world("learn", "work").stdout == "nothing is due\n"
    world.more_ = {}
    world.frob()
    assert world("learn", "work").stdout.startswith("learned: w-frob (created)")
    assert world("learn", "work").stdout == "nothing is due\n"
