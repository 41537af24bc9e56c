"""Planted lessons through the gates of learning: how many bad ones could be loaded, how many good ones are, what stopped the rest.

Also what the classifier of corrections finds in sentences by another hand. The files and their fields are described in
`tests/data/PLANTED.md`; nothing here asks a model.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from benchmarks.report import Row, parser, show
from benchmarks.subjects import programs
from melete.core.event import Fact, Reply, RunEnded, RunStarted, Said, Stop, ToolEnded, ToolStarted
from melete.core.message import Message, Origin, Text, ToolCall, ToolResult, user
from melete.core.ports import Applied
from melete.learn import gates
from melete.learn.corrections import correction
from melete.learn.gate_evidence import evidence
from melete.skills.frontmatter import FrontMatterError, read_front
from melete.skills.merge import merge

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
PLANTED, OWN = DATA / "planted_lessons.jsonl", DATA / "planted_own.jsonl"
OTHER_HAND = DATA / "corrections_other_hand.jsonl"
HERE = "this"


@dataclass(frozen=True)
class Judged:
    """A planted lesson and what became of it."""

    row: Mapping[str, Any]
    outcome: str
    verdicts: Sequence[gates.Verdict]

    @property
    def right(self) -> bool:
        """Whether it is loadable just where it should be."""
        return (self.outcome == "trial") == self.row["loadable"]

    @property
    def stopped(self) -> gates.Verdict | None:
        """The first gate that refused it, else the first that asks a person."""
        refused = [one for one in self.verdicts if not one.ok]
        return next(iter((*refused, *(one for one in self.verdicts if one.needs_person))), None)


def lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def told(turns: Iterable[Mapping[str, Any]]) -> tuple[list[Fact], dict[int, int]]:
    """The turns of the session as facts, and the number of the fact with which each began."""
    facts: list[Fact] = []
    begun: dict[int, int] = {}

    def add(fact: Fact) -> None:
        facts.append(structs.replace(fact, seq=len(facts) + 1))

    for turn in turns:
        run = f"run{turn['turn']}"
        add(RunStarted(run=run))
        for one in turn["facts"]:
            if "said" in one:
                begun[turn["turn"]] = len(facts) + 1
                add(Said(message=user(one["said"], by=Origin(surface="cli")), run=run))
            elif "answer" in one:
                add(Reply(message=Message(role="assistant", parts=(Text(text=one["answer"]),))))
            else:
                for fact in _called(one, f"call{len(facts)}"):
                    add(fact)
        add(RunEnded(stop=Stop.DONE, text=""))
    return facts, begun


def _called(one: Mapping[str, Any], number: str) -> Iterable[Fact]:
    call = ToolCall(id=number, name=one["tool"], arguments=json.dumps(one["arguments"]))
    yield Reply(message=Message(role="assistant", parts=(call,)), stop="tool_calls")
    yield ToolStarted(call=call, effect="outside")
    failed = bool(one.get("error") or one.get("exit_code"))
    content = one["output"]
    if "exit_code" in one:
        content = json.dumps({"output": content, "exit_code": one["exit_code"]})
    elif not content.startswith("{"):
        content = json.dumps({"success": not failed, "content": content})
    result = ToolResult(call=number, name=one["tool"], content=content, error=failed, taint=one.get("taint", "tool"))
    yield ToolEnded(result=result, outcome="error" if failed else "ok")


def judged(row: Mapping[str, Any], *, as_cited: bool = False) -> Judged:
    """What the gates say of a lesson: of the turns that it cites by itself, or of those that support it, as in a review."""
    here = [turn for turn in row["turns"] if turn["session"] == HERE]
    facts, begun = told(here)
    given = row["proposal"]
    strange = [one for one in given["cites"] if one["session"] != HERE]
    verdicts: list[gates.Verdict] = []
    for proposal, merged, near in _proposals(row):
        turns = tuple(begun.values())
        if as_cited:
            turns = tuple(begun[one["turn"]] for one in given["cites"] if one["session"] == HERE)
        else:
            turns = gates.cite(gates.added(proposal), facts, turns)
        session = "other" if as_cited and strange else HERE
        asked = structs.replace(proposal, session=session, turns=turns)
        known = evidence(facts, turns, session=HERE)
        verdicts += (
            gates.form(asked, strict=_strict),
            gates.grounding(asked, known),
            gates.safety(asked, known),
            gates.ownership(asked, merged),
            gates.duplicates(asked, near),
        )
    return Judged(row=row, outcome=gates.outcome(verdicts), verdicts=verdicts)


def _strict(text: str, name: str) -> str:
    try:
        front = read_front(text, folder=name)
    except FrontMatterError as wrong:
        return str(wrong)
    return "; ".join(front.warnings)


def _proposals(row: Mapping[str, Any]) -> Iterable[tuple[gates.Proposal, Applied | None, list[gates.Neighbour]]]:
    """The changes of a row as the gates see them, what a merge makes of each, and what it comes near."""
    given, exists = row["proposal"], row["exists"]
    if given["what"] == "memory":
        entries = [one for one in exists["memory"] if one["target"] == given["target"]]
        for step in given["operations"]:
            old = next((one for one in entries if step.get("old_text") and step["old_text"] in one["text"]), None)
            yield (
                gates.Proposal(
                    name=given["target"],
                    kind="memory",
                    before={"entry": old["text"]} if old else {},
                    after={"entry": step.get("content", "")},
                    owner=old["author"] if old else "agent",
                    own_lines=tuple(old["text"].splitlines()) if old and old["author"] == "user" else (),
                ),
                None,
                [gates.Neighbour(name="memory", text=one["text"]) for one in entries if one is not old],
            )
        return
    there = {one["name"]: one for one in exists["skills"]}
    mine = there.get(given["name"])
    before = {path: one["before"] for path, one in given["files"].items() if one["before"]}
    after = {path: one["after"] for path, one in given["files"].items()}
    now = mine["files"] if mine else {}
    clash = any(merge(before.get(path, ""), text, now.get(path, "")) is None for path, text in after.items() if mine)
    yield (
        gates.Proposal(
            name=given["name"],
            before=before,
            after=after,
            owner=mine["owner"] if mine else "agent",
            base="v1" if mine else "",
            own_lines=_own_lines(mine, before) if mine else (),
        ),
        Applied(ok=not clash, conflict=clash, reason="the person has changed it" if clash else ""),
        [_neighbour(one) for name, one in there.items() if name != given["name"]],
    )


def _own_lines(mine: Mapping[str, Any], before: Mapping[str, str]) -> tuple[str, ...]:
    """Lines of a skill that a person wrote, as far as a row tells: what stands there now and was not read, else all."""
    if mine.get("edited_by") != "user":
        return ()
    read = {line.strip() for text in before.values() for line in text.splitlines()}
    every = [line for text in mine["files"].values() for line in text.splitlines()]
    fresh = [line for line in every if line.strip() not in read]
    return () if fresh else tuple(every)  # what was not read is kept by the merge


def _neighbour(one: Mapping[str, Any]) -> gates.Neighbour:
    text = "\n".join(one["files"].values())
    about = read_front(one["files"]["SKILL.md"], folder=one["name"]).description
    return gates.Neighbour(name=one["name"], text=text, about=about)


def figures(path: Path, *, as_cited: bool, misses: bool) -> list[Row]:
    """How many lessons of a file could be loaded, and which gate stopped how many."""
    found: list[Row] = []
    all_of = [judged(row, as_cited=as_cited) for row in lines(path)]
    how = "as cited" if as_cited else "as in a review"
    for loadable, side in ((False, "bad"), (True, "good")):
        some = [one for one in all_of if one.row["loadable"] is loadable]
        loaded = sum(one.outcome == "trial" for one in some)
        what = f"{path.stem}, {how}: loadable of {len(some)} {side}"
        found.append(Row(what=what, unit="count", values={"melete": loaded}, less_is_better=not loadable, digits=0))
        stopped = Counter(f"{one.stopped.gate} ({one.outcome})" for one in some if one.stopped)
        found += (
            Row(what=f"  {side}, stopped by {gate}", unit="count", values={"melete": count}, digits=0)
            for gate, count in sorted(stopped.items())
        )
    for one in all_of if misses else ():
        if not one.right:
            verdict = one.stopped
            print(one.row["id"], one.row["kind"], one.outcome, verdict and (verdict.gate, verdict.rule, verdict.reason))
    return found


def corrections(path: Path) -> list[Row]:
    """Precision and recall of the classifier, over all and by language."""
    rows = [(one, correction(one["text"], one["before"]).is_correction) for one in lines(path)]
    found: list[Row] = []
    for tongue in ("all", *sorted({one["lang"] for one, _ in rows})):
        some = [(one["kind"] == "correction", said) for one, said in rows if tongue in ("all", one["lang"])]
        hits, said, there = (
            sum(a and b for a, b in some),
            sum(b for _, b in some),
            sum(a for a, _ in some),
        )
        for what, of in (("precision", said), ("recall", there)):
            value = 100 * hits / of if of else 0.0
            name = f"corrections, {tongue} ({hits} of {of}): {what}"
            found.append(Row(what=name, unit="%", values={"melete": value}, less_is_better=False, digits=1))
    return found


def main() -> None:
    made = parser("Measure the gates of learning with planted lessons.", rounds=1)
    made.add_argument("files", type=Path, nargs="*", help="files of planted lessons; the two of the tests by default")
    made.add_argument("--misses", action="store_true", help="list what went wrong")
    made.add_argument("--corrections", type=Path, help="sentences that correct and others; left out by default")
    options = made.parse_args()
    rows = [
        row
        for path in options.files or (PLANTED, OWN)
        for as_cited in (False, True)
        for row in figures(path, as_cited=as_cited, misses=options.misses)
    ]
    rows += corrections(options.corrections) if options.corrections else []
    show(rows, programs(options.melete, None, alone=True), as_json=options.json)


if __name__ == "__main__":
    main()
