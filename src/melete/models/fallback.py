"""Other models for when one fails, in order, and the way back. Part: models; a model round several models.

Each member keeps its own keys and retries inside itself: what goes wrong with one of them touches no other.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from msgspec import structs

from melete.core.event import Delta, Reply, Retried
from melete.core.model import (
    BadRequestError,
    Capabilities,
    ContentFilterError,
    ContextOverflowError,
    ModelClient,
    ModelError,
    ModelRequest,
    ModelWrapper,
    TooLargeError,
)

OF_THE_REQUEST = (BadRequestError, ContentFilterError, TooLargeError)
"""Errors that say nothing about the next request: the model that made one of them does not rest."""

Place = tuple[str, str, str, str]


class Health:
    """Which models rest, and for how long: one object for all that ask models in a process.

    `address` tells servers apart that have provider, model and wire in common, such as two ports of one host.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until: dict[Place, float] = {}

    def rest(self, model: ModelClient, seconds: float, *, address: str = "") -> None:
        """Let a model rest from now on."""
        self._until[_place(model, address)] = self._now() + seconds

    def works(self, model: ModelClient, *, address: str = "") -> None:
        """Note that a model answered: it rests no longer."""
        self._until.pop(_place(model, address), None)

    def seconds(self, model: ModelClient, *, address: str = "") -> float:
        """How long a model still rests; 0 when it may be asked."""
        return max(0.0, self._until.get(_place(model, address), 0.0) - self._now())


class Falling(ModelWrapper):
    """The first of several models that does not rest; `members[0]` is the one that is wanted, the others stand in for it.

    A model that fails rests for `cooldown` seconds, or longer if the server says so; then it is asked again. What failed is
    said in a Retried, which names both models, and the next one goes on with the same request. A conversation that is too long
    is no reason to change the model: room is made for it instead. Raises what the first member raised when none answers.
    `addresses` are the members' base URLs, in their order.
    """

    def __init__(
        self,
        members: Sequence[ModelClient],
        *,
        health: Health,
        cooldown: float = 60.0,
        addresses: Sequence[str] = (),
    ) -> None:
        super().__init__(members[0])
        self._members = tuple(members)
        self._addresses = dict(zip(self._members, addresses, strict=False))
        self._health = health
        self._cooldown = cooldown
        self._asked: list[tuple[asyncio.Task[Any] | None, ModelClient]] = []

    @property
    def current(self) -> ModelClient:
        """The model that this task is asking, whatever others ask meanwhile; between requests, the one that would be asked."""
        here = _task()
        return next((member for task, member in reversed(self._asked) if task is here), None) or self._next(())

    @property
    def name(self) -> str:
        """The name of the current model."""
        return self.current.name

    @property
    def provider(self) -> str:
        """The provider of the current model."""
        return self.current.provider

    @property
    def wire(self) -> str:
        """The wire of the current model."""
        return self.current.wire

    @property
    def can(self) -> Capabilities:
        """What the current model can do."""
        return self.current.can

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Yield what the members yield, from the first that can answer."""
        failures: dict[ModelClient, ModelError] = {}
        while len(failures) < len(self._members):
            member = self._next(failures)
            asked = (_task(), member)
            self._asked.append(asked)
            try:
                if failures:
                    yield self._told(failures, member)
                async with aclosing(member.stream(structs.replace(request, model=member.name))) as answer:
                    async for item in answer:
                        if isinstance(item, Reply):
                            self._health.works(member, address=self._address(member))
                        yield item
            except ContextOverflowError:
                raise
            except ModelError as error:
                failures[member] = error
            else:
                return
            finally:
                self._asked.remove(asked)
            self._let_rest(member, failures[member])
        raise self._verdict(failures)

    async def aclose(self) -> None:
        """Close all members; a second call does nothing."""
        for member in self._members:
            await member.aclose()

    def _next(self, failed: Sequence[ModelClient] | dict[ModelClient, ModelError]) -> ModelClient:
        """The first member that has not failed and does not rest; when all rest, the first that has not failed."""
        left = [member for member in self._members if member not in failed]
        return next((m for m in left if not self._health.seconds(m, address=self._address(m))), left[0])

    def _let_rest(self, member: ModelClient, error: ModelError) -> None:
        if not isinstance(error, OF_THE_REQUEST):
            seconds = max(self._cooldown, error.retry_after or 0.0)
            self._health.rest(member, seconds, address=self._address(member))

    def _address(self, member: ModelClient) -> str:
        return self._addresses.get(member, "")

    def _told(self, failures: dict[ModelClient, ModelError], to: ModelClient) -> Retried:
        member, error = list(failures.items())[-1]
        return Retried(
            attempt=len(failures),
            cause=type(error).__name__,
            reason=f"{_shown(to)} goes on in place of {_shown(member)}: {error.what}",
            delay=0.0,
            model=to.name,
            provider=to.provider,
        )

    def _verdict(self, failures: dict[ModelClient, ModelError]) -> ModelError:
        """The first member's error, with a note of why the others do not help."""
        primary = failures[self._members[0]]
        others = ", ".join(f"{_shown(m)} ({failures[m].what})" for m in self._members[1:])
        note = f"the fallbacks failed as well: {others}" if others else ""
        primary.kept = "; ".join(part for part in (primary.kept, note) if part)
        return primary


def _task() -> asyncio.Task[Any] | None:
    """The task that asks; None outside of one."""
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return None


def _place(model: ModelClient, address: str) -> Place:
    return (model.provider, model.name, model.wire, address)


def _shown(model: ModelClient) -> str:
    return f"{model.provider}/{model.name}"
