"""`session_search`: the past, of the same owner only.

Three modes, told apart by the arguments: a query discovers, a session scrolls, neither browses. Whatever is asked, a session of
somebody else is as good as none, and the conversation that asks is left out unless it is named.
"""

import posixpath
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from melete.core.errors import SessionNotFoundError
from melete.core.moment import moment
from melete.core.session import Hit, Line, Query, SessionInfo, SessionRef, Which
from melete.core.tool import Output, ToolContext, ToolError, tool
from melete.security.taint import UNTRUSTED
from melete.tools.group import Group

MOST = 20
HITS_EACH = 2
"""Hits of one chain of sessions at most."""
WINDOW = 5
"""Messages on each side when scrolling."""
NEAR = 3
"""Messages on each side in which a hit's neighbours are looked for."""
LONGEST = 2_000
"""Characters of the message that was asked for; of one beside it, and of a hit's neighbour, fewer are shown."""
BESIDE = 800
NEIGHBOUR = 160
SNIPPET = 400
TOKEN = 200
LATE = 1 << 60
ROLES = ("user", "assistant", "tool")
BEHIND = frozenset({"subagent", "tool", "cron", "batch", "review"})
"""Sources of sessions that nobody talked in: they are browsed last."""


@tool(parallel=True)
async def session_search(
    ctx: ToolContext,
    *,
    query: str = "",
    session_id: str = "",
    around: int = 0,
    limit: int = 3,
    role: str = "",
    since: str = "",
    until: str = "",
    source: str = "",
    tool: str = "",
    cwd: str = "",
    sort: Literal["best", "newest", "oldest"] = "best",
) -> Output:
    """Past conversations. query (words, "phrases", AND, OR, NOT) finds messages, by session; narrow it
    with role (user, assistant, tool), since and until (2026-01-31 or 7d), source, tool, cwd, session_id.
    session_id alone, with around (a hit's seq; -1: the end), shows the messages there.
    Nothing: the latest sessions."""
    limit = min(max(limit, 1), MOST)
    owner = ctx.session.ref.owner
    if session_id and not query.strip():
        return _tainted(await _scroll(ctx, await _named(ctx, session_id), around))
    if around:
        raise ToolError("around is a place in one session: give its session_id, without a query")
    which = Which(
        sources=_listed(source),
        cwd=posixpath.normpath(posixpath.join(ctx.env.cwd, cwd)) if cwd else "",
        since=_moment(ctx, since),
        until=_moment(ctx, until),
        session=(await _named(ctx, session_id)).id if session_id else "",
        without="" if session_id else ctx.session.ref.id,
    )
    if not query.strip():
        return _tainted(await _browse(ctx, which, limit))
    each = MOST if session_id else HITS_EACH
    wanted = Query(
        text=query,
        owner=owner,
        which=which,
        roles=_roles(role),
        tools=_listed(tool),
        order=sort,
        each=0 if session_id else each,
        limit=limit * each,
    )
    return _tainted(await _discover(ctx, await ctx.store.search(wanted), sessions=limit, each=each))


def _tainted(fields: dict[str, Any]) -> Output:
    """The result, from outside where one of its rows is."""
    sessions: list[dict[str, Any]] = fields.get("sessions", [])
    rows = [*fields.get("messages", []), *sessions, *(hit for one in sessions for hit in one.get("hits", []))]
    return Output(fields=fields, taint=next((row["from"] for row in rows if "from" in row), "tool"))


def _from(lines: Sequence[Line]) -> dict[str, str]:
    """What a row says of where its text comes from, where that is outside."""
    taint = next((line.taint for line in lines if line.taint in UNTRUSTED), "")
    return {"from": taint} if taint else {}


# ---- discover --------------------------------------------------------------------------------------------------------


async def _discover(ctx: ToolContext, hits: Sequence[Hit], *, sessions: int, each: int) -> dict[str, Any]:
    """The best hits of the best chains of sessions, in the order of the search."""
    chains: dict[str, dict[str, Any]] = {}
    for hit in hits:
        chain = hit.root or hit.session
        if chain not in chains and len(chains) >= sessions:
            continue
        found = chains.setdefault(chain, _heading(hit))
        if len(found["hits"]) < each:
            found["hits"].append(await _hit(ctx, hit, of=found["session_id"]))
    if not chains:
        return {"success": True, "sessions": [], "hint": "nothing matches: use other or fewer words, or fewer filters"}
    return {"success": True, "sessions": list(chains.values())}


def _heading(hit: Hit) -> dict[str, Any]:
    return {"session_id": hit.session, "title": hit.title, "source": hit.source, "hits": []}


