"""`/api/sessions`: the sessions of whoever asks, and of nobody else: listed, read, searched, followed, forked, spoken to.

What belongs to another key is answered as what is not there.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from melete.app.descent import delete_session
from melete.app.fork import fork as make_fork
from melete.core.errors import SessionNotFoundError, UsageError
from melete.core.event import Event, Fact, Reply, Said, Steered, ToolEnded
from melete.core.message import Audio, File, Image, Thinking
from melete.core.moment import moment
from melete.core.segments import segment_named, segments
from melete.core.session import Query, SessionInfo, SessionRef, Which
from melete.core.transcript import Transcript
from melete.surfaces.api import sse
from melete.surfaces.api.answers import JSON, Stream, body_of, note, query_of, server_of, who_of
from melete.surfaces.api.chat_request import model_named
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.inbox import SURFACE, deliver
from melete.surfaces.api.route import Route
from melete.surfaces.api.run_types import After, Delivered
from melete.surfaces.api.session_types import (
    AnswerSession,
    CallView,
    ForkMade,
    ForkWanted,
    HitList,
    MessageList,
    MessagesWanted,
    MessageView,
    Rename,
    SearchWanted,
    SessionList,
    SessionsWanted,
    SessionView,
    SteerSession,
)

ALL_OF_THEM = 1_000_000_000
SORTS: dict[str, Callable[[SessionInfo], Any]] = {
    "changed": lambda row: row.updated,
    "started": lambda row: row.started,
    "messages": lambda row: row.messages,
    "tokens": lambda row: row.usage.total,
    "cost": lambda row: row.cost_usd or 0.0,
    "size": lambda row: row.size,
}


# ---- many ------------------------------------------------------------------------------------------------------------------


async def listing(request: Request) -> Response:
    """The sessions of this key, the last changed first."""
    wanted, owner = query_of(request, SessionsWanted), who_of(request).owner
    store, end = server_of(request).app.store, wanted.offset + wanted.limit
    which = _which(request, wanted)
    if wanted.sort == "changed" and not wanted.running:  # the order of the tables: only these rows are read
        rows = await store.list(owner=owner, which=which, limit=wanted.limit + 1, offset=wanted.offset)
        return _answered(request, SessionList(data=tuple(rows[: wanted.limit]), has_more=len(rows) > wanted.limit))
    found = await store.list(owner=owner, which=which, limit=ALL_OF_THEM)
    kept = [row for row in found if row.running or not wanted.running]
    kept.sort(key=SORTS[wanted.sort], reverse=True)
    return _answered(request, SessionList(data=tuple(kept[wanted.offset : end]), has_more=len(kept) > end))


async def search(request: Request) -> Response:
    """What was said in the sessions of this key."""
    wanted, owner = query_of(request, SearchWanted), who_of(request).owner
    if not wanted.q.strip():
        raise ApiError(400, "empty_query", "there is nothing to look for", param="q")
    which = _which(request, wanted)
    if wanted.session:
        ref = await session_of(request, wanted.session)
        which = structs.replace(which, session=ref.id)
    query = Query(
        text=wanted.q,
        owner=owner,
        which=which,
        roles=(wanted.role,) if wanted.role else (),
        tools=_listed(wanted.tool),
        order=wanted.sort,
        each=wanted.each,
        limit=wanted.limit,
    )
    return _answered(request, HitList(data=tuple(await server_of(request).app.store.search(query))))


def _which(request: Request, wanted: SessionsWanted | SearchWanted) -> Which:
    now = server_of(request).app.clock.now()
    return Which(
        sources=_listed(wanted.source),
        models=_listed(wanted.model),
        cwd=wanted.cwd,
        since=_time("since", wanted.since, now),
        until=_time("until", wanted.until, now),
    )


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _time(name: str, text: str, now: datetime) -> datetime | None:
    try:
        return moment(text, now=now) if text else None
    except ValueError as error:
        raise ApiError(422, "invalid_time", str(error), param=name) from error


# ---- one -------------------------------------------------------------------------------------------------------------------


async def session_of(request: Request, id: str = "") -> SessionRef:
    """The session of this id, by default the address's, where the key may see it; raises ApiError."""
    name, owner = id or request.path_params["id"], who_of(request).owner
    try:
        found = (await server_of(request).app.store.find(name, owner=owner)).id
    except SessionNotFoundError:
        found = ""
    if found != name:  # the beginning of an id, or a title, is none
        raise ApiError(404, "not_found", f"there is no session {name!r}", next="see GET /api/sessions")
    note(request, session=found)
    return SessionRef(id=found, owner=owner)


