"""Trying again, as a model round a model. Part: models; knows errors and seconds, no wire."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from msgspec import Struct

from melete.core.event import Delta, Reply, Retried
from melete.core.message import Usage
from melete.core.model import (
    EmptyReplyError,
    MalformedReplyError,
    ModelClient,
    ModelError,
    ModelRequest,
    ModelWrapper,
    RateLimitError,
)

Sleep = Callable[[float], Awaitable[None]]

GROWTH = 3
"""What a wait is multiplied by from try to try: the first is short, because most faults are gone at once."""

LIMITED = 4
"""How many times longer the waits are for a server that says "too many requests" and not for how long."""

DOUBTFUL = 2
"""How often an answer is asked for once more when what came is empty or not this API's language."""


class Backoff(Struct, frozen=True, kw_only=True):
    """How often and when to try again; times in seconds.

    `tries` come after the first attempt, `base` is the longest first wait and grows from try to try up to `cap`. A server's
    own wish is kept up to `longest_wait`; beyond it the request fails at once and says how long the server wants.
    """

    tries: int = 3
    base: float = 0.25
    cap: float = 30.0
    longest_wait: float = 120.0


class Retrying(ModelWrapper):
    """A model that tries again what may go well next time; it yields Retried before each wait.

    An answer with neither text nor calls, be there reasoning or not, is asked for twice more and then given as it is; what it
    cost stands in the Retried. A malformed one is asked for twice more. Whatever was shown of a failed attempt is void by the
    Retried that follows it.
    """

    def __init__(
        self,
        inner: ModelClient,
        *,
        backoff: Backoff = Backoff(),  # noqa: B008 - a frozen value
        sleep: Sleep = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(inner)
        self._backoff = backoff
        self._sleep = sleep
        self._jitter = jitter

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Yield what the inner model yields; raise its error when no further try is left or would help."""
        failures: list[ModelError] = []
        while True:
            failure: ModelError | None = None
            cost = Usage()
            try:
                async with aclosing(self.inner.stream(request)) as answer:
                    async for item in answer:
                        if isinstance(item, Reply) and _is_empty(item) and self._asks_again(failures):
                            failure = EmptyReplyError(f"{self.name} answered with neither text nor a tool call")
                            cost = item.usage
                            break
                        yield item
            except ModelError as error:
                failure = error
            if failure is None:
                return
            failures.append(failure)
            delay = self._delay(failures)
            yield Retried(
                attempt=len(failures),
                cause=type(failure).__name__,
                reason=failure.what,
                delay=round(delay, 3),
                model=self.name,
                provider=self.provider,
                usage=cost,
            )
            await self._sleep(delay)

    def _asks_again(self, failures: list[ModelError]) -> bool:
        """Whether an empty answer is asked for once more."""
        return len(failures) < self._backoff.tries and failures_of(failures, EmptyReplyError) < DOUBTFUL

    def _delay(self, failures: list[ModelError]) -> float:
        """The seconds to wait after the last failure; raises it when it is final."""
        last, policy = failures[-1], self._backoff
        used_up = len(failures) > policy.tries or failures_of(failures, MalformedReplyError) > DOUBTFUL
        if not last.retryable or used_up:
            raise last
        if last.retry_after is not None and last.retry_after > policy.longest_wait:
            last.next = (
                f"the server wants a wait of {spoken(last.retry_after)}; try again then, or choose another model"
            )
            raise last
        base = policy.base * LIMITED if isinstance(last, RateLimitError) else policy.base
        ceiling = min(policy.cap, base * GROWTH ** (len(failures) - 1))
        own = ceiling * (0.5 + self._jitter() / 2)
        return own if last.retry_after is None else max(own, last.retry_after)


def failures_of(failures: list[ModelError], kind: type[ModelError]) -> int:
    """How many of the failures are of a kind."""
    return sum(isinstance(failure, kind) for failure in failures)


def spoken(seconds: float) -> str:
    """A span of time as people say it: `45 s`, `12 min`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 120:  # noqa: PLR2004 - under two minutes seconds are clearer
        return f"{whole} s"
    hours, minutes = divmod(-(-whole // 60), 60)
    return " ".join(part for part in (f"{hours} h" if hours else "", f"{minutes} min" if minutes else "") if part)


def _is_empty(reply: Reply) -> bool:
    """Whether a finished answer says nothing; one cut off by a limit or a filter would only be cut off again."""
    cut = reply.stop in ("length", "content_filter")
    return not cut and not reply.message.calls and not reply.message.text.strip()
