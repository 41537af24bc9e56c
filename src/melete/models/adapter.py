"""A model behind any wire: ask, read events, put the reply together, learn a server's dialect from its refusals. Part: models.

A wire is a `Format`: where requests go, how they are written (an Encoder), how answers are read (an Assembler), and which
complaints of servers teach which dialect. `open_model` of each wire's file puts its own into a `WireModel`.
"""

import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Protocol, cast

import msgspec
from msgspec import Struct

from melete.core.event import Delta, Reply, Retried
from melete.core.message import Message, Usage
from melete.core.model import (
    BadRequestError,
    Capabilities,
    ConnectionFailedError,
    ContentFilterError,
    ModelError,
    ModelRequest,
)
from melete.models.address import address
from melete.models.encoder import Encoder
from melete.models.errors import Failure, malformed
from melete.models.http import Exchange, Http
from melete.models.loose import Json, Stop
from melete.models.spec import ModelSpec, Quirks, shown
from melete.models.sse import ServerEvent
from melete.models.surrogates import Halves

DONE = b"[DONE]"
Complaint = tuple[str, str, tuple[Any, ...]]
"""What a refusal complains about (a pattern), the quirk that avoids it, and the values that it may take instead.

Where the pattern has a group `limit`, the number in it is the value.
"""

STRICTER: Complaint = (
    r"surrogate|unicode|utf-?8|\bcodec\b|(invalid|control) character|\\u0000",
    "ascii",
    (True,),
)
"""Every wire's: a payload that a server cannot read as text is sent again in plain ASCII."""

NO_IMAGES: Complaint = (
    r"(does ?n.t|do not|cannot|can.t|not) (currently )?(support|accept|process|take|allow)[\w ]{0,20}(image|vision|multimodal)"
    r"|\bimages?(_url)?( inputs?| content)?[`'\"]? (is|are) ?n.?o?t (currently )?(support|allow|accept)"
    r"|support image input|unknown variant .?image_url|mmproj",
    "images",
    (False,),
)
"""Every wire's: a model that takes no images is told that there was one."""


class Assembler(Protocol):
    """Takes the events of one answer in order, gives back deltas, and at the end the message."""

    finish: str
    """The server's reason to stop; empty until the answer is known to be whole."""
    began: bool
    """Whether anything of this wire's language has come."""
    model: str
    """The model's name as the answer gives it."""
    id: str
    """The answer's id."""

    @property
    def stop(self) -> Stop:
        """The reason to stop in our words, calls left aside."""
        ...

    @property
    def usage(self) -> Usage:
        """What the server has counted."""
        ...

    @property
    def empty(self) -> bool:
        """Whether neither text nor a call has come."""
        ...

    @property
    def refused(self) -> bool:
        """Whether the server gave its content filter as the reason to stop."""
        ...

    def told(self, name: str, value: Json) -> Any:
        """The error that an event of this name tells inside a stream that began well; None when it tells none."""
        ...

    def feed(self, value: Json) -> Iterable[Delta]:
        """Take the JSON of one event and yield what is new in it."""
        ...

    def document(self, value: Json) -> Iterable[Delta] | None:
        """Take a whole answer that was not streamed; None when it is not this wire's language."""
        ...

    def message(self) -> Message:
        """The finished message with the provider's own inside; the caller has made sure that it is whole."""
        ...


class Format(Struct, frozen=True, kw_only=True):
    """One wire: `url` of a model's requests, `key_header` where the key goes, `headers` for every request.

    `assembler` is called with the call ids that are taken and the name of the provider.
    """

    name: str
    url: Callable[[ModelSpec], str]
    encoder: Callable[[ModelSpec], Encoder]
    assembler: Callable[[set[str], str], Assembler]
    complaints: tuple[Complaint, ...] = ()
    key_header: str = "authorization"
    headers: Mapping[str, str] = {}


