"""The notes of a home, as everybody else sees them: read, changed, looked back at, and brought back. Part of the memory."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs, to_builtins

from melete.core.memory import (
    KEPT,
    WITHHELD,
    MemoryEntry,
    MemoryProblem,
    MemoryProposal,
    Noted,
    Noting,
    Operation,
    Past,
    Target,
)
from melete.core.ports import Clock, Ledger
from melete.core.tool import ToolError
from melete.memory import past
from melete.memory.files import UnusableError
from melete.memory.fold import CHANGE, Changed, Row, key_of, new_id
from melete.memory.keeping import Keeping, Sheet, State
from melete.memory.marks import doubted
from melete.memory.plan import Plan, Unclear, excerpt, folded, formed, planned, rows
from melete.memory.rules import Judge, Rules, length, receipts, too_long
from melete.memory.snapshot import NAMES, fitting, shown, withheld

__all__ = ["Notes", "Rules"]

PROPOSAL: Final = "memory.proposal"
DECISION: Final = "memory.decision"
TARGETS: Final[tuple[Target, ...]] = ("memory", "user")
SAID: Final = 1_000
"""Characters of a person's sentence that are kept with what came from it."""
T = TypeVar("T", MemoryEntry, Noting)
Told = Callable[[State], tuple[Plan, Sequence[Row]]]
"""What a change makes of a file, and what the ledger is to tell of it; raises ToolError."""


