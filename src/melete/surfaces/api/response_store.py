"""Responses as the store has them: found again, gone on from, and deleted. A response is a run, and those that go on with it.

What a response leaves is its session's log. That it was deleted stands in the home's ledger.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from weakref import WeakValueDictionary

from msgspec import Struct

from melete.app.answers import AnswerSchema
from melete.app.fork import fork
from melete.app.recovery import CUT
from melete.app.serve import Server
from melete.core.errors import SessionBusyError, SessionNotFoundError
from melete.core.event import Fact, Opened, RunEnded, RunStarted
from melete.core.session import SessionRef
from melete.core.steps import steps
from melete.surfaces.api.chat_history import SURFACE
from melete.surfaces.api.errors import ApiError
from melete.surfaces.api.response_stream import ABOUT, NOTHING_NEW, Writer, response_id, wish_of
from melete.surfaces.api.response_types import Response, Wish

DELETED = "response.deleted"
"""The kind of the ledger's facts that say which response cannot be had any more."""
GIVEN_UP = "the program that made it has ended; what was stored is kept"
NO_RETRY = {"x-should-retry": "false"}
_ID = re.compile(r"resp_([0-9a-f]{16})")


class Found(Struct, frozen=True, kw_only=True):
    """A response that is stored: the facts of its session, and its runs, of which each goes on with the one before.

    `alive` while the last is being made; `pending` while it may still be taken up again after the end of a server.
    """

    ref: SessionRef
    facts: Sequence[Fact]
    chain: tuple[str, ...]
    started: RunStarted
    ended: RunEnded | None
    alive: bool
    pending: bool

    @property
    def run(self) -> str:
        """The run whose id it has."""
        return self.chain[0]

    @property
    def last(self) -> str:
        """The run that made its last items."""
        return self.chain[-1]

    @property
    def wish(self) -> Wish:
        """What was asked for."""
        return wish_of(self.started)

    def writer(self, *, after: int = NOTHING_NEW, schema: AnswerSchema | None = None) -> Writer:
        """A writer that has been told of nothing yet."""
        writer = Writer(self.run, after=after, schema=schema)
        writer.last = self.last
        return writer

    def own(self, after: int = 0) -> Iterator[Fact]:
        """The facts of its runs behind the number `after`; of one that may be taken up again, not the end that it got meanwhile."""
        for fact in self.facts:
            cut = self.pending and isinstance(fact, RunEnded) and fact.run == self.last
            if fact.seq > after and fact.run in self.chain and not cut:
                yield fact

    def told(self, schema: AnswerSchema | None) -> Response:
        """The response as it stands."""
        writer = self.writer(schema=schema)
        for fact in self.own():
            writer.take(fact)
        if self.ended is None and not self.alive and not self.pending:
            writer.given_up = GIVEN_UP
        return writer.response()


class Target(Struct, frozen=True, kw_only=True):
    """Where a response is to be made: in `session`, empty for a new one, which was `made` for it where it is a branch.

    `developer` are the instructions that count since earlier responses.
    """

    session: str = ""
    made: SessionRef | None = None
    developer: str = ""


