"""What in a session may be worth learning from."""

import msgspec
import pytest
from tests.unit.learn.told import Told, kinds

from melete.core.event import Fact, Notice, RunStarted
from melete.core.message import Origin, Text
from melete.core.skill import CALLED, SUGGESTED
from melete.learn.signals import WEIGHTS, Signals, State, signals

SKILL = "---\nname: frob\n---\nRun `w frob --mode b --item K`.\n"


def test_an_error_and_then_success_of_the_same_verb_is_a_fix_and_names_its_facts() -> None:
    told = Told().ask("frob k1").shell("cd /x && w frob --mode a", 2).shell("timeout 5 w frob --mode b").answer()
    (fixed,) = signals(told.facts)
    assert (fixed.kind, fixed.weight, fixed.verb, fixed.cause) == ("fixed", 3, "w frob", "")
    assert fixed.facts == (5, 8)
    assert fixed.turn == 2
    assert fixed.what == "`w frob` failed once, then worked"


def test_another_verb_that_works_mends_nothing() -> None:
    assert signals(Told().ask("x").shell("w frob", 2).shell("w list").answer().facts) == []


def test_a_fix_may_come_in_a_later_turn() -> None:
    told = Told().ask("frob k1").shell("w frob --mode a", 2).answer("I could not.")
    assert kinds(signals(told.ask("Try mode b.").shell("w frob --mode b").answer().facts))[-1:] == ["fixed"]


def test_a_search_without_a_hit_is_no_error() -> None:
    assert signals(Told().ask("x").shell("grep foo a.txt", 1).shell("grep bar a.txt").answer().facts) == []
    assert kinds(signals(Told().ask("x").shell("grep foo a.txt", 2).shell("grep bar a.txt").answer().facts)) == [
        "fixed"
    ]


@pytest.mark.parametrize(
    ("code", "output"),
    [
        (1, "curl: (6) Could not resolve host: example.org"),
        (127, "bash: jq: command not found"),
        (1, "mkdir: cannot create directory '/opt/x': Permission denied"),
        (1, "HTTP error 429: too many requests"),
        (124, ""),
        (None, ""),
    ],
)
def test_what_the_surroundings_caused_weighs_nothing_and_says_so(code: int | None, output: str) -> None:
    late = {"timed_out": True} if code is None else {}
    told = Told().ask("x").shell("deploy now", code, output, **late).shell("deploy now").answer()
    (fixed,) = signals(told.facts)
    assert (fixed.kind, fixed.cause, fixed.weight) == ("fixed", "environment", 0)


def test_one_real_failure_among_those_of_the_surroundings_makes_it_a_lesson() -> None:
    told = Told().ask("x").shell("deploy now", 1, "connection refused").shell("deploy now", 2, "unknown stage")
    assert [(one.cause, one.weight) for one in signals(told.shell("deploy now").answer().facts)] == [("", 3)]


def test_slips_of_our_own_tools_and_refused_calls_teach_nothing() -> None:
    told = Told().ask("x")
    told.call("patch", {"path": "a"}, effect="write", outcome="error", fields={"error": "old_string is not in a"})
    told.call("patch", {"path": "a"}, effect="write")
    told.call("terminal", {"command": "rm -rf x"}, outcome="denied", fields={"error": "refused"})
    assert signals(told.shell("rm -rf x").answer().facts) == []


def test_the_third_try_again_is_told_once() -> None:
    told = Told().ask("x")
    for number in range(6):
        told.shell(f"w frob --step {number}", 1)
    (retries,) = signals(told.facts)
    assert (retries.kind, retries.weight, retries.facts) == ("retries", 2, (5, 8, 11, 14))


def test_a_correction_names_what_was_done_and_how_sure_it_is() -> None:
    told = Told().ask("frob k1").shell("w frob --item k1 --mode a").answer("Done with mode a.")
    told.ask("No, that's wrong. It has to be mode b.")
    (corrected,) = signals(told.facts)
    assert (corrected.kind, corrected.weight, corrected.verb, corrected.turn) == ("corrected", 5, "w frob", 2)
    assert corrected.facts == (5, 9)
    assert corrected.sure > 0.9


def test_a_note_while_it_works_may_correct_as_well() -> None:
    told = Told().ask("frob k1").shell("w frob --mode a").steer("no, not mode a! I said mode b")
    assert kinds(signals(told.facts)) == ["corrected"]


def test_the_first_message_corrects_nothing() -> None:
    assert signals(Told().ask("No, that's wrong. It has to be mode b.").facts) == []


def test_what_should_be_remembered_and_who_is_content_are_told_apart() -> None:
    told = Told().ask("x").answer("It is done.").ask("From now on always use uv. Remember that.").answer("Noted.")
    told.ask("thanks, works now").answer()
    first, second = signals(told.facts)
    assert (first.kind, first.weight, first.turn) == ("remember", 8, 6)
    assert (second.kind, second.weight) == ("positive", 0)


@pytest.mark.parametrize(
    "by", [Origin(kind="runtime"), Origin(kind="import"), Origin(kind="schedule"), Origin(kind="child")]
)
def test_only_a_person_corrects(by: Origin) -> None:
    assert signals(Told().ask("x").answer().ask("No, that is wrong, remember that!", by=by).facts) == []


def test_what_stands_behind_a_persons_words_is_not_theirs() -> None:
    listed = Text(text=f"{SUGGESTED}\n- wrong: that is wrong, remember")
    web = Text(text="No, that is wrong, remember this", taint="web")
    assert signals(Told().ask("x").answer("Done.").ask("now list the files", listed, web).facts) == []


