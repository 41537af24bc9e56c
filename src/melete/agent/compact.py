"""Keeps the conversation inside the model's window, in its first form: old tool results give way. Layer 2.

The log keeps everything. A compaction is a fact that opens a new segment; it is the only place where the prefix of the next
request may differ from the one before.
"""

from collections.abc import Callable, Sequence
from uuid import uuid4

import msgspec

from melete.core.event import Compacted
from melete.core.message import Message, Part, ToolResult
from melete.core.session import Session

KEEP = 8
"""Messages at the end that are never touched."""
WORTH = 400
"""Characters below which a result is not worth pruning."""
GAIN = 0.2
"""Share of the window that must come free before the prefix is broken: otherwise each step would break it anew."""


class Compactor:
    """Prunes old tool results when the provider's own token count passes the threshold, or when a request did not fit."""

    def __init__(self, *, window: Callable[[], int], threshold: float) -> None:
        self._window = window
        self._threshold = threshold

    async def fit(self, session: Session) -> None:
        """Prune when the last request used more than the threshold's share of the window and enough would come free."""
        used = session.transcript.last_usage.total
        if used > self._threshold * self._window() and self._gain(session) >= GAIN * self._window():
            await self.shrink(session)

    async def shrink(self, session: Session) -> bool:
        """Prune now; False when there is nothing left to prune."""
        before = session.messages
        if self._gain(session) <= 0:
            return False
        messages = [_pruned(m) for m in before[:-KEEP]] + list(before[-KEEP:])
        was, now = _size(before), _size(messages)
        await session.record(
            Compacted(
                segment=uuid4().hex[:12],
                parent=session.transcript.segment or session.ref.id,
                messages=tuple(messages),
                tokens_before=was // 4,
                tokens_after=now // 4,
                how="old tool results pruned",
            ),
            durable=True,
        )
        return True

    def _gain(self, session: Session) -> int:
        """About how many tokens would come free."""
        return sum(_size([p]) - _size([_short(p)]) for m in session.messages[:-KEEP] for p in m.parts if _long(p)) // 4


def _long(part: Part) -> bool:
    return isinstance(part, ToolResult) and (len(part.content) > WORTH or bool(part.images))


def _pruned(message: Message) -> Message:
    if not any(_long(p) for p in message.parts):
        return message
    return msgspec.structs.replace(message, parts=tuple(_short(p) if _long(p) else p for p in message.parts))


def _short(part: Part) -> Part:
    if not isinstance(part, ToolResult):
        return part
    note = msgspec.json.encode(
        {"pruned": f"{len(part.content)} characters left out to save room", "began": part.content[:160]}
    )
    return msgspec.structs.replace(part, content=note.decode(), images=())


def _size(messages: Sequence[Message | Part]) -> int:
    return len(msgspec.json.encode(messages))