class WireModel:
    """A model behind a wire. A dialect that a server insists on is learned from its refusals and kept."""

    def __init__(self, spec: ModelSpec, wire: Format) -> None:
        address(spec.base_url, what="the base URL")
        self._spec = spec
        self._format = wire
        self._url = wire.url(spec)
        self._http = Http(spec, self._url, key_header=spec.quirks.key_header or wire.key_header, headers=wire.headers)
        self._encoder = wire.encoder(spec)

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
        """The wire's name."""
        return self._format.name

    @property
    def can(self) -> Capabilities:
        """What the model can do."""
        return self._spec.can

    def prefix_bytes(self, request: ModelRequest) -> bytes:
        """Tools, system and messages as they are sent: the next request of the conversation starts with these bytes."""
        return self._encoder.prefix(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Yield deltas, then one Reply; raise a ModelError when the answer does not come whole."""
        tried: set[tuple[str, Any]] = set()
        while True:
            body = self._encoder.body(request)
            try:
                async with aclosing(self._answer(request, body)) as answer:
                    async for item in answer:
                        yield item
            except BadRequestError as error:
                known, complaints = self._encoder.quirks, (NO_IMAGES, *self._format.complaints)
                dialect = learned(known, error, complaints, tried=tried)
                if dialect is None:
                    raise
                self._encoder.adopt(dialect)
                if known.images and not dialect.images:
                    yield self._without_images(error)
            else:
                return

    def _without_images(self, error: ModelError) -> Retried:
        """What a person is told of a model that takes no images."""
        reason = f"{self.provider} takes no images for {self.name}; from now on it is told in words that there was one"
        cause = type(error).__name__
        return Retried(attempt=1, cause=cause, reason=reason, delay=0.0, model=self.name, provider=self.provider)

    async def aclose(self) -> None:
        """Release connections; a second call does nothing."""
        await self._http.aclose()

    async def _answer(self, request: ModelRequest, body: bytes) -> AsyncGenerator[Delta | Reply]:
        reply = self._format.assembler(self._encoder.call_ids(request), self._spec.vendor)
        started, first = time.monotonic(), 0.0
        async with self._http.post(body) as exchange:
            try:
                async with aclosing(exchange.events()) as events:
                    halves = Halves()
                    async for event in events:
                        for delta in self._event(event, reply, halves):
                            first = first or time.monotonic() - started
                            exchange.token(limit=self._spec.timeouts.between_tokens)
                            yield delta
                        if reply.finish:
                            exchange.token(limit=self._spec.timeouts.tail)
            except ModelError:
                if not reply.finish:
                    raise
            self._check(reply, exchange)
        message, stop = reply.message(), reply.stop
        yield Reply(
            message=message,
            stop="tool_calls" if message.calls and stop in ("end", "other") else stop,
            usage=reply.usage,
            model=reply.model,
            provider=self._spec.vendor,
            request_id=exchange.headers.get("x-request-id", "") or exchange.headers.get("request-id", "") or reply.id,
            seconds=time.monotonic() - started,
            first_token_seconds=first,
        )

    def _event(self, event: ServerEvent, reply: Assembler, halves: Halves) -> Iterable[Delta]:
        data = event.data.strip()
        if data == DONE:
            reply.finish = reply.finish or ("stop" if reply.began else "")
            return ()
        try:
            value: Any = halves.decode(data) if data else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise malformed(self._spec, self._url, data) from error
        if value is None:
            return ()
        whole = event.name == "document"
        listed: list[Any] = value if whole and isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
        for one in listed:
            if not isinstance(one, dict):
                raise malformed(self._spec, self._url, data)
            self._raise_told(reply.told(event.name, cast(Json, one)))
        if not whole:
            return reply.feed(listed[0])
        deltas = self._document(listed, reply) if isinstance(value, list) else reply.document(listed[0])
        if deltas is None:
            raise malformed(self._spec, self._url, data)
        return deltas

    def _document(self, events: list[Json], reply: Assembler) -> Iterable[Delta] | None:
        """The deltas of an answer that came as a list of events."""
        deltas = [delta for event in events for delta in reply.feed(event)]
        return deltas if reply.began else None

    def _raise_told(self, told: Any) -> None:
        """Raise the error that a server tells inside a stream that began well."""
        if not told:
            return
        fields = cast(Json, told) if isinstance(told, dict) else {}
        code: Any = fields.get("code") or fields.get("status")
        status = int(code) if isinstance(code, int | str) and re.fullmatch(r"[45]\d\d", str(code)) else 0
        body = msgspec.json.encode({"error": told})
        raise Failure(self._spec, self._url, status=status, headers={}, body=body).error()

    def _check(self, reply: Assembler, exchange: Exchange) -> None:
        """Raise unless the answer came to its end."""
        if not reply.finish:
            if not reply.began and exchange.strange:
                raise malformed(self._spec, self._url, exchange.head)
            raise ConnectionFailedError(
                f"the answer of {self._spec.model} from {shown(self._url)} broke off before its end",
                next="try again; nothing of it was carried out",
            )
        if reply.empty and reply.refused:
            raise ContentFilterError(
                f"{self._spec.vendor} refused to answer (reason {reply.finish!r})", next="say it in other words"
            )


def learned(
    quirks: Quirks, error: ModelError, complaints: tuple[Complaint, ...], *, tried: set[tuple[str, Any]]
) -> Quirks | None:
    """The dialect to try after a refusal that names what the server does not take; None when it names nothing new.

    Each value is tried once for a request, and a limit is taken from one complaint; `tried` keeps which.
    """
    for pattern, field, values in complaints:
        if not error.status:
            continue
        found = re.search(pattern, error.what, re.IGNORECASE | re.DOTALL)
        if found is None:
            continue
        if limit := found.groupdict().get("limit"):
            values = () if any(name == field for name, _ in tried) else (int(limit.replace(",", "")),)
        before = (field, getattr(quirks, field))
        value = next((v for v in values if (field, v) not in {before, *tried}), None)
        if value is not None:
            tried |= {before, (field, value)}
            return msgspec.structs.replace(quirks, **{field: value})
    return None