def test_a_skill_that_was_followed_and_corrected_is_blamed() -> None:
    told = Told().ask("frob k1").view("frob", SKILL).shell("w frob --mode b --item k1").answer("Done with mode b.")
    corrected, blamed = signals(told.ask("wrong! it has to be mode c").facts)
    assert (corrected.kind, blamed.kind, blamed.skill, blamed.weight) == ("corrected", "failed_skill", "frob", 5)


def test_a_skill_that_was_not_followed_is_not_blamed() -> None:
    told = Told().ask("list").view("frob", SKILL).shell("w list --all").answer("Done.")
    assert kinds(signals(told.ask("wrong! it has to be the other list").facts)) == ["corrected"]


def test_a_skill_whose_way_failed_where_another_worked_is_blamed_at_once() -> None:
    told = Told().ask("frob k1", Text(text=f"{CALLED} frob.]\n{SKILL}"))
    told.shell("w frob --mode b --item k1", 3).shell("w frob --level 2")
    assert kinds(signals(told.facts)) == ["fixed", "failed_skill"]


def test_a_skill_whose_way_works_in_the_end_is_not_blamed() -> None:
    skill = "---\nname: mend\n---\nThe check: `python -m unittest -q`.\n"
    told = (
        Told().ask("mend").view("mend", skill).shell("python -m unittest -q", 1).shell("python -m unittest -q").answer()
    )
    assert kinds(signals(told.facts)) == ["fixed"]


def test_a_skill_whose_way_never_worked_is_blamed_at_the_end() -> None:
    told = Told().ask("frob k1").view("frob", SKILL).shell("w frob --mode b --item k1", 3).answer("I gave up.")
    assert kinds(signals(told.facts)) == ["failed_skill"]


def test_a_long_way_that_led_to_the_end_counts_once() -> None:
    told = Told()
    for _ in range(2):
        told.ask("build")
        for step in ("fetch", "unpack", "configure", "build", "check", "install"):
            told.shell(f"w {step} --all")
        told.answer()
    (sequence,) = signals(told.facts)
    assert (sequence.kind, sequence.weight, len(sequence.facts)) == ("sequence", 2, 7)
    fold = Signals(known={sequence.verb})
    assert [one for fact in told.facts for one in fold.feed(fact)] == []


@pytest.mark.parametrize(
    ("stop", "cause", "expected"),
    [
        ("failed", "ValueError", ("", 2)),
        ("cancelled", "", ("", 2)),
        ("looping", "", ("", 2)),
        ("failed", "RateLimitError", ("environment", 0)),
        ("out_of_budget", "", ("environment", 0)),
    ],
)
def test_a_run_that_failed_tells_whose_fault_it_was(stop: str, cause: str, expected: tuple[str, int]) -> None:
    (failed,) = signals(Told().ask("x").answer("", stop=stop, cause=cause).facts)
    assert failed.kind == "failed"
    assert (failed.cause, failed.weight) == expected


def test_a_run_that_was_cut_off_is_noticed_when_the_next_begins() -> None:
    told = Told().ask("x")
    told.add(RunStarted(run="later"))
    assert [(one.kind, one.cause) for one in signals(told.facts)] == [("failed", "environment")]


@pytest.mark.parametrize(("verdict", "kind"), [("good", "positive"), ("bad", "corrected")])
def test_a_verdict_by_command_counts(verdict: str, kind: str) -> None:
    told = Told().ask("x").shell("w frob").answer()
    told.add(Notice(text=verdict, about=f"feedback:{verdict}"))
    (found,) = signals(told.facts)
    assert (found.kind, found.verb, found.weight) == (kind, "w frob", WEIGHTS[found.kind])


@pytest.mark.parametrize(
    ("verdict", "text", "what"),
    [
        ("bad", "it is the wrong\nbranch", "the person called it bad: it is the wrong branch"),
        ("bad", "bad", "the person called it bad"),
        ("undone", "its last turn was taken back", "the person took it back"),
    ],
)
def test_a_verdict_is_told_with_its_reason(verdict: str, text: str, what: str) -> None:
    told = Told().ask("x").shell("w frob").answer()
    told.add(Notice(text=text, about=f"feedback:{verdict}"))
    assert [one.what for one in signals(told.facts)] == [what]


def test_no_secret_of_a_person_stands_in_the_line() -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    told = Told().ask("x").answer("I used the old token.").ask(f"no, that's wrong, use {token} instead")
    assert all(token not in one.what for one in signals(told.facts))


def test_the_fold_goes_on_where_it_stopped() -> None:
    told = Told().ask("frob k1").view("frob", SKILL).shell("w frob --mode b", 2).shell("w frob --mode a", 2)
    told.shell("w frob --mode c").answer("Done with mode c.").ask("No, it has to be mode d.").answer()
    whole = signals(told.facts)
    assert len(whole) > 2
    for cut in range(len(told.facts) + 1):
        assert _stored_at(told.facts, cut) == whole


def _stored_at(facts: list[Fact], cut: int) -> list[object]:
    """All signals when the state is stored and read again behind this many facts, and some facts come twice."""
    first = Signals()
    found: list[object] = [one for fact in facts[:cut] for one in first.feed(fact)]
    again = Signals(msgspec.json.decode(msgspec.json.encode(first.state), type=State))
    return found + [one for fact in facts[max(0, cut - 2) :] for one in again.feed(fact)]


def test_the_state_stays_small() -> None:
    told = Told().ask("x")
    for number in range(60):
        told.shell(f"w verb{chr(97 + number % 26)}{chr(97 + number // 26)} --text {'y' * 1000}", 1)
    fold = Signals()
    for fact in told.facts:
        fold.feed(fact)
    assert len(fold.state.failing) <= 40
    assert len(msgspec.json.encode(fold.state)) < 20_000
