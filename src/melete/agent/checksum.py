"""A checksum of what a request holds, so that a recorded reply tells what it answered. Layer 2, pure.

Between two compactions a conversation only grows, so each message is read once, whatever the length of the run.
"""

import zlib

import msgspec

from melete.core.event import ToolSchema
from melete.core.message import Message
from melete.core.model import ModelRequest

PARTS = ("system text", "tools", "messages")
"""What the digits stand for, eight each."""
DIGITS = 8

_encoder = msgspec.json.Encoder()


class Checksum:
    """The checksums of one session's requests: three times 8 hex digits, of the system blocks, the tools and the messages.

    What a request carries beside them, such as settings and text that is not stored, does not count.
    """

    def __init__(self) -> None:
        self._system: tuple[str, ...] | None = None
        self._tools: tuple[ToolSchema, ...] | None = None
        self._head = ""
        self._segment = ""
        self._last: Message | None = None
        self._read = 0
        self._sum = 0

    def of(self, request: ModelRequest, *, segment: str) -> str:
        """The digits of a request in this segment of the conversation."""
        if request.system is not self._system or request.tools is not self._tools:
            self._system, self._tools = request.system, request.tools
            self._head = f"{_sum(request.system):08x}{_sum(request.tools):08x}"
        if not self._goes_on(request.messages, segment):
            self._segment, self._read, self._sum = segment, 0, 0
        for message in request.messages[self._read :]:
            self._sum = zlib.crc32(b"\n", _sum(message, self._sum))
            self._last = message
        self._read = len(request.messages)
        return f"{self._head}{self._sum:08x}"

    def _goes_on(self, messages: tuple[Message, ...], segment: str) -> bool:
        """Whether the messages begin with those that were read."""
        read = self._read
        return bool(read) and segment == self._segment and read <= len(messages) and messages[read - 1] is self._last


def differing(one: str, other: str) -> list[str]:
    """The parts in which two requests differ."""
    spans = (slice(at, at + DIGITS) for at in range(0, DIGITS * len(PARTS), DIGITS))
    return [name for name, span in zip(PARTS, spans, strict=True) if one[span] != other[span]]


def _sum(value: object, start: int = 0) -> int:
    return zlib.crc32(_encoder.encode(value), start)
