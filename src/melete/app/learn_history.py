"""The story of what was learned: who said what, what the work showed, the edit, the gates, its use, and what came of it.

Part of the composition root. Everything here is read from the ledger, the sessions' logs and the blobs.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, structs

from melete.app.learn_evidence import Evidence, evidence
from melete.app.memory import remembered
from melete.app.skill_shelf import noticed
from melete.app.skills import library
from melete.app.wire import Melete
from melete.core.errors import UsageError
from melete.core.memory import Past, Target
from melete.core.skill import MAIN, Version
from melete.core.tool import ToolError
from melete.learn.facts import Debt, Decision, Outcome, Review, Undo, facts_of
from melete.learn.inbox import FILES, TAKEN_BACK, Item, inbox
from melete.learn.lineage import Row, blamed, decisions, is_change, likeliest, made_by, named
from melete.learn.verdict import Verdict

if TYPE_CHECKING:
    from melete.skills.manage import Keeper

MEMORY: dict[str, Target] = {"memory": "memory", "user": "user", "MEMORY.md": "memory", "USER.md": "user"}
REVIEW = "review"
"""The author of what a review has proposed."""


class Use(Struct, frozen=True, kw_only=True):
    """That a session had it before it."""

    session: str
    at: str
    how: str


class Effect(Struct, frozen=True, kw_only=True):
    """What came of its use with one model: `followed` of the `uses` were by its commands, and only these count for the reward."""

    model: str
    uses: int
    followed: int
    corrected: int
    reward: float
    calls: float
    before: float


class Step(Struct, frozen=True, kw_only=True):
    """One change in the life of a skill or of memory."""

    number: int
    at: str
    target: Literal["skill", "memory"]
    name: str
    did: str
    author: str = ""
    session: str = ""
    version: str = ""
    state: str = ""
    reason: str = ""


class Story(Struct, frozen=True, kw_only=True):
    """Where a change came from and what came of it: `lesson` is the number of its proposal, 0 where the agent wrote it in its work.

    `signals` are what was noticed in the session, `since` what happened to it afterwards.
    """

    step: Step
    lesson: int = 0
    turns: tuple[int, ...] = ()
    said: str = ""
    model: str = ""
    taint: str = "none"
    evidence: Evidence = Evidence()
    signals: tuple[Debt, ...] = ()
    review: Review | None = None
    diff: str = ""
    verdicts: tuple[Verdict, ...] = ()
    decisions: tuple[Decision, ...] = ()
    uses: tuple[Use, ...] = ()
    effects: tuple[Effect, ...] = ()
    since: tuple[Step, ...] = ()


class Line(Struct, frozen=True, kw_only=True):
    """A line of a skill or of memory with the change that it came in with, and the words or the call that it came from."""

    line: int
    text: str
    number: int = 0
    at: str = ""
    version: str = ""
    author: str = ""
    session: str = ""
    turn: int = 0
    source: str = ""


# ---- what happened ---------------------------------------------------------------------------------------------------


def history(app: Melete, name: str = "", *, session: str = "") -> list[Step]:
    """Everything that was learned, undone and decided, the oldest first; of one name or session where it is given."""
    rows = app.ledger.read()
    items = inbox(rows)
    changes = [row for row in rows if is_change(row)]
    covered = {number for item in items for number in made_by(changes, item)}
    steps = [_of_item(item) for item in items]
    for row in changes:
        if row["number"] not in covered and (name or row.get("author") == "agent"):
            steps += _of_row(row)
    steps += (_of_undo(one, items) for one in facts_of(Undo, rows) if not name)
    found = [one for one in steps if (not name or one.name in _names(name)) and session in ("", one.session)]
    return sorted(found, key=lambda one: one.number)


def _names(name: str) -> set[str]:
    """What a skill or a file of memory is called."""
    return {name, MEMORY[name], FILES[MEMORY[name]]} if name in MEMORY else {name}


def _of_undo(one: Undo, items: Sequence[Item]) -> Step:
    names = dict.fromkeys(item.proposal.name for item in items if item.proposal.id in one.proposals)
    about = ", ".join(names) or (f"session {one.session}" if one.session else "a change")
    common: dict[str, Any] = {"number": one.number, "at": one.at, "author": one.by, "session": one.session}
    return Step(target="skill", name=about, did="brought back" if one.of else "undone", **common)


def _of_item(item: Item) -> Step:
    made = item.proposal
    author = REVIEW if made.review else "user" if made.did == TAKEN_BACK else "agent"
    return Step(
        number=item.number, at=item.at, target=made.target, name=made.name, did=made.did, session=made.session,
        author=author, version=item.version, state=item.state, reason=item.reason,
    )  # fmt: skip


def _of_row(row: Row) -> Iterator[Step]:
    """A change that no lesson was proposed for: the agent's in its work, or a person's."""
    common: dict[str, Any] = {key: row.get(key, "") for key in ("at", "author", "session", "reason")}
    common["number"] = row["number"]
    if row["kind"] == "memory.change":
        did = ", ".join(dict.fromkeys(str(one["did"]) for one in row["rows"])) or "changed"
        yield Step(target="memory", name=FILES[row["target"]], did=did, version=str(row["number"]), **common)
    elif row["kind"] == "skill.state":
        yield Step(target="skill", name=row["skill"], did="archived", **common)
    else:
        did = "patched" if row.get("parent") else "created"
        yield Step(
            target="skill", name=row["skill"], did=did, version=row["version"], state=row.get("state", ""), **common
        )


# ---- why -------------------------------------------------------------------------------------------------------------


async def story(app: Melete, name: str) -> Story:
    """The story of a skill, of an entry of memory by its id, of `memory` or `user`, or of the change with this number.

    It is that of the last change that was learned. Raises UsageError for what nothing was learned of.
    """
    if name in library(app):
        await noticed(library(app), name)
    rows = app.ledger.read()
    row, item = _chosen(rows, name)
    if row is None and item is None:
        known = name in library(app)
        what = (
            f"the agent has learned nothing about {name}: others wrote it"
            if known
            else f"nothing was learned of {name!r}"
        )
        raise UsageError(what, next=f"see: melete {'skills history ' + name if known else 'learn log'}")
    return await _told(app, rows, row, item)


def _chosen(rows: Sequence[Row], name: str) -> tuple[Row | None, Item | None]:
    """The change that is meant and its lesson, as far as there are any."""
    items = inbox(rows)
    changes = {row["number"]: row for row in rows if is_change(row)}
    if found := named(rows, name):
        if found.items:
            mine = max(made_by(rows, found.items[-1]), default=0)
            return changes.get(mine), found.items[-1]
        return changes[min(found.numbers)] if found.numbers else None, None
    learned = [row for row in changes.values() if row.get("session") and _is_of(row, name)]
    row = learned[-1] if learned else None
    mine = [item for item in items if row and row["number"] in made_by([*changes.values()], item)]
    if row is None:  # nothing of it is in use, it may wait all the same
        mine = [item for item in items if item.proposal.name in _names(name)]
    return row, mine[-1] if mine else None


def _is_of(row: Row, name: str) -> bool:
    if "skill" in row:
        return row["skill"] == name
    if name in MEMORY:
        return row["target"] == MEMORY[name]
    return any(one["entry"] == name for one in row["rows"])


async def _told(app: Melete, rows: Sequence[Row], row: Row | None, item: Item | None) -> Story:
    if item is None:
        return await _unproposed(app, rows, row or {})
    made, step = item.proposal, _of_item(item)
    reviews = [one for one in facts_of(Review, rows) if made.review and one.id == made.review]
    return Story(
        step=step,
        lesson=item.number,
        turns=made.turns,
        said=item.said,
        model=made.model,
        taint=made.taint,
        evidence=await evidence(app, made.session, made.turns),
        signals=_signals(rows, made.session, before=item.number),
        review=reviews[-1] if reviews else None,
        diff=made.diff,
        verdicts=made.verdicts,
        decisions=tuple(decisions(rows, item)),
        **(_after(rows, row) if row else {}),
    )


async def _unproposed(app: Melete, rows: Sequence[Row], row: Row) -> Story:
    """The story of a change that was made in the work itself, by the agent or a person."""
    turns = tuple(row.get("turns") or ([row["turn"]] if row.get("turn") else ()))
    step = next(_of_row(row))
    return Story(
        step=step,
        turns=turns,
        said=row.get("said", ""),
        model=row.get("model", ""),
        taint=row.get("taint", "none"),
        evidence=await evidence(app, step.session, turns),
        signals=_signals(rows, step.session, before=step.number),
        diff=_diff(app, rows, row),
        **_after(rows, row),
    )


def _signals(rows: Sequence[Row], session: str, *, before: int) -> tuple[Debt, ...]:
    return tuple(one for one in facts_of(Debt, rows) if session and one.session == session and one.number < before)


def _after(rows: Sequence[Row], row: Row) -> dict[str, Any]:
    """What came of a change: its use, the effects, and the later changes of the same."""
    later = [one for one in rows if one["number"] > row["number"] and is_change(one) and _same(one, row)]
    reviewed = _reviewed(rows)
    return {
        "uses": tuple(_uses(rows, row)),
        "effects": tuple(_effects(rows, row)),
        "since": tuple(
            structs.replace(step, author=reviewed.get(step.number, step.author))
            for one in later
            for step in _of_row(one)
        ),
    }


def _same(later: Row, row: Row) -> bool:
    """Whether a later change is about the same skill or the same entries."""
    if "skill" in row or "skill" in later:
        return later.get("skill") == row.get("skill")
    return bool({one["entry"] for one in later["rows"]} & {one["entry"] for one in row["rows"]})


def _diff(app: Melete, rows: Sequence[Row], row: Row) -> str:
    """What a change has changed."""
    if row["kind"] == "skill.version":
        return library(app).versions.diff(row["skill"], old=row.get("parent", ""), new=row["version"])
    if row["kind"] != "memory.change":
        return ""
    texts: dict[str, str] = {}
    for other in rows:
        if other["kind"] == "memory.change" and other["number"] < row["number"]:
            texts |= {one["entry"]: one.get("text", "") for one in other["rows"] if one["did"] != "confirmed"}
    said: list[str] = [f"--- a/{FILES[row['target']]}", f"+++ b/{FILES[row['target']]}"]
    for one in row["rows"]:
        old = texts.get(one["entry"], "")
        said += [f"@@ {one['did']} {one['entry']} @@", *(f"-{line}" for line in old.splitlines())]
        said += [f"+{line}" for line in one.get("text", "").splitlines()]
    return "\n".join(said)


def _uses(rows: Sequence[Row], row: Row) -> Iterator[Use]:
    """The sessions that had just this before them: a version that was loaded, entries that stood in the prompt."""
    if "skill" in row:
        mine = [row["skill"], row.get("version", "")]
        for one in rows:
            if (
                one["kind"] == "skill.exposure"
                and one.get("how") == "loaded"
                and any(s[:2] == mine for s in one["skills"])
            ):
                yield Use(session=one["session"], at=one["at"], how="loaded")
        return
    entries = {one["entry"] for one in row["rows"]}
    for one in rows:
        later = one["kind"] == "memory.exposure" and one["number"] > row["number"]
        if later and any(entry[0] in entries for entry in one.get("entries", ())):
            yield Use(session=one["session"], at=one["at"], how="shown")


def _effects(rows: Sequence[Row], row: Row) -> Iterator[Effect]:
    if "skill" not in row:
        return
    mine = [one for one in facts_of(Outcome, rows) if (one.name, one.version) == (row["skill"], row.get("version"))]
    for model in dict.fromkeys(one.model for one in mine):
        some = [one for one in mine if one.model == model]
        counted = [one for one in some if one.credited] or some
        yield Effect(
            model=model,
            uses=len(some),
            followed=sum(one.credited for one in some),
            corrected=sum(one.corrected for one in some),
            reward=sum(one.reward for one in counted) / len(counted),
            calls=sum(one.calls for one in counted) / len(counted),
            before=sum(one.median for one in counted) / len(counted),
        )


# ---- blame -----------------------------------------------------------------------------------------------------------


async def blame(app: Melete, name: str, *, path: str = MAIN, who: str = "") -> list[Line]:
    """Each line of a skill's file, or of `memory` or `user`, with where it came from; raises UsageError, ToolError."""
    if name in MEMORY:
        return await _blame_memory(app, MEMORY[name], who)
    keeper = library(app)
    if name not in keeper:
        raise UsageError(f"there is no skill {name!r}", next="melete skills list names all; memory and user are files")
    skill = keeper.get(name)
    await noticed(keeper, skill.name)
    known = [one for one in keeper.versions.history(skill.name) if path in one.files]
    if not known:
        raise UsageError(
            f"{skill.name} has no history of a file {path}", next=f"see: melete skills history {skill.name}"
        )
    found = blamed([(one, _text(keeper, one, path)) for one in known])
    sources, reviewed = _Sources(app), _reviewed(app.ledger.read())
    return [
        Line(
            line=at, text=text, number=one.number, at=one.at, version=one.version, author=reviewed.get(one.number, one.author),
            session=one.session, turn=max(one.turns, default=0), source=await sources.of(text, one.session, one.turns),
        )
        for at, (one, text) in enumerate(found, 1)
    ]  # fmt: skip