async def _hit(ctx: ToolContext, hit: Hit, *, of: str) -> dict[str, Any]:
    """A hit with the message before it and the one after it; its session is named where it is another one of the chain."""
    row: dict[str, Any] = {"seq": hit.seq, "role": hit.role, "at": _time(hit.at), "snippet": _cut(hit.snippet, SNIPPET)}
    if hit.session != of:
        row["session_id"] = hit.session
    if hit.tool:
        row["tool"] = hit.tool
    ref = SessionRef(id=hit.session, owner=ctx.session.ref.owner)
    try:
        near = await ctx.store.scroll(ref, around=hit.seq, window=NEAR)
    except SessionNotFoundError:  # deleted since the index was read
        return row
    row |= _from(near)
    if before := _neighbour(line for line in reversed(near) if line.seq < hit.seq):
        row["before"] = before
    if after := _neighbour(line for line in near if line.seq > hit.seq):
        row["after"] = after
    return row


def _neighbour(lines: Iterable[Line]) -> str:
    """The nearest message of people or model: results of tools say little when they are cut."""
    line = next((line for line in lines if line.role != "tool" and line.text.strip()), None)
    return f"{line.role}: {_cut(' '.join(line.text.split()), NEIGHBOUR)}" if line else ""


# ---- scroll ----------------------------------------------------------------------------------------------------------


async def _scroll(ctx: ToolContext, ref: SessionRef, around: int) -> dict[str, Any]:
    """The messages round a fact; `earlier` and `later` are the places from which to go on."""
    middle = LATE if around < 0 else around
    near = await ctx.store.scroll(ref, around=middle, window=WINDOW + 1)
    at = max((number for number, line in enumerate(near) if line.seq <= middle), default=0)
    shown = near[max(0, at - WINDOW) : at + WINDOW + 1]
    found: dict[str, Any] = {
        "success": True,
        "session_id": ref.id,
        "title": (await ctx.store.info(ref)).title,
        "messages": [_line(line, LONGEST if line is near[at] else BESIDE) for line in shown],
    }
    if at > WINDOW:
        found["earlier"] = shown[0].seq
    if at + WINDOW + 1 < len(near):
        found["later"] = shown[-1].seq
    return found


def _line(line: Line, most: int) -> dict[str, Any]:
    row = {"seq": line.seq, "role": line.role, "at": _time(line.at), "text": _cut(line.text, most)}
    return {**row, **_from([line])}


# ---- browse ----------------------------------------------------------------------------------------------------------


async def _browse(ctx: ToolContext, which: Which, limit: int) -> dict[str, Any]:
    """The sessions that changed last, those that a person talked in first."""
    rows = await ctx.store.list(owner=ctx.session.ref.owner, which=which, limit=limit * 4)
    others = [row for row in rows if row.id != ctx.session.ref.id]
    behind = [row for row in others if row.parent or row.source in BEHIND]
    chosen = [*(row for row in others if row not in behind), *behind][:limit]
    return {"success": True, "sessions": [await _session(ctx, row) for row in chosen]}


async def _session(ctx: ToolContext, row: SessionInfo) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "session_id": row.id,
        "title": row.title,
        "updated": _time(row.updated),
        "messages": row.messages,
        "source": row.source,
        "cwd": row.cwd,
    }
    if not row.title:
        try:
            first = await ctx.store.scroll(SessionRef(id=row.id, owner=row.owner), around=0, window=0)
        except SessionNotFoundError:  # deleted meanwhile
            first = ()
        shown["begins"] = _cut(" ".join(first[0].text.split()), NEIGHBOUR) if first else ""
        shown |= _from(first)
    return shown


# ---- arguments -------------------------------------------------------------------------------------------------------


async def _named(ctx: ToolContext, name: str) -> SessionRef:
    try:
        return await ctx.store.find(name.strip(), owner=ctx.session.ref.owner)
    except SessionNotFoundError as error:
        raise ToolError(f"no session: {error.what}; search, or call without arguments for the latest") from error


def _moment(ctx: ToolContext, text: str) -> datetime | None:
    """A time, counted back from the beginning of the run that asks."""
    if not text.strip():
        return None
    state = ctx.session.transcript
    started = state.run or state.opened
    if started is None:
        raise ToolError("this session has no time to count from: write dates such as 2026-01-31")
    try:
        return moment(text, now=started.at)
    except ValueError as error:
        raise ToolError(str(error)) from error


def _roles(text: str) -> tuple[str, ...]:
    roles = _listed(text)
    if wrong := [role for role in roles if role not in ROLES]:
        raise ToolError(f"no messages have the role {wrong[0]!r}: use {', '.join(ROLES)}, or none")
    return roles


def _listed(text: str) -> tuple[str, ...]:
    """Names that commas part."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


# ---- bounds ----------------------------------------------------------------------------------------------------------


def _cut(text: str, most: int) -> str:
    """The beginning of the text, up to a space where one is near: half a key would not be known as one."""
    if len(text) <= most:
        return text
    begin = most - min(TOKEN, most // 2)
    end = max(text.rfind(space, begin, most) for space in " \n")
    return f"{text[: end if end > 0 else most]}… [{len(text)} characters]"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


class SessionTools(Group):
    """Searching past sessions."""

    name = "session_search"
    tools = (session_search,)
