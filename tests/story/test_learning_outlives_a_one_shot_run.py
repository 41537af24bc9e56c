"""What a run found out the hard way is learned although its process is gone, and said to whoever comes next."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.story.cli import Terminal, lines
from tests.story.frobbing import Frobbing, frobbing, until


@pytest.fixture
def world(own_home: Path) -> Iterator[Frobbing]:
    yield from frobbing(own_home)


@pytest.fixture
def detaching(own_home: Path) -> Iterator[Frobbing]:
    yield from frobbing(own_home, detach=True)


def test_three_sessions_of_eight_calls_leave_a_lesson(world: Frobbing) -> None:
    for _ in range(3):
        assert world.frob().stderr == ""
    assert not world.asked_to_review()  # nothing was left behind
    worked = world("learn", "work")
    assert worked.stdout.startswith("learned: w-frob (created) · why: melete learn show "), worked.stdout
    assert len(world.ledger("learn.read")) == 3
    assert "w-frob" in world("skills", "list").stdout
    assert world("verify").returncode == 0, world("verify").stdout
    again = lines(world("learn", "work", "--json").stdout)[0]
    assert not again["reviews"] and again["lines"] == ["nothing is due"]


def test_the_command_of_the_line_tells_of_the_lesson(world: Frobbing) -> None:
    world.frob()
    line = world("learn", "work").stdout.strip()
    shown = world(*line.partition("why: melete ")[2].split())
    assert shown.returncode == 0 and "w-frob" in shown.stdout


def test_a_process_is_left_behind_and_the_next_one_says_what_it_learned(detaching: Frobbing) -> None:
    world = detaching
    world.frob()
    until(lambda: any(row["status"] == "ended" for row in world.ledger("learn.review")))
    until(lambda: (world.home / "state" / "learned.txt").exists())
    with Terminal(["run", "Say four"], model=world.model, cwd=world.work, more=world.more) as terminal:
        assert "★ learned: w-frob (created) · why: melete learn show " in terminal.read_until("show ")
        assert terminal.end() == 0
    assert "learned" not in world("run", "-v", "Say four").stderr  # once
    until(lambda: not world.workers())


def test_the_line_stands_in_the_session_that_it_is_about(world: Frobbing) -> None:
    world.frob()
    world("learn", "work")
    rows = lines(world("sessions", "list", "--json").stdout)
    mine = next(row["id"] for row in rows if not row["title"].startswith("Review of"))
    assert "★ learned: w-frob (created)" in world("sessions", "show", mine).stdout


@pytest.mark.parametrize("how", ["--no-learn", "--ephemeral", "off"])
def test_nothing_at_all_happens_where_it_is_not_wanted(detaching: Frobbing, how: str) -> None:
    world = detaching
    if how == "off":
        assert world("config", "set", "learning.enabled", "false").returncode == 0
        world.frob = lambda *_: _off(world)  # type: ignore[method-assign]
    world.frob(*([how] if how != "off" else []))
    assert not (world.home / "state" / "learn.lock").exists()
    assert not world.ledger("learn.signal", "learn.read", "learn.review")
    assert len(world.model.requests) == 9
    if how == "--no-learn":  # nor later
        assert world("learn", "work").stdout == "nothing is due\n"
        assert not world.ledger("learn.signal") and len(world.model.requests) == 9


def _off(world: Frobbing) -> None:
    more = {**world.more, "MELETE_LEARNING": ""}
    with Terminal(["run", "--yolo", "Frob it"], model=world.model, cwd=world.work, more=more) as terminal:
        terminal.read_until("Frobbed.")
        assert terminal.end() == 0