class Notes:
    """The files of memory in `folder`, with their history in the ledger; `state` is the home's folder for state."""

    def __init__(self, folder: Path, state: Path, *, ledger: Ledger, clock: Clock, rules: Rules | None = None) -> None:
        self._rules = rules or Rules()
        self._place, self._ledger, self._clock = (folder, state), ledger, clock
        self._judge = Judge(self._rules)
        self._opened: Keeping | None = None
        self._told: list[Mapping[str, Any]] = []
        self._read = 0

    @property
    def _keeping(self) -> Keeping:
        if self._opened is None:
            self._opened = Keeping(*self._place, ledger=self._ledger, mark=self._rules.mark, keeps=self._rules.keeps)
        return self._opened

    def path(self, target: Target, who: str = "") -> Path:
        """Where a file of memory stands; it need not be there."""
        return self._keeping.sheet(target, who).path

    # ---- reading -----------------------------------------------------------------------------------------------------

    async def snapshot(self, who: str = "") -> str:
        """The text for the system prompt; empty where nothing is remembered."""
        return (await self.pictured(who))[0]

    async def pictured(self, who: str = "") -> tuple[str, Sequence[MemoryEntry]]:
        """The text for the system prompt, and the entries that can be read in it."""
        parts, seen = list[str](), list[MemoryEntry]()
        for target in TARGETS if self._rules.user else TARGETS[:1]:
            try:
                entries = await self._doubted(target, who)
            except UnusableError as error:
                parts.append(f"{NAMES[target][1]} cannot be used now: {error.what}")
                continue
            limit = self._rules.limit(target)
            parts.append(shown(target, entries, limit=limit))
            seen += (one for one in fitting(entries, limit=limit) if not withheld(one))
        await self._keeping.keep()
        return "\n\n".join(part for part in parts if part), seen

    async def entries(self, who: str = "", target: Target | None = None) -> Sequence[MemoryEntry]:
        """What is in the files now, in their order, with what is known about each; a file that cannot be used has none."""
        found: list[MemoryEntry] = []
        for one in (target,) if target else TARGETS:
            with suppress(UnusableError):
                found += await self._doubted(one, who)
        return found

    async def _doubted(self, target: Target, who: str) -> list[MemoryEntry]:
        state = await self._keeping.look(self._keeping.sheet(target, who))
        refused = {one.id: rule for one in state.entries if (rule := self._threat(one))}
        shown = [one for one in state.entries if one.id not in refused]
        clean = {one.id: one for one in doubted(shown, self._clock.now())}
        found: list[MemoryEntry] = []
        for entry in state.entries:
            one = clean.get(entry.id) or structs.replace(entry, state="stale", marks=(WITHHELD + refused[entry.id],))
            found.append(one if one.who == who else unsaid(one))
        return found

    def _threat(self, entry: MemoryEntry) -> str:
        return self._judge.threat(entry, self._keeping.books.judged)

    def _excerpt(self, entry: MemoryEntry) -> str:
        """The beginning of an entry, as a model may read it."""
        return "(withheld)" if self._threat(entry) else excerpt(entry.text)

    async def problems(self, who: str = "") -> Sequence[MemoryProblem]:
        """The files and entries that are not used as they are, and why."""
        found: list[MemoryProblem] = []
        for target in TARGETS:
            path, limit = str(self.path(target, who)), self._rules.limit(target)
            try:
                entries = await self._doubted(target, who)
            except UnusableError as error:
                found.append(MemoryProblem(target=target, path=path, what=error.what, next=error.next))
                continue
            said: list[tuple[str, str]] = []
            if (used := length(entries)) > limit:
                said.append((f"it holds {used:,} characters, and {limit:,} are shown", "shorten it"))
            for entry in entries:
                if withheld(entry):
                    said.append((f"[{entry.id}] is {entry.marks[0]}", "read it, and reword or remove it"))
                if kind := self._judge.secret(entry, self._keeping.books.judged):
                    said.append((f"[{entry.id}] holds a secret ({kind})", "move it to .env and remove it here"))
            found += (MemoryProblem(target=target, path=path, what=what, next=next) for what, next in said)
        await self._keeping.keep()
        return found

    async def recall(self, query: str, *, who: str = "", limit: int = 5) -> Sequence[str]:
        """Entries that match, the best first; none that may not be shown."""
        asked = set(folded(query).split())
        scored = [
            (len(asked & {word.strip(".,:;!?()") for word in folded(entry.text).split()}), entry)
            for entry in await self.entries(who)
            if not withheld(entry)
        ]
        best = sorted((one for one in scored if one[0]), key=lambda one: -one[0])
        return [entry.text for _, entry in best[:limit]]

    # ---- changing ----------------------------------------------------------------------------------------------------

    async def check(self, change: Noting) -> Noted:
        """What `apply` would say, without doing it."""
        return await self._change(change, self._planned(change), act=False)

    async def apply(self, change: Noting) -> Noted:
        """Make the change, durably, all of it or nothing; raises StorageError with the files as they were."""
        return await self._change(change, self._planned(change), act=True)

    def _planned(self, change: Noting) -> Told:
        def plan(state: State) -> tuple[Plan, Sequence[Row]]:
            made = planned(change, state.entries)
            return made, rows(state.entries, made)

        return plan

    async def _change(self, change: Noting, plan: Told, *, act: bool) -> Noted:
        sheet, limit = self._keeping.sheet(change.target, change.who), self._rules.limit(change.target)
        if not self._rules.keeps:
            return Noted(ok=False, reason="nothing is stored in this session, memory neither", limit=limit)
        used = 0
        try:
            async with self._keeping.alone():
                state = await self._keeping.settled(sheet)
                used = length(state.entries)
                return await self._carried_out(sheet, state, change, plan(state), act=act)
        except UnusableError as error:
            return Noted(ok=False, reason=f"{sheet.path} cannot be used: {error}", limit=limit)
        except ToolError as error:
            among = error.among if isinstance(error, Unclear) else ()
            listed = "".join(f"\n- [{entry.id}] {self._excerpt(entry)}" for entry in among)
            return Noted(ok=False, reason=f"{error}{listed}", entries=among, used=used, limit=limit)

    async def _carried_out(
        self, sheet: Sheet, state: State, change: Noting, planned: tuple[Plan, Sequence[Row]], *, act: bool
    ) -> Noted:
        plan, told = planned
        used, will, limit = length(state.entries), length(plan.entries), self._rules.limit(sheet.target)
        noted = Noted(ok=False, used=used, limit=limit, adds=will - used)
        name = NAMES[sheet.target][1]
        if why := self._judge.refusal(state.entries, plan, self._keeping.books.judged):
            return structs.replace(noted, reason=why)
        if change.operations and too_long(used, will, limit):
            why = (
                f"{name} has no room: {used:,} of {limit:,} characters are used, and this adds {will - used:,}. "
                "Nothing was changed: merge, shorten or remove entries first, or in the same call by operations"
            )
            return structs.replace(noted, reason=why, full=True)
        said = receipts(state.entries, plan, self._excerpt)
        if will > limit:
            said = (
                *said,
                f"{name} holds {will:,} characters now, more than {limit:,}: nothing can be added until it is shorter",
            )
        noted = structs.replace(noted, ok=True, receipts=said)
        if not (act and told):
            return noted
        number = await self._keeping.put(sheet, state, self._with_words(change), plan=plan, told=told)
        book = self._keeping.books.book(sheet.key)
        touched = {row.entry for row in told}
        return structs.replace(
            noted,
            used=length(book.entries),
            entries=tuple(one for one in book.entries if one.id in touched),
            number=number,
        )

    def _with_words(self, change: Noting) -> Noting:
        """The change with the person's sentence as it may be stored."""
        return structs.replace(change, said=self._judge.redact(change.said)[:SAID].encode(errors="replace").decode())

    # ---- proposals ---------------------------------------------------------------------------------------------------

    async def propose(self, change: Noting) -> str:
        """Put the change into the inbox and return the proposal's id; raises ToolError for what could never be in a file."""
        for operation in change.operations:
            if operation.action != "remove" and self._judge.redact(text := formed(operation)) != text:
                raise ToolError("it holds a secret, which memory does not keep")
        name = new_id()
        await self._ledger.append(PROPOSAL, {"id": name, "change": to_builtins(self._with_words(change))})
        return name

    async def proposals(self, who: str = "") -> Sequence[MemoryProposal]:
        """What waits for a person, the oldest first."""
        return [
            one if one.change.who == who else structs.replace(one, change=unsaid(one.change))
            for one in self._waiting(who)
        ]

    def _waiting(self, who: str) -> list[MemoryProposal]:
        open_: dict[str, MemoryProposal] = {}
        for fact in self._ledger.read():
            if fact["kind"] == DECISION:
                open_.pop(fact["proposal"], None)
            elif fact["kind"] == PROPOSAL:
                with suppress(msgspec.ValidationError):  # a later version has written it
                    made = msgspec.convert(fact, MemoryProposal)
                    open_[made.id] = made
        return [one for one in open_.values() if one.change.who == who or one.change.target == "memory"]

    async def accept(self, proposal: str, who: str = "") -> Noted:
        """Make a proposed change; it goes on waiting where it cannot be made. Raises ToolError for an id that names none."""
        found = self._proposal(proposal, who)
        noted = await self.apply(found.change)
        if noted.ok:
            await self._ledger.append(DECISION, {"proposal": found.id, "accepted": True})
        return noted

    async def reject(self, proposal: str, who: str = "") -> None:
        """Let a proposed change be; raises ToolError for an id that names none."""
        found = self._proposal(proposal, who)
        await self._ledger.append(DECISION, {"proposal": found.id, "accepted": False})

    def _proposal(self, wanted: str, who: str) -> MemoryProposal:
        found = [one for one in self._waiting(who) if wanted and one.id.startswith(wanted)]
        if len(found) != 1:
            raise ToolError(f"{wanted!r} begins several proposals" if found else f"no proposal {wanted!r} waits")
        return found[0]

    # ---- the past ----------------------------------------------------------------------------------------------------

    async def history(self, entry: str = "", who: str = "") -> Sequence[Past]:
        """What happened to an entry, or to all of them, oldest first; raises ToolError for an id or text that names none."""
        await self.entries(who)  # what was edited by hand is part of it
        known = self._steps(*TARGETS, who=who)
        return [step.told(who) for step in (past.about(known, entry) if entry else known)]

    def _steps(self, *targets: Target, who: str) -> list[past.Step]:
        """What happened in these files; the ledger is read from where it was read last."""
        fresh = self._ledger.read(after=self._read)
        self._read = fresh[-1]["number"] if fresh else self._read
        self._told += (fact for fact in fresh if fact["kind"] == CHANGE)
        return [*past.steps(self._told, [key_of(target, who) for target in targets])]

    async def revert(self, version: str, who: str = "") -> Noted:
        """Put the text of an entry's version back, also of one that is gone; raises ToolError for one that is not known.

        `@NUMBER` takes a whole change back, where nothing of it was changed since by a person. Room is no reason to refuse it.
        """
        await self.entries(who)  # what was edited by hand is part of the past
        known = self._steps(*TARGETS, who=who)
        if version.startswith("@"):
            found = [step.changed for step in known if version == f"@{step.changed.number}"]
            if not found:
                raise ToolError(f"there is no change {version}")
            return await self._undo(found[0].target, who, lambda one: one.id == found[0].id, f"taking back {version}")
        old = past.of_version(known, version)

        def plan(state: State) -> tuple[Plan, Sequence[Row]]:
            if any((entry.id, entry.text) == (old.id, old.text) for entry in state.entries):
                raise ToolError(f"[{old.id}] is as it was in {old.version}")
            if same := [
                entry for entry in state.entries if entry.id != old.id and folded(entry.text) == folded(old.text)
            ]:
                raise Unclear(f"entry [{same[0].id}] says that already", same)
            return _with(state, {old.id: old}), [_back(old)]

        return await self._change(_by_person(old.target, who, f"back to {old.version}"), plan, act=True)

    async def forget(self, session: str, who: str = "", *, dry: bool = False) -> Noted:
        """Undo everything that was noted in a session, where it was not changed since by a person; `dry` only tells.

        Raises ToolError for a session in which nothing was noted.
        """
        await self.entries(who)
        known = self._steps(*TARGETS, who=who)
        numbers = {step.changed.number for step in known if session and step.changed.session == session}
        if not numbers:
            raise ToolError(f"nothing was noted in a session {session!r}")
        return await self.take_back(numbers, who, why=f"forgetting the session {session}", dry=dry)

    async def take_back(self, changes: Collection[int], who: str = "", *, why: str, dry: bool = False) -> Noted:
        """Undo the changes of these numbers, in both files or in none; `dry` only tells.

        What a person has changed since stays: what is left to do there is in `left`, by file.
        """
        await self.entries(who)
        known = self._steps(*TARGETS, who=who)
        touched: list[Target] = [
            target for target in TARGETS if any(_among(step.changed, target, changes) for step in known)
        ]
        done = list[Noted]()
        for act in (False,) if dry else (False, True):
            done = [
                await self._undo(target, who, lambda one: one.number in changes, why, act=act) for target in touched
            ]
            if not all(one.ok for one in done):
                break
        return Noted(
            ok=all(one.ok for one in done),
            reason="; ".join(one.reason for one in done if one.reason),
            entries=tuple(entry for one in done for entry in one.entries),
            receipts=tuple(line for one in done for line in one.receipts),
            left=tuple(change for one in done for change in one.left),
        )

    async def _undo(
        self, target: Target, who: str, wanted: Callable[[Changed], bool], why: str, *, act: bool = True
    ) -> Noted:
        said: list[str] = []
        left: list[Operation] = []

        def plan(state: State) -> tuple[Plan, Sequence[Row]]:
            found = past.undone(self._steps(target, who=who), wanted, state.entries)
            said.extend(f"[{entry.id}] {KEPT}, or another says the same: {excerpt(entry.text)}" for entry in found.kept)
            left.extend(found.left)
            here = {entry.id for entry in state.entries}
            said.extend(f"[{one.id}] is back: {excerpt(one.text)}" for one in found.back.values() if one.id not in here)
            made = _with(state, found.back)
            made = Plan(entries=tuple(entry for entry in made.entries if entry.id not in found.away))
            away = [Row(entry=name, did="forgotten") for name in sorted(found.away)]
            return made, [*away, *map(_back, found.back.values())]

        noted = await self._change(_by_person(target, who, why), plan, act=act)
        change = Noting(target=target, operations=tuple(left), who=who, author="user", reason=why)
        return structs.replace(noted, receipts=(*noted.receipts, *said), left=(change,) if left else ())


def _among(changed: Changed, target: Target, numbers: Collection[int]) -> bool:
    return changed.target == target and changed.number in numbers


def unsaid(told: T) -> T:
    """What another person has said, without their words and where they said them."""
    return structs.replace(told, session="", turn=0, said="")


def _by_person(target: Target, who: str, reason: str) -> Noting:
    return Noting(target=target, operations=(), who=who, author="user", reason=reason)


def _back(old: MemoryEntry) -> Row:
    return Row(entry=old.id, did="reverted", text=old.text, was=old)


def _with(state: State | Plan, back: Mapping[str, MemoryEntry]) -> Plan:
    """The entries with these in their places, or behind them."""
    there = {entry.id for entry in state.entries}
    return Plan(
        entries=(
            *(back.get(entry.id, entry) for entry in state.entries),
            *(entry for name, entry in back.items() if name not in there),
        )
    )
