"""Several keys for one vendor: which one is asked with, and which ones rest. Part: models.

A pool is one object for everything that asks the vendor: the conversation, its children, the auxiliary models. What it knows
of a key hangs on the key's value, so that a new value under an old name starts afresh.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from melete.core.event import Delta, Reply, Retried
from melete.core.model import AuthError, ModelClient, ModelError, ModelRequest, ModelWrapper, QuotaError, RateLimitError
from melete.models.retry import spoken

REJECTED = 300.0
"""Seconds for which a key rests that the server did not accept."""

LIMITED = 3600.0
"""Seconds for which a key rests that is limited or has no credit, where the server does not say for how long."""

BAD_KEY = (AuthError, RateLimitError, QuotaError)
NEVER = float("inf")
NOBODY: frozenset[str] = frozenset()

Strategy = Literal["fill_first", "round_robin", "random", "least_used"]


class Key(Struct, frozen=True, kw_only=True):
    """A key and the variable that it stands in; only the `name` is ever shown."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"Key(name={self.name!r})"


NO_KEY = Key(name="", value="")


class KeyStatus(Struct, frozen=True, kw_only=True):
    """How a key stands, for display: `exhausted` rests for `seconds` more, `dead` until its value is changed."""

    name: str
    status: Literal["ok", "exhausted", "dead"] = "ok"
    seconds: float = 0.0
    cause: str = ""

    @property
    def words(self) -> str:
        """The state as part of a sentence, such as `OPENAI_API_KEY is limited for 1 h`."""
        match self.cause:
            case "RateLimitError":
                state = f"is limited for {spoken(self.seconds)}"
            case "QuotaError":
                state = "has no credit left"
            case "AuthError":
                state = "was rejected again" if self.status == "dead" else "was rejected"
            case _:
                state = "is usable"
        return f"{self.name or 'asking without a key'} {state}"


@dataclass(kw_only=True)
class _Standing:
    """What is known of one value: when it may be used again, why it rests, how often it is and was lent."""

    until: float = 0.0
    cause: str = ""
    stated: bool = False
    dead: bool = False
    calls: int = 0
    lent: int = 0


class KeyPool:
    """Lends keys. `keys` gives those there are, in order; it is asked anew before each loan, so a changed `.env` counts at once.

    A key that was rejected rests for 5 minutes and is dead when that happens again afterwards; one that is limited or without
    credit rests as long as the server says, else for an hour. When all rest, the one that is usable soonest is lent anyway.
    One key takes `at_once` calls at a time, 0 for any number; who finds all of them busy waits in line.
    """

    def __init__(
        self,
        keys: Callable[[], Sequence[Key]],
        *,
        strategy: Strategy = "fill_first",
        at_once: int = 1,
        now: Callable[[], float] = time.monotonic,
        choose: Callable[[Sequence[Key]], Key] = random.choice,
    ) -> None:
        self._keys = keys
        self._strategy = strategy
        self._at_once = at_once
        self._now = now
        self._choose = choose
        self._standings: dict[str, _Standing] = {}
        self._last = ""
        self._line = asyncio.Lock()
        self._changed = asyncio.Event()

    @property
    def first(self) -> Key:
        """The first key there is; one without name and value where there is none."""
        return self._present()[0]

    @asynccontextmanager
    async def loan(self, *, excluding: Collection[str] = NOBODY) -> AsyncGenerator[Key | None]:
        """Lend a key for the block, waiting for a free one; None when all that are usable are among the values `excluding`."""
        key = await self._take(excluding)
        try:
            yield key
        finally:
            if key is not None:
                self._standings[key.value].calls -= 1
                self._changed.set()

    def failed(self, key: Key, error: ModelError) -> None:
        """Note that the server refused a request because of this key."""
        standing = self._standings.setdefault(key.value, _Standing())
        if isinstance(error, AuthError):
            standing.dead |= standing.cause == AuthError.__name__ and standing.until <= self._now()
            rest, standing.stated = REJECTED, False
        else:
            standing.stated = error.retry_after is not None
            rest = LIMITED if error.retry_after is None else error.retry_after
        standing.cause = type(error).__name__
        standing.until = self._now() + rest
        self._changed.set()

    def worked(self, key: Key) -> None:
        """Note that the server answered a request with this key."""
        if (standing := self._standings.get(key.value)) is not None:
            standing.until, standing.cause = 0.0, ""
            standing.stated = standing.dead = False

    def knows(self, value: str) -> bool:
        """Whether this value is among the keys or still lent."""
        return value in self._standings

    def statuses(self) -> Sequence[KeyStatus]:
        """How each key stands now, in order, without any value."""
        return [self._status(key) for key in self._present() if key.value]

    def soonest(self, *, excluding: Collection[str]) -> float | None:
        """Seconds until one of the other keys that rest for a stated time may be used again; None where none does."""
        others = [key.value for key in self._present() if key.value not in excluding]
        return min((self._rest(value) for value in others if self._standings[value].stated), default=None)

    # ---- inside --------------------------------------------------------------------------------------------------

    async def _take(self, excluding: Collection[str]) -> Key | None:
        async with self._line:  # first come, first served: only the head of the line looks for a key
            while True:
                keys = self._present()
                candidates = self._candidates(keys, excluding)
                if not candidates:
                    return None
                if free := [key for key in candidates if self._is_free(key)]:
                    key = self._next(free, keys)
                    standing = self._standings[key.value]
                    standing.calls += 1
                    standing.lent += 1
                    self._last = key.value
                    return key
                self._changed.clear()
                rests = [self._rest(key.value) for key in keys if key.value not in excluding]
                with suppress(TimeoutError):  # a key whose rest is over is as good as one that is given back
                    async with asyncio.timeout(min((rest for rest in rests if 0 < rest < NEVER), default=None)):
                        await self._changed.wait()

    def _present(self) -> list[Key]:
        """The keys there are now, each value once; what is known of values that are gone is forgotten."""
        found: dict[str, Key] = {}
        for key in self._keys():
            if key.value:
                found.setdefault(key.value, key)
        keys = list(found.values()) or [NO_KEY]
        values = {key.value for key in keys}
        for value in [v for v, standing in self._standings.items() if v not in values and not standing.calls]:
            del self._standings[value]
        for value in values:
            self._standings.setdefault(value, _Standing())
        return keys

    def _candidates(self, keys: Sequence[Key], excluding: Collection[str]) -> Sequence[Key]:
        usable = [key for key in keys if key.value not in excluding and not self._rest(key.value)]
        return usable or ([] if excluding else [min(keys, key=lambda key: self._rest(key.value))])

    def _is_free(self, key: Key) -> bool:
        return not key.value or not self._at_once or self._standings[key.value].calls < self._at_once

    def _rest(self, value: str) -> float:
        """The seconds for which a key still rests."""
        standing = self._standings[value]
        return NEVER if standing.dead else max(0.0, standing.until - self._now())

    def _status(self, key: Key) -> KeyStatus:
        standing, rest = self._standings[key.value], self._rest(key.value)
        if standing.dead:
            return KeyStatus(name=key.name, status="dead", cause=standing.cause)
        if not rest:
            return KeyStatus(name=key.name)
        return KeyStatus(name=key.name, status="exhausted", seconds=rest, cause=standing.cause)

    def _next(self, free: Sequence[Key], keys: Sequence[Key]) -> Key:
        match self._strategy:
            case "round_robin":
                order = [key.value for key in keys]
                start = order.index(self._last) + 1 if self._last in order else 0
                return min(free, key=lambda key: (order.index(key.value) - start) % len(order))
            case "random":
                return self._choose(free)
            case "least_used":
                return min(free, key=lambda key: self._standings[key.value].lent)
            case _:
                return free[0]