def _reviewed(rows: Sequence[Row]) -> dict[int, str]:
    """The numbers of the changes that reviews have made, each with its author."""
    changes = [row for row in rows if is_change(row)]
    return {number: REVIEW for item in inbox(rows) if item.proposal.review for number in made_by(changes, item)}


def _text(keeper: "Keeper", made: Version, path: str) -> str:
    return keeper.versions.tree(made)[path].decode("utf-8", "replace")


async def _blame_memory(app: Melete, target: Target, who: str) -> list[Line]:
    notes, sources, lines = remembered(app), _Sources(app), list[Line]()
    reviewed = _reviewed(app.ledger.read())
    past: Sequence[Past] = await notes.history("", who)
    for entry in await notes.entries(who, target):
        known = [(one, one.text) for one in past if one.entry == entry.id and one.text]
        for one, text in blamed(known):
            turns = (one.turn,) if one.turn else ()
            source = f"“{one.said}”" if one.said else await sources.of(text, one.session, turns)
            lines.append(
                Line(
                    line=len(lines) + 1, text=text, number=one.number, at=one.at.isoformat() if one.at else "",
                    version=one.version, author=reviewed.get(one.number, one.author), session=one.session, turn=one.turn,
                    source=source,
                )
            )  # fmt: skip
    return lines


