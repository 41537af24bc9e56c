"""What the report says of a ledger: each figure with its cases, and no verdict that they do not carry."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from melete.core.message import Usage
from melete.learn.facts import Debt, Kept, Outcome, Proposed, Review, Task, fields_of
from melete.learn.gates import Verdict
from melete.learn.report import Effect, Report, report

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


class Told:
    """A ledger that is told task by task; a task that follows a lesson takes one call and is done, another one takes eight."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._tasks = 0

    def add(self, fact: Kept | None = None, kind: str = "", **fields: Any) -> "Told":
        at = (NOW - timedelta(days=2) + timedelta(seconds=len(self.rows))).isoformat()
        kind, fields = (fact.kind, fields_of(fact)) if fact else (kind, fields)
        self.rows.append({"number": len(self.rows) + 1, "kind": kind, "at": at, **fields})
        return self

    def task(self, name: str, *, lesson: str = "", session: str = "", turn: int = 2, **more: Any) -> "Told":
        self._tasks += 1
        about: dict[str, Any] = {"session": session or f"s{self._tasks}", "turn": turn, "task": name, "model": "m"}
        gone = {"done": True, "calls": 2, "reward": 1.0} if lesson else {"done": True, "calls": 8, "reward": 0.4}
        gone |= more
        self.add(Task(**about, work=1 if lesson else 8, **gone))
        if lesson:
            self.add(
                kind="skill.exposure", session=about["session"], turn=9, how="loaded", skills=[[lesson, "v1", 0, 40]]
            )
            self.add(Outcome(**about, target="skill", name=lesson, version="v1", followed=0.8, credited=True, **gone))
        return self

    def report(self, **texts: str) -> Report:
        return report(self.rows, now=NOW, day_share=0.1, texts=texts)

    def effect(self, name: str) -> Effect:
        return next(one for one in self.report().effects if one.name == name)


def test_an_empty_ledger_says_nothing() -> None:
    found = report((), now=NOW, day_share=0.1)
    assert (found.effects, found.debts, found.trend.tasks, found.reviews.share) == ((), (), 0, 0.0)


@pytest.mark.parametrize(
    ("uses", "controls", "judged"),
    [(3, 5, "too_few"), (7, 5, "too_few"), (8, 2, "no_controls"), (8, 3, "helps"), (40, 40, "helps")],
)
def test_a_lesson_is_judged_once_there_are_enough_uses_and_enough_to_compare_with(
    uses: int, controls: int, judged: str
) -> None:
    told = Told()
    for _ in range(controls):
        told.task("w frob")
    for _ in range(uses):
        told.task("w frob", lesson="frob")
    one = told.effect("frob")
    assert one.judged == judged, one
    assert (one.loaded, one.followed.number, one.without.number) == (uses, uses, controls)


def test_the_verdict_on_a_few_uses_says_how_few() -> None:
    told = Told()
    for _ in range(3):
        told.task("w frob", lesson="frob")
    for number in range(9):
        told.add(kind="skill.exposure", session=f"x{number}", turn=3, how="loaded", skills=[["frob", "v1", 0, 9]])
    assert told.effect("frob").verdict == "12 uses, 3 followed: too few to say (8 are needed)"


def test_a_lesson_that_makes_it_worse_harms_and_one_that_changes_nothing_is_not_praised() -> None:
    harm, same = Told(), Told()
    for _ in range(20):
        harm.task("w frob", reward=0.9)
        same.task("w frob", reward=0.9)
    for _ in range(20):
        harm.task("w frob", lesson="frob", reward=0.1, done=False)
        same.task("w frob", lesson="frob", reward=0.9)
    assert harm.effect("frob").judged == "harms"
    assert (same.effect("frob").judged, same.effect("frob").gain is not None) == ("no_difference", True)


def test_tasks_of_other_classes_or_from_later_are_nothing_to_compare_with() -> None:
    told = Told()
    for _ in range(9):
        told.task("make").task("w frob", lesson="frob").task("w frob")
    assert told.effect("frob").without.number == 0


def test_what_was_withheld_is_compared_with_whenever_it_was() -> None:
    told = Told()
    for number in range(9):
        told.task("w frob", lesson="frob").task("w frob", session=f"held{number}")
        told.add(Outcome(session=f"held{number}", turn=2, target="skill", name="frob", how="withheld", arm="control"))
    assert (told.effect("frob").without.number, told.report().withheld) == (9, 9)


def test_what_is_loaded_and_not_followed_is_told_apart_from_what_teaches_no_command() -> None:
    told = Told()
    for name, followed in (("lost", 0.0), ("tone", None)):
        told.add(kind="skill.exposure", session="s", turn=3, how="loaded", skills=[[name, "v1", 0, 9]])
        told.add(Outcome(session="s", turn=2, target="skill", name=name, followed=followed))
    told.add(kind="skill.exposure", session="s", turn=3, how="index", list="d", skills=[["never", "", 1, 0]])
    told.add(kind="skill.exposure", session="t", turn=3, how="index", list="d")
    assert [told.effect(name).judged for name in ("lost", "tone", "never")] == [
        "not_followed",
        "no_commands",
        "not_used",
    ]
    assert told.effect("never").listed == 2


