"""What stands open is told by the ledger alone, and a review is due when it weighs enough."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from melete.core.message import Usage
from melete.learn.debts import Debts, Due, Rule, brief_of, only
from melete.learn.facts import Debt, Kept, ReadUpTo, Review, fields_of
from melete.learn.share import FLOOR, Share

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
RULE = Rule()


class Ledger:
    """Rows in their order, as the ledger has them."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.now = NOON

    def add(self, *facts: Kept) -> "Ledger":
        for fact in facts:
            self.row(fact.kind, **fields_of(fact))
        return self

    def row(self, kind: str, **fields: Any) -> None:
        self.rows.append({"number": len(self.rows) + 1, "kind": kind, "at": self.now.isoformat(), **fields})

    def owes(self, session: str, *weights: int, at: int = 5, signal: str = "fixed") -> "Ledger":
        debts = [
            Debt(session=session, turn=at, signal=signal, weight=weight, what="it", facts=(at + n,), verb=f"v{n}")
            for n, weight in enumerate(weights)
        ]
        return self.add(*debts)

    def read(self, session: str, seq: int = 20, *, over: bool = False, **counts: int) -> "Ledger":
        apart = {"apart": counts.pop("apart", 0)}
        return self.add(
            ReadUpTo(
                session=session,
                upto=seq,
                over=over,
                state=apart,
                steps=counts.get("steps", 0),
                turns=counts.get("turns", 0),
            )
        )

    def review(self, status: str, *, id: str = "r1", session: str = "s", upto: int = 20, **more: Any) -> "Ledger":
        return self.add(Review(id=id, session=session, after=0, upto=upto, status=status, **more))  # type: ignore[arg-type]

    @property
    def debts(self) -> Debts:
        found = Debts()
        found.take(self.rows)
        return found

    def due(self, rule: Rule = RULE) -> Sequence[Due]:
        return self.debts.due(rule, now=self.now)

    def names(self, rule: Rule = RULE) -> list[str]:
        return [due.session for due in self.due(rule)]


@pytest.mark.parametrize(
    ("weights", "over", "due"),
    [((3, 2), False, False), ((3, 3), False, True), ((3,), True, True), ((2,), True, False), ((0, 0), True, False)],
)
def test_a_session_is_due_at_six_and_at_its_end_at_three(weights: tuple[int, ...], over: bool, due: bool) -> None:
    assert bool(Ledger().owes("s", *weights).read("s", over=over).due()) is due


def test_ended_sessions_are_due_together_and_those_that_go_on_do_not_count() -> None:
    ledger = Ledger().owes("a", 2).read("a", over=True).owes("b", 2).read("b", over=True).owes("c", 2).read("c")
    assert not ledger.due()
    assert ledger.read("c", over=True).names() == ["a", "b", "c"]


def test_the_heaviest_comes_first() -> None:
    ledger = Ledger().owes("a", 3).read("a", over=True).owes("b", 8).read("b", over=True)
    assert ledger.names() == ["b", "a"]


def test_a_session_that_goes_on_is_reviewed_once_in_ten_turns() -> None:
    ledger = Ledger().owes("s", 8).read("s").review("begun").review("ended")
    assert not ledger.due()
    assert not ledger.owes("s", 8, at=30).read("s", 40, apart=9).due()
    assert ledger.read("s", 41, apart=10).names() == ["s"]
    assert Ledger().owes("s", 8).read("s", apart=2).names() == ["s"]  # the first needs no turns


def test_a_review_pays_for_what_it_covers_and_for_nothing_else() -> None:
    ledger = Ledger().owes("s", 3).owes("s", 3, at=30).read("s", 40, over=True).review("begun").review("ended")
    (due,) = ledger.due()
    assert (due.after, due.upto, [debt.facts for debt in due.signals]) == (20, 40, [(30,)])


def test_what_was_begun_is_gone_on_with_under_its_own_id_and_log() -> None:
    ledger = Ledger().owes("s", 3).read("s", over=True).review("begun", why="it was due", brief="skills")
    ledger.review("begun", log="the-log", why="it was due", brief="skills")
    (due,) = ledger.owes("s", 3, at=30).read("s", 40, over=True).due()
    assert due.before is not None
    assert (due.before.id, due.before.log, due.upto, due.why, due.brief) == (
        "r1",
        "the-log",
        20,
        "it was due",
        "skills",
    )
    assert [debt.facts for debt in due.signals] == [(5,)]
    cancelled = ledger.review("cancelled", steps=2).due()[0].before
    assert cancelled is not None and cancelled.log == "the-log"


