"""The `openai-chat` wire: POST …/chat/completions, streamed. Part: models; `open_model` is what the catalogue names."""

import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from melete.core.event import Delta, Reply
from melete.core.model import (
    BadRequestError,
    Capabilities,
    ConnectionFailedError,
    ContentFilterError,
    ModelClient,
    ModelError,
    ModelRequest,
)
from melete.models.address import address
from melete.models.errors import Failure, malformed
from melete.models.http import Exchange, Http
from melete.models.openai_reply import ReplyAssembler
from melete.models.openai_request import WIRE, RequestEncoder
from melete.models.spec import ModelSpec, Quirks, endpoint, shown
from melete.models.sse import ServerEvent

PATH = "/chat/completions"
DONE = b"[DONE]"

# What a refusal complains about, the quirk that avoids it, and the values that it may take instead.
COMPLAINTS: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    (r"max_completion_tokens", "max_tokens", ("max_completion_tokens", "max_tokens")),
    (r"stream_options|include_usage", "stream_options", (False,)),
    (r"\btemperature\b", "temperature", (False,)),
    (r"\btool_choice\b", "tool_choice", (False,)),
    (r"\breasoning_effort\b|\breasoning\.effort\b", "effort", ("none",)),
    (r"\bprompt_cache_key\b", "cache_key", (False,)),
    (
        r"surrogate|unicode|utf-?8|\bcodec\b|(invalid|control) character|\\u0000",
        "ascii",
        (True,),
    ),
    (
        r"(extra|additional|unknown|unsupported|unrecognized|unexpected)\b.{0,60}\b(field|propert|input|parameter|argument)"
        r"|\bmessages\b.{0,80}(not permitted|not allowed|not supported|unsupported|forbidden)|extra_forbidden"
        r"|reasoning_(content|details)\b(?!.*must be)",
        "replay",
        (False,),
    ),
)


def open_model(spec: ModelSpec) -> ModelClient:
    """An adapter for the model; connects at the first request. Raises ConfigError for a URL or key that cannot be used."""
    return OpenAIChat(spec)


class OpenAIChat:
    """A model behind the `openai-chat` wire. A dialect that a server insists on is learned from its refusals and kept."""

    def __init__(self, spec: ModelSpec) -> None:
        address(spec.base_url, what="the base URL")
        self._url = endpoint(spec.base_url, PATH)
        self._spec = spec
        self._http = Http(spec, self._url)
        self._encoder = RequestEncoder(spec)

    @property
    def name(self) -> str:
        """The model's name as the provider knows it."""
        return self._spec.model

    @property
    def provider(self) -> str:
        """The vendor's name, or the host of a custom URL."""
        return self._spec.vendor

    @property
    def wire(self) -> str:
        """`openai-chat`."""
        return WIRE

    @property
    def can(self) -> Capabilities:
        """What the model can do."""
        return self._spec.can

    def prefix_bytes(self, request: ModelRequest) -> bytes:
        """Tools, system and messages as they are sent: the next request of the conversation starts with these bytes."""
        return self._encoder.prefix(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Reply]:
        """Yield deltas, then one Reply; raise a ModelError when the answer does not come whole."""
        tried: set[str] = set()
        while True:
            body = self._encoder.body(request)
            try:
                async with aclosing(self._answer(request, body)) as answer:
                    async for item in answer:
                        yield item
            except BadRequestError as error:
                dialect = learned(self._encoder.quirks, error, tried=tried)
                if dialect is None:
                    raise
                self._encoder.adopt(dialect)
            else:
                return

    async def aclose(self) -> None:
        """Release connections; a second call does nothing."""
        await self._http.aclose()

    async def _answer(self, request: ModelRequest, body: bytes) -> AsyncGenerator[Delta | Reply]:
        reply = ReplyAssembler(taken=self._encoder.call_ids(request))
        started, first = time.monotonic(), 0.0
        async with self._http.post(body) as exchange:
            try:
                async with aclosing(exchange.events()) as events:
                    async for event in events:
                        for delta in self._chunk(event, reply):
                            first = first or time.monotonic() - started
                            exchange.token(limit=self._spec.timeouts.between_tokens)
                            yield delta
                        if reply.finish:
                            exchange.token(limit=self._spec.timeouts.tail)
            except ModelError:
                if not reply.finish:
                    raise
            self._check(reply, exchange)
        yield reply.reply(
            provider=self._spec.vendor,
            request_id=exchange.headers.get("x-request-id", ""),
            seconds=time.monotonic() - started,
            first_token_seconds=first,
        )

    def _chunk(self, event: ServerEvent, reply: ReplyAssembler) -> list[Delta]:
        data = event.data.strip()
        if data == DONE:
            reply.finish = reply.finish or "stop"
            return []
        try:
            chunk: Any = msgspec.json.decode(data) if data else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise malformed(self._spec, self._url, data) from error
        if chunk is None:
            return []
        if not isinstance(chunk, dict):
            raise malformed(self._spec, self._url, data)
        fields: dict[str, Any] = chunk  # pyright: ignore[reportUnknownVariableType]
        self._raise_told(event, fields)
        if event.name == "document" and not isinstance(fields.get("choices"), list):
            raise malformed(self._spec, self._url, data)
        deltas = list(reply.feed(fields))
        if event.name == "document":
            reply.finish = reply.finish or "stop"
        return deltas

    def _raise_told(self, event: ServerEvent, chunk: dict[str, Any]) -> None:
        """Raise the error that a server tells inside a stream that began well."""
        told: Any = chunk.get("error")
        if not told and isinstance(chunk.get("choices"), list):
            for choice in chunk["choices"]:
                if isinstance(choice, dict) and choice.get("finish_reason") == "error":  # pyright: ignore
                    told = choice.get("error") or "the provider broke off"  # pyright: ignore
        if not told and event.name == "error":
            told = chunk
        if not told:
            return
        code: Any = told.get("code") if isinstance(told, dict) else 0  # pyright: ignore
        status = int(code) if isinstance(code, int | str) and re.fullmatch(r"[45]\d\d", str(code)) else 0
        body = msgspec.json.encode({"error": told})
        raise Failure(self._spec, self._url, status=status, headers={}, body=body).error()

    def _check(self, reply: ReplyAssembler, exchange: Exchange) -> None:
        """Raise unless the answer came to its end."""
        if not reply.finish:
            if not reply.chunks and exchange.strange:
                raise malformed(self._spec, self._url, exchange.head)
            raise ConnectionFailedError(
                f"the answer of {self._spec.model} from {shown(self._url)} broke off before its end",
                next="try again; nothing of it was carried out",
            )
        if reply.empty and reply.refused:
            raise ContentFilterError(
                f"{self._spec.vendor} refused to answer (finish_reason {reply.finish!r})", next="say it in other words"
            )


def learned(quirks: Quirks, error: ModelError, *, tried: set[str]) -> Quirks | None:
    """The dialect to try after a refusal that names what the server does not take; None when it names nothing new.

    Each field is changed once for a request; `tried` keeps which.
    """
    for pattern, field, values in COMPLAINTS:
        if not error.status or field in tried or not re.search(pattern, error.what, re.IGNORECASE | re.DOTALL):
            continue
        value = next((v for v in values if v != getattr(quirks, field)), None)
        if value is not None:
            tried.add(field)
            return msgspec.structs.replace(quirks, **{field: value})
    return None
