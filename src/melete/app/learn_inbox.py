"""What a person does with proposed lessons: look at them, accept, reject, reword. Part of the composition root.

What is accepted takes the way of every change: through the library of skills or the notes, which merge it with what was edited
since, keep it as a version and refuse what is not safe.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

import msgspec
from msgspec import Struct, structs

from melete.app.learn_evidence import Evidence, evidence
from melete.app.memory import remembered
from melete.app.skills import library
from melete.app.wire import Melete
from melete.core.errors import MeleteError, UsageError
from melete.core.memory import Noted, Noting
from melete.core.message import Taint
from melete.core.plugin import Lazy
from melete.core.ports import Applied, Change
from melete.core.tool import ToolError
from melete.learn import gate_evidence
from melete.learn.facts import Decision, Proposed, Review, facts_of, fields_of
from melete.learn.gates import Proposal, form, safety
from melete.learn.inbox import TAKEN_BACK, Item, hunks, inbox, is_id, told
from melete.learn.verdict import Verdict
from melete.security.redact import without_shapes

__all__ = ["TAKEN_BACK", "Done", "Inbox", "Item", "Look", "Proposed", "Verdict"]

if TYPE_CHECKING:
    from melete.skills.manage import Keeper

_tree_of: Lazy[Callable[[Path], Mapping[str, bytes]]] = Lazy("melete.skills.versions:tree_of")
_diff: Lazy[Callable[[Mapping[str, bytes], Mapping[str, bytes]], str]] = Lazy("melete.skills.versions:diff")
_strict: Lazy[Callable[..., Any]] = Lazy("melete.skills.format:strict")
LEARNED = "learned: proposal {}"
"""The reason of a version that a lesson became, by whoever it was made."""
C = TypeVar("C", Change, Noting)


class Look(Struct, frozen=True, kw_only=True):
    """A lesson with all that a person needs to decide.

    `diff` is what accepting it would change now, `moved` says that its target was edited since and both edits are in there, and
    `hindrance` why it cannot be accepted as it is. `due` is why the review took place that proposed it.
    """

    item: Item
    diff: str
    evidence: Evidence = Evidence()
    moved: bool = False
    hindrance: str = ""
    due: str = ""


class Done(Struct, frozen=True, kw_only=True):
    """A lesson that was accepted: the version that it became, what it changed, and in a line each what it replaced."""

    item: Item
    version: str
    diff: str = ""
    receipts: tuple[str, ...] = ()


class Inbox:
    """The lessons of a home, as the person `who` may see them: what is remembered about others is not among them."""

    def __init__(self, app: Melete, who: str = "") -> None:
        self._app = app
        self._who = who
        self._due: dict[str, str] = {}

    def now(self) -> datetime:
        """The time, as the home's clock has it."""
        return self._app.clock.now()

    def items(self, *, everything: bool = False) -> list[Item]:
        """What waits, or all that was ever proposed, the oldest first."""
        rows = self._app.ledger.read()
        self._due = {one.id: one.why for one in facts_of(Review, rows) if one.why}
        found = [one for one in inbox(rows) if one.who in ("", self._who)]
        return found if everything else [one for one in found if one.state == "waiting"]

    def find(self, name: str) -> Item:
        """The lesson of this number, or whose id begins so; raises UsageError."""
        items = self.items(everything=True)
        found = [one for one in items if name.isdecimal() and int(name) in one.numbers]
        found = found or [one for one in items if is_id(name, one.proposal.id)]
        if len(found) == 1:
            return found[0]
        why = f"{name!r} begins several proposals" if found else f"there is no proposal {name!r}"
        raise UsageError(why, next="melete learn inbox --all lists them")

    async def look(self, item: Item) -> Look:
        """All that there is to say about a lesson; where it may be accepted, what that would change now."""
        made = item.proposal
        diff, moved, hindrance = made.diff, False, ""
        if item.state == "waiting" or (item.state == "refused" and item.by_a_person):
            try:
                diff, moved, hindrance = await (
                    self._skill_now(made) if made.target == "skill" else self._memory_now(item)
                )
            except (ToolError, MeleteError) as error:
                hindrance = str(error)
        return Look(
            item=item,
            diff=diff or made.diff,
            evidence=await evidence(self._app, made.session, made.turns),
            moved=moved,
            hindrance=hindrance,
            due=self._due.get(made.review, ""),
        )

    async def _skill_now(self, made: Proposed) -> tuple[str, bool, str]:
        keeper, change = library(self._app), _change(made)
        applied = await keeper.check(change)
        head = keeper.versions.head(change.name)
        moved = bool(applied.ok and change.base and head and head.version != change.base)
        return applied.diff, moved, "" if applied.ok or await _there(keeper, change) else _why(made, applied)

    async def _memory_now(self, item: Item) -> tuple[str, bool, str]:
        notes, change = remembered(self._app), _as(item.proposal, Noting)
        noted = await notes.check(change)
        texts = {one.id: one.text for one in await notes.entries(change.who, change.target)}
        return told(change, texts), False, noted.reason

    # ---- deciding ----------------------------------------------------------------------------------------------------

    async def accept(self, item: Item, *, anyway: bool = False) -> Done:
        """Make what a lesson says usable, as a trial; raises UsageError, and it goes on waiting, where that cannot be.

        With `anyway` also one that a gate refused by judgement, or that was rejected before; never one that is not safe.
        """
        _may(item, anyway=anyway)
        made = item.proposal
        try:
            verdict = await asyncio.to_thread(self._safe, await self._as_gated(made))
            if not verdict.ok:
                raise UsageError(
                    f"{item.number} is not safe: {verdict.reason}", kept="nothing was changed", next=_next(item)
                )
            done = await (self._accept_skill(item) if made.target == "skill" else self._accept_memory(item))
        except ToolError as error:
            raise UsageError(str(error), kept=_kept(item), next=_next(item)) from error
        why = f"although {item.reason}" if item.reason and item.state != "waiting" else ""
        await self._decide(Decision(proposal=made.id, did="accepted", version=done.version, reason=why))
        return done

    async def _accept_skill(self, item: Item) -> Done:
        keeper, change = library(self._app), _change(item.proposal)
        if version := await _there(keeper, change):
            return Done(item=item, version=version)
        applied = await keeper.apply(change)
        if not applied.ok and (version := await _there(keeper, change)):  # what a crash had left of it was put in place
            return Done(item=item, version=version)
        if not applied.ok:
            raise UsageError(_why(item.proposal, applied), kept=_kept(item), next=_next(item))
        return Done(item=item, version=applied.version, diff=applied.diff)

    async def _accept_memory(self, item: Item) -> Done:
        notes, change = remembered(self._app), _noting(item.proposal)
        if not change.said and (said := (await evidence(self._app, change.session, item.proposal.turns)).said):
            change = structs.replace(change, said=_nearest(said, change))
        waits = item.source == "memory" and item.state == "waiting"
        noted: Noted = await (notes.accept(item.proposal.id, self._who) if waits else notes.apply(change))
        if not noted.ok:
            room = "melete memory edit makes room" if noted.full else _next(item)
            raise UsageError(noted.reason, kept=_kept(item), next=room)
        return Done(item=item, version=str(noted.number or ""), diff=item.proposal.diff, receipts=noted.receipts)

    async def reject(self, item: Item, reason: str = "") -> None:
        """Turn a lesson down; what it says is not proposed again. Raises UsageError for one that is in use or decided."""
        if item.state not in ("waiting", "refused"):
            raise _decided(item)
        if item.source == "memory" and item.state == "waiting":
            await remembered(self._app).reject(item.proposal.id, self._who)
        await self._decide(Decision(proposal=item.proposal.id, did="rejected", reason=self._app.redact(reason.strip())))

    def texts(self, item: Item) -> Mapping[str, str]:
        """What a person may reword in a lesson: texts by the names of their files; raises UsageError where there is nothing."""
        _may(item, anyway=True)
        change = _read(item.proposal)
        if isinstance(change, Noting):
            found = {f"{at}.md": step.content for at, step in enumerate(change.operations) if step.action != "remove"}
        else:
            found = {path: text for path, text in change.files.items() if text is not None}
        if not found:
            raise UsageError(f"{item.number} only takes something away: there is nothing to reword", next=_next(item))
        return found

    async def reword(self, item: Item, texts: Mapping[str, str]) -> Item:
        """Put a person's wording in the place of a lesson's, as a new one that waits; raises UsageError for what is not safe."""
        change, made = _read(item.proposal), item.proposal
        if isinstance(change, Noting):
            steps = tuple(
                structs.replace(step, content=texts.get(f"{at}.md", step.content).strip())
                for at, step in enumerate(change.operations)
            )
            change = structs.replace(change, operations=steps)
        else:
            change = structs.replace(change, files={**change.files, **texts})
        made = structs.replace(
            made, id=token_hex(6), status="inbox", change=msgspec.to_builtins(change), version="", number=0, at="", tokens=0,
            usd=None,
        )  # fmt: skip
        gated = await self._as_gated(made)
        verdicts = (form(gated, strict=_mistake), await asyncio.to_thread(self._safe, gated))
        if wrong := [one for one in verdicts if not one.ok]:
            raise UsageError(f"it cannot be kept: {wrong[0].reason}", next="mend it, and edit once more")
        diff = (
            told(change, gated.before)
            if isinstance(change, Noting)
            else _diff.load()(*map(_bytes, (gated.before, gated.after)))
        )
        made = structs.replace(made, diff=diff, hunks=hunks(diff), verdicts=verdicts)
        await self._app.ledger.append(made.kind, fields_of(made))
        if item.source == "memory" and item.state == "waiting":
            await remembered(self._app).reject(item.proposal.id, self._who)
        await self._decide(Decision(proposal=item.proposal.id, did="replaced", reason="reworded", by_proposal=made.id))
        return self.find(made.id)

    # ---- between the two ---------------------------------------------------------------------------------------------

    async def _decide(self, decision: Decision) -> None:
        await self._app.ledger.append(decision.kind, fields_of(decision))

    def _safe(self, gated: Proposal) -> Verdict:
        return safety(gated, gate_evidence.Evidence(), redact=lambda text: without_shapes(self._app.redact(text)))

    async def _as_gated(self, made: Proposed) -> Proposal:
        """The lesson as the gates look at it, its texts before and after."""
        change = _read(made)
        if isinstance(change, Noting):
            before = {str(at): step.old_text for at, step in enumerate(change.operations) if step.old_text}
            after = {str(at): step.content for at, step in enumerate(change.operations)}
            return Proposal(name=made.name, kind="memory", before=before, after=after, granted=True)
        keeper = library(self._app)
        versions = keeper.versions
        base = versions.tree(versions.find(change.name, change.base)) if change.base else {}
        before = {path: data.decode("utf-8", "replace") for path, data in base.items()}
        given = {path: text for path, text in change.files.items() if text is not None}
        kept = {path: text for path, text in before.items() if path not in change.files}
        return Proposal(name=made.name, before=before, after={**kept, **given}, base=change.base, granted=True)