def test_a_failed_one_is_tried_again_after_an_hour_and_given_up_at_the_third() -> None:
    ledger = Ledger().owes("s", 3).read("s", over=True)
    for left in (True, True, False):
        ledger.review("begun").review("failed")
        assert not ledger.due()
        ledger.now += timedelta(hours=1)
        assert bool(ledger.due()) is left
    assert ledger.debts.of("s").paid == 20


def test_being_cancelled_counts_as_no_try() -> None:
    ledger = Ledger().owes("s", 3).read("s", over=True)
    for _ in range(5):
        ledger.review("begun").review("begun", log="x").review("cancelled")
    assert ledger.debts.of("s").tries == 0 and ledger.due()


def test_a_signal_that_was_told_twice_weighs_once() -> None:
    assert Ledger().owes("s", 3).owes("s", 3).debts.of("s").weight == 3


def test_the_counters_stand_instead_where_they_are_wanted() -> None:
    rule = Rule(trigger="counters", steps=10, turns=4)
    assert Ledger().owes("s", 8).read("s", over=True, steps=9, turns=3).names(rule) == []
    briefs = [
        Ledger().read("s", steps=steps, turns=turns).due(rule)[0].brief for steps, turns in ((10, 0), (0, 4), (12, 5))
    ]
    assert briefs == ["skills", "memory", "both"]
    assert Ledger().read("s", steps=99, turns=99).names(Rule(trigger="counters", steps=0, turns=0)) == []


def test_what_other_versions_wrote_is_left_aside() -> None:
    ledger = Ledger().owes("s", 3)
    ledger.row("learn.signal", session=7, weight="heavy")
    ledger.row("learn.later", session="s")
    assert ledger.debts.of("s").weight == 3 and ledger.debts.number == 3


def test_sequences_of_all_sessions_are_known() -> None:
    assert Ledger().owes("s", 2, signal="sequence").debts.known == {"v0"}


def test_the_brief_follows_from_the_signals() -> None:
    found = [
        brief_of(signals) for signals in (["remember"], ["fixed", "retries"], ["corrected"], ["remember", "fixed"], [])
    ]
    assert found == ["memory", "skills", "both", "both", "both"]
    assert [only("both", {"both", "skills"}), only("memory", {"both", "skills"}), only("both", {"both"})] == [
        "skills",
        None,
        None,
    ]


def spent(ledger: Ledger, tokens: int, *, cached: int = 0) -> None:
    ledger.row("spending.settled", id="x", who="s", tokens=tokens, cached=cached)


def left(ledger: Ledger, put_off: str = "") -> int:
    share = Share(0.1, zone=UTC)
    share.take(ledger.rows)
    return share.left(ledger.now, put_off=put_off)


def test_reviews_have_a_floor_and_then_their_share() -> None:
    ledger = Ledger()
    assert left(ledger) == FLOOR
    ledger.now -= timedelta(days=2)
    spent(ledger, 3_000_000)
    ledger.review("ended", usage=Usage(input=60_000))
    ledger.now = NOON
    assert left(ledger) == 300_000 - 60_000
    ledger.review("cancelled", id="r2", usage=Usage(input=100_000, cache_read=100_000))
    assert left(ledger) == 300_000 - 60_000 - 110_000
    ledger.now += timedelta(days=6)  # the first day is out of the week
    assert left(ledger) == FLOOR


def test_cache_reads_count_at_a_tenth() -> None:
    ledger = Ledger()
    spent(ledger, 20_000_000, cached=10_000_000)
    assert left(ledger) == 1_100_000


def test_what_was_put_off_has_the_allowance_once_more_in_the_night() -> None:
    ledger = Ledger().review("ended", usage=Usage(input=FLOOR))
    assert left(ledger) == 0
    put_off = ledger.now.isoformat()
    assert left(ledger, put_off) == 0
    ledger.now = NOON + timedelta(hours=14)  # two in the night: another day, before its batch
    ledger.review("ended", id="r2", usage=Usage(input=FLOOR))
    assert left(ledger, put_off) == 0
    ledger.now += timedelta(hours=1)
    assert left(ledger, put_off) == FLOOR
    assert left(ledger, ledger.now.isoformat()) == 0


def test_one_that_was_cancelled_before_its_first_step_takes_the_rest_along() -> None:
    ledger = Ledger().owes("s", 3).read("s", over=True).review("begun", log="x")
    ledger.owes("s", 3, at=30).read("s", 40, over=True)
    (first,) = ledger.review("cancelled", steps=1).due()
    assert (first.upto, len(first.signals), first.before.log if first.before else "") == (20, 1, "x")
    (again,) = ledger.review("cancelled", steps=0).due()
    assert (again.upto, len(again.signals), again.before.id if again.before else "") == (40, 2, "r1")
