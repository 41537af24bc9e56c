"""What the ledger says of lessons, as one list: what waits for a person, what is in use, and what became of the rest. Pure.

Three kinds of fact propose something: a review, a full memory, and a skill that was put aside. All become items of one form.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, structs

from melete.core.memory import Noting, Target
from melete.core.ports import Change
from melete.learn.facts import Decision, Proposed, facts_of

State = Literal["waiting", "trial", "refused", "accepted", "rejected", "undone", "replaced"]
Source = Literal["review", "memory", "skill"]
FILES: Final[Mapping[Target, str]] = {"memory": "MEMORY.md", "user": "USER.md"}
OTHERS: Final[Mapping[str, Source]] = {"memory.proposal": "memory", "skill.proposal": "skill"}
DECIDED: Final = "memory.decision"
STATES: Final[Mapping[str, State]] = {"inbox": "waiting", "trial": "trial", "refused": "refused"}
JUDGEMENTS: Final = frozenset({"grounding", "duplicates"})
"""Gates whose refusal a person may overrule."""
CUT_OFF: Final = "it passed its gates, and was cut off before it was made usable"
ASKS: Final = "it passed its gates, and you are asked first (learning.autonomy)"
A_DAYS: Final = "too_many"
TAKEN_BACK: Final = "taken back"
"""What a proposal does that an undo has left to a person."""
LENGTH: Final = 10
ENOUGH: Final = 6
"""Characters of an id that name it; fewer may be a number that was mistyped."""
_LISTED: Final = re.compile(r"^(?:[-*+>]\s+|\d+[.)]\s+)+")
_EDGE: Final = re.compile(r"```|~~~|#{1,6}\s|-{3,}$|[\w ]{1,24}:$")
"""Lines that only divide a text."""


class Item(Struct, frozen=True, kw_only=True):
    """A lesson and where it stands; what was to be usable and is not yet waits as well.

    `numbers` are those of its facts in the ledger, the first of which names it to a person. `source` says which part proposed it,
    `who` is the person whose memory it is about (empty for what all share), `said` the sentence that it came from where the
    proposal holds one.
    """

    proposal: Proposed
    state: State
    numbers: tuple[int, ...]
    at: str = ""
    decision: Decision | None = None
    source: Source = "review"
    who: str = ""
    said: str = ""

    @property
    def number(self) -> int:
        """By which a person names it."""
        return self.numbers[0]

    @property
    def version(self) -> str:
        """The version that it became, of memory the number of the change; empty while it is not in use."""
        return (self.decision.version if self.decision else "") or self.proposal.version

    @property
    def reason(self) -> str:
        """Why it stands where it does: a person's words, else those of the gate that stopped it, else of who proposed it."""
        if self.decision is not None:
            return self.decision.reason
        if self.state == "waiting" and self.proposal.status == "trial":
            return CUT_OFF
        stopped = [one for one in self.proposal.verdicts if not one.ok]
        stopped = stopped or [one for one in self.proposal.verdicts if one.needs_person]
        given = "" if self.proposal.review else str(self.proposal.change.get("reason", ""))
        return stopped[0].reason if stopped else given or (ASKS if self.state == "waiting" else "")

    @property
    def by_a_person(self) -> bool:
        """Whether a person may have it all the same: what a gate refused by judgement, never what is not safe or cannot be made."""
        wrong = (one for one in self.proposal.verdicts if not one.ok)
        return all(one.gate in JUDGEMENTS or one.rule == A_DAYS for one in wrong)


def is_id(name: str, id_: str) -> bool:
    """Whether a person who says `name` means this id: it is its beginning, and long enough to be no slip."""
    return len(name) >= ENOUGH and id_.startswith(name)


def inbox(rows: Iterable[Mapping[str, Any]]) -> list[Item]:
    """The lessons among all facts of the ledger, the oldest first; what another version wrote in a way unknown here is left out."""
    found: dict[str, Item] = {}
    for row in rows:
        for made in _proposed(row):
            known = found.get(made.proposal.id)
            found[made.proposal.id] = _later(known, made) if known else made
        for one in _decided(row):
            if known := found.get(one.proposal):
                found[one.proposal] = structs.replace(known, decision=one, state=one.did)
    return [*found.values()]


def again(said: Sequence[str], items: Iterable[Item]) -> Item | None:
    """The lesson that a person turned down, took back or reworded and that these hunks say again; None if they liked it since."""
    mine = {line for one in said for line in one.split(".")}
    decided = sorted((one for one in items if one.decision), key=lambda one: one.decision.number if one.decision else 0)
    for item in reversed(decided):
        if any(set(one.split(".")) <= mine for one in item.proposal.hunks):
            return item if _turned_down(item) else None
    return None


def hunks(diff: str) -> tuple[str, ...]:
    """What a unified diff says in each place that it touches: digests of the lines that it adds, else of those that it takes away.

    Marks of lists, case, spaces and what only divides a text are of no account, the head of a new SKILL.md neither: the same
    lesson under another name is the same.
    """
    found = [".".join(dict.fromkeys(map(_digest, lines))) for lines in map(_lines, _places(diff)) if lines]
    return tuple(dict.fromkeys(found))