async def show(request: Request) -> Response:
    """A session: what it is, what it cost, and what it does now."""
    store, ref = server_of(request).app.store, await session_of(request)
    info = await store.info(ref)
    facts = await store.facts(ref)
    state = Transcript(facts)
    alive = info.running and state.running
    questions = tuple(state.questions.values()) if alive else ()
    view = SessionView(
        **structs.asdict(info),
        state="waiting" if questions else "running" if alive else "idle",
        run=state.run.run if state.run else None,
        questions=questions,
        seq=state.seq,
        segments=tuple(segments(facts, ref.id)),
    )
    return _answered(request, view)


async def messages(request: Request) -> Response:
    """The messages of a session, also those that were taken out of the model's sight since."""
    wanted, ref = query_of(request, MessagesWanted), await session_of(request)
    facts = _of_segment(await server_of(request).app.store.facts(ref), ref, wanted.segment)
    facts = [fact for fact in facts if fact.seq > wanted.after]
    before = wanted.before
    found = [view for fact in facts if (before is None or fact.seq < before) and (view := _view(fact)) is not None]
    if wanted.order == "desc":
        found.reverse()
    made = MessageList(data=tuple(found[: wanted.limit]), has_more=len(found) > wanted.limit)
    return _answered(request, made)


def _of_segment(facts: Sequence[Fact], ref: SessionRef, name: str) -> Sequence[Fact]:
    """The facts of a segment, all of them where none is named; raises ApiError."""
    if not name:
        return facts
    one = segment_named(segments(facts, ref.id), name)
    if one is None:
        raise ApiError(404, "no_such_segment", f"the session has no segment {name!r}", param="segment")
    return [fact for fact in facts if one.first <= fact.seq <= one.last]


def _view(fact: Fact) -> MessageView | None:
    """The message that a fact holds, None where it holds none."""
    match fact:
        case ToolEnded(result=result):
            return MessageView(
                seq=fact.seq,
                run=fact.run,
                at=fact.at,
                role="tool",
                text=result.content,
                call=result.call,
                tool=result.name,
                outcome=fact.outcome,
                attachments=len(result.images),
            )
        case Said(message=message) | Steered(message=message) | Reply(message=message):
            thoughts = [part.text for part in message.parts if isinstance(part, Thinking) and part.text]
            return MessageView(
                seq=fact.seq,
                run=fact.run,
                at=fact.at,
                role=message.role,
                text=message.text,
                thinking="\n\n".join(thoughts),
                calls=tuple(CallView(id=c.id, name=c.name, arguments=c.arguments) for c in message.calls),
                model=fact.model if isinstance(fact, Reply) else "",
                origin=message.by.kind if message.by else "",
                attachments=sum(isinstance(part, Image | Audio | File) for part in message.parts),
            )
        case _:
            return None


async def events(request: Request) -> Response:
    """Everything that happens in a session, from its beginning or behind `Last-Event-ID`, without an end.

    Facts come from whichever process runs the session, pieces of answers only from this server. The stream ends when the session is
    deleted or the server stops.
    """
    server, wanted = server_of(request), query_of(request, After)
    after = sse.after(request.headers.get("last-event-id", "") or wanted.after)
    ref = await session_of(request)
    if after[0] and not await server.app.store.facts(ref, after=after[0] - 1):
        raise sse.ahead()
    tick = server.app.loaded.settings.server.keepalive
    stream = server.runs.session_events(ref, after=after, tick=tick)
    return Stream(sse.frames(stream, server.app.redact))


# ---- changes ---------------------------------------------------------------------------------------------------------------


async def rename(request: Request) -> Response:
    """Give a session a title."""
    wanted, ref = await body_of(request, Rename), await session_of(request)
    title = " ".join(wanted.title.split())
    if not title:
        raise ApiError(400, "empty_title", "the title is empty", param="title")
    store = server_of(request).app.store
    await store.rename(ref, title)
    return _answered(request, await store.info(ref))


async def delete(request: Request) -> Response:
    """Remove a session with all that belongs to it; one that runs is left as it is."""
    server, ref = server_of(request), await session_of(request)
    await server.runs.warm.drop(ref.id)
    await delete_session(server.app, ref)
    return Response(status_code=204)


