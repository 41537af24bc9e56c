"""`session_search`: the past, of the same owner only."""

from collections.abc import Sequence
from typing import Any

from melete.core.errors import SessionNotFoundError
from melete.core.session import Hit, Line, Query
from melete.core.tool import ToolContext, ToolError, tool
from melete.tools.group import Group

MOST = 20
HITS_EACH = 3
WINDOW = 5
LONGEST = 2_000


@tool(parallel=True)
async def session_search(
    ctx: ToolContext, *, query: str = "", session_id: str = "", around: int = 0, limit: int = 3
) -> dict[str, Any]:
    """Past conversations: query finds messages, by session; session_id with around (a hit's seq)
    shows the messages there; without either, the latest sessions."""
    limit = min(max(limit, 1), MOST)
    if session_id:
        return await _scroll(ctx, session_id, around)
    if query.strip():
        hits = await ctx.store.search(Query(text=query, owner=ctx.session.ref.owner, limit=limit * HITS_EACH * 2))
        return {"success": True, "sessions": _by_session(hits, limit)}
    rows = await ctx.store.list(owner=ctx.session.ref.owner, limit=limit + 1)
    others = [row for row in rows if row.id != ctx.session.ref.id][:limit]
    return {
        "success": True,
        "sessions": [
            {"session_id": row.id, "title": row.title, "updated": f"{row.updated:%Y-%m-%d %H:%M}", "messages": row.messages}
            for row in others
        ],
    }  # fmt: skip


async def _scroll(ctx: ToolContext, name: str, around: int) -> dict[str, Any]:
    try:
        ref = await ctx.store.find(name, owner=ctx.session.ref.owner)
    except SessionNotFoundError as error:
        raise ToolError(f"no session {name!r}; search, or call without arguments for the latest") from error
    lines = await ctx.store.scroll(ref, around=around, window=WINDOW)
    return {"success": True, "session_id": ref.id, "messages": [_line(line) for line in lines]}


def _line(line: Line) -> dict[str, Any]:
    text = line.text if len(line.text) <= LONGEST else f"{line.text[:LONGEST]}… [{len(line.text)} characters]"
    return {"seq": line.seq, "role": line.role, "text": text}


def _by_session(hits: Sequence[Hit], limit: int) -> list[dict[str, Any]]:
    """The best hits of the best sessions, in the order of the search."""
    sessions: dict[str, dict[str, Any]] = {}
    for hit in hits:
        row = sessions.setdefault(
            hit.session, {"session_id": hit.session, "title": hit.title, "at": f"{hit.at:%Y-%m-%d %H:%M}", "hits": []}
        )
        if len(row["hits"]) < HITS_EACH:
            row["hits"].append({"seq": hit.seq, "role": hit.role, "snippet": hit.snippet})
    return list(sessions.values())[:limit]


class SessionTools(Group):
    """Searching past sessions."""

    name = "session_search"
    tools = (session_search,)
