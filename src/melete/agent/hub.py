"""Fan-out of one session's events to any number of readers; the loop never waits for one. Layer 2.

Facts arrive here after they are stored. Deltas get the last fact's `seq` and a `sub` of their own; those of the latest run are
kept, so that a reader who joins in mid-answer sees all of it, and one who was cut off gets what it missed.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from types import TracebackType

import msgspec

from melete.core.event import (
    CallDelta,
    Delta,
    Event,
    Fact,
    Lagged,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
)
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

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        return self._closed and not self._events

    async def next(self, patience: float) -> Event | None:
        """The next event; None when none came for `patience` seconds, or none will come."""
        if not self._events and not self._closed:
            self._ready.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._ready.wait()
            except TimeoutError:
                return None
        return self._events.popleft() if self._events else None

    async def several(self, patience: float, *, most: int) -> list[Event]:
        """The events that are there, at least one and at most so many; none as `next` has none."""
        first = await self.next(patience)
        found = [] if first is None else [first]
        while found and self._events and len(found) < most:
            found.append(self._events.popleft())
        return found

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
        self._deltas: deque[TextDelta | ThinkingDelta | CallDelta | ToolProgress] = deque(maxlen=KEPT_DELTAS)
        self._seq = 0
        self._sub = 0
        self._run = ""

    @property
    def place(self) -> tuple[int, int]:
        """`(seq, sub)` of the last event that went through here; zeros before any."""
        return self._seq, self._sub

    def subscribe(self, *, limit: int = QUEUE) -> Subscription:
        """Join the stream: the deltas since the last fact come first, then everything new."""
        reader = self.join(limit=limit)
        for delta in self.kept(after=(self._seq, 0)):
            reader.put(delta)
        return reader

    def join(self, *, limit: int = QUEUE) -> Subscription:
        """Join the stream for everything that is new from now on."""
        reader = Subscription(self, max(2, limit))
        self._readers.append(reader)
        return reader

    def kept(self, *, after: tuple[int, int]) -> Sequence[TextDelta | ThinkingDelta | CallDelta | ToolProgress]:
        """The deltas of the latest run that are still kept and come behind `(seq, sub)`, in order."""
        if not self._deltas or (self._deltas[-1].seq, self._deltas[-1].sub) <= after:
            return ()
        return [delta for delta in self._deltas if (delta.seq, delta.sub) > after]

    def holds(self, run: str) -> bool:
        """Whether deltas of a run are kept; they are those of one run."""
        return bool(self._deltas) and self._deltas[-1].run == run

    def forget_before(self, place: tuple[int, int]) -> None:
        """Let go of the deltas up to `place`: nobody is expected to ask for them any more."""
        while self._deltas and (self._deltas[0].seq, self._deltas[0].sub) <= place:
            self._deltas.popleft()

    def leave(self, reader: Subscription) -> None:
        """Take a reader off the stream; a second call does nothing."""
        if reader in self._readers:
            self._readers.remove(reader)

    def publish(self, fact: Fact) -> None:
        """Pass a stored fact on."""
        self._seq, self._run = fact.seq, fact.run
        self._sub = 0
        if isinstance(fact, RunStarted):
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