class Shelf:
    """What a server knows of its responses beside the logs."""

    def __init__(self, server: Server) -> None:
        self.forgetting = asyncio.Lock()
        """Held while a session is removed."""
        self._server = server
        self._deleted: set[str] | None = None
        self._reading = asyncio.Lock()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, name: str) -> asyncio.Lock:
        """A lock that those share who go on from the same response."""
        return self._turns.setdefault(name, asyncio.Lock())

    # ---- finding -----------------------------------------------------------------------------------------------------

    async def find(self, id: str, *, owner: str) -> Found:
        """The response with this id; raises ApiError where there is none that the owner may see."""
        found = await self.look(id, owner=owner)
        if found is None:
            what = f"there is no response {id!r}"
            raise ApiError(
                404, "response_not_found", what, param="id", next="it may have been deleted, or never stored"
            )
        return found

    async def look(self, id: str, *, owner: str) -> Found | None:
        """The response with this id, None where there is none that the owner may see."""
        named = _ID.fullmatch(id)
        if named is None:
            return None
        run, runs = named[1], self._server.runs
        try:
            ref = await runs.where(run, owner=owner)
            settled = runs.settled
            facts, alive = await runs.read(ref, lambda facts: _chain(facts, run)[-1])
        except SessionNotFoundError:
            return None
        chain = _chain(facts, run)
        started = next((fact for fact in facts if isinstance(fact, RunStarted) and fact.run == run), None)
        if started is None or not wish_of(started).store or await self._is_deleted(_root(facts, run)):
            return None
        last = chain[-1]
        ended = next((fact for fact in reversed(facts) if isinstance(fact, RunEnded) and fact.run == last), None)
        alive = alive and (settled or runs.find(last) is not None)  # until then it may be owned by whoever closes it
        pending = not settled and not alive and (ended is None or ended.error == CUT)
        return Found(
            ref=ref,
            facts=facts,
            chain=chain,
            started=started,
            ended=None if pending else ended,
            alive=alive,
            pending=pending,
        )

    # ---- going on ----------------------------------------------------------------------------------------------------

    async def behind(self, previous: str, *, owner: str, surface: str, apart: bool = False) -> Target:
        """Where to go on from a response: in its session where that is its last one, else in a branch of its own.

        With `apart` it is always a branch; it is made for `surface`. Raises ApiError for a response that is not there or still
        being made.
        """
        found = await self.look(previous, owner=owner)
        if found is None:
            what = f"there is no response {previous!r} to go on from"
            next_ = "it may have been deleted, or never stored"
            raise ApiError(404, "previous_response_not_found", what, param="previous_response_id", next=next_)
        if found.ended is None and (found.alive or found.pending):
            what = f"the response {previous} is still being made"
            raise ApiError(409, "response_in_progress", what, param="previous_response_id", next="wait for its end")
        if not apart and _latest(found.facts).run == found.last:
            return Target(session=found.ref.id, developer=found.wish.developer)
        step = max((step.number for step in steps(found.facts) if step.run in found.chain and step.whole), default=0)
        if not step:
            what = f"the response {previous} has no answer to make a branch behind"
            raise ApiError(
                409, "previous_response_failed", what, param="previous_response_id", next="go on from another"
            )
        made = await fork(self._server.app, found.ref, step=step, surface=surface)
        return Target(session=made.ref.id, developer=found.wish.developer, made=made.ref)

    async def conversation(self, session: str, *, owner: str) -> Target:
        """Where to go on in a session that is named; raises ApiError for one that is not there."""
        try:
            ref = await self._server.app.store.find(session, owner=owner)
        except SessionNotFoundError:
            ref = None
        if ref is None or ref.id != session:
            what = f"there is no session {session!r}"
            raise ApiError(404, "conversation_not_found", what, param="conversation")
        facts = await self._server.app.store.facts(SessionRef(id=ref.id, owner=owner))
        return Target(session=ref.id, developer=wish_of(_latest(facts)).developer)

    # ---- deleting ----------------------------------------------------------------------------------------------------

    async def delete(self, found: Found) -> None:
        """Make the response one that cannot be had any more, and remove its session where it holds nothing else."""
        app = self._server.app
        if found.alive or found.pending:
            what = f"the response {response_id(found.run)} is still being made"
            raise ApiError(409, "response_in_progress", what, next="cancel it first", headers=NO_RETRY)
        deleted = await self._known()
        fields = {"run": found.run, "session": found.ref.id, "owner": found.ref.owner}
        await app.ledger.append(DELETED, fields, durable=True)
        deleted.add(found.run)
        if await self._is_empty(found.facts):
            try:
                await self._server.runs.warm.drop(found.ref.id)
                await app.store.delete(found.ref)
            except (SessionBusyError, SessionNotFoundError):  # somebody goes on in it, or was faster
                return

    async def _is_empty(self, facts: Sequence[Fact]) -> bool:
        """Whether all that a session was made for are responses that were deleted."""
        opened = facts[0]
        if not isinstance(opened, Opened) or opened.source != SURFACE:
            return False
        own = [fact for fact in facts if isinstance(fact, RunStarted) and fact.seq > opened.copied]
        return all([ABOUT in fact.about and await self._is_deleted(_root(facts, fact.run)) for fact in own])

    async def _is_deleted(self, run: str) -> bool:
        return run in await self._known()

    async def _known(self) -> set[str]:
        """The runs of deleted responses; read from the ledger once."""
        if self._deleted is None:
            async with self._reading:
                if self._deleted is None:
                    rows = await asyncio.to_thread(self._server.app.ledger.read, kind=DELETED)
                    self._deleted = {str(row.get("run", "")) for row in rows}
        return self._deleted


def _latest(facts: Sequence[Fact]) -> RunStarted:
    """The beginning of the last run of a session; an empty one where there was none."""
    return next((fact for fact in reversed(facts) if isinstance(fact, RunStarted)), RunStarted())


def _chain(facts: Sequence[Fact], run: str) -> tuple[str, ...]:
    """The run, and those that went on with it one after another."""
    found = [run]
    for fact in facts:
        if isinstance(fact, RunStarted) and fact.about.get("resumes") == found[-1]:
            found.append(fact.run)
    return tuple(found)


def _root(facts: Sequence[Fact], run: str) -> str:
    """The run that this one goes on with after the ends of servers, itself where it does not."""
    found = run
    for fact in reversed(facts):
        if isinstance(fact, RunStarted) and fact.run == found and "resumes" in fact.about:
            found = fact.about["resumes"]
    return found
