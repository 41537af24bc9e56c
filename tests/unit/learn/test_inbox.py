"""The list of lessons that the ledger tells: what waits, what was decided, and what a person turned down that comes again."""

from typing import Any

import msgspec
from tests.unit.learn.proposals import GUESSED, PASSED, SECRET, TAINTED, entry, skill
from tests.unit.skills.kept import text

from melete.core.memory import Noting, Operation
from melete.core.ports import Change
from melete.learn.facts import Decision, Kept, Proposed
from melete.learn.inbox import Item, again, hunks, inbox, told
from melete.learn.verdict import Verdict
from melete.skills.versions import diff

STEPS = "## Steps\n\n1. Run `netctl --up eth0`.\n2. Look at the route.\n"


def listed(*facts: Kept | dict[str, Any]) -> list[Item]:
    """The items of a ledger that holds these facts."""
    rows = [
        {"number": number, "at": "2026-03-01T10:00:00+00:00"}
        | (fact if isinstance(fact, dict) else {"kind": fact.kind, **_fields(fact)})
        for number, fact in enumerate(facts, 1)
    ]
    return inbox(rows)


def _fields(fact: Kept) -> dict[str, Any]:
    return {key: value for key, value in msgspec.to_builtins(fact).items() if key not in ("number", "at")}


def rejected(diff_text: str, **more: Any) -> list[Item]:
    made = Proposed(
        id="old", status="inbox", target="skill", name="x", did="patched", diff=diff_text, hunks=hunks(diff_text)
    )
    return listed(
        made, msgspec.convert({"proposal": "old", "did": "rejected", "reason": "not so here"} | more, Decision)
    )


def test_what_was_told_last_counts_and_every_number_names_it() -> None:
    first, second = skill("a", status="inbox"), skill("a", status="trial", version="v7")
    (item,) = listed(first, second)
    assert (item.number, item.numbers, item.state, item.version) == (1, (1, 2), "trial", "v7")
    (item,) = listed(first, second, Decision(proposal=first.id, did="undone", reason="no"))
    assert (item.state, item.reason) == ("undone", "no")
    (item,) = listed(first, Decision(proposal=first.id, did="accepted", version="v8"), second)
    assert (item.state, item.version) == ("accepted", "v8"), "a decision stays"


def test_memory_that_was_full_and_skills_put_aside_are_in_the_same_list() -> None:
    steps = (Operation(action="replace", content="New.", old_text="ab12"),)
    full = Noting(
        target="user", operations=steps, who="key:kim", said="keep this", turn=4, session="s", reason="it is full"
    )
    aside = msgspec.to_builtins(Change(name="tool", files={"SKILL.md": "text"}, base="v1", taint="web"))
    found = listed(
        {"kind": "memory.proposal", "id": "m1", "change": msgspec.to_builtins(full)},
        {"kind": "skill.proposal", "id": "k1", "status": "open", **aside},
        {"kind": "memory.proposal", "id": "bad", "change": {"target": "nothing"}},
        {"kind": "memory.decision", "proposal": "m1", "accepted": False},
        {"kind": "something.else"},
    )
    memory, other = found
    assert (memory.state, memory.who, memory.said, memory.proposal.turns) == ("rejected", "key:kim", "keep this", (4,))
    assert memory.proposal.diff.endswith("@@ replace @@\n-ab12\n+New.")
    assert (other.state, other.proposal.did, other.proposal.taint) == ("waiting", "changed", "web")


def test_the_reason_is_that_of_the_gate_that_stopped_it() -> None:
    passed, asks, refused = listed(
        skill("a", id="1"),
        skill("a", id="2", verdicts=(*PASSED, TAINTED)),
        skill("a", id="3", verdicts=(TAINTED, GUESSED)),
    )
    assert [one.reason for one in (passed, asks, refused)] == [
        "the fix had to be found",
        TAINTED.reason,
        GUESSED.reason,
    ]


