"""Fan-out of one session's events to any number of readers; the loop never waits for one. Layer 2.

Facts arrive here after they are stored. Deltas get the last fact's `seq` and a `sub` of their own; those since the last fact
are kept, so that a reader who joins in mid-answer sees all of it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType

import msgspec

from melete.core.event import CallDelta, Delta, Event, Fact, Lagged, TextDelta, ThinkingDelta, ToolProgress
from melete.core.ports import Clock

KEPT_DELTAS = 20_000
QUEUE = 5_000


class Subscription:
    """One reader's queue: iterate it; it ends when the hub closes. A reader too slow for it gets `Lagged` and goes on."""

    def __init__(self, hub: "Hub", limit: int) -> None:
        self._hub = hub
        self._limit = limit
        self._events: deque[Event] = deque()
        self._ready = asyncio.Event()
        self._closed = False

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hub.leave(self)

    def put(self, event: Event) -> None:
        """Add an event; when the queue is full its content gives way to one `Lagged`."""
        if len(self._events) >= self._limit:
            first = self._events[0]
            known = first.seq - 1 if isinstance(first, Fact) else first.seq
            self._events.clear()
            self._events.append(Lagged(seq=known, session=event.session, run=event.run, at=event.at))
        self._events.append(event)
        self._ready.set()

    def close(self) -> None:
        """No more events will come."""
        self._closed = True
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            self._ready.clear()
            await self._ready.wait()


class Hub:
    """The event stream of one session in this process."""

    def __init__(self, session: str, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._readers: list[Subscription] = []
        self._deltas: deque[Event] = deque(maxlen=KEPT_DELTAS)
        self._seq = 0
        self._sub = 0
        self._run = ""

    def subscribe(self, *, limit: int = QUEUE) -> Subscription:
        """Join the stream: the deltas since the last fact come first, then everything new."""
        reader = Subscription(self, max(2, limit))
        for delta in self._deltas:
            reader.put(delta)
        self._readers.append(reader)
        return reader

    def leave(self, reader: Subscription) -> None:
        """Take a reader off the stream; a second call does nothing."""
        if reader in self._readers:
            self._readers.remove(reader)

    def publish(self, fact: Fact) -> None:
        """Pass a stored fact on."""
        self._seq, self._run = fact.seq, fact.run
        self._sub = 0
        self._deltas.clear()
        for reader in self._readers:
            reader.put(fact)

    def emit(self, delta: Delta | ToolProgress) -> None:
        """Number a delta and pass it on."""
        self._sub += 1
        stamped = self._stamp(delta, sub=self._sub)
        self._deltas.append(stamped)
        for reader in self._readers:
            reader.put(stamped)

    def _stamp(self, delta: Delta | ToolProgress, *, sub: int) -> TextDelta | ThinkingDelta | CallDelta | ToolProgress:
        return msgspec.structs.replace(
            delta, seq=self._seq, sub=sub, session=self._session, run=self._run, at=self._clock.now()
        )

    def close(self) -> None:
        """End every reader's stream."""
        for reader in list(self._readers):
            reader.close()
