"""What a reviewer would change becomes a proposal: judged by the gates, kept in the ledger, made where it may be. Part of learn.

`ProposingSkills` and `ProposingMemory` stand in front of the library and the memory of a home: whatever reads goes through,
`apply` proposes. The answer says what the gates found, so that the reviewer can mend it.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from difflib import get_close_matches
from typing import Any, Final, cast
from uuid import uuid4

import msgspec
from msgspec import Struct, structs

from melete.core.event import Fact, Said
from melete.core.memory import Noted, Noting, Operation
from melete.core.message import Taint, Usage
from melete.core.ports import Applied, Change, Clock, Ledger, Memory, SkillLibrary
from melete.core.skill import MAIN, Skill
from melete.core.tool import ToolError
from melete.learn import gates
from melete.learn.facts import Decision, Proposed, Status, facts_of, fields_of
from melete.learn.gate_evidence import Evidence, Outside, evidence
from melete.learn.gates import Neighbour, Proposal, Verdict
from melete.learn.inbox import FILES, Item, again, hunks, inbox, told
from melete.learn.signals import spoken

NEAREST: Final = 8
"""Skills with which a new one is compared."""
FILLS: Final = 20
"""How often, for a moment each, texts that are not indexed yet are waited for."""
TWIN: Final = 0.92
"""How alike two names are of which one is taken for the other."""
KEPT: Final = 0.5
"""The share of a skill's lines that a patch leaves; one that leaves less is a rewrite."""
LONGEST_SAID: Final = 300
TOO_MANY: Final = "too_many"
DONE: Final = frozenset({"skill.version", "memory.change"})
"""What the ledger holds of changes that were made."""
_WORD: Final = re.compile(r"\w{3,}")
WITHHELD: Final = "[not kept: {}]"
WAITS: Final = "it waits for the person, who decides{}; do not propose it again"
ALREADY: Final = "it waits for the person already; do not propose it again"
MEND: Final[Mapping[str, str]] = {
    "form": "mend its form",
    "grounding": "leave that out, or write what worked in the conversation, letter by letter",
    "safety": "leave that out",
    "ownership": "leave what the person wrote, and read a text before you change a part of it",
    "duplicates": "patch what is there, or leave it",
}
NO_STRICT: Final[Callable[[str, str], str]] = lambda _text, _name: ""  # noqa: E731


class Draft(Struct, frozen=True, kw_only=True):
    """A change before it is judged: as the gates see it, what it would really do, and what it comes near.

    `asks` are reasons for which a person has to decide, whatever the gates say.
    """

    proposal: Proposal
    change: Change | Noting
    did: str
    diff: str
    merged: Applied
    near: tuple[Neighbour, ...] = ()
    asks: tuple[Verdict, ...] = ()


Make = Callable[[Any], Awaitable[Applied]]
"""Makes a change that may be made, with where it comes from filled in."""


