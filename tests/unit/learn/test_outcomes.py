"""What came of each turn of a session, and of each skill and entry of memory that was before the model in it."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from tests.unit.learn.told import Told

from melete.core.event import Notice, Opened, RunStarted, Spent
from melete.core.message import Usage
from melete.learn.facts import Outcome, Task
from melete.learn.outcomes import Before, Exposure, key_of, outcomes, reward
from melete.learn.verbs import taught

SKILL = "---\nname: frob\n---\nRun `w frob --mode b --item K`.\n"


def of(told: Told, *exposures: Exposure, before: Before | None = None) -> tuple[Sequence[Task], Sequence[Outcome]]:
    return outcomes("s1", told.facts, exposures, before=before)


def loaded(told: Told, **more: Any) -> Exposure:
    """The skill of `SKILL`, loaded in the turn that has just ended."""
    given = {"target": "skill", "name": "frob", "how": "loaded", "version": "v1", "at": len(told.facts)}
    return Exposure(**given | more)


def used() -> Told:
    """A turn in which the skill is loaded and followed."""
    return Told().ask("frob k1").view("frob", SKILL).shell("w frob --mode b --item k1").answer()


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({}, 1.0),
        ({"done": False}, 0.0),
        ({"corrected": True}, 0.5),
        ({"same_error": 1}, 0.75),
        ({"same_error": 9}, 0.75),
        ({"calls": 6, "median": 2.0}, 0.8),
        ({"calls": 1, "median": 2.0}, 1.0),
        ({"calls": 50, "median": 0.0}, 1.0),
        ({"spent": 20_000}, 0.9),
        ({"done": False, "corrected": True, "same_error": 1, "spent": 1_000_000}, -1.0),
    ],
)
def test_the_reward_is_the_formula_of_the_documentation(given: dict[str, Any], value: float) -> None:
    usual: dict[str, Any] = {
        "done": True,
        "corrected": False,
        "same_error": 0,
        "calls": 2,
        "median": 2.0,
        "spent": 0,
    }
    assert reward(**usual | given) == value


def test_a_turn_is_a_task_of_the_class_of_what_worked_last() -> None:
    told = Told().ask("frob k1").shell("w frob --mode a", 2, "no").shell("w frob --mode a", 2, "no")
    told.shell("w frob --mode b").shell("ls")
    told.add(Spent(usage=Usage(input=900, output=100, cache_read=10_000)))
    (task,), found = of(told.answer())
    assert (task.session, task.turn, task.task, task.done) == ("s1", 2, "w frob", True)
    assert (task.calls, task.work, task.errors, task.same_error, task.retries) == (4, 4, 2, 1, 1)
    assert (task.spent, task.reward) == (2_000, 0.74)
    assert found == []


def test_a_turn_whose_last_call_failed_or_whose_run_did_is_not_done() -> None:
    assert [one.done for one in of(Told().ask("x").shell("w frob", 2).answer())[0]] == [False]
    assert [one.done for one in of(Told().ask("x").shell("w frob").answer(stop="looping"))[0]] == [False]


def test_a_skill_that_was_loaded_and_followed_gets_the_credit() -> None:
    told = used()
    _, (one,) = of(told, loaded(told, tokens=40))
    assert (one.target, one.name, one.version, one.how, one.tokens) == ("skill", "frob", "v1", "loaded", 40)
    assert (one.followed, one.credited, one.reward, one.arm) == (1.0, True, 1.0, "treat")
    assert (one.task, one.calls) == ("w frob", 2)


def test_a_skill_that_was_loaded_and_not_followed_gets_neither_credit_nor_blame() -> None:
    told = Told().ask("x").view("frob", SKILL).shell("make all").answer()
    _, (one,) = of(told, loaded(told))
    assert (one.followed, one.credited) == (0.0, False)


def test_a_skill_without_commands_says_nothing_of_what_was_followed() -> None:
    told = Told().ask("x").view("tone", "Answer in short sentences.").shell("make all").answer()
    _, (one,) = of(told, loaded(told, name="tone"))
    assert (one.followed, one.credited) == (None, False)


def test_errors_from_before_a_skill_was_loaded_are_not_its_fault() -> None:
    told = Told().ask("x").shell("w frob --mode a", 2).shell("w frob --mode a", 2).view("frob", SKILL)
    told.shell("w frob --mode b --item k1").answer()
    (task,), (one,) = of(told, loaded(told))
    assert (task.errors, task.same_error, task.reward) == (2, 1, 0.75)
    assert (one.errors, one.same_error, one.reward) == (0, 0, 1.0)


def test_what_the_surroundings_did_is_nobodys_fault() -> None:
    (task,), _ = of(Told().ask("x").shell("w get", 1, "connection refused").shell("w get").answer())
    assert (task.errors, task.done) == (0, True)


def test_a_corrected_next_message_counts_against_the_turn_before_it() -> None:
    told = used()
    first = loaded(told)
    told.ask("No, that is wrong. It has to be `w frob --mode c`.").shell("w frob --mode c").answer()
    tasks, (one, later) = of(told, first)
    assert [task.corrected for task in tasks] == [True, False]
    assert (one.corrected, one.reward, one.credited) == (True, 0.5, True)
    assert later.turn == tasks[1].turn


def test_a_skill_goes_on_counting_in_later_turns_in_which_it_is_used() -> None:
    told = used()
    first = loaded(told)
    told.ask("And k2.").shell("w frob --mode b --item k2").answer().ask("Now the tests.").shell("pytest").answer()
    tasks, found = of(told, first)
    assert [one.turn for one in found] == [tasks[0].turn, tasks[1].turn]


def test_what_was_suggested_or_withheld_is_told_without_credit() -> None:
    told = used()
    _, found = of(told, loaded(told, how="retrieved", rank=3), loaded(told, how="withheld"))
    assert [(one.how, one.rank, one.arm, one.credited) for one in found] == [
        ("retrieved", 3, "treat", False),
        ("withheld", 0, "control", False),
    ]


def test_a_list_in_the_prompt_is_told_with_each_task_and_not_row_by_row() -> None:
    told = used()
    told.ask("And k2.").shell("w frob --mode b --item k2").answer()
    listed = Exposure(target="skill", name="", how="index", version="abc", at=3)
    tasks, found = of(told, listed)
    assert [one.listed for one in tasks] == ["abc", "abc"]
    assert found == []


def test_an_entry_of_memory_counts_where_what_it_says_was_used() -> None:
    told = Told().ask("x").shell("ls").answer().ask("frob k1").shell("w frob --mode b").answer()
    entry = Exposure(
        target="memory", name="e1", how="shown", version="m1", at=4, teaches=taught("frob with `w frob --mode b`")
    )  # fmt: skip
    tasks, (one,) = of(told, structs.replace(entry, name="", version="all"), entry)
    assert [task.shown for task in tasks] == ["all", "all"]
    assert (one.target, one.name, one.turn, one.followed, one.credited) == ("memory", "e1", tasks[1].turn, 1.0, True)


def test_the_median_is_that_of_earlier_tasks_of_the_class() -> None:
    told = Told().ask("x").shell("w frob").answer().ask("y").shell("w frob").shell("w frob").shell("w frob").answer()
    tasks, _ = of(told, before=Before(calls={"w frob": [1, 3, 5], "make": [90]}))
    assert [one.median for one in tasks] == [3.0, 2.0]
    assert tasks[1].reward == 0.95


def test_nothing_is_told_twice() -> None:
    told = used()
    exposure = loaded(told)
    tasks, found = of(told, exposure)
    known = Before(tasks={one.turn: one for one in tasks}, outcomes={key_of(one): one for one in found})
    assert of(told, exposure, before=known) == ([], [])


@pytest.mark.parametrize(("word", "changed"), [("bad", (True, False, 0.5)), ("good", (False, True, 1.0))])
def test_a_later_verdict_amends_what_was_told(word: str, changed: tuple[bool, bool, float]) -> None:
    told = used()
    exposure = loaded(told)
    tasks, found = of(told, exposure)
    known = Before(tasks={one.turn: one for one in tasks}, outcomes={key_of(one): one for one in found})
    told.add(Notice(text="why", about=f"feedback:{word}"))
    (task,), (one,) = of(told, exposure, before=known)
    assert (one.corrected, one.good, one.reward) == (task.corrected, task.good, task.reward) == changed
    assert (one.before, task.before) == (1.0, 1.0)


def test_the_last_verdict_counts_and_good_makes_it_done() -> None:
    told = Told().ask("x").shell("w frob", 2).answer()
    told.add(Notice(text="bad", about="feedback:bad"))
    told.add(Notice(text="good after all", about="feedback:good"))
    (task,), _ = of(told)
    assert (task.done, task.corrected, task.good) == (True, False, True)


def test_a_run_that_goes_on_is_left_for_later() -> None:
    told = used()
    told.add(RunStarted(run="run2"))
    assert of(told) == ([], [])


def test_what_a_fork_has_copied_belongs_to_the_session_it_is_from() -> None:
    told = used()
    fork = Told()
    fork.add(Opened(copied=len(told.facts) + 1))
    for fact in told.facts:
        fork.add(fact)
    tasks, _ = of(fork.ask("y").shell("make all").answer())
    assert [one.task for one in tasks] == ["make"] or [one.task for one in tasks] == ["make all"]
