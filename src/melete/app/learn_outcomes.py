"""What came of what was learned: told to the ledger once a session is over or idle. Part of the composition root."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from melete.app.wire import Melete
from melete.core.errors import StoreError, UsageError
from melete.core.event import Fact, Notice, Opened
from melete.core.plugin import Lazy
from melete.core.session import SessionRef

if TYPE_CHECKING:
    from melete.learn.facts import Outcome, Task
    from melete.learn.outcomes import Before, Exposure

_outcomes: "Lazy[Callable[..., tuple[Sequence[Task], Sequence[Outcome]]]]" = Lazy("melete.learn.outcomes:outcomes")
_exposure: "Lazy[type[Exposure]]" = Lazy("melete.learn.outcomes:Exposure")
_before: "Lazy[type[Before]]" = Lazy("melete.learn.outcomes:Before")
_key_of: "Lazy[Callable[[Outcome], Any]]" = Lazy("melete.learn.outcomes:key_of")
_task: "Lazy[type[Task]]" = Lazy("melete.learn.facts:Task")
_outcome: "Lazy[type[Outcome]]" = Lazy("melete.learn.facts:Outcome")
_facts_of: Lazy[Callable[..., Iterator[Any]]] = Lazy("melete.learn.facts:facts_of")
_fields_of: Lazy[Callable[[Any], dict[str, Any]]] = Lazy("melete.learn.facts:fields_of")
_taught: Lazy[Callable[[str], frozenset[str]]] = Lazy("melete.learn.verbs:taught")
_changes: Lazy[Callable[..., Iterator[Any]]] = Lazy("melete.memory.fold:read_changes")
_version_of: Lazy[Callable[[str, str], str]] = Lazy("melete.memory.fold:version_of")
_alone: Lazy[Callable[..., Any]] = Lazy("melete.memory.files:alone")

log = logging.getLogger("melete.learn")
LOCK = "outcomes.lock"
PATIENCE = 60.0
"""Seconds that one process waits for another that tells outcomes."""
SKILLS, MEMORY = "skill.exposure", "memory.exposure"
FEEDBACK = "feedback:"
Verdict = Literal["good", "bad", "undone"]
Rows = Sequence[Mapping[str, Any]]


async def settle(app: Melete, session: str, facts: Sequence[Fact]) -> "Sequence[Outcome]":
    """Tell the ledger what came of each turn of a session that is over or idle, and of what was shown and loaded in it.

    `facts` are its whole log. What the ledger has is not told again, in whichever process; a turn that goes on
    is left for later. Returns what was told. Raises StoreError.
    """
    if any(isinstance(fact, Opened) and fact.source == "review" for fact in facts[:1]):
        return ()  # a review is no work of its own
    async with _turn(app):
        tasks, found = await asyncio.to_thread(_settled, app.ledger.read, session, facts)
        for fact in (*tasks, *found):
            await app.ledger.append(fact.kind, _fields_of.load()(fact), durable=False)
    return found


@asynccontextmanager
async def _turn(app: Melete) -> AsyncGenerator[None]:
    """One process at a time; what is stored nowhere needs no turn."""
    if app.ephemeral:
        yield
        return
    async with _alone.load()(app.loaded.home.state / LOCK, seconds=PATIENCE):
        yield


def _settled(
    read: Callable[[], Rows], session: str, facts: Sequence[Fact]
) -> "tuple[Sequence[Task], Sequence[Outcome]]":
    rows = read()
    shown = [*_skills(rows, session), *_memory(rows, session)]
    return _outcomes.load()(session, facts, shown, before=_known(rows, session))


def _known(rows: Rows, session: str) -> "Before":
    """What the ledger says already; the later fact of two counts."""
    tasks = {(one.session, one.turn): one for one in _facts_of.load()(_task.load(), rows)}
    calls: dict[str, list[int]] = {}
    for one in tasks.values():
        calls.setdefault(one.task, []).append(one.calls)
    key = _key_of.load()
    told = (one for one in _facts_of.load()(_outcome.load(), rows) if one.session == session)
    own = {one.turn: one for one in tasks.values() if one.session == session}
    return _before.load()(tasks=own, outcomes={key(one): one for one in told}, calls=calls)


def _skills(rows: Rows, session: str) -> "Iterator[Exposure]":
    made = _exposure.load()
    for row in rows:
        if row["kind"] != SKILLS or row.get("session") != session:
            continue
        how, at = row["how"], row["turn"]
        if how == "index":
            yield made(target="skill", name="", how=how, at=at, version=str(row.get("list", "")))
            continue
        for name, version, rank, tokens in row.get("skills", ()):
            yield made(target="skill", name=name, how=how, at=at, version=version, rank=rank, tokens=tokens)


def _memory(rows: Rows, session: str) -> "Iterator[Exposure]":
    """The entries of the prompt, and what each of them teaches by the text that it had then."""
    made, here = _exposure.load(), [row for row in rows if row["kind"] == MEMORY and row.get("session") == session]
    texts = _texts(rows if here else ())
    for row in here:
        at = row["turn"]
        yield made(target="memory", name="", how="shown", at=at, version=str(row.get("list", "")))
        for rank, (name, version, tokens) in enumerate(row.get("entries", ()), 1):
            teaches = _taught.load()(texts.get(version, ""))
            yield made(
                target="memory", name=name, how="shown", at=at, version=version, rank=rank, tokens=tokens, teaches=teaches
            )  # fmt: skip


def _texts(rows: Rows) -> Mapping[str, str]:
    """The text of each version of an entry that there ever was."""
    every = chain.from_iterable(change.rows for change in _changes.load()(rows))
    return {_version_of.load()(row.entry, row.text): row.text for row in every if row.text}


# ---- what a person says of it ----------------------------------------------------------------------------------------


async def judge(app: Melete, ref: SessionRef, verdict: Verdict, *, why: str = "") -> int:
    """Record what a person says of the last answer of a session; no message of the model's is changed by it.

    Returns the number of the fact. Raises UsageError where nothing was answered yet, SessionBusyError while the session runs.
    """
    async with app.store.claim(ref) as session:
        if not any(message.role == "assistant" for message in session.messages):
            raise UsageError("nothing was answered in this session yet", next="ask something first")
        (noted,) = await session.record(Notice(text=app.redact(why) or verdict, about=FEEDBACK + verdict), durable=True)
    return noted.seq


async def taken_back(app: Melete, ref: SessionRef, what: str) -> None:
    """As `judge` for what a person took back; what they did counts whether or not it can be noted."""
    try:
        await judge(app, ref, "undone", why=what)
    except (StoreError, UsageError) as error:
        log.warning("that it was taken back is not among the facts of %s: %s", ref.id, error)