def _read(made: Proposed) -> Change | Noting:
    return _as(made, Change) if made.target == "skill" else _as(made, Noting)


def _as(made: Proposed, kind: type[C]) -> C:
    try:
        return msgspec.convert(made.change, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"what {made.id} would change cannot be read: {error}", kept="nothing was changed") from error


def _change(made: Proposed) -> Change:
    """The change as a person has agreed to it: the agent's work all the same, so that it begins as a trial."""
    change = _as(made, Change)
    return structs.replace(
        change,
        author=change.author or "agent",
        granted=True,
        session=made.session,
        turns=made.turns,
        model=made.model,
        taint=_taint(made, change),
        reason=LEARNED.format(made.id),
    )


def _noting(made: Proposed) -> Noting:
    """The change of memory with where it comes from."""
    change = _as(made, Noting)
    return structs.replace(
        change,
        session=made.session,
        turn=change.turn or max(made.turns, default=0),
        model=made.model,
        taint=_taint(made, change),
        reason=LEARNED.format(made.id),
    )


def _taint(made: Proposed, change: Change | Noting) -> Taint:
    return cast("Taint", made.taint) if made.taint in get_args(Taint) and made.taint != "none" else change.taint


async def _there(keeper: "Keeper", change: Change) -> str:
    """The version of a skill that says already what the change would make of it; empty where it does not."""
    if change.name not in keeper:
        return ""
    tree = await asyncio.to_thread(_tree_of.load(), Path(keeper.get(change.name).folder))
    same = all(tree.get(path) == (None if text is None else text.encode()) for path, text in change.files.items())
    head = keeper.versions.head(change.name)
    return head.version if same and head else ""


