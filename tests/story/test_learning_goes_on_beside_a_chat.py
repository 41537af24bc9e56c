"""In a chat, work is reviewed after the answer and beside the conversation, which hears of it in one line and in nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.story.cli import Terminal
from tests.story.frobbing import Frobbing, frobbing, said, stalled, until

LINE = "★ learned: w-frob (created) · why: melete learn show "


@pytest.fixture
def world(own_home: Path) -> Iterator[Frobbing]:
    yield from frobbing(own_home, idle_seconds=1)


def chat(world: Frobbing, *words: str) -> Terminal:
    return Terminal(["chat", "--yolo", *words], model=world.model, cwd=world.work, more=world.more)


def test_the_person_sees_one_line_and_the_next_request_only_grows(world: Frobbing) -> None:
    with chat(world) as terminal:
        terminal.read_until("> ")
        terminal.type("Frob it\r")
        terminal.read_until("Frobbed.")
        terminal.read_until("> ")
        terminal.type("now say ")
        terminal.read_until("now say ")
        terminal.read_until(LINE)
        terminal.read_until("> now say ")
        terminal.type("four\r")
        terminal.read_until("Four.")
        terminal.read_until("> ")
        terminal.type("/quit\r")
        assert terminal.end() == 0
        assert LINE not in terminal.rest()
    mine = [r for r in world.model.requests if said(r.json["messages"][-1]).startswith("now say four")]
    before = max((r for r in world.model.requests if r.index < world.asked_to_review()[0]), key=lambda r: r.index)
    assert len(mine) == 1
    old, new = before.json, mine[0].json
    grown = new["messages"][len(old["messages"]) :]
    assert new["messages"][: len(old["messages"])] == old["messages"]
    assert [(one["role"], one["content"]) for one in grown] == [("assistant", "Frobbed."), ("user", "now say four")]
    assert {key: old[key] for key in old if key != "messages"} == {key: new[key] for key in new if key != "messages"}


def test_who_leaves_in_the_middle_is_not_held_up_and_the_next_one_goes_on(world: Frobbing) -> None:
    world.late = stalled
    with chat(world) as terminal:
        terminal.read_until("> ")
        terminal.type("Frob it\r")
        terminal.read_until("Frobbed.")
        terminal.read_until("> ")
        until(world.asked_to_review)
        terminal.interrupt()
        terminal.read_until("Ctrl-C again")
        terminal.interrupt()
        assert terminal.end() == 0
        assert "Traceback" not in terminal.raw
    world.late = None
    assert world.reviews() == ["a begun", "a cancelled"]
    assert world("learn", "work").stdout.startswith("learned: w-frob (created)")
    assert world.reviews()[2:] == ["a begun", "a ended"]


def test_a_new_session_ends_the_old_one_and_it_is_reviewed(world: Frobbing) -> None:
    assert world("config", "set", "learning.idle_seconds", "3600").returncode == 0
    with chat(world) as terminal:
        terminal.read_until("> ")
        terminal.type("Frob it\r")
        terminal.read_until("Frobbed.")
        terminal.read_until("> ")
        terminal.type("/new\r")
        terminal.read_until(LINE)
        terminal.type("/quit\r")
        assert terminal.end() == 0


def test_a_chat_that_is_closed_leaves_a_process_behind(world: Frobbing) -> None:
    for key, value in (("detach", "true"), ("idle_seconds", "3600")):
        assert world("config", "set", f"learning.{key}", value).returncode == 0
    with chat(world) as terminal:
        terminal.read_until("> ")
        terminal.type("Frob it\r")
        terminal.read_until("Frobbed.")
        terminal.read_until("> ")
        terminal.type("/quit\r")
        assert terminal.end() == 0
    until(lambda: "a ended" in world.reviews())
    until(lambda: (world.home / "state" / "learned.txt").exists())
    with chat(world) as terminal:
        terminal.read_until(LINE)
        terminal.type("/quit\r")
        assert terminal.end() == 0
    until(lambda: not world.workers())


@pytest.mark.parametrize("how", ["--no-learn", "--ephemeral"])
def test_nothing_happens_where_it_is_not_wanted(world: Frobbing, how: str) -> None:
    with chat(world, how) as terminal:
        terminal.read_until("> ")
        terminal.type("Frob it\r")
        terminal.read_until("Frobbed.")
        terminal.read_until("> ")
        terminal.type("say four\r")
        terminal.read_until("Four.")
        terminal.read_until("> ")
        terminal.type("/quit\r")
        assert terminal.end() == 0
    assert not world.ledger("learn.signal", "learn.review") and not world.asked_to_review()