def test_an_entry_of_memory_is_named_by_what_it_says() -> None:
    told = Told().add(kind="memory.exposure", session="s", turn=3, list="d", entries=[["e1", "v1", 9], ["e2", "v2", 9]])
    effects = told.report(e1="Use `w frob --mode b`.", e2="Likes tea.").effects
    assert [(one.name, one.text, one.listed, one.judged) for one in effects] == [
        ("e1", "Use `w frob --mode b`.", 1, "not_followed"),
        ("e2", "Likes tea.", 1, "no_commands"),
    ]


def test_an_amended_outcome_counts_once_as_it_is_now() -> None:
    told = Told().task("w frob", lesson="frob", session="s1")
    told.task("w frob", lesson="frob", session="s1", reward=0.5, corrected=True, before=1.0)
    found = told.report()
    assert (found.outcomes, found.trend.tasks) == (1, 1)
    assert found.effects[0].followed.reward is not None
    assert found.effects[0].followed.reward.value == 0.5


def test_effects_are_told_by_model() -> None:
    told = Told()
    for model in ("a", "b", "a"):
        told.task("w frob", lesson="frob")
        for row in told.rows:
            row["model"] = model if row["kind"] == "learn.outcome" and row["model"] == "m" else row.get("model", "")
    assert [(one.model, one.number) for one in told.effect("frob").models] == [("a", 2), ("b", 1)]


def test_the_trend_is_by_meeting_and_says_what_chance_would_do() -> None:
    told = Told()
    for number in range(6):
        told.task(f"w v{number}")
        for _ in range(5):
            told.task(f"w v{number}", lesson=f"v{number}")
    trend = told.report().trend
    assert [(one.label, one.tasks, one.work) for one in trend.meetings] == [
        ("first", 6, 8.0), ("second", 6, 1.0), ("third and fourth", 12, 1.0), ("fifth and later", 12, 1.0),
    ]  # fmt: skip
    assert (trend.fewer, trend.same, trend.more, trend.chance) == (6, 0, 0, 1 / 64)
    assert trend.saved is not None
    assert (trend.saved.value, trend.saved.low < 7 < trend.saved.high) == (7.0, True)
    assert (trend.points[0].first, trend.points[-1].last) == (1, 36)


def test_a_later_meeting_in_the_same_conversation_is_not_afresh() -> None:
    told = Told().task("w a", session="s").task("w a", session="s", turn=5).task("w a", session="t")
    assert [(one.tasks, one.afresh) for one in told.report().trend.meetings] == [(1, 1), (1, 0), (1, 1), (0, 0)]


def reviewed(status: str, **more: Any) -> Review:
    given: dict[str, Any] = {"id": "r1", "session": "s", "after": 0, "upto": 9, "status": status, "why": "fixed"}
    return Review(**given | more)


def test_reviews_count_once_with_their_share_of_the_week() -> None:
    told = Told().add(reviewed("begun")).add(reviewed("ended", usage=Usage(input=900, cache_read=1_000), usd=0.02))
    told.add(reviewed("put_off", id="r2"))
    told.add(kind="spending.settled", id="x", tokens=21_000, cached=10_000)
    reviews = told.report().reviews
    assert reviews.by_status == {"ended": 1, "put_off": 1}
    assert (reviews.tokens, reviews.usd, reviews.week) == (1_000, 0.02, (1_000, 12_000))


def proposed(number: int, status: Any, verdicts: Sequence[Verdict] = ()) -> Proposed:
    version = "v1" if status == "trial" else ""
    given: dict[str, Any] = {
        "target": "skill",
        "name": f"n{number}",
        "did": "created",
        "review": "r1",
        "version": version,
    }
    return Proposed(id=f"p{number}", status=status, verdicts=tuple(verdicts), **given)


def test_proposals_are_told_by_where_they_stand_and_by_the_gate_that_stopped_them() -> None:
    wrong = [Verdict(gate="form", ok=True), Verdict(gate="grounding", ok=False, reason="no such call")]
    held = [Verdict(gate="safety", ok=True, needs_person=True, reason="from the web")]
    told = Told().add(proposed(1, "trial")).add(proposed(2, "refused", wrong)).add(proposed(3, "inbox", held))
    found = told.report().proposals
    assert found.by_state == {"trial": 1, "refused": 1, "waiting": 1}
    assert found.stopped == {"safety": 1, "grounding": 1}
    assert [one.proposal.name for one in found.rows] == ["n3", "n2", "n1"]


def test_debts_that_are_open_are_told_the_heaviest_first() -> None:
    told = Told()
    for session, weight in (("light", 2), ("heavy", 5)):
        told.add(Debt(session=session, turn=2, signal="fixed", weight=weight, what="`w a` failed once", facts=(5,)))
    found = told.report()
    assert [(one.session, one.weight, one.signals[0].what) for one in found.debts] == [
        ("heavy", 5, "`w a` failed once"),
        ("light", 2, "`w a` failed once"),
    ]
    assert found.signals == {"fixed": 2}
