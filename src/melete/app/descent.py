"""A session with what it handed to children: they go with it. Part of the composition root."""

from melete.app.wire import Melete
from melete.core.delegation import SUBAGENT
from melete.core.session import SessionInfo, SessionRef, Which

ALL = 100_000


async def children_of(app: Melete, ref: SessionRef) -> list[SessionInfo]:
    """The sessions of a session's children and of theirs, each behind the one that delegated to it."""
    rows = await app.store.list(owner=ref.owner, which=Which(chain=ref.id, sources=(SUBAGENT,)), limit=ALL)
    found: list[SessionInfo] = []
    waiting = [ref.id]
    while waiting:
        parent = waiting.pop()
        below = [row for row in rows if row.parent == parent]
        found += below
        waiting += [row.id for row in below]
    return found


async def delete_session(app: Melete, ref: SessionRef) -> list[str]:
    """Remove a session for good, and those of its children, whose ids are returned.

    Raises SessionBusyError while one of them runs: then all stay.
    """
    children = [SessionRef(id=row.id, owner=row.owner) for row in await children_of(app, ref)]
    for one in (ref, *children):
        if await app.store.owned(one):
            await app.store.delete(one)  # says who runs it
    for one in (*reversed(children), ref):  # it stays to be asked for again until all below it are gone
        await app.store.delete(one)
    return [one.id for one in children]