def _nearest(said: Sequence[str], change: Noting) -> str:
    """The sentence that has most of the words of what is to be kept."""
    wanted = {word for step in change.operations for word in step.content.casefold().split()}
    return max(said, key=lambda text: len(wanted.intersection(text.casefold().split())))


def _mistake(text: str, name: str) -> str:
    try:
        _strict.load()(text, name=name)
    except MeleteError as error:
        return error.what
    return ""


def _bytes(files: Mapping[str, str]) -> Mapping[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


def _may(item: Item, *, anyway: bool) -> None:
    """Raise UsageError for a lesson that is not to be accepted."""
    if item.state == "waiting":
        return
    if item.state not in ("refused", "rejected"):
        raise _decided(item)
    if not item.by_a_person:
        raise UsageError(
            f"{item.number} was refused: {item.reason}", kept="nothing was changed", next="what is not safe stays out"
        )
    if not anyway:
        why = f": {item.reason}" if item.reason else ""
        raise UsageError(
            f"{item.number} was {item.state}{why}",
            kept="nothing was changed",
            next=f"take it all the same with: melete learn accept {item.number} --anyway",
        )


def _decided(item: Item) -> UsageError:
    if item.state in ("trial", "accepted"):
        return UsageError(f"{item.number} is in use", next=f"take it back with: melete learn undo {item.number}")
    other = f" by {item.decision.by_proposal}" if item.decision and item.decision.by_proposal else ""
    return UsageError(
        f"{item.number} was {item.state}{other} already", next=f"melete learn show {item.number} tells of it"
    )


def _why(made: Proposed, applied: Applied) -> str:
    """Why a change cannot be made, for a person."""
    if applied.conflict:
        return f"{made.name} was edited in the same lines since this was proposed"
    if "skill_view" in applied.reason:
        return f"there is a skill {made.name} by now, which this would replace"
    return applied.reason


def _kept(item: Item) -> str:
    return "it goes on waiting" if item.state == "waiting" else "nothing was changed"


def _next(item: Item) -> str:
    return f"melete learn edit {item.number} rewords it, melete learn reject {item.number} turns it down"
