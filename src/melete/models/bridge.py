"""The `bridge` wire: any model that pydantic-ai can reach, such as Bedrock, Vertex and Cohere. Part: models, an extra.

A model is named as pydantic-ai names it, `bedrock:anthropic.claude-…`; its vendor's own package must be installed and its own
variables set. Nothing imports pydantic-ai before a model of this wire is opened.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

from msgspec import structs
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model, StreamedResponse, infer_model
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from melete.core.errors import ConfigError
from melete.core.event import Delta, Reply
from melete.core.model import Capabilities, ConnectionFailedError, ContentFilterError, ModelClient, ModelRequest
from melete.models.bridge_errors import cannot_open, failure
from melete.models.bridge_messages import WIRE, Deltas, History, call_ids, counted, message, parameters, settings
from melete.models.http import Http, stalled
from melete.models.openai_reply import Stop
from melete.models.spec import ModelSpec, shown

ALIASES = {"google-vertex": "google-cloud", "vertex": "google-cloud", "google-gla": "google"}
"""Names that people use for vendors whose name in pydantic-ai is another."""
NOWHERE = "https://localhost"
STOPS: dict[str, Stop] = {
    "stop": "end",
    "length": "length",
    "content_filter": "content_filter",
    "tool_call": "tool_calls",
}


GUESS = "stop"
NO_DETAILS = ("xai",)
"""Vendors whose reason to stop is given as it is, without the details."""


class BridgeModel:
    """A model behind pydantic-ai. What the vendor's library can do itself, such as trying again, is switched off."""

    def __init__(self, spec: ModelSpec, model: Model) -> None:
        self._name = spec.model
        self._vendor = spec.provider or WIRE
        self._model = model
        self._spec = structs.replace(spec, base_url=model.base_url or spec.base_url or model.system)
        self._can = _capabilities(spec.can, model)
        self._history = History(structs.replace(spec, can=self._can), model.system)
        self._entered: AsyncExitStack | None = None

    @property
    def name(self) -> str:
        """The model's name as it was given, with pydantic-ai's name of the vendor."""
        return self._name

    @property
    def provider(self) -> str:
        """The vendor's name."""
        return self._vendor

    @property
    def wire(self) -> str:
        """The wire's name."""
        return WIRE

    @property
    def can(self) -> Capabilities:
        """What the model can do, as far as it is set or pydantic-ai knows it."""
        return self._can

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Reply]:
        """Yield deltas, then one Reply; raise a ModelError when the answer does not come whole."""
        started, first = time.monotonic(), 0.0
        deltas = Deltas()
        try:
            async with AsyncExitStack() as stack:
                answer = await self._ask(stack, request)
                events = aiter(answer)
                limit = self._spec.timeouts.first_token
                while (event := await self._next(events, answer, limit)) is not None:
                    limit = self._spec.timeouts.between_tokens
                    if (delta := deltas.of(event)) is not None:
                        first = first or time.monotonic() - started
                        yield delta
        except Exception as error:
            raise failure(self._spec, error) from error
        reply = self._reply(answer, request, seconds=time.monotonic() - started, first=first)
        yield reply

    async def aclose(self) -> None:
        """Release connections; a second call does nothing."""
        entered, self._entered = self._entered, None
        if entered is not None:
            await entered.aclose()

    async def _ask(self, stack: AsyncExitStack, request: ModelRequest) -> StreamedResponse:
        """Send the request; the answer is open until the stack is left."""
        if self._entered is None:
            self._entered = AsyncExitStack()
            await self._entered.enter_async_context(self._model)
        asked = model_request_stream(
            self._model,
            self._history.of(request),
            model_settings=settings(self._spec, request, self._model),
            model_request_parameters=parameters(request, self._model),
            instrument=False,
        )
        limit = self._spec.timeouts.first_token
        try:
            async with asyncio.timeout(limit):
                return await stack.enter_async_context(asked)
        except TimeoutError as error:
            raise stalled(self._spec, self._spec.base_url, limit) from error

    async def _next(self, events: AsyncIterator[object], answer: StreamedResponse, limit: float) -> object | None:
        """The next event, None at the end; what goes wrong behind an answer that is whole is no matter."""
        try:
            async with asyncio.timeout(limit):
                return await anext(events, None)
        except TimeoutError as error:
            if _whole(answer):
                return None
            raise stalled(self._spec, self._spec.base_url, limit) from error
        except Exception:
            if _whole(answer):
                return None
            raise

    def _reply(self, answer: StreamedResponse, request: ModelRequest, *, seconds: float, first: float) -> Reply:
        """The finished answer; raises when it broke off or was refused."""
        response = answer.get()
        if not _whole(answer):
            raise ConnectionFailedError(
                f"the answer of {self._name} from {shown(self._spec.base_url)} broke off before its end",
                next="try again; nothing of it was carried out",
            )
        said = message(response, system=self._model.system, taken=call_ids(request))
        stop = STOPS.get(response.finish_reason or "", "other")
        if stop == "content_filter" and not said.calls and not said.text.strip():
            raise ContentFilterError(f"{self._vendor} refused to answer", next="say it in other words")
        return Reply(
            message=said,
            stop="tool_calls" if said.calls and stop in ("end", "other") else stop,
            usage=counted(response.usage),
            model=response.model_name or "",
            provider=self._vendor,
            request_id=response.provider_response_id or "",
            seconds=seconds,
            first_token_seconds=first,
        )


