"""Requests rebuilt from a log, as lines of JSON: in the product's own words, and as their wire would carry them."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.event import Reply, ToolSchema
from melete.core.message import Message
from melete.core.model import ModelRequest
from melete.core.plugin import Lazy
from melete.models.spec import ModelSpec

_formats: dict[str, Lazy[Any]] = {
    "openai-chat": Lazy("melete.models.openai_chat:FORMAT"),
    "openai-responses": Lazy("melete.models.openai_responses:FORMAT"),
    "anthropic-messages": Lazy("melete.models.anthropic_messages:FORMAT"),
    "gemini": Lazy("melete.models.gemini:FORMAT"),
}


class RequestLine(Struct, frozen=True, kw_only=True, tag="request"):
    """A request that fact `seq` of a session answers; `body` is in the wire's common dialect, None for a wire of others."""

    session: str
    run: str
    seq: int
    model: str
    provider: str
    wire: str
    asked: str
    tool_choice: str
    system: tuple[str, ...]
    tools: tuple[ToolSchema, ...]
    messages: tuple[Message, ...]
    body: msgspec.Raw | None = None


class Bodies:
    """Makes the bodies of rebuilt requests; a conversation's messages are encoded once."""

    def __init__(self) -> None:
        self._encoders: dict[tuple[str, str, str], Any] = {}

    def body(self, request: ModelRequest, reply: Reply) -> bytes | None:
        """The request as the reply's wire carries it, settings and text that is not stored left out; None for an unknown wire."""
        wire = wire_of(reply)
        if wire not in _formats:
            return None
        key = (wire, reply.model, reply.provider)
        if key not in self._encoders:
            spec = ModelSpec(
                model=reply.model or request.model, provider=reply.provider, base_url="http://localhost", wire=wire
            )
            self._encoders[key] = _formats[wire].load().encoder(spec)
        encoder = self._encoders[key]
        return encoder.body(msgspec.structs.replace(request, model=encoder.spec.model))


class RequestLines:
    """Writes a line for each request; `redact` takes secrets out."""

    def __init__(self, write: Callable[[str], object], redact: Callable[[str], str]) -> None:
        self._write = write
        self._redact = redact
        self._bodies = Bodies()

    def add(self, request: ModelRequest, reply: Reply) -> None:
        """Write the line of a request and of the reply that was recorded for it."""
        body = self._bodies.body(request, reply)
        line = RequestLine(
            session=reply.session,
            run=reply.run,
            seq=reply.seq,
            model=reply.model or request.model,
            provider=reply.provider,
            wire=wire_of(reply),
            asked=reply.asked,
            tool_choice=request.tool_choice,
            system=request.system,
            tools=request.tools,
            messages=request.messages,
            body=None if body is None else msgspec.Raw(body),
        )
        self._write(self._redact(msgspec.json.encode(line).decode()) + "\n")


def wire_of(reply: Reply) -> str:
    """The wire over which a reply came, empty where it was not noted."""
    return reply.message.wire.name if reply.message.wire else ""
