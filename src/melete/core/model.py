"""What a model is to the rest of the program: one method that streams. Layer 0.

A wrapper is the thing that it wraps: retry, fallback, key rotation and recording are each a `ModelClient` round a `ModelClient`.
"""

from collections.abc import AsyncGenerator
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from melete.core.errors import MeleteError
from melete.core.event import Delta, Reply, Retried, ToolSchema
from melete.core.message import Message

Role = Literal["main", "review", "compact", "approve", "title"]


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request in the product's own words; an adapter turns it into bytes.

    The prefix (tools, system, messages) is append-only between two compactions. `ephemeral` and `prefill` are added at call
    time and never stored; `tool_choice` is `none` in the grace call, where the schemas stay.
    """

    model: str
    system: tuple[str, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    messages: tuple[Message, ...] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    max_output: int | None = None
    temperature: float | None = None
    effort: str = ""
    answer_schema: msgspec.Raw | None = None
    ephemeral: str = ""
    prefill: tuple[Message, ...] = ()
    cache_key: str = ""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a model can do: `context` in tokens, `known` is False where defaults stand in; prices in USD per million tokens.

    `source` says where prices come from and of which day they are.
    """

    context: int = 128_000
    max_output: int | None = None
    tools: bool = True
    images: bool = True
    known: bool = False
    usd_input: float | None = None
    usd_output: float | None = None
    usd_cache_read: float | None = None
    usd_cache_write: float | None = None
    source: str = ""


class ModelClient(Protocol):
    """Something that answers requests: an adapter of one wire, or a wrapper round one."""

    @property
    def name(self) -> str:
        """The model's name as the provider knows it."""
        ...

    @property
    def provider(self) -> str:
        """The vendor's name, or the host of a custom URL."""
        ...

    @property
    def wire(self) -> str:
        """The wire format's name, such as `openai-chat`."""
        ...

    @property
    def can(self) -> Capabilities:
        """What the model can do."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Yield deltas as they come, then exactly one Reply; raise a ModelError instead when there is none.

        `Retried` voids the deltas since the last fact. Whoever iterates closes it (`contextlib.aclosing`).
        """
        ...

    async def aclose(self) -> None:
        """Release connections; a second call does nothing."""
        ...


class ModelWrapper:
    """The part of a ModelClient that a wrapper passes on unchanged: everything but `stream`."""

    def __init__(self, inner: ModelClient) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self.inner.name

    @property
    def provider(self) -> str:
        """The inner model's provider."""
        return self.inner.provider

    @property
    def wire(self) -> str:
        """The inner model's wire."""
        return self.inner.wire

    @property
    def can(self) -> Capabilities:
        """What the inner model can do."""
        return self.inner.can

    async def aclose(self) -> None:
        """Close the inner model; a second call does nothing."""
        await self.inner.aclose()


class Auxiliary(Protocol):
    """Models for side work, by role; their usage is booked apart from the conversation's."""

    def model(self, role: Role) -> ModelClient:
        """The model for `role`; the main model where none is set."""
        ...


class ModelError(MeleteError):
    """A request failed. Subclasses are the causes; `retry_after` is what the server asked for, in seconds.

    ModelError
    ├── RateLimitError          429: too many requests                    retried
    ├── QuotaError              the account has no credit left            stops
    ├── AuthError               401, 403: the key is wrong or missing     stops
    ├── UnknownModelError       404: no such model                        stops
    ├── OverloadedError         529, 503: the server is busy              retried
    ├── UnavailableError        5xx: the server failed                    retried
    ├── ContextOverflowError    the prompt is longer than the window      compacted, then tried again
    ├── TooLargeError           413: the payload is too large             pruned, then tried again
    ├── ContentFilterError      the provider refused the content          stops
    ├── BadRequestError         another 4xx                               stops
    ├── MalformedReplyError     not this API's language (an HTML page)    retried twice, then stops
    ├── ConnectionFailedError   no connection, TLS, DNS, reset            retried (TLS and DNS stop)
    ├── StalledError            a watchdog fired: nothing came            retried
    ├── EmptyReplyError         neither text nor calls                    retried twice, then shown as (empty)
    └── ProgramFailedError      a program in a model's place failed       stops
    """

    retryable = False

    def __init__(
        self, what: str, *, next: str = "", kept: str = "", status: int = 0, retry_after: float | None = None
    ) -> None:
        super().__init__(what, kept=kept, next=next)
        self.status = status
        self.retry_after = retry_after


class RateLimitError(ModelError):
    """Too many requests; the server may say how long to wait."""

    retryable = True


class QuotaError(ModelError):
    """The account's credit or quota is used up."""


class AuthError(ModelError):
    """The key is missing, wrong or not allowed to use this model."""


class UnknownModelError(ModelError):
    """The provider does not know the model."""


class OverloadedError(ModelError):
    """The server is too busy at the moment."""

    retryable = True


class UnavailableError(ModelError):
    """The server failed."""

    retryable = True


class ContextOverflowError(ModelError):
    """The prompt does not fit the model's window."""


class TooLargeError(ModelError):
    """The request's body is larger than the server takes."""


class ContentFilterError(ModelError):
    """The provider refused to read or to write the content."""


class BadRequestError(ModelError):
    """The server did not accept the request."""


class MalformedReplyError(ModelError):
    """What came back is not the API's language."""

    retryable = True


class ConnectionFailedError(ModelError):
    """The server could not be reached or the connection broke; `retryable` is set by cause."""

    retryable = True


class StalledError(ModelError):
    """Nothing arrived for as long as the watchdog waits."""

    retryable = True


class EmptyReplyError(ModelError):
    """The model answered with neither text nor calls."""

    retryable = True


class ProgramFailedError(ModelError):
    """A program in a model's place could not be run, or ended with another status than 0."""