def test_what_was_cut_off_or_only_asks_waits_and_says_so() -> None:
    cut, asks = listed(skill("a", id="1", status="trial"), skill("a", id="2", change={"name": "net-debug"}))
    assert (cut.state, "cut off" in cut.reason) == ("waiting", True)
    assert (asks.state, "learning.autonomy" in asks.reason) == ("waiting", True)


def test_a_person_may_overrule_a_judgement_and_nothing_else() -> None:
    many = Verdict(gate="form", ok=False, rule="too_many", reason="12 today")
    form = Verdict(gate="form", ok=False, rule="front_matter", reason="no name")
    owner = Verdict(gate="ownership", ok=False, rule="not_read", reason="not read")
    cases = {(GUESSED,): True, (many,): True, (GUESSED, SECRET): False, (form,): False, (owner,): False, PASSED: True}
    for verdicts, may in cases.items():
        (item,) = listed(skill("a", verdicts=verdicts, status="refused"))
        assert item.by_a_person is may, verdicts


def test_the_same_lesson_is_known_again_in_another_dress() -> None:
    new = diff({}, {"SKILL.md": text("net-debug", STEPS).encode()})
    old = rejected(new)
    other = text(
        "route-help", STEPS.replace("1. Run", "* run").replace("## Steps", "# What to do"), description="Else."
    )
    found = again(hunks(diff({}, {"SKILL.md": other.encode()})), old)
    assert found is not None
    assert found.reason == "not so here"
    longer = other + "3. Look at the firewall.\n"
    assert again(hunks(diff({}, {"SKILL.md": longer.encode()})), old), "what was rejected is still in it"
    mended = longer.replace("netctl --up eth0", "ip link set eth0 up")
    assert again(hunks(diff({}, {"SKILL.md": mended.encode()})), old) is None, "what was wrong was put right"


def test_each_place_of_a_diff_is_a_hunk_and_what_only_divides_counts_for_nothing() -> None:
    before = "".join(f"line {n} of the text\n" for n in range(12))
    after = before.replace("line 2 of the text\n", "").replace("line 9 of the text", "## Pitfalls\n- never do nine")
    shown = diff({"SKILL.md": before.encode()}, {"SKILL.md": after.encode()})
    taken, added = hunks(shown)
    assert (taken.count("."), added.count(".")) == (0, 0)
    assert hunks("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+never do   `nine`") == (added,)
    assert hunks("") == ()
    assert hunks("+## Pitfalls") != ()


def test_an_entry_of_memory_is_known_again_and_liked_again() -> None:
    change = Noting(target="memory", operations=(Operation(action="add", content="The printer is on floor three."),))
    shown = told(change, {})
    for did, by, known in (("rejected", "user", True), ("undone", "evidence", True), ("replaced", "user", True)):
        assert bool(again(hunks(shown), rejected(shown, did=did, by=by))) is known
    assert again(hunks(shown), rejected(shown, did="replaced", by="review")) is None
    assert again(hunks(shown), rejected(shown, did="accepted")) is None
    assert again(hunks(shown), listed(entry("The printer is on floor three."))) is None, "nobody has decided"
    twice = [
        *rejected(shown),
        *listed(entry("The printer is on floor three."), Decision(proposal="id-entry", did="accepted")),
    ]
    twice[1] = msgspec.structs.replace(twice[1], decision=Decision(proposal="id-entry", did="accepted", number=9))
    assert again(hunks(shown), twice) is None, "they liked it since"


def test_a_change_of_memory_is_told_with_the_text_that_goes() -> None:
    steps = (
        Operation(action="replace", content="It is on floor four.", old_text="ab12"),
        Operation(action="remove", old_text="blue"),
        Operation(action="add", content="Kim likes tea.", until="2099-01-01"),
    )
    change = Noting(target="user", operations=steps)
    shown = told(change, {"ab12": "It is on floor three.", "cd34": "The door is blue."})
    assert shown.splitlines() == [
        "--- a/USER.md",
        "+++ b/USER.md",
        "@@ replace @@",
        "-It is on floor three.",
        "+It is on floor four.",
        "@@ remove @@",
        "-The door is blue.",
        "@@ add @@",
        "+Kim likes tea.",
        "+(until 2099-01-01)",
    ]
