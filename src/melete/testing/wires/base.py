"""What a wire format is to the scripted model: bytes made from a neutral answer. Part `testing`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from melete.core.message import Usage
from melete.testing.faults import Answer


class Asked(Struct, frozen=True, kw_only=True):
    """What a wire needs to know of a request to answer it: its JSON `body`, its number, the prompt's size and the target."""

    body: Mapping[str, Any]
    index: int
    usage: Usage
    target: str = ""


class Body(Struct, frozen=True, kw_only=True):
    """A reply's body: `pieces` in order, of which the last `closing` only say that it is over."""

    content_type: str
    pieces: Sequence[bytes]
    closing: int = 0


def encoded(value: Any) -> bytes:
    """The value as JSON; half of a surrogate pair, which JSON can hold and UTF-8 cannot, is sent as its escape."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class WireFormat(Protocol):
    """One provider's format."""

    @property
    def name(self) -> str:
        """The wire's name, such as `openai-chat`."""
        ...

    def claims(self, path: str) -> bool:
        """Whether a POST to this path, query removed, is a model request of this wire."""
        ...

    def streams(self, body: Mapping[str, Any]) -> bool:
        """Whether the request wants its answer in pieces."""
        ...

    def prompt(self, body: Mapping[str, Any]) -> bytes:
        """What a provider would cache: tools, then system text, then messages, in a canonical form that grows at its end."""
        ...

    def whole(self, asked: Asked, answer: Answer) -> Body:
        """The answer in one piece."""
        ...

    def stream(self, asked: Asked, answer: Answer) -> Body:
        """The answer as a stream of events."""
        ...

    def error(self, status: int, *, code: str, message: str) -> bytes:
        """The wire's error object."""
        ...

    def error_event(self, *, code: str, message: str) -> bytes:
        """The error object as an event inside a stream."""
        ...