@dataclass(kw_only=True)
class Desk:
    """Where the proposals of one review are judged and kept: of the facts of `session` behind `after`, all `facts` being known.

    With `auto` a lesson that passed its gates is made at once; else each waits for a person. `strict` says what is wrong with
    a SKILL.md of a name.
    """

    ledger: Ledger
    clock: Clock
    redact: Callable[[str], str]
    review: str
    session: str
    facts: Sequence[Fact]
    after: int = 0
    model: str = ""
    auto: bool = True
    strict: Callable[[str, str], str] = NO_STRICT
    brought: Sequence[Outside] = ()
    """Texts of others that the session had before it, beside those that its facts hold."""
    taken: int = 0
    """Proposals that were made, or wait."""
    _known: dict[tuple[int, ...], Evidence] = field(default_factory=dict[tuple[int, ...], Evidence])

    async def put(self, draft: Draft, make: Make) -> tuple[Proposed, Applied]:
        """Judge a change, keep it as a proposal, and make it where it may be; returns both, a refusal with how to mend it."""
        rows = await asyncio.to_thread(self.ledger.read)
        if there := self._there(draft.diff, rows):
            self.taken += 1
            return there, Applied(ok=True, diff=draft.diff, reason=ALREADY)
        turns, verdicts = await asyncio.to_thread(self._judged, draft, rows)
        status: Status = gates.outcome(verdicts)
        if status == "trial" and not self.auto:
            status = "inbox"
        fact = self._fact(draft, turns=turns, verdicts=verdicts, status=status)
        await self._tell(fact)  # before the effect: what was made is never without its reasons
        applied = Applied(ok=status == "inbox", diff=draft.diff, reason=waits(verdicts))
        if fact.status == "trial":
            applied = await make(self._sourced(draft.change, fact))
            if not applied.ok:  # somebody was quicker
                late = Verdict(gate="ownership", ok=False, rule="cannot_be_made", reason=applied.reason)
                fact = structs.replace(fact, status="refused", verdicts=(*verdicts, late))
            fact = structs.replace(fact, version=applied.version)
            await self._tell(fact)
        if fact.status == "refused":
            applied = structs.replace(applied, ok=False, reason=complaint(fact.verdicts))
        else:
            self.taken += 1
            await self._replace(fact, rows)
        return fact, applied

    async def settle(self, usage: Usage, usd: float | None) -> Sequence[Proposed]:
        """Spread what the review has cost over its proposals, and say what became of those that it was stopped at; returns them."""
        rows = await asyncio.to_thread(self.ledger.read)
        made = {one.id: one for one in facts_of(Proposed, rows) if one.review == self.review}
        done = {str(row.get("reason")): row for row in rows if row["kind"] in DONE}
        each, told_ = len(made) or 1, list[Proposed]()
        for one in made.values():
            if one.status == "trial" and not one.version:
                one = _found(one, done.get(reason_of(one)))
            cost = None if usd is None else usd / each
            told_.append(structs.replace(one, tokens=usage.total // each, usd=cost))
            await self._tell(told_[-1])
        return told_

    async def _tell(self, fact: Proposed) -> None:
        await self.ledger.append(fact.kind, fields_of(fact))

    def _judged(self, draft: Draft, rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, ...], tuple[Verdict, ...]]:
        """The turns that a change cites, and what each gate says of it."""
        turns = gates.cite(gates.added(draft.proposal), self.facts, self._cited())
        if turns not in self._known:
            found = evidence(self.facts, turns, session=self.session)
            self._known[turns] = structs.replace(found, foreign=(*found.foreign, *self.brought))
        known, proposal = self._known[turns], structs.replace(draft.proposal, session=self.session, turns=turns)
        found = [
            gates.form(proposal, made_today=made_today(rows, self.clock), strict=self.strict),
            gates.grounding(proposal, known),
            gates.safety(proposal, known, redact=self.redact),
            gates.ownership(proposal, draft.merged),
            gates.duplicates(proposal, draft.near),
            *draft.asks,
        ]
        if found[2].ok and any(self.redact(text) != text for text in proposal.after.values()):
            why = "the text that it leaves holds what looks like a secret"  # it could not be kept as it is
            found[2] = Verdict(gate="safety", ok=False, rule="secret", reason=why)
        if item := again(hunks(draft.diff), inbox(rows)):
            why = f"the person {item.state} this{f': {item.reason}' if item.reason else ''}"
            found.append(Verdict(gate="duplicates", ok=False, rule="rejected", reason=why))
        return turns, tuple(found)

    def _there(self, diff: str, rows: Sequence[Mapping[str, Any]]) -> Proposed | None:
        """What says the same, of another review, and waits for the person already."""
        said = hunks(diff)
        items = inbox(rows) if said else ()
        waiting = (one.proposal for one in items if one.state == "waiting" and one.proposal.review != self.review)
        return next((one for one in waiting if set(said) <= set(one.hunks)), None)

    def _cited(self) -> tuple[int, ...]:
        """The prompts of the turns that are reviewed."""
        said = [one.seq for one in self.facts if isinstance(one, Said) and spoken(one.message) is not None]
        first = max((seq for seq in said if seq <= self.after + 1), default=0)
        return tuple(seq for seq in said if seq >= first) or tuple(said[-1:])

    def _fact(self, draft: Draft, *, turns: tuple[int, ...], verdicts: tuple[Verdict, ...], status: Status) -> Proposed:
        kind = draft.proposal.kind
        made = Proposed(
            id=uuid4().hex[:12],
            status=status,
            target=kind,
            name=draft.proposal.name,
            did=draft.did,
            class_=gates.class_of(draft.proposal),
            session=self.session,
            turns=turns,
            review=self.review,
            diff=draft.diff,
            verdicts=verdicts,
            hunks=hunks(draft.diff),
            model=self.model,
            taint=_taint(verdicts),
        )
        unsafe = next((one for one in verdicts if one.gate == "safety" and not one.ok), None)
        if unsafe:
            return _withheld(made, unsafe)
        change = msgspec.to_builtins(self._sourced(draft.change, made))
        return structs.replace(made, change=_map(change, self.redact), diff=self.redact(draft.diff))

    def _sourced(self, change: Change | Noting, fact: Proposed) -> Change | Noting:
        """The change with where it comes from."""
        given: dict[str, Any] = {"model": fact.model, "taint": fact.taint, "reason": reason_of(fact)}
        if isinstance(change, Change):
            return structs.replace(change, turns=fact.turns, **given)
        turn, said = self._sentence(fact.turns, " ".join(step.content for step in change.operations))
        return structs.replace(change, turn=turn, said=said, **given)

    def _sentence(self, turns: Sequence[int], kept: str) -> tuple[int, str]:
        """The turn whose prompt has most of the words of what is kept, and that prompt's beginning; empty where none has any."""
        wanted, best = set(_WORD.findall(kept.casefold())), (0, max(turns, default=0), "")
        for fact in self.facts:
            if isinstance(fact, Said) and fact.seq in turns:
                said = spoken(fact.message) or ""
                best = max(best, (len(wanted.intersection(_WORD.findall(said.casefold()))), fact.seq, said))
        return best[1], self.redact(best[2])[:LONGEST_SAID]

    async def _replace(self, fact: Proposed, rows: Sequence[Mapping[str, Any]]) -> None:
        """Say of an earlier proposal of this review about the same thing, which still waits, that this one stands for it."""
        for item in inbox(rows):
            old = item.proposal
            same = (old.review, old.target, old.name) == (self.review, fact.target, fact.name)
            if same and item.state == "waiting" and fact.target == "skill":
                await self.replaced(old, fact)

    async def replaced(self, old: Proposed, new: Proposed) -> None:
        """Say that a proposal stands for an older one."""
        over = Decision(proposal=old.id, did="replaced", by="review", by_proposal=new.id)
        await self.ledger.append(over.kind, fields_of(over))


def made_today(rows: Sequence[Mapping[str, Any]], clock: Clock) -> int:
    """How many new skills reviews have made on this day of the clock."""
    today, made = clock.now().astimezone().date(), facts_of(Proposed, rows)
    return len({one.id for one in made if (one.status, one.did) == ("trial", "created") and _day(one.at) == today})


def held_back(item: Item) -> bool:
    """Whether a lesson waits for nothing but another day."""
    asks = [one.rule for one in item.proposal.verdicts if one.needs_person or not one.ok]
    return item.state == "waiting" and asks == [TOO_MANY]


def reason_of(fact: Proposed) -> str:
    """The reason that a change bears which was made for this proposal."""
    return f"learned: proposal {fact.id}"


def _found(fact: Proposed, row: Mapping[str, Any] | None) -> Proposed:
    """A proposal of which nobody told what became of it, with the change that was made for it, if one was."""
    if row is None:
        why = Verdict(gate="ownership", ok=False, rule="stopped", reason="the review was stopped before it was made")
        return structs.replace(fact, status="refused", verdicts=(*fact.verdicts, why))
    return structs.replace(fact, version=str(row.get("version") or row["number"]))


def waits(verdicts: Sequence[Verdict]) -> str:
    """What the reviewer is told of a proposal that a person decides about."""
    return WAITS.format("".join(f" ({one.reason})" for one in verdicts if one.needs_person))


def complaint(verdicts: Sequence[Verdict]) -> str:
    """Why a proposal was refused, and how to mend it, as its reviewer is told."""
    wrong = [one for one in verdicts if not one.ok]
    said = [
        f"{one.gate}: {one.reason}{_lines(one)} ({MEND[one.gate] if one.rule != 'rejected' else 'do not propose it again'})"
        for one in wrong
    ]
    return f"refused. {'; '.join(said)}"


def _lines(verdict: Verdict) -> str:
    return f" [{' | '.join(line.strip() for line in verdict.lines[:3])}]" if verdict.lines else ""


def _day(at: str) -> date | None:
    return datetime.fromisoformat(at).astimezone().date() if at else None


def _taint(verdicts: Sequence[Verdict]) -> Taint:
    return "web" if any(one.rule == "taint" for one in verdicts) else "tool"


def _map(value: Any, redact: Callable[[str], str]) -> Any:
    """The value with every text in it as `redact` gives it."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _map(one, redact) for key, one in cast("dict[str, Any]", value).items()}
    return [_map(one, redact) for one in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


def _withheld(fact: Proposed, unsafe: Verdict) -> Proposed:
    """The proposal without any text of its own: what is not safe is not kept where somebody could read it out again."""
    mark = WITHHELD.format(unsafe.rule)
    verdicts = tuple(
        structs.replace(one, lines=(), reason=one.reason.partition(":")[0] if one.gate == "safety" else "")
        for one in fact.verdicts
    )
    return structs.replace(fact, change={"name": fact.name, "withheld": mark}, diff=mark, verdicts=verdicts, hunks=())


# ---- skills ----------------------------------------------------------------------------------------------------------


class ProposingSkills:
    """The library as a reviewer sees it: a `SkillLibrary` that reads as the real one does and proposes where that one changes.

    `own` gives the lines of a skill that a person wrote.
    """

    def __init__(
        self, library: SkillLibrary, desk: Desk, *, own: Callable[[str], tuple[str, ...]] = lambda _: ()
    ) -> None:
        self._library = library
        self._desk = desk
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def __contains__(self, name: str) -> bool:
        return name in self._library

    async def apply(self, change: Change) -> Applied:
        """Propose the change; it is made as a trial version, waits for a person, or is refused with how to mend it."""
        return (await self.propose_again(change))[1]

    async def propose_again(self, change: Change) -> tuple[Proposed, Applied]:
        """Propose the change, and say as what."""
        change = structs.replace(change, author="agent", session=self._desk.session, turns=(), granted=False)
        return await self._desk.put(await self._draft(change), self._library.apply)

    async def _draft(self, change: Change) -> Draft:
        self._library.refresh()
        skill = self._library.get(change.name) if change.name in self._library else None
        before = await self._before(skill, change)
        whole = {**before, **change.files}
        after = {path: text for path, text in whole.items() if text is not None}
        merged = await self._library.check(structs.replace(change, granted=True))
        there = {line for text in before.values() for line in text.splitlines()}
        proposal = Proposal(
            name=change.name,
            before=before,
            after=after if MAIN in after else {},
            owner=skill.owner if skill else "agent",
            base=change.base,
            pinned=skill.pinned if skill else False,
            own_lines=tuple(one for one in self._own(change.name) if one in there) if skill else (),
        )
        return Draft(
            proposal=proposal,
            change=change,
            did="created" if skill is None else "patched" if proposal.after else "archived",
            diff=merged.diff,
            merged=merged,
            near=await self._near(change) if skill is None else (),
            asks=_sweeping(proposal) if skill else self._twins(change.name),
        )

    def _twins(self, name: str) -> tuple[Verdict, ...]:
        """What is wrong with a new name that could be taken for that of a skill which others wrote."""
        theirs = (one.name for one in self._library.all() if one.owner not in ("agent", "user"))
        if not (near := get_close_matches(name, theirs, 1, TWIN)):
            return ()
        why = f"it is called almost like {near[0]}: give it a name of its own"
        return (Verdict(gate="duplicates", ok=False, rule="name", reason=why),)

    async def _before(self, skill: Skill | None, change: Change) -> dict[str, str]:
        if skill is None:
            return {}
        there = set(self._library.files(skill.name))
        wanted = [path for path in (MAIN, *(one for one in change.files if one != MAIN)) if path in there]
        return {path: (await self._library.read(skill.name, path)).text for path in wanted}

    async def _near(self, change: Change) -> tuple[Neighbour, ...]:
        """The skills that come nearest to a new one."""
        for _ in range(FILLS):
            if not await asyncio.to_thread(self._library.fill):
                break
        text = change.files.get(MAIN) or ""
        found: list[Neighbour] = []
        for skill, _ in self._library.rank(f"{change.name.replace('-', ' ')} {text}", limit=NEAREST):
            with suppress(ToolError):  # one that may not be loaded says nothing to anybody
                read = await self._library.read(skill.name)
                found.append(Neighbour(name=skill.name, about=skill.description, text=read.text))
        return tuple(found)


def _sweeping(proposal: Proposal) -> tuple[Verdict, ...]:
    """What a person has to decide because little is left of what was there."""
    if not proposal.after:
        return (_person("archive", f"it archives {proposal.name}"),)
    old = [line for line in proposal.before.get(MAIN, "").splitlines() if line.strip()]
    new = set(proposal.after[MAIN].splitlines())
    if sum(line in new for line in old) < KEPT * len(old):
        return (_person("rewrite", f"it writes most of {proposal.name} anew"),)
    return ()


def _person(rule: str, reason: str) -> Verdict:
    return Verdict(gate="ownership", needs_person=True, rule=rule, reason=reason)


# ---- memory ----------------------------------------------------------------------------------------------------------


class ProposingMemory:
    """The memory as a reviewer sees it: a `Memory` that reads as the real one does and proposes where that one changes."""

    def __init__(self, memory: Memory, desk: Desk) -> None:
        self._memory = memory
        self._desk = desk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    async def apply(self, change: Noting) -> Noted:
        """Propose the change; it is made, waits for a person, or is refused with how to mend it."""
        checked = await self._memory.check(change)
        if not checked.ok and (checked.full or checked.entries):  # not said right yet: nothing that a gate could judge
            return checked
        change = structs.replace(change, author="agent", session=self._desk.session, turn=0)
        made: list[Noted] = []

        async def make(sourced: Noting) -> Applied:
            made.append(await self._memory.apply(sourced))
            return Applied(ok=made[0].ok, version=str(made[0].number or ""), reason=made[0].reason)

        fact, applied = await self._desk.put(await self._draft(change, checked), make)
        if fact.status == "trial" and made:
            return made[0]
        said = (applied.reason,) if fact.status == "inbox" else ()
        return structs.replace(checked, ok=applied.ok, reason="" if applied.ok else applied.reason, receipts=said)

    async def _draft(self, change: Noting, checked: Noted) -> Draft:
        entries = {one.id: one for one in await self._memory.entries(change.who, change.target)}
        texts = {name: one.text for name, one in entries.items()}
        steps = [(_meant(step, texts) or f"new-{number}", step) for number, step in enumerate(change.operations, 1)]
        touched = [entries[name] for name, _ in steps if name in entries]
        proposal = Proposal(
            name=FILES[change.target],
            kind="memory",
            before={one.id: one.text for one in touched},
            after={name: "" if step.action == "remove" else step.content for name, step in steps},
            owner="user" if any(one.author == "user" for one in touched) else "agent",
            own_lines=tuple(line for one in touched if one.author == "user" for line in one.text.splitlines()),
        )
        removes = any(step.action == "remove" for _, step in steps)
        return Draft(
            proposal=proposal,
            change=change,
            did="removed" if removes else "replaced" if touched else "added",
            diff=told(change, texts),
            merged=Applied(ok=checked.ok, reason=checked.reason),
            near=tuple(Neighbour(name=f"[{name}]", text=text) for name, text in texts.items()),
            asks=(_person("removal", f"it takes entries out of {FILES[change.target]}"),) if removes else (),
        )


def _meant(step: Operation, texts: Mapping[str, str]) -> str:
    """The id of the entry that a step changes, empty for a new one."""
    if step.action == "add":
        return ""
    if step.old_text in texts:
        return step.old_text
    return next((name for name, text in texts.items() if step.old_text.casefold() in text.casefold()), "")
