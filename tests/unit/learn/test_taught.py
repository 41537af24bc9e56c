"""What a lesson says already, word by word, needs no review: it was not found."""

from collections.abc import Sequence

import pytest
from tests.unit.learn.told import Told

from melete.learn.facts import Debt
from melete.learn.signals import signals
from melete.learn.taught import said_already
from melete.learn.verbs import shows

SKILL = "1. Run `w ship --item ITEM --mode slow`.\n\n```sh\npsql -p 5432 {base}\n```\n"
TEXTS = {"w-sell": "Run `w sell --now`.", "w-ship": SKILL}


@pytest.mark.parametrize(
    ("command", "there"),
    [
        ("w ship --item k1 --mode slow", True),
        ("cd /srv && w ship --item k1 --mode slow", True),
        ("w ship --item k1 --mode fast", False),
        ("w ship --mode slow --item k1", False),
        ("w ship --item k1", False),
        ("w ship --item k1 --mode slow && w sell --now", False),
        ("psql -p 5432 shop", True),
        ("psql -p 5433 shop", False),
        ("", False),
    ],
)
def test_a_text_shows_a_command_word_by_word(command: str, there: bool) -> None:
    assert shows(SKILL, command) is there


def owed(told: Told) -> Sequence[Debt]:
    return [
        Debt(
            session="s",
            turn=one.turn,
            signal=one.kind,
            weight=one.weight,
            what=one.what,
            facts=one.facts,
            verb=one.verb,
        )
        for one in signals(told.facts)
    ]


def hard(last: str = "w ship --item k1 --mode slow") -> Told:
    told = Told().ask("Ship k1.")
    for number in range(6):
        told.shell(f"w ship --item k1 --x{number}", 4, "error 4")
    return told.shell(last, 0, "w: done").answer()


def test_a_way_that_was_found_again_is_said_already() -> None:
    told = hard()
    assert {one.signal for one in owed(told)} == {"fixed", "retries", "sequence"}
    assert said_already(owed(told), told.facts, TEXTS) == ["w-ship"]


@pytest.mark.parametrize(
    "told",
    [
        hard("w ship --item k1 --mode fast"),
        hard().ask("No, that is wrong: it has to be by rail.").answer(),
        hard().ask("Remember that we ship by rail.").answer(),
        Told().ask("Ship k1.").shell("w ship", 4).shell("w ship", 4).shell("w ship", 4).shell("w ship", 4).answer(),
        Told().ask("Hello.").answer(),
    ],
)
def test_another_way_a_persons_words_and_what_never_worked_are_not(told: Told) -> None:
    assert not said_already(owed(told), told.facts, TEXTS)
