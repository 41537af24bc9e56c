"""Keeps the conversation inside the model's window, in its first form: old tool results and pictures give way. Layer 2.

The log keeps everything. A compaction is a fact that opens a new segment; it is the only place where the prefix of the next
request may differ from the one before.
"""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from melete.core.event import Compacted
from melete.core.message import Image, Message, Part, Text, ToolResult
from melete.core.model import ModelRequest
from melete.core.session import Session

KEEPS = (8, 4, 2, 0)
"""Messages at the end that are not touched: at first, and each time that this was not enough."""
WORTH = 400
"""Characters below which a result is not worth pruning."""
SHOWN = 160
"""Characters that stay of a pruned result."""
GAIN = 0.2
"""Share of the window that must come free before the prefix is broken: otherwise each step would break it anew."""
PRUNED = '{"pruned":'
PICTURE = 1_500
"""Tokens that a picture takes in the window, about; its bytes say nothing about that."""
LEFT_OUT = Text(text="[A picture was here; it is left out to save room.]")

Cut = Callable[[Part], Part]
"""A part as it is after pruning; the same object where there is nothing to prune."""


class Compactor:
    """Prunes when the provider's own token count passes the threshold, or when a request did not fit.

    `window` is asked each time: another model may have another one.
    """

    def __init__(self, *, window: Callable[[], int], threshold: float) -> None:
        self._window = window
        self._threshold = threshold
        self._known = 0

    async def fit(self, session: Session) -> None:
        """Prune when the last request used more than the threshold's share of the window and enough would come free.

        Before the first request to a smaller window it goes on until the conversation should fit.
        """
        window = self._window()
        other, self._known = window != self._known, window
        used = session.transcript.last_usage.total
        if used > self._threshold * window and _gain(session, KEEPS[0], cut_result) >= GAIN * window:
            await prune(session, KEEPS[0], cut_result, how="old tool results pruned")
        for keep in KEEPS if other else ():
            if session.transcript.last_usage.total <= window:
                return
            if _gain(session, keep, cut_result) > 0:
                await prune(session, keep, cut_result, how="old tool results pruned for a smaller window")

    async def shrink(self, session: Session, *, pictures: bool = False) -> bool:
        """Prune now, old `pictures` first where the bytes were too many; False when there is nothing left to prune."""
        results: list[tuple[int, Cut, str]] = [(keep, cut_result, "old tool results pruned") for keep in KEEPS]
        seen: list[tuple[int, Cut, str]] = [(keep, cut_picture, "old pictures left out") for keep in KEEPS[-2:]]
        for keep, cut, how in (*seen, *results) if pictures else (*results, *seen):
            if _gain(session, keep, cut, tokens=not pictures) > 0:
                await prune(session, keep, cut, how=how)
                return True
        return False

    def excess(self, request: ModelRequest) -> tuple[int, int]:
        """About how many tokens a request takes, and the window, where it takes more; else zeros."""
        taken, window = _tokens(request.messages) + _head(request), self._window()
        return (taken, window) if taken > window else (0, 0)

    def roomy(self, request: ModelRequest) -> bool:
        """Whether a request takes less than half of the window, as far as characters tell."""
        return _tokens(request.messages) + _head(request) < self._window() // 2


def _head(request: ModelRequest) -> int:
    return len(msgspec.json.encode((request.system, request.tools))) // 4


def cut_result(part: Part) -> Part:
    """A tool result with its beginning only and without its pictures, where that is worth it."""
    if not isinstance(part, ToolResult):
        return part
    if len(part.content) <= WORTH or part.content.startswith(PRUNED):
        return cut_picture(part)
    fields = {"pruned": f"{len(part.content)} characters left out to save room", "began": part.content[:SHOWN]}
    return msgspec.structs.replace(part, content=_json(fields), images=())


def cut_picture(part: Part) -> Part:
    """A picture as the remark that it is gone, a tool result without its pictures."""
    if isinstance(part, Image):
        return LEFT_OUT
    return msgspec.structs.replace(part, images=()) if isinstance(part, ToolResult) and part.images else part


async def prune(session: Session, keep: int, cut: Cut, *, how: str) -> None:
    """Record a compaction in which all but the last `keep` messages are cut."""
    before = session.messages
    messages = pruned(before, keep, cut)
    await session.record(
        Compacted(
            segment=uuid4().hex[:12],
            parent=session.transcript.segment or session.ref.id,
            messages=tuple(messages),
            tokens_before=_tokens(before),
            tokens_after=_tokens(messages),
            how=how,
        ),
        durable=True,
    )


def pruned(messages: Sequence[Message], keep: int, cut: Cut) -> list[Message]:
    """The messages, all but the last `keep` of them cut."""
    old, new = _split(messages, keep)
    return [*(_cut_message(message, cut) for message in old), *new]


def _split(messages: Sequence[Message], keep: int) -> tuple[Sequence[Message], Sequence[Message]]:
    """The messages that may be touched and those that may not: nobody's last words are."""
    last = 1 if messages and messages[-1].role == "user" else 0
    at = max(0, len(messages) - max(keep, last))
    return messages[:at], messages[at:]


def _cut_message(message: Message, cut: Cut) -> Message:
    parts = tuple(map(cut, message.parts))
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return msgspec.structs.replace(message, parts=parts)


def _gain(session: Session, keep: int, cut: Cut, *, tokens: bool = True) -> int:
    """About how many tokens, or bytes, would come free."""
    size = _tokens if tokens else _bytes
    old, _ = _split(session.messages, keep)
    pairs = [(part, cut(part)) for message in old for part in message.parts]
    return sum(size([part]) - size([short]) for part, short in pairs if part is not short)


def _bytes(values: Sequence[Message | Part]) -> int:
    return len(msgspec.json.encode(values))


def _tokens(values: Sequence[Message | Part]) -> int:
    """Characters / 4, and a fixed number for a picture."""
    pictures = [image for value in values for image in _images(value)]
    return (_bytes(values) - sum(len(image.data) for image in pictures)) // 4 + PICTURE * len(pictures)


def _images(value: Message | Part) -> list[Image]:
    if isinstance(value, Message):
        return [image for part in value.parts for image in _images(part)]
    if isinstance(value, ToolResult):
        return list(value.images)
    return [value] if isinstance(value, Image) else []


def _json(fields: dict[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()