async def fork(request: Request) -> Response:
    """Make a session that goes on from a step of this one, which stays as it is."""
    server = server_of(request)
    wanted = await body_of(request, ForkWanted) if await request.body() else ForkWanted()
    ref = await session_of(request)
    model = await model_named(server, wanted.model)
    title = " ".join(wanted.title.split())
    try:
        made = await make_fork(server.app, ref, step=wanted.step, title=title, model=model, surface=SURFACE)
    except UsageError as error:
        raise ApiError(422, "no_such_step", error.what, param="step", next=error.next) from error
    note(request, session=made.ref.id)
    view = ForkMade(
        id=made.ref.id,
        forked_from=made.forked_from,
        step=made.step,
        facts=made.facts,
        title=made.title,
        model=made.model,
    )
    return _answered(request, view, status=201)


async def steer(request: Request) -> Response:
    """Say something to a session without stopping it; where nothing runs, it waits for the next run."""
    wanted, ref = await body_of(request, SteerSession), await session_of(request)
    if not wanted.text.strip():
        raise ApiError(400, "empty_text", "there is no text", param="text")
    return await deliver(request, ref, "queue" if wanted.queue else "steer", text=wanted.text)


async def reply(request: Request) -> Response:
    """Answer an open question of a session; the first answer counts."""
    wanted, ref = await body_of(request, AnswerSession), await session_of(request)
    question = wanted.question
    if not question:
        state = Transcript(await server_of(request).app.store.facts(ref))
        if len(state.questions) != 1:
            what = f"{len(state.questions) or 'no'} questions are open"
            raise ApiError(409, "which_question", what, param="question", next="name one by its id")
        question = next(iter(state.questions))
    return await deliver(request, ref, "answer", text=wanted.value, question=question)


async def cancel(request: Request) -> Response:
    """Stop what a session does; what it has stored is kept."""
    return await deliver(request, await session_of(request), "cancel")


def _answered(request: Request, value: Any, *, status: int = 200) -> Response:
    """The value as JSON, known secrets taken out."""
    text = server_of(request).app.redact(msgspec.json.encode(value).decode())
    return Response(text, status_code=status, media_type=JSON)


ALL, ONE, TAG = "/api/sessions", "/api/sessions/{id}", "sessions"
ROUTES: Sequence[Route] = (
    Route(method="GET", path=ALL, handler=listing, tag=TAG, gives=SessionList, query=SessionsWanted, errors=(422,)),
    Route(
        method="GET",
        path=f"{ALL}/search",
        handler=search,
        tag=TAG,
        gives=HitList,
        query=SearchWanted,
        errors=(404, 422),
    ),
    Route(method="GET", path=ONE, handler=show, tag=TAG, gives=SessionView, errors=(404,)),
    Route(
        method="PATCH",
        path=ONE,
        handler=rename,
        tag=TAG,
        acts=True,
        takes=Rename,
        example={"title": "The leak in the parser"},
        gives=SessionInfo,
        errors=(404, 409),
    ),
    Route(method="DELETE", path=ONE, handler=delete, tag=TAG, acts=True, status=204, errors=(404, 409)),
    Route(
        method="GET",
        path=f"{ONE}/messages",
        handler=messages,
        tag=TAG,
        gives=MessageList,
        query=MessagesWanted,
        errors=(404,),
    ),
    Route(
        method="GET",
        path=f"{ONE}/events",
        handler=events,
        tag=TAG,
        stream=True,
        events=Event,
        query=After,
        headers=("Last-Event-ID",),
        errors=(404,),
    ),
    Route(
        method="POST",
        path=f"{ONE}/fork",
        handler=fork,
        tag=TAG,
        acts=True,
        takes=ForkWanted,
        example={"title": "Another way"},
        optional=True,
        gives=ForkMade,
        status=201,
        errors=(404, 422, 503),
    ),
    Route(
        method="POST",
        path=f"{ONE}/steer",
        handler=steer,
        tag=TAG,
        acts=True,
        takes=SteerSession,
        example={"text": "Leave the tests as they are."},
        gives=Delivered,
        errors=(404, 409, 422),
    ),
    Route(
        method="POST",
        path=f"{ONE}/answer",
        handler=reply,
        tag=TAG,
        acts=True,
        takes=AnswerSession,
        example={"value": "once"},
        gives=Delivered,
        errors=(404, 409, 422),
    ),
    Route(
        method="POST", path=f"{ONE}/cancel", handler=cancel, tag=TAG, acts=True, gives=Delivered, errors=(404, 409, 422)
    ),
)
