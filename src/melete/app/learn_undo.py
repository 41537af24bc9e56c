"""Taking back what was learned: all that came from a session, one lesson, or an undo itself. Part of the composition root.

Every version and entry that came from it goes, and what the agent built upon it; what was replaced comes back. A person's own
later edits are merged and kept; where they meet, nothing is changed and a proposal waits in the inbox.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, structs, to_builtins

from melete.app.memory import remembered
from melete.app.skill_shelf import noticed
from melete.app.skills import library
from melete.app.wire import Melete
from melete.core.errors import SessionNotFoundError, UsageError
from melete.core.memory import KEPT, Noted, Noting
from melete.core.plugin import Lazy
from melete.core.ports import Change
from melete.core.skill import MAIN, Version
from melete.core.tool import ToolError
from melete.learn.facts import Decision, Kept, Proposed, Undo, facts_of, fields_of
from melete.learn.inbox import FILES, TAKEN_BACK, Item, inbox, told
from melete.learn.lineage import Meant, Row, begun, gone_with, named, of_session
from melete.learn.verdict import Verdict

if TYPE_CHECKING:
    from melete.skills.manage import Keeper
    from melete.skills.without import Step, Without

_steps: Lazy[Callable[..., Any]] = Lazy("melete.skills.without:steps")
_without: "Lazy[Callable[..., Without | None]]" = Lazy("melete.skills.without:without")
_standing_in: Lazy[Callable[[Version, str], Version]] = Lazy("melete.skills.without:standing_in")
_tree_of: Lazy[Callable[[Path], Mapping[str, bytes]]] = Lazy("melete.skills.versions:tree_of")
_version_of: Lazy[Callable[[Mapping[str, bytes]], str]] = Lazy("melete.skills.versions:version_of_tree")
_diff: Lazy[Callable[..., str]] = Lazy("melete.skills.versions:diff")

BACK = "the undo was taken back"
WAITING = "waiting"


class Effect(Struct, frozen=True, kw_only=True):
    """What becomes of one skill, or of what one person's session has remembered.

    `did`: it is `back` as it was in `version`, `merged` with later edits by a person, `archived`, `changed` (memory, see `said`),
    or it `stays` for the reason in `said`; `proposal` then waits for a person. `taken` are the changes that went.
    """

    target: Literal["skill", "memory"]
    name: str
    did: Literal["back", "merged", "archived", "changed", "stays"]
    version: str = ""
    taken: tuple[int, ...] = ()
    said: tuple[str, ...] = ()
    diff: str = ""
    proposal: str = ""


class Undone(Struct, frozen=True, kw_only=True):
    """What was taken back: `about` says what it came from, `number` is the one that takes the undo itself back, 0 for none.

    `closed` are proposals that waited and do not any more.
    """

    about: str
    number: int = 0
    dry: bool = False
    effects: tuple[Effect, ...] = ()
    closed: tuple[int, ...] = ()


async def meant(app: Melete, *, session: str = "", name: str = "") -> Meant:
    """What a person names: a session, or the number or id of a lesson, a change or an undo. Raises UsageError, StoreError."""
    rows = app.ledger.read()
    if not session:
        found = named(rows, name)
        if found is None:
            raise UsageError(f"{name!r} is nothing that was learned", next="see: melete learn log")
        if not found.numbers:
            raise UsageError(f"nothing of {found.about} is in use", next=f"see: melete learn show {name}")
        return found
    try:
        session = (await app.store.find(session)).id
    except SessionNotFoundError:  # its log may be gone, what it taught is not
        if not any(row.get("session") == session for row in rows):
            raise
    found = of_session(rows, session)
    if not found.numbers and not _waiting(found):
        raise UsageError(f"nothing was learned from session {session}", next="see: melete learn log")
    return found


async def undo(app: Melete, what: Meant, *, dry: bool = False) -> Undone:
    """Take back what is meant, and say what became of each; with `dry` only say it. Raises StorageError, StoreError."""
    rows = await _noticed(app, what)
    of = what.of.id if what.of else ""
    record = begun(rows, what) or Undo(
        id=token_hex(4), session=what.session, took=tuple(sorted(what.numbers)), of=of
    )  # fmt: skip
    work = _Work(app, what, record=record, rows=rows)
    effects = [*await work.skills(act=False), *await work.memory(act=False)]
    nothing = not any(one.taken or one.did == "stays" for one in effects)
    left = _untold(record, rows)
    if dry or (nothing and not left and not _waiting(what)):
        return Undone(about=what.about, dry=dry, effects=tuple(effects), closed=_waiting(what))
    items = what.items if what.of else (*gone_with(rows, work.gone(effects)), *_waiting_items(what))
    number = record.number
    if number:
        items = (*left, *_waiting_items(what))
    else:
        record = structs.replace(record, proposals=tuple(one.proposal.id for one in items))
        number = await app.ledger.append(record.kind, fields_of(record))
    done = (*await work.skills(act=True), *await work.memory(act=True))
    await _decide(app, what, items, back=_brings_back(record, rows))
    return Undone(about=what.about, number=number, effects=done, closed=_waiting(what))


def _brings_back(record: Undo, rows: Sequence[Row]) -> bool:
    """Whether an undo brings back what another one took, and not what that one had brought back."""
    of, back = {one.id: one.of for one in facts_of(Undo, rows)}, False
    at = record.of
    while at:
        at, back = of.get(at, ""), not back
    return back


def _untold(record: Undo, rows: Sequence[Row]) -> list[Item]:
    """The lessons of an undo that was begun, of which is not told yet what became of them: it was cut off."""
    mine = [one for one in inbox(rows) if one.proposal.id in record.proposals] if record.number else []
    if _brings_back(record, rows):
        return [one for one in mine if one.state == "undone" and one.version]
    return [one for one in mine if one.state not in ("undone", WAITING)]


def _waiting_items(what: Meant) -> tuple[Item, ...]:
    return () if what.of else tuple(one for one in what.items if one.state == WAITING)


def _waiting(what: Meant) -> tuple[int, ...]:
    return tuple(one.number for one in _waiting_items(what))


async def _noticed(app: Melete, what: Meant) -> Sequence[Row]:
    """The ledger once it tells what a person has edited of these skills."""
    rows, keeper = what.rows, library(app)
    for name in _names(rows, what.numbers):
        if name in keeper:
            await noticed(keeper, name)
    last = rows[-1]["number"] if rows else 0
    return [*rows, *app.ledger.read(after=last)]


def _names(rows: Sequence[Row], numbers: Collection[int]) -> list[str]:
    return list(dict.fromkeys(row["skill"] for row in rows if row["number"] in numbers and "skill" in row))


class _Work:
    """One undo of what is meant, told under `record`."""

    def __init__(self, app: Melete, what: Meant, *, record: Undo, rows: Sequence[Row]) -> None:
        self._app = app
        self._what = what
        self._rows = rows
        self._why = f"{record.tag}of {what.about}"
        self._names = _names(rows, what.numbers)
        self._of: dict[str, list[Row]] = {name: [] for name in self._names}
        for row in rows:
            if (known := self._of.get(row.get("skill", ""))) is not None:
                known.append(row)

    async def skills(self, *, act: bool) -> list[Effect]:
        """What becomes of the skills."""
        keeper, numbers = library(self._app), self._what.numbers
        found: list[Effect] = []

        def away(step: "Step") -> bool:
            return step.number in numbers

        for name in tuple(self._names):
            known = _steps.load()(self._of[name], name)
            try:
                left = _without.load()(known, away, keeper.versions.tree)
                found += [await self._skill(keeper, name, left, act=act)] if left else []
            except ToolError as error:
                found.append(Effect(target="skill", name=name, did="stays", said=(str(error),)))
        return found

    async def _skill(self, keeper: "Keeper", name: str, left: "Without", *, act: bool) -> Effect:
        there = Path(keeper.get(name).folder) if name in keeper else None
        before: Mapping[str, bytes] = await asyncio.to_thread(_tree_of.load(), there) if there else {}
        shown = _diff.load()(before, left.files)
        if left.conflict:
            return await self._stays(keeper, name, left, diff=shown, act=act)
        if left.files == before:
            return Effect(target="skill", name=name, did="back", said=("it is so already",))
        like = left.like or keeper.versions.head(name)
        if like is None:
            raise ToolError(f"{name} has no versions yet")
        version = _version_of.load()(left.files) if left.files else ""
        if act:
            made = _standing_in.load()(like, self._why)
            base = _version_of.load()(before) if before else ""
            await keeper.become(made, left.files, base=base, more=name != self._names[-1])
        else:  # what is changed comes last: what is forced to the disk then holds it all
            self._names.sort(key=name.__eq__)
        did = "archived" if not left.files else "merged" if left.kept and version != like.version else "back"
        return Effect(target="skill", name=name, did=did, version=version, taken=left.taken, diff=shown)

    async def _stays(self, keeper: "Keeper", name: str, left: "Without", *, diff: str, act: bool) -> Effect:
        """Nothing is changed where a person's edit stands in the way: what is left to do waits for them."""
        head = keeper.versions.head(name)
        paths = {*(head.files if head else ()), *left.files} if left.files else {MAIN}
        files = {path: left.files[path].decode("utf-8", "replace") if path in left.files else None for path in paths}
        change = Change(name=name, files=files, base=head.version if head else "", author="user", reason=self._why)
        whole = "you have edited it since, and nothing else would be left of it"
        said = f"{left.conflict}: what you edited stands in the same place" if left.files else whole
        proposal = await self._propose("skill", name, change=change, diff=diff, said=said) if act else ""
        return Effect(target="skill", name=name, did="stays", said=(said,), diff=diff, proposal=proposal)

    async def memory(self, *, act: bool) -> list[Effect]:
        """What becomes of memory, for each person who is concerned."""
        mine = [row for row in self._rows if row["number"] in self._what.numbers and "skill" not in row]
        people = {row.get("who", "") if row["target"] == "user" else "" for row in mine}
        if not people:
            return []
        try:
            notes = remembered(self._app)
        except UsageError as error:
            return [Effect(target="memory", name=FILES["memory"], did="stays", said=(str(error),))]
        found: list[Effect] = []
        for who in sorted(people):
            noted = await notes.take_back(self._what.numbers, who, why=self._why, dry=not act)
            found.append(await self._noted(noted, mine, who=who, act=act))
        return found

    async def _noted(self, noted: Noted, mine: Sequence[Row], *, who: str, act: bool) -> Effect:
        name = ", ".join(
            sorted({FILES[row["target"]] for row in mine if row["target"] == "memory" or row["who"] == who})
        )
        if not noted.ok:
            return Effect(target="memory", name=name, did="stays", said=(noted.reason,))
        proposal = ""
        for change in noted.left if act else ():
            said = "what you edited is what was learned"
            proposal = await self._propose(
                "memory", FILES[change.target], change=change, diff=told(change, {}), said=said
            )
        taken = tuple(row["number"] for row in mine) if any(KEPT not in one for one in noted.receipts) else ()
        return Effect(target="memory", name=name, did="changed", taken=taken, said=noted.receipts, proposal=proposal)

    def gone(self, effects: Sequence[Effect]) -> set[int]:
        """The numbers of the changes of which nothing is left, by what becomes of each."""
        stays = {
            one.name if one.target == "skill" else ""
            for one in effects
            if one.said and not one.taken and one.did != "back"
        }
        mine = (row for row in self._rows if row["number"] in self._what.numbers)
        taken = {number for one in effects for number in one.taken}
        return taken | {row["number"] for row in mine if row.get("skill", "") not in stays}

    async def _propose(
        self, target: Literal["skill", "memory"], name: str, *, change: Change | Noting, diff: str, said: str
    ) -> str:
        """Put into the inbox what only a person can decide, and return its number."""
        made = Proposed(
            id=token_hex(6), status="inbox", target=target, name=name, did=TAKEN_BACK, class_="guidance",
            session=self._what.session, change=to_builtins(change), diff=diff,
            verdicts=(Verdict(gate="ownership", needs_person=True, rule="conflict", reason=said),),
        )  # fmt: skip
        return str(await self._append(made))

    async def _append(self, fact: Kept) -> int:
        return await self._app.ledger.append(fact.kind, fields_of(fact))


async def _decide(app: Melete, what: Meant, items: Sequence[Item], *, back: bool) -> None:
    """Tell of each lesson that it was undone, or counts again; one that waited does not wait any more."""
    for item in items:
        waited = item.state == WAITING or not item.version
        if what.of and (waited or (item.state == "undone") != back):
            continue
        did, reason = ("accepted", BACK) if back else ("undone", f"undo of {what.about}")
        if waited and item.source == "memory":  # memory keeps a list of its own of what waits
            await app.ledger.append("memory.decision", {"proposal": item.proposal.id, "accepted": False})
        decision = Decision(proposal=item.proposal.id, did=did, version=item.version, reason=reason)
        await app.ledger.append(decision.kind, fields_of(decision))
