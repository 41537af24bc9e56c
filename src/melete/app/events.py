"""The events of a run or a session in one order, wherever it runs: facts from the log, deltas from the hub. Composition root.

The order is that of `(seq, sub)`, a fact being number 0 of its own `seq`. Whoever was cut off goes on behind the last pair it saw.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

from melete.agent.hub import Hub, Subscription
from melete.app.wire import Melete
from melete.core.errors import StoreError
from melete.core.event import Event, Fact, Lagged, RunEnded
from melete.core.session import SessionRef

Place = tuple[int, int]
Batch = Sequence[Event]
Here = Callable[[str, Place], AsyncGenerator[Batch] | None]
log = logging.getLogger("melete.events")
MOST = 256
"""Events that are told at once."""
AHEAD = 64
"""Stored facts that are read before the reader has taken them: each may be large, and readers may be slow and many."""
START: Place = (0, 0)
ALIVE = 0.5
"""Seconds between two looks at whether anybody still owns a silent session."""


class Times(Protocol):
    """What a reader of stored facts has to know of the process that it reads in."""

    @property
    def settled(self) -> bool:
        """Whether what an earlier server left unfinished has been seen to: until then a run without an owner may get its end."""
        ...

    @property
    def over(self) -> bool:
        """Whether the process is about to end."""
        ...


def place(event: Event) -> Place:
    """Where an event stands in the order of its session."""
    return event.seq, getattr(event, "sub", 0)


async def own_events(
    app: Melete, ref: SessionRef, *, hub: Hub, live: Subscription, after: Place | None = START, tick: float = 15.0
) -> AsyncGenerator[Batch]:
    """Events behind `after` of a session that runs in this process, each once; an empty batch after `tick` seconds of silence.

    `live` is a reader that joined `hub` before this was called. With `after` None everything that is wanted is to come from there.
    It ends when `live` is closed.
    """
    last = START if after is None else after
    missed = after is not None
    while True:
        if missed:
            async with aclosing(_missed(app, ref, hub, after=last)) as earlier:
                async for batch in earlier:
                    yield batch
                    last = place(batch[-1])
        seen = await live.several(tick, most=MOST)
        missed = any(isinstance(event, Lagged) for event in seen)
        if not seen:
            if live.closed:
                return
            yield ()
        elif not missed and (fresh := [event for event in seen if place(event) > last]):
            yield fresh
            last = place(fresh[-1])


async def _missed(app: Melete, ref: SessionRef, hub: Hub, *, after: Place) -> AsyncGenerator[Batch]:
    """What is behind `after` so far, in order: the stored facts that the hub has passed on, and the deltas that it keeps."""
    upto = hub.place
    if after >= upto:
        return
    deltas = deque(delta for delta in hub.kept(after=after) if place(delta) <= upto)
    found: list[Event] = []
    if after[0] < upto[0]:
        async with aclosing(_until(app, ref, after=after[0], upto=upto[0])) as stored:
            async for fact in stored:
                while deltas and place(deltas[0]) < place(fact):
                    found.append(deltas.popleft())
                found.append(fact)
                if len(found) >= AHEAD:
                    for start in range(0, len(found), MOST):
                        yield found[start : start + MOST]
                    found = []
    found += deltas
    for start in range(0, len(found), MOST):
        yield found[start : start + MOST]


async def _until(app: Melete, ref: SessionRef, *, after: int, upto: int) -> AsyncGenerator[Fact]:
    """The stored facts behind `after` up to `upto`, none before it is taken; what cannot be read is not waited for."""
    async with aclosing(app.store.follow(ref, after=after)) as stored:
        while after < upto:
            try:
                async with asyncio.timeout(ALIVE):
                    fact = await anext(stored, None)
            except TimeoutError:
                return
            if fact is None or fact.seq > upto:
                return
            after = fact.seq
            yield fact


async def stored_events(
    app: Melete, ref: SessionRef, *, run: str, times: Times, after: Place = START, tick: float = 15.0
) -> AsyncGenerator[Batch]:
    """The facts of a run behind `after` as the log has them and gets them; an empty batch after `tick` seconds of silence.

    It ends with the run: with its last fact, when another run has begun in its session, or when nobody owns that any more.
    """
    heard = time.monotonic()
    seen = False
    async with _reading(app, ref, after[0]) as facts:
        while not times.over:
            try:
                found = await _next(facts, within=min(ALIVE, tick))
            except TimeoutError:
                if time.monotonic() - heard >= tick:
                    heard = time.monotonic()
                    yield ()
                if times.settled and await _abandoned(app, ref, facts):
                    return
                continue
            mine, over = _of_run(found, run, begun=seen)
            if mine:
                heard, seen = time.monotonic(), True
                yield mine
            if over or not found:
                return


def _of_run(facts: Sequence[Fact], run: str, *, begun: bool) -> tuple[Batch, bool]:
    """The facts of a run among some, and whether there will be no more of it."""
    mine: list[Fact] = []
    for fact in facts:
        if fact.run == run:
            mine.append(fact)
            if isinstance(fact, RunEnded):
                return mine, True
        elif fact.run and (begun or mine):
            return mine, True
    return mine, False


async def session_events(
    app: Melete, ref: SessionRef, *, here: Here, times: Times, after: Place = START, tick: float = 15.0
) -> AsyncGenerator[Batch]:
    """All events of a session behind `after`, without an end: facts from whichever process writes them, deltas of runs here.

    `here(session, place)` gives what is behind a place, to the end of the run that goes on in this process or has just ended;
    None where there is nothing. It ends when the session is deleted or the process is about to end.
    """
    last, heard = after, time.monotonic()
    facts: Sequence[Fact] = ()
    async with _reading(app, ref, after[0]) as stored:
        while not times.over:
            if (own := here(ref.id, last)) is not None:  # it comes first: deltas stand before the fact that ends them
                async with aclosing(own):
                    async for batch in own:
                        heard = time.monotonic()
                        last = place(batch[-1]) if batch else last
                        yield batch
            elif facts:
                fresh, facts = [fact for fact in facts if place(fact) > last], ()
                if fresh:
                    last, heard = place(fresh[-1]), time.monotonic()
                    yield fresh
            else:
                try:
                    facts = await _next(stored, within=min(ALIVE, tick))
                except TimeoutError:
                    if time.monotonic() - heard >= tick:
                        heard = time.monotonic()
                        yield ()
                else:
                    if not facts:
                        return


async def each(batches: AsyncGenerator[Batch]) -> AsyncGenerator[Event | None]:
    """The events one by one; None for an empty batch."""
    async with aclosing(batches):
        async for batch in batches:
            if not batch:
                yield None
            for event in batch:
                yield event


async def _abandoned(app: Melete, ref: SessionRef, facts: "asyncio.Queue[Fact | None]") -> bool:
    """Whether nobody owns a session, now and a moment later, and everything in its log has been read."""
    if await app.store.owned(ref):
        return False
    await asyncio.sleep(ALIVE / 2)
    return facts.empty() and not await app.store.owned(ref)


async def _next(facts: "asyncio.Queue[Fact | None]", *, within: float) -> Sequence[Fact]:
    """The next facts, none when the session is gone; raises TimeoutError when there are none for so many seconds."""
    if facts.empty():
        async with asyncio.timeout(within):
            first = await facts.get()
    else:
        first = facts.get_nowait()
    found: list[Fact] = []
    while first is not None:
        found.append(first)
        if facts.empty() or len(found) == MOST:
            return found
        first = facts.get_nowait()
    if found:
        facts.put_nowait(None)  # the next call tells of it
    return found


@asynccontextmanager
async def _reading(app: Melete, ref: SessionRef, after: int) -> AsyncGenerator["asyncio.Queue[Fact | None]"]:
    """The facts behind `after` as they are stored; None when the session is gone."""
    facts: asyncio.Queue[Fact | None] = asyncio.Queue(AHEAD)
    reading = app.group.create_task(_read(app, ref, after, facts))
    try:
        yield facts
    finally:
        reading.cancel()


async def _read(app: Melete, ref: SessionRef, after: int, into: "asyncio.Queue[Fact | None]") -> None:
    """Pass the facts on as they are stored, then None when there will be no more."""
    try:
        async with aclosing(app.store.follow(ref, after=after)) as facts:
            async for fact in facts:
                await into.put(fact)
    except StoreError as error:
        log.warning("the events of %s cannot be followed any further: %s", ref.id, error)
    except Exception:
        log.exception("following the events of %s failed", ref.id)
    await into.put(None)
