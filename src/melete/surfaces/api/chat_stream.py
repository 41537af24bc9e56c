"""A chat completion as it is written: the events of its run become chunks, silences comments, and a failure an error."""

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from melete.app.runs import Going
from melete.app.serve import Server
from melete.core.errors import MeleteError
from melete.core.event import Event, RunEnded, RunStarted
from melete.surfaces.api import sse
from melete.surfaces.api.chat_chunks import Chunks, shows
from melete.surfaces.api.chat_failures import failure
from melete.surfaces.api.errors import ApiError, encoded, refusal
from melete.surfaces.api.leaving import cancels

HOLD = 5.0
"""Seconds for which the head of a stream waits for something to tell: until then a failure still has a status of its own."""


class ChatStream:
    """The stream of one run: `begin` it before its head is sent, then send `frames`.

    `on_answer` is told the answer's last fact and the text as it was sent. A `going` run is cancelled with the stream where the
    settings say so.
    """

    def __init__(
        self, server: Server, events: AsyncGenerator[Event | None], chunks: Chunks, *, going: Going | None = None
    ) -> None:
        self.on_answer: Callable[[RunEnded, str], None] | None = None
        self._redact = server.app.redact
        self._events = events
        self._chunks = chunks
        self._going = going
        self._cancels = cancels(server)
        self._patience = server.app.loaded.settings.server.keepalive
        self._ahead: list[Event] = []

    async def begin(self) -> None:
        """Wait until there is something to tell, or for a while; raises ApiError when the run has failed by then."""
        try:
            async for event in self._rest():
                if event is None:
                    return
                self._ahead.append(event)
                if isinstance(event, RunEnded):
                    await self._check(event)
                if shows(event):
                    return
        except BaseException:
            await self._events.aclose()
            raise

    async def frames(self) -> AsyncGenerator[bytes]:
        """What is sent, to the end of the answer; what comes together is sent together."""
        try:
            async with aclosing(self._events), aclosing(self._later()) as later:
                if first := b"".join([await self._made(event) for event in self._ahead]):
                    yield first
                async for event in later:
                    if frame := await self._made(event):
                        yield frame
        except MeleteError as error:
            yield b"data: " + self._redact(encoded(refusal(error)).decode()).encode() + b"\n\n"
        finally:
            if self._cancels and self._going and not self._going.over:
                self._going.cancel()

    async def _made(self, event: Event | None) -> bytes:
        """What is sent for an event; raises ApiError for the end of a run that gave no answer."""
        match event:
            case None:
                return sse.COMMENT
            case RunStarted():
                return self._chunks.begin(event)
            case RunEnded():
                await self._check(event)
                last = b"".join(self._chunks.end(event))
                if self.on_answer:
                    self.on_answer(event, self._chunks.told)
                return last
            case _:
                return b"".join(self._chunks.of(event))

    async def _later(self) -> AsyncGenerator[Event | None]:
        """The events behind those that were read ahead; None where it is silent for too long."""
        if self._ahead and isinstance(self._ahead[-1], RunEnded):
            return
        silent = 0.0
        async with aclosing(self._rest()) as rest:
            async for event in rest:
                silent = silent + tick_of(self._patience) if event is None else 0.0
                if event is None and silent < self._patience:
                    continue
                silent = 0.0
                yield event

    async def _rest(self) -> AsyncGenerator[Event | None]:
        """The events up to the last fact, whatever becomes of them; raises what kept the run from having one."""
        async for event in self._events:
            yield event
            if isinstance(event, RunEnded):
                return
        if self._going is None:
            raise ApiError(502, "no_end", "the run has no end", next="see its events")
        yield await self._going.ended()

    async def _check(self, ended: RunEnded) -> None:
        """Raise ApiError for a run that gave no answer; when this returns, its session may be used again."""
        if self._going:
            await self._going.ended()
        found = failure(ended, self._redact)
        if found is not None:
            raise found


def tick_of(patience: float) -> float:
    """Seconds between two looks at a silent run: `patience`, in equal parts of at most HOLD seconds."""
    return patience / math.ceil(patience / HOLD)
