"""The port to a chat platform. Layer 0."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from melete.core.message import Part


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a channel can show."""

    edits: bool = False
    buttons: bool = False
    files: bool = False
    markdown: bool = False
    longest: int = 4000


class Incoming(Struct, frozen=True, kw_only=True):
    """A message from a chat platform; `key` tells a second delivery of the same."""

    address: str
    person: str
    parts: tuple[Part, ...]
    key: str
    at: datetime


class Outgoing(Struct, frozen=True, kw_only=True):
    """A message to a chat platform; `key` makes sending it twice harmless where the platform allows."""

    text: str
    files: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    replaces: str = ""
    key: str = ""


class Channel(Protocol):
    """A chat platform. It raises on failure; the gateway retries."""

    @property
    def name(self) -> str:
        """Such as `telegram`."""
        ...

    @property
    def can(self) -> Capabilities:
        """What it can show."""
        ...

    def receive(self) -> AsyncIterator[Incoming]:
        """Messages as they come, until closed."""
        ...

    async def send(self, address: str, what: Outgoing) -> str:
        """Deliver and return the platform's id of the message."""
        ...
