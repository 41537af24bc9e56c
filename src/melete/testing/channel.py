"""A chat platform that exists in memory only. Part `testing`: the twin of a channel."""

import asyncio
from collections.abc import AsyncIterator

from msgspec import Struct

from melete.core.channel import Capabilities, Incoming, Outgoing


class Sent(Struct, frozen=True, kw_only=True):
    """A message that was delivered, under the id that `send` returned."""

    id: str
    address: str
    what: Outgoing


class MemoryChannel:
    """A `Channel` whose platform is a test: `deliver` makes a person say something, `sent` shows what was answered.

    A key that was sent before is not sent again, and gives the id that it had.
    """

    def __init__(self, *, can: Capabilities | None = None) -> None:
        self._can = can or Capabilities(edits=True, buttons=True, files=True, markdown=True)
        self._waiting: asyncio.Queue[Incoming | None] = asyncio.Queue()
        self._failures: list[Exception] = []
        self.sent: list[Sent] = []

    @property
    def name(self) -> str:
        """`memory`."""
        return "memory"

    @property
    def can(self) -> Capabilities:
        """What was given, or everything."""
        return self._can

    def deliver(self, message: Incoming) -> None:
        """Let the platform deliver this to whoever receives."""
        self._waiting.put_nowait(message)

    def fail(self, error: Exception) -> None:
        """Let the next `send` raise this."""
        self._failures.append(error)

    def close(self) -> None:
        """End the stream of messages behind those that wait."""
        self._waiting.put_nowait(None)

    async def receive(self) -> AsyncIterator[Incoming]:
        """Messages in the order of their delivery."""
        while (message := await self._waiting.get()) is not None:
            yield message

    async def send(self, address: str, what: Outgoing) -> str:
        """Keep the message and return its id; raises what `fail` was given."""
        if self._failures:
            raise self._failures.pop(0)
        known = next((s.id for s in self.sent if what.key and (s.address, s.what.key) == (address, what.key)), None)
        if known is not None:
            return known
        self.sent.append(Sent(id=f"m{len(self.sent) + 1}", address=address, what=what))
        return self.sent[-1].id