def told(change: Noting, texts: Mapping[str, str]) -> str:
    """What a change of memory does as a unified diff; `texts` are the entries of the file by their ids."""
    name = FILES[change.target]
    shown = [f"--- a/{name}", f"+++ b/{name}"]
    for step in change.operations:
        held = [text for text in texts.values() if step.old_text and step.old_text in text]
        old = texts.get(step.old_text) or (held[0] if len(held) == 1 else step.old_text)
        shown.append(f"@@ {step.action} @@")
        shown += [f"-{line}" for line in old.splitlines()]
        shown += [f"+{line}" for line in step.content.splitlines()]
        shown += [f"+(until {step.until})"] if step.until else []
        shown += [f"+(rests on {step.anchor})"] if step.anchor else []
    return "\n".join(shown)


def _proposed(row: Mapping[str, Any]) -> Iterator[Item]:
    for one in facts_of(Proposed, [row]):
        whose = str(one.change.get("who", "")) if one.change.get("target") == "user" else ""
        one = one if one.hunks else structs.replace(one, hunks=hunks(one.diff))
        said = str(one.change.get("said", ""))
        state: State = "waiting" if one.status == "trial" and not one.version else STATES[one.status]
        yield Item(proposal=one, state=state, numbers=(one.number,), at=one.at, who=whose, said=said)
    if source := OTHERS.get(str(row.get("kind"))):
        try:
            yield _noted(row) if source == "memory" else _put_aside(row)
        except msgspec.ValidationError:
            return


def _noted(row: Mapping[str, Any]) -> Item:
    change = msgspec.convert(row["change"], Noting)
    did = "added" if all(step.action == "add" for step in change.operations) else "changed"
    made = Proposed(
        id=row["id"], status="inbox", target="memory", name=FILES[change.target], did=did, class_="fact",
        session=change.session, turns=(change.turn,) if change.turn else (), change=row["change"], diff=told(change, {}),
        model=change.model, taint=change.taint, number=row["number"], at=row["at"],
    )  # fmt: skip
    made = structs.replace(made, hunks=hunks(made.diff))
    who = change.who if change.target == "user" else ""
    return Item(
        proposal=made, state="waiting", numbers=(made.number,), at=made.at, source="memory", who=who, said=change.said
    )


def _put_aside(row: Mapping[str, Any]) -> Item:
    change = msgspec.convert(row, Change)
    fields = msgspec.to_builtins(change)
    diff = "\n".join(
        "\n".join((f"--- a/{path}", f"+++ b/{path}", *(f"+{line}" for line in (text or "").splitlines())))
        for path, text in change.files.items()
    )
    made = Proposed(
        id=row["id"], status="inbox", target="skill", name=change.name, did="changed" if change.base else "created",
        session=change.session, turns=change.turns, change=fields, diff=diff, hunks=hunks(diff), model=change.model,
        taint=change.taint, number=row["number"], at=row["at"],
    )  # fmt: skip
    return Item(proposal=made, state="waiting", numbers=(made.number,), at=made.at, source="skill")


def _later(known: Item, made: Item) -> Item:
    """A lesson of which more is told under the same name: the later fact counts, a decision about it stays."""
    state = known.state if known.decision else made.state
    numbers = (*known.numbers, *made.numbers)
    return structs.replace(made, numbers=numbers, at=known.at, decision=known.decision, state=state)


def _decided(row: Mapping[str, Any]) -> Iterator[Decision]:
    yield from facts_of(Decision, [row])
    if row.get("kind") == DECIDED:
        did = "accepted" if row.get("accepted") else "rejected"
        yield Decision(proposal=str(row.get("proposal")), did=did, number=row["number"], at=row["at"])


def _turned_down(item: Item) -> bool:
    by_person = item.decision is not None and item.decision.by == "user"
    return item.state in ("rejected", "undone") or (item.state == "replaced" and by_person)


def _places(diff: str) -> Iterator[list[str]]:
    """The runs of lines that are added or taken away."""
    lines, run = diff.splitlines(), list[str]()
    for at, line in enumerate(lines):
        head = line.startswith("--- ") and lines[at + 1 : at + 2] and lines[at + 1].startswith("+++ ")
        head = head or (line.startswith("+++ ") and at > 0 and lines[at - 1].startswith("--- "))
        if line[:1] in ("+", "-") and not head:
            run.append(line)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _lines(run: Sequence[str]) -> list[str]:
    """What a run says, as it is compared."""
    sign = "+" if any(line[0] == "+" and line[1:].strip() for line in run) else "-"
    said = [line[1:].strip() for line in run if line[0] == sign]
    if said[:1] == ["---"] and "---" in said[1:]:
        said = said[said.index("---", 1) + 1 :] or said
    told_ = [line for line in said if line and not _EDGE.match(line)] or [line for line in said if line]
    return [sign + " ".join(_LISTED.sub("", line).replace("`", "").casefold().split()).strip(" .") for line in told_]


def _digest(line: str) -> str:
    return hashlib.sha256(line.encode(errors="replace")).hexdigest()[:LENGTH]
