"""Old sessions: what would go by which rule, and removing exactly that. Part of the composition root."""

import asyncio
from datetime import timedelta

from msgspec import Struct

from melete.app.settings import Loaded
from melete.app.sizes import size_of
from melete.app.wire import Melete
from melete.core.errors import SessionBusyError, SessionNotFoundError
from melete.core.ports import Clock
from melete.core.session import SessionRef
from melete.store.retention import (
    Candidate,
    Choice,
    Chosen,
    Holdings,
    Left,
    Rules,
    choose,
    discard,
    holdings,
    unchanged,
)

__all__ = ["Chosen", "Plan", "Removed", "Rules", "caps", "carry_out", "plan"]

EVERYTHING = 1_000_000_000


class Plan(Struct, frozen=True, kw_only=True):
    """What would go; `held` is all that there is."""

    choice: Choice
    held: Holdings
    set_aside: tuple[Left, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that would be free, those of the projections not counted."""
        damaged = {f"{one.session.id}.damaged" for one in self.choice.gone}  # they go with their sessions
        return self.choice.size + sum(
            left.size for left in self.set_aside if left.path.rpartition("/")[2] not in damaged
        )


class Removed(Struct, frozen=True, kw_only=True):
    """What went; `skipped` are sessions that something happened to in the meantime, with what it was."""

    sessions: int = 0
    files: int = 0
    size: int = 0
    skipped: tuple[Chosen, ...] = ()


def caps(loaded: Loaded, clock: Clock) -> tuple[Rules, ...]:
    """The limits that the settings set, none when they set none; raises UsageError."""
    settings = loaded.settings.sessions
    found: list[Rules] = []
    if settings.keep_days is not None:
        found.append(Rules(before=clock.now() - timedelta(days=settings.keep_days)))
    if settings.max_bytes is not None:
        where = f"{loaded.origin('sessions.max_bytes').where}: sessions.max_bytes"
        found.append(Rules(max_bytes=size_of(settings.max_bytes, where=where)))
    return tuple(found)


async def plan(app: Melete, rules: tuple[Rules, ...], *, set_aside: bool = False) -> Plan:
    """What these rules would remove now; changes nothing."""
    rows = await app.store.list(limit=EVERYTHING)
    held = await asyncio.to_thread(holdings, app.loaded.home.state)
    candidates = [Candidate(session=row, held=held.sessions[row.id]) for row in rows if row.id in held.sessions]
    return Plan(
        choice=choose(candidates, rules, now=app.clock.now()),
        held=held,
        set_aside=(*held.set_aside, *held.orphans) if set_aside else (),
    )


async def carry_out(app: Melete, planned: Plan) -> Removed:
    """Remove what was planned; sessions that have changed since stay. Each removal is written into the ledger."""
    state, skipped = app.loaded.home.state, list[Chosen]()
    size = count = files = 0
    for one in planned.choice.gone:
        if why := await _kept(app, one.candidate):
            skipped.append(Chosen(candidate=one.candidate, why=why))
        else:
            count, size = count + 1, size + one.size
    removed = [left for left in planned.set_aside if discard(state, left)]
    if removed:
        files, size = len(removed), size + sum(left.size for left in removed)
        await app.ledger.append("files.discarded", {"paths": [left.path for left in removed]})
    return Removed(sessions=count, files=files, size=size, skipped=tuple(skipped))


async def _kept(app: Melete, candidate: Candidate) -> str:
    """Remove a session; why it stayed, empty when it is gone."""
    session = candidate.session
    if not unchanged(app.loaded.home.state, candidate):
        return "it has changed since"
    try:
        await app.store.delete(SessionRef(id=session.id, owner=session.owner))
    except SessionBusyError:
        return "it runs now"
    except SessionNotFoundError:
        return "it was gone already"
    return ""