def open_model(spec: ModelSpec) -> ModelClient:
    """A model behind pydantic-ai; connects at the first request.

    Raises ConfigError for a vendor that pydantic-ai does not know, and when its package or its key is missing.
    """
    vendor, colon, name = spec.model.partition(":")
    if not colon or not name:
        raise ConfigError(
            f"{spec.model!r} does not say which vendor the bridge shall reach",
            next="write bridge/VENDOR:MODEL, such as bridge/bedrock:MODEL, bridge/google-cloud:MODEL or bridge/cohere:MODEL",
        )
    vendor = ALIASES.get(vendor, vendor)
    Http(spec, spec.base_url or NOWHERE)  # refuses addresses and keys that cannot be used, as for every wire
    try:
        model = infer_model(f"{vendor}:{name}", lambda wanted: _provider(wanted, spec))
    except ConfigError:
        raise
    except Exception as error:
        raise cannot_open(spec, vendor, error) from error
    return BridgeModel(spec, model)


def _provider(vendor: str, spec: ModelSpec) -> Provider[Any]:
    """The vendor, told our key and address where there are any; else it reads its own variables."""
    given = {name: value for name, value in (("api_key", spec.api_key), ("base_url", spec.base_url)) if value}
    if not given:
        return infer_provider(vendor)
    kind = infer_provider_class(vendor)
    known = inspect.signature(kind.__init__).parameters
    for name in given:
        if name not in known:
            what = "key" if name == "api_key" else "base URL"
            raise ConfigError(
                f"the vendor {vendor} takes no {what} of ours", next="leave it out; the vendor has its own"
            )
    return kind(**given)


def _capabilities(known: Capabilities, model: Model) -> Capabilities:
    """What is set, completed by pydantic-ai's own table."""
    window = model.profile.get("context_window")
    if known.known or not window:
        return known
    return structs.replace(known, context=window, known=True)


def _whole(answer: StreamedResponse) -> bool:
    """Whether the vendor has said why the answer ended, so that nothing of it is missing.

    pydantic-ai takes an answer that just ends for one that is over, and says so; then its details name no reason.
    """
    details = answer.provider_details or {}
    if details.get("finish_reason"):
        return True
    return answer.finish_reason is not None and (answer.finish_reason != GUESS or answer.provider_name in NO_DETAILS)
