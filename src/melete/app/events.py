"""The events of a run in one order, wherever it runs: facts from the log, deltas from the hub. Part of the composition root.

The order is that of `(seq, sub)`, a fact being number 0 of its own `seq`. Whoever was cut off goes on behind the last pair it saw.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from melete.agent.hub import Hub, Subscription
from melete.app.wire import Melete
from melete.core.errors import StoreError
from melete.core.event import Event, Fact, Lagged, RunEnded
from melete.core.session import SessionRef

Place = tuple[int, int]
log = logging.getLogger("melete.events")
AHEAD = 1_000
"""Facts that are read before the reader has taken them."""
START: Place = (0, 0)
ALIVE = 0.5
"""Seconds between two looks at whether anybody still owns a silent session."""


def place(event: Event) -> Place:
    """Where an event stands in the order of its session."""
    return event.seq, getattr(event, "sub", 0)


async def own_events(
    app: Melete, ref: SessionRef, *, hub: Hub, live: Subscription, after: Place = START, tick: float = 15.0
) -> AsyncGenerator[Event | None]:
    """Events behind `after` of a session that runs in this process, each once; None after `tick` seconds of silence.

    `live` is a reader that joined `hub` before this was called.
    """
    last = after
    seen = await _missed(app, ref, hub, after=last)
    while True:
        for event in seen:
            if place(event) > last:
                last = place(event)
                yield event
        event = await live.next(tick)
        if event is None and live.closed:
            return
        if isinstance(event, Lagged):
            seen = await _missed(app, ref, hub, after=last)
        elif event is None:
            yield None
            seen = ()
        else:
            seen = (event,)


async def _missed(app: Melete, ref: SessionRef, hub: Hub, *, after: Place) -> Sequence[Event]:
    """What is behind `after` so far: the stored facts that the hub has passed on, and the deltas that it keeps."""
    upto = hub.place
    if after >= upto:
        return ()
    deltas = [delta for delta in hub.kept(after=after) if place(delta) <= upto]
    facts: Sequence[Fact] = await app.store.facts(ref, after=after[0]) if after[0] < upto[0] else ()
    return sorted([*(fact for fact in facts if fact.seq <= upto[0]), *deltas], key=place)


async def stored_events(
    app: Melete, ref: SessionRef, *, run: str = "", after: Place = START, tick: float = 15.0
) -> AsyncGenerator[Event | None]:
    """Facts behind `after` as the log has them and gets them, whichever process writes; None after `tick` seconds of silence.

    With `run`, only that run's, and it ends with the run: with its last fact, or when nobody owns the session any more.
    """
    facts: asyncio.Queue[Fact | None] = asyncio.Queue(AHEAD)
    reading = app.group.create_task(_read(app, ref, after[0], facts))
    heard = time.monotonic()
    try:
        while True:
            try:
                async with asyncio.timeout(min(ALIVE, tick)):
                    fact = await facts.get()
            except TimeoutError:
                if time.monotonic() - heard >= tick:
                    heard = time.monotonic()
                    yield None
                if run and not await app.store.owned(ref) and await _over(app, ref, facts):
                    return
                continue
            if fact is None:
                return
            if not run or fact.run == run:
                heard = time.monotonic()
                yield fact
                if run and isinstance(fact, RunEnded):
                    return
    finally:
        reading.cancel()


async def _over(app: Melete, ref: SessionRef, facts: "asyncio.Queue[Fact | None]") -> bool:
    """Whether a session that nobody owned a moment ago has nothing more to say."""
    await asyncio.sleep(ALIVE / 2)
    return facts.empty() and not await app.store.owned(ref)


async def _read(app: Melete, ref: SessionRef, after: int, into: "asyncio.Queue[Fact | None]") -> None:
    """Pass the facts on as they are stored; None when the session is gone."""
    try:
        async with aclosing(app.store.follow(ref, after=after)) as facts:
            async for fact in facts:
                await into.put(fact)
    except StoreError as error:
        log.warning("the events of %s cannot be followed any further: %s", ref.id, error)
    await into.put(None)