class _Sources:
    """The words and calls that lines came from; each session's are read once."""

    def __init__(self, app: Melete) -> None:
        self._app = app
        self._known: dict[tuple[str, tuple[int, ...]], Evidence] = {}

    async def of(self, line: str, session: str, turns: tuple[int, ...]) -> str:
        """The call that has most of a line in it, or else the person's words; empty where nothing is known."""
        if not session or not line.strip():
            return ""
        if (session, turns) not in self._known:
            self._known[session, turns] = await evidence(self._app, session, turns)
        found = self._known[session, turns]
        texts = [(f"“{said}”", said) for said in found.said]
        texts += [(f"{one.tool} {one.seq}: {one.asked}", one.asked) for one in found.calls if one.status != "failed"]
        return likeliest(line, texts) or ""


# ---- what changed, and back ------------------------------------------------------------------------------------------


def changed(app: Melete, name: str) -> str:
    """What the lesson, change or undo with this number has changed, as a unified diff; raises UsageError for none."""
    rows = app.ledger.read()
    found = named(rows, name)
    if found is None:
        raise UsageError(f"{name!r} is no skill and nothing that was learned", next="see: melete learn log")
    if found.of is None and found.items:
        return found.items[-1].proposal.diff
    return "\n".join(_diff(app, rows, row) for row in rows if row["number"] in found.numbers)


async def put_back(app: Melete, name: str, version: str, *, reason: str = "") -> str:
    """Make a skill, or an entry of memory by its version, what it was, and say what was done. Raises UsageError, ToolError."""
    keeper = library(app)
    if name in keeper or keeper.versions.history(name):
        applied = await keeper.revert(name, version, reason=reason)
        return f"{name} is as it was in {applied.version}.\n{applied.diff}"
    if name.isdecimal():
        raise UsageError(f"{name} is the number of a lesson", next=f"take it back with: melete learn undo {name}")
    try:
        noted = await remembered(app).revert(version or name)
    except ToolError as error:
        raise UsageError(f"{name!r} is no skill and no version in memory", next="see: melete memory history") from error
    if not noted.ok:
        raise UsageError(noted.reason, kept="nothing was changed")
    return "\n".join(("It is put back.", *noted.receipts))
