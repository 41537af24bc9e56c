"""Conversations with the real application against a scripted model: settings, store, tools and HTTP are all real."""

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from melete import load, user
from melete.app.opening import Options
from melete.app.service import Conversation, open_conversation
from melete.app.wire import Melete, open_melete
from melete.core.event import Answered, Asked, Event, Fact, RunEnded, ToolEnded
from melete.core.message import Message
from melete.core.model import ModelClient, ModelWrapper
from melete.core.tool import Tool
from melete.models.openai_chat import open_model
from melete.models.retry import Backoff, Retrying
from melete.models.spec import ModelSpec
from melete.testing import ScriptedModel

F = TypeVar("F")
REST = b'],"stream":true'
"""Where, in a request's body, the part that only grows ends."""


class Probes:
    """A toolset of a test's own tools."""

    name = "probes"

    def __init__(self, *tools: Tool) -> None:
        self._tools = tools

    def available(self) -> bool:
        """Always."""
        return True

    def open(self) -> AbstractAsyncContextManager[Sequence[Tool]]:
        """The tools as they are."""
        return nullcontext(self._tools)


@dataclass(kw_only=True)
class Talk:
    """An open conversation, its model and its application."""

    app: Melete
    conversation: Conversation
    model: ScriptedModel

    async def say(self, text: str) -> RunEnded:
        """Run one prompt to its end."""
        return await self.conversation.run(user(text))

    async def go_on(self) -> RunEnded:
        """Run without a prompt."""
        return await self.conversation.run(None)

    async def facts(self, kind: type[F]) -> list[F]:
        """The stored facts of one kind."""
        return [fact for fact in await self.log() if isinstance(fact, kind)]

    async def log(self) -> Sequence[Fact]:
        """All stored facts."""
        return await self.app.store.facts(self.conversation.ref)

    async def results(self) -> list[dict[str, Any]]:
        """What the model was told of each call, in the order in which they ended."""
        return [content(fact) for fact in await self.facts(ToolEnded)]

    def messages(self, index: int = -1) -> list[dict[str, Any]]:
        """The messages of a request, the system's included."""
        return self.model.requests[index].json["messages"]


def content(ended: ToolEnded) -> dict[str, Any]:
    """The JSON object of a result."""
    return msgspec.json.decode(ended.result.content, type=dict[str, Any])


def environ(model: ScriptedModel, **more: str) -> dict[str, str]:
    """The variables that lead to the test's home and the scripted model."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "MELETE_HOME", "MELETE_ENV")}
    own = {"MELETE_LEARNING": "false", "MELETE_BASE_URL": model.base_url, "MELETE_MODEL": "scripted"}
    return {**kept, **own, **more}


@asynccontextmanager
async def talk(
    model: ScriptedModel,
    folder: Path,
    *,
    settings: Mapping[str, object] | None = None,
    tools: Sequence[Tool] = (),
    prices: tuple[float, float] | None = None,
    variables: Mapping[str, str] | None = None,
    **options: Any,
) -> AsyncGenerator[Talk]:
    """Open the application of the test's home and a conversation in `folder`; `options` are those of the service.

    `tools` come in addition to the others; `prices` are USD per million tokens read and written.
    """
    loaded = load(settings, environ=environ(model, **(variables or {})))
    async with open_melete(loaded) as app:
        if tools:
            app.registry.add("tools", "probes", lambda: Probes(*tools))
        if prices:
            app.registry.add("models", "openai-chat", priced(prices), replaces=True)
        folder.mkdir(exist_ok=True, parents=True)
        async with open_conversation(app, Options(cwd=str(folder), **options)) as conversation:
            yield Talk(app=app, conversation=conversation, model=model)


def priced(prices: tuple[float, float]) -> Callable[[ModelSpec], ModelClient]:
    """The adapter, with prices in USD per million tokens read and written."""

    def make(spec: ModelSpec) -> ModelClient:
        can = msgspec.structs.replace(spec.can, usd_input=prices[0], usd_output=prices[1])
        return open_model(msgspec.structs.replace(spec, can=can))

    return make


def backoff(model: ModelClient, **fields: float) -> None:
    """Change how a model is retried, whatever is wrapped round it."""
    while not isinstance(model, Retrying):
        assert isinstance(model, ModelWrapper), f"nothing retries {model!r}"
        model = model.inner
    model._backoff = Backoff(**fields)  # pyright: ignore


def sent_prefix(body: bytes) -> bytes:
    """Tools, system and messages of a request's body, byte for byte, without the bracket that closes them."""
    head, rest, _ = body.rpartition(REST)
    assert rest, "the body does not end as this wire's do"
    return head


def all_texts(messages: Sequence[Message]) -> list[str]:
    """The texts of messages, in order."""
    return [message.text for message in messages]


async def until(conversation: Conversation, wanted: Callable[[Event], bool]) -> Event:
    """The first event of the running conversation that is wanted; call it before the run begins."""
    with conversation.hub.subscribe() as events:
        async for event in events:
            if wanted(event):
                return event
    raise AssertionError("the stream ended without it")


def is_question(event: Event) -> bool:
    """Whether somebody is asked."""
    return isinstance(event, Asked)


def is_answer(event: Event) -> bool:
    """Whether an answer was taken in."""
    return isinstance(event, Answered)
