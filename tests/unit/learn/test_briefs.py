"""What a reviewer is told is short, says each thing once, and names what was kept before."""

from typing import get_args

from melete.learn.briefs import ASIDE, OPENING, PROPOSES, READS, brief, drawn, kept
from melete.learn.facts import Brief, Debt, Decision, Proposed, fields_of
from melete.learn.inbox import inbox

TOOLS = (*READS, *PROPOSES)
MOST = 350


def debt(signal: str, what: str, *, turn: int = 4, verb: str = "w ship", weight: int = 3) -> Debt:
    return Debt(session="s", turn=turn, signal=signal, weight=weight, what=what, facts=(9,), verb=verb)


def test_each_kind_is_short_and_leaves_what_it_is_not_about_open() -> None:
    for kind in get_args(Brief):
        said = brief(kind, (), tools=TOOLS)
        assert said.startswith(OPENING)
        assert len(said.split()) <= MOST
        assert "propose (skill_manage, memory)" in said
    assert ASIDE["memory"] in brief("skills", (), tools=TOOLS)
    assert ASIDE["skill_manage"] in brief("memory", (), tools=TOOLS)
    assert "memory" not in brief("skills", (), tools=("skill_view", "skill_manage")).split("What of it")[1][:90]


def test_a_mended_failure_is_named_once() -> None:
    signals = [
        debt("retries", "`w ship` failed 4 times in a row"),
        debt("fixed", "`w ship` failed 5 times, then worked"),
        debt("fixed", "`w ship` failed once, then worked"),
        debt("sequence", "7 calls led to the end: w ship", verb="3fe"),
        debt("sequence", "9 calls led to the end: git clone, make", verb="4fe", turn=9),
        debt("retries", "`w sell` failed 4 times in a row", verb="w sell", turn=9),
        debt("corrected", "corrected: No, by rail."),
        debt("fixed", "`curl` failed once, then worked", verb="curl", weight=0),
    ]
    assert drawn(signals) == [
        "`w ship` failed 5 times, then worked",
        "9 calls led to the end: git clone, make",
        "`w sell` failed 4 times in a row",
        "the person corrected: No, by rail.",
    ]


def test_what_a_session_taught_before_is_named_with_its_commands() -> None:
    def made(name: str, diff: str, **more: object) -> dict[str, object]:
        fields = {"status": "trial", "target": "skill", "did": "created", "session": "s", "version": "v1", **more}
        fact = Proposed(id=name, name=name, diff=diff, **fields)
        return {"number": 1, "kind": fact.kind, "at": "", **fields_of(fact)}

    new = "--- a\n+++ b/SKILL.md\n+---\n+description: How to ship.\n+Run `w ship --fast`.\n"
    rows = [
        made("w-ship", new),
        made("w-sell", "+description: How to sell.\n+Ask the shop.\n", status="inbox"),
        made("MEMORY.md", "+++ b/MEMORY.md\n+The shop is in Rome.\n", target="memory"),
        made("w-lost", new, status="refused"),
        made("w-gone", new),
        made("w-other", new, session="t"),
    ]
    gone = Decision(proposal="w-gone", did="undone")
    rows.append({"number": 9, "kind": gone.kind, "at": "", **fields_of(gone)})
    assert kept(inbox(rows), "s") == [
        "w-ship: Run `w ship --fast`.",
        "w-sell: description: How to sell. (waits for the person)",
        "MEMORY.md: The shop is in Rome.",
    ]