class KeyRotating(ModelWrapper):
    """A model that is asked with the keys of a pool; `open` gives the client for a key's value and connects nothing.

    A key that is refused rests, and as long as another one is usable the request goes on with that, after the first token as
    well; a Retried says which variable rests and which one is used now. Other errors are no fault of a key.
    """

    def __init__(self, open: Callable[[str], ModelClient], pool: KeyPool) -> None:
        self._open = open
        self._pool = pool
        first = pool.first.value
        super().__init__(open(first))
        self._clients: dict[str, ModelClient] = {first: self.inner}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Yield what the inner models yield; raise the most hopeful of their errors when no usable key is left."""
        failures: dict[Key, ModelError] = {}
        while True:
            async with self._pool.loan(excluding={key.value for key in failures}) as key:
                if key is None:
                    raise self._verdict(failures)
                if failures:
                    yield self._told(failures, key)
                reply: Reply | None = None
                try:
                    client = await self._client(key)
                    async with aclosing(client.stream(request)) as answer:
                        async for item in answer:
                            if isinstance(item, Reply):
                                reply = item
                                break
                            yield item
                except BAD_KEY as error:
                    self._pool.failed(key, error)
                    failures[key] = error
                    continue
            if reply is not None:  # whole: the key is free for others while this is read and stored
                self._pool.worked(key)
                yield reply
            return

    async def aclose(self) -> None:
        """Close the clients of all keys; a second call does nothing."""
        for client in self._clients.values():
            await client.aclose()

    async def _client(self, key: Key) -> ModelClient:
        """The client of a key; those of keys that are gone are closed."""
        for value in [value for value in self._clients if not self._pool.knows(value)]:
            await self._clients.pop(value).aclose()
        if key.value not in self._clients:
            self._clients[key.value] = self._open(key.value)
        self.inner = self._clients[key.value]
        return self.inner

    def _told(self, failures: dict[Key, ModelError], key: Key) -> Retried:
        failed, error = list(failures.items())[-1]
        now = "its new value is used now" if key.name == failed.name else f"{key.name} is used now"
        return Retried(
            attempt=len(failures),
            cause=type(error).__name__,
            reason=f"{self._state(failed, error)}; {now}",
            delay=0.0,
            model=self.name,
            provider=self.provider,
        )

    def _state(self, key: Key, error: ModelError) -> str:
        """What is wrong with a key, also when its value is gone by now."""
        rest = LIMITED if error.retry_after is None else error.retry_after
        return KeyStatus(name=key.name, seconds=rest, cause=type(error).__name__).words

    def _verdict(self, failures: dict[Key, ModelError]) -> ModelError:
        """The error that says when it can go on: that of the key that is usable soonest, or of one that rests since earlier."""
        error = min(
            failures.values(), key=lambda e: (not e.retryable, LIMITED if e.retry_after is None else e.retry_after)
        )
        states = {status.name: status.words for status in self._pool.statuses()}
        states |= {key.name: self._state(key, failure) for key, failure in failures.items()}
        if len(states) > 1:
            error.kept = "no key helps: " + ", ".join(states.values())
        wait = self._pool.soonest(excluding={key.value for key in failures})
        if wait is None or (error.retryable and (error.retry_after is None or error.retry_after <= wait)):
            return error
        what = f"all keys of {self.provider} rest, the next one for {spoken(wait)}"
        limited = RateLimitError(what, kept=error.kept, next=error.next, retry_after=wait)
        limited.__cause__ = error
        return limited
