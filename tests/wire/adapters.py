"""The rows of the suite, and the few words that its tests are written in."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from msgspec import Struct

from melete.core.event import Delta, Reply, Retried, ToolSchema
from melete.core.message import Message, Text, ToolCall, ToolResult, user
from melete.core.model import ModelClient, ModelRequest
from melete.models import anthropic_messages, gemini, openai_responses
from melete.models.openai_chat import open_model
from melete.models.spec import ModelSpec, Timeouts
from melete.testing import Say, ScriptedModel
from tests.wire.raw import sending, serving

KEY = "sk-secret-0123456789abcdef"

TOOL = ToolSchema(
    name="read_file",
    about="Read a file.",
    parameters=msgspec.Raw(b'{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}'),
)


class Adapter(Struct, frozen=True, kw_only=True):
    """A wire under test: its name and the factory of its clients.

    `compact` says that arguments travel as an object: what is read is its shortest JSON, not the text that a model wrote.
    """

    wire: str
    open: Callable[[ModelSpec], ModelClient]
    compact: bool = False

    def as_read(self, arguments: str) -> str:
        """The arguments of a call as this wire's adapter gives them."""
        return msgspec.json.format(arguments, indent=-1) if self.compact else arguments


ADAPTERS = (
    Adapter(wire="openai-chat", open=open_model),
    Adapter(wire="openai-responses", open=openai_responses.open_model),
    Adapter(wire="gemini", open=gemini.open_model, compact=True),
    Adapter(wire="anthropic-messages", open=anthropic_messages.open_model),
)


def adapter_of(wire: str) -> Adapter:
    """The row of one wire, for tests of what only it does."""
    return next(adapter for adapter in ADAPTERS if adapter.wire == wire)


def spec(base_url: str, **changes: Any) -> ModelSpec:
    """A spec with a key; `timeouts` are short enough for tests."""
    fields = {"model": "scripted-model", "base_url": base_url, "api_key": KEY, "timeouts": Timeouts(tail=0.2)}
    return ModelSpec(**(fields | changes))


def asking(*messages: Message | str, **fields: Any) -> ModelRequest:
    """A request with one system block and one tool."""
    said = tuple(user(m) if isinstance(m, str) else m for m in messages)
    return ModelRequest(
        **({"model": "scripted-model", "system": ("Be brief.",), "tools": (TOOL,), "messages": said} | fields)
    )


def assistant(text: str = "", *calls: ToolCall) -> Message:
    """A model's message from another provider: no bytes of a wire in it."""
    parts = ((Text(text=text),) if text else ()) + calls
    return Message(role="assistant", parts=parts)


def results(*answers: ToolResult) -> Message:
    """A tool message."""
    return Message(role="tool", parts=answers)


async def collect(stream: AsyncIterator[Delta | Retried | Reply]) -> list[Delta | Retried | Reply]:
    """Everything that a stream yields."""
    return [item async for item in stream]


async def answered(client: ModelClient, request: ModelRequest) -> Reply:
    """The reply, which must come last and alone."""
    items = await collect(client.stream(request))
    replies = [item for item in items if isinstance(item, Reply)]
    assert replies == items[-1:]
    return replies[0]


def ask(adapter: Adapter, base_url: str, *requests: ModelRequest, **changes: Any) -> list[Reply]:
    """The replies to requests that one client makes one after the other."""

    async def main() -> list[Reply]:
        client = adapter.open(spec(base_url, **changes))
        try:
            return [await answered(client, request) for request in requests]
        finally:
            await client.aclose()

    return asyncio.run(main())


def sent(adapter: Adapter, request: ModelRequest, **changes: Any) -> dict[str, Any]:
    """The JSON of one request as the server received it."""
    with ScriptedModel([Say("ok")]) as server:
        ask(adapter, server.base_url, request, **changes)
        return server.requests[0].json


def yielded(
    open_model: Callable[[ModelSpec], ModelClient],
    *pieces: bytes,
    path: str = "/v1",
    close: bool = True,
    **timeouts: float,
) -> list[Delta | Retried | Reply]:
    """What a client yields for an answer of these bytes."""

    async def main() -> list[Delta | Retried | Reply]:
        async with serving(sending(*pieces, close=close)) as port:
            limits = Timeouts(**({"tail": 0.2} | timeouts))
            client = open_model(spec(f"http://127.0.0.1:{port}{path}", timeouts=limits))
            try:
                return await collect(client.stream(asking("Go")))
            finally:
                await client.aclose()

    return asyncio.run(main())


def replied(open_model: Callable[[ModelSpec], ModelClient], *pieces: bytes, **how: Any) -> Reply:
    """The reply out of these bytes; `how` as `yielded` takes it."""
    reply = yielded(open_model, *pieces, **how)[-1]
    assert isinstance(reply, Reply)
    return reply
