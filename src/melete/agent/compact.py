"""Keeps the conversation inside the model's window: old results give way first, then the older part is summed up. Layer 2.

The log keeps everything. A compaction is a fact that opens a new segment; it is the only place where the prefix of the next
request may differ from the one before.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from melete.agent.sizes import size, tokens
from melete.core.event import Compacted, Notice, Reply
from melete.core.message import Image, Message, Part, Text, ToolResult
from melete.core.model import ModelRequest
from melete.core.plugin import Lazy
from melete.core.session import Session

if TYPE_CHECKING:
    from melete.agent.notable import Value
    from melete.agent.shorten import Means, Parts, Room, Shortened, Wish

_values: "Lazy[Callable[[str], list[Value]]]" = Lazy("melete.agent.notable:values")
_parted: "Lazy[Callable[..., Parts]]" = Lazy("melete.agent.shorten:parted")
_room: "Lazy[Callable[..., Room]]" = Lazy("melete.agent.shorten:room_of")
_shortened: "Lazy[Callable[..., Awaitable[Shortened]]]" = Lazy("melete.agent.shorten:shortened")
_any: "Lazy[Callable[[], Wish]]" = Lazy("melete.agent.shorten:Wish")

KEEPS = (8, 4, 2, 0)
"""Messages at the end that are not touched: at first, and each time that this was not enough."""
WORTH = 400
"""Characters below which a result is not worth pruning."""
SHOWN = 160
"""Characters that stay of a pruned result."""
LEVELS = 4
"""How often the room is halved where what is left would still be too much."""
GAIN = 0.2
"""Share of the window that must come free before the prefix is broken: otherwise each step would break it anew."""
PRUNED = '{"pruned":'
HOLDS = 240
"""Characters of the values that stay of a pruned result."""
FULL = 0.9
"""Share of the window that nothing but the answer may still be put into."""
LEAST = 0.2
"""Share of the threshold that must come free before an older part is summed up, as long as the window is not full."""
BESIDE = 0.5
"""Share of the threshold that a conversation has beside a long prompt."""
LEFT_OUT = Text(text="[A picture was here; it is left out to save room.]")

Cut = Callable[[Part], Part]
"""A part as it is after pruning; the same object where there is nothing to prune."""


class Compactor:
    """Makes room when the provider's own token count passes the threshold, or when a request did not fit.

    `window` is asked each time: another model may have another one. `target` is the share of the threshold that the latest messages
    take when the others are summed up, which is done where there are `means` for it, called for when they are; else it only prunes.
    """

    def __init__(
        self,
        *,
        window: Callable[[], int],
        threshold: float,
        target: float = 0.2,
        means: "Callable[[], Means] | None" = None,
    ) -> None:
        self._window = window
        self._threshold = threshold
        self._target = target
        self._means = means
        self._known = 0

    async def fit(self, session: Session) -> None:
        """Make room when the conversation takes more than the threshold's share of the window and enough would come free.

        Before the first request to a smaller window it goes on until the conversation should fit.
        """
        window = self._window()
        other, self._known = window != self._known, window
        used, most = self._counted(session), self._most(session, window)
        full = self._used(session) > FULL * window
        if (used > most and not self._again(session)) or (full and self._means):
            keep = self._prunable(session, used - most, window)
            if keep is not None:
                await prune(session, keep, cut_result, how="old tool results pruned")
            else:
                await self.sum_up(session, urgent=full)
        for keep in KEEPS if other else ():
            if self._used(session) <= window:
                return
            if _gain(session, keep, cut_result) > 0:
                await prune(session, keep, cut_result, how="old tool results pruned for a smaller window")
        if other and self._used(session) > window:
            await self.sum_up(session, urgent=True)

    async def shrink(self, session: Session, *, pictures: bool = False) -> bool:
        """Make room now, old `pictures` first where the bytes were too many; False when there is nothing left to take away."""
        results: list[tuple[int, Cut, str]] = [(keep, cut_result, "old tool results pruned") for keep in KEEPS]
        seen: list[tuple[int, Cut, str]] = [(keep, cut_picture, "old pictures left out") for keep in KEEPS[-2:]]
        tries = [*seen, *results] if pictures else [*results, *seen]
        summed = self._means is None
        for keep, cut, how in tries:
            if _gain(session, keep, cut, in_tokens=not pictures) > 0:
                await prune(session, keep, cut, how=how)
                return True
            if not summed and (cut is cut_result or not pictures):
                summed = True
                if await self.sum_up(session, urgent=True):
                    return True
        return False

    async def sum_up(self, session: Session, wish: "Wish | None" = None, *, urgent: bool = False) -> Compacted | None:
        """Sum the older part up and store that; None where nothing would be gained by it, which is judged before a model is asked.

        What an `urgent` one gains may be little. What a person wishes is done as far as anything falls out.
        """
        if self._means is None:
            return None
        window = self._window()
        if urgent:  # a server may have a smaller window than is thought
            window = min(window, max(self._used(session), 2 * _fixed(session), 1_000))
        parts, room, limit = self._planned(session, window, wish)
        gain = tokens([*parts.head, *parts.notes, *parts.out]) - room.tokens
        if not parts.out or (wish is None and not urgent and gain < LEAST * self._most(session, window)):
            return None
        wish = wish or _any.load()()
        made = await _shortened.load()(session, self._means(), parts, room, wish=wish, limit=limit)
        fact, account = _fact(session, made, wish), made.account
        if wish.preview:
            return fact
        if fact.tokens_after >= fact.tokens_before:
            return None
        if not account.text and not account.rests:
            await session.record(_failed(account.problem))
        await session.record(fact, durable=True)
        return fact

    def _planned(self, session: Session, window: int, wish: "Wish | None") -> "tuple[Parts, Room, int]":
        """What falls out and what room the rest has, and the tokens that it may take; less after each vain try."""
        fixed, keep = _fixed(session), wish.keep if wish else None
        span, limit = max(self._most(session, window) - fixed, window // 8), int(FULL * window) - fixed
        tail = int(self._target * self._threshold * window)
        for level in range(self._tried(session), LEVELS):
            room = _room.load()(span, tail, level=level)
            parts = _parted.load()(session.messages, room.tail, keep=keep)
            if parts.out and (keep is not None or room.tokens + tokens(parts.tail) <= limit):
                return parts, room, limit
        room = _room.load()(span, tail, level=LEVELS)
        return _parted.load()(session.messages, room.tail, keep=keep), room, limit

    def stays(self, session: Session) -> Sequence[Message]:
        """What will be in view word for word when the next message has come: less than now where room is about to be made."""
        window = self._window()
        if self._means is None or self._counted(session) <= self._most(session, window) or self._again(session):
            return session.messages
        keep = self._prunable(session, self._counted(session) - self._most(session, window), window)
        if keep is not None:
            return pruned(session.messages, keep, cut_result)
        parts, _, _ = self._planned(session, window, None)
        return [*parts.head, *parts.tail]

    def excess(self, request: ModelRequest) -> tuple[int, int]:
        """About how many tokens a request takes, and the window, where it takes more; else zeros."""
        taken, window = tokens(request.messages) + _head(request), self._window()
        return (taken, window) if taken > window else (0, 0)

    def roomy(self, request: ModelRequest) -> bool:
        """Whether a request takes less than half of the window, as far as characters tell."""
        return tokens(request.messages) + _head(request) < self._window() // 2

    def _counted(self, session: Session) -> int:
        """Tokens of the last request and its reply, as the provider counted them; reckoned where it does not count."""
        counted = session.transcript.last_usage.total
        return counted if counted or self._means is None else _fixed(session) + tokens(session.messages)

    def _used(self, session: Session) -> int:
        """Tokens of the next request: what was counted last, and what came since."""
        new = takewhile(lambda message: message.role != "assistant", reversed(session.messages))
        return self._counted(session) + (tokens([*new]) if self._means and session.transcript.last_usage.total else 0)

    def _most(self, session: Session, window: int) -> int:
        """Tokens beyond which room is made; a long prompt does not use up the conversation's part."""
        most = self._threshold * window
        return int(most if self._means is None else max(most, min(_fixed(session) + BESIDE * most, FULL * window)))

    def _prunable(self, session: Session, excess: int, window: int) -> int | None:
        """How many messages may stay whole for pruning to be worth it, and enough where the rest could be summed up."""
        least = min(GAIN * window, 2 * LEAST * self._most(session, window)) if self._means else GAIN * window
        for keep in KEEPS[:3] if self._means else KEEPS[:1]:
            gain = _gain(session, keep, cut_result)
            if gain >= least and (gain >= excess or self._means is None):
                return keep
        return None

    def _again(self, session: Session) -> bool:
        """Whether nothing was answered since the last compaction."""
        return self._means is not None and self._tried(session) > 0

    def _tried(self, session: Session) -> int:
        """How many compactions there were since the last reply."""
        new = takewhile(lambda fact: not isinstance(fact, Reply), reversed(session.transcript.trail))
        return sum(isinstance(fact, Compacted) for fact in new)


def _fact(session: Session, made: "Shortened", wish: "Wish") -> Compacted:
    account = made.account
    how = f"summed up by {account.by}" if account.text else f"shortened without a summary ({account.cause})"
    return Compacted(
        segment=uuid4().hex[:12],
        parent=session.transcript.segment or session.ref.id,
        messages=tuple(made.messages),
        tokens_before=tokens(session.messages),
        tokens_after=tokens(made.messages),
        how=how,
        summary=account.text,
        state=made.state,
        focus=wish.focus,
        since=made.since,
    )


def _failed(problem: str) -> Notice:
    text = (
        f"the older part of the conversation could not be summed up: {problem}; the state of the task and a line for each message"
        " stand in its place, and the log keeps all of it; check auxiliary.compact"
    )
    return Notice(text=text, level="warning", about="compaction")


def _fixed(session: Session) -> int:
    """Tokens of what stands before the conversation."""
    frame = session.transcript.frame
    return len(msgspec.json.encode((frame.system, frame.tools))) // 4 if frame else 0


def _head(request: ModelRequest) -> int:
    return len(msgspec.json.encode((request.system, request.tools))) // 4


def cut_result(part: Part) -> Part:
    """A tool result with its beginning only and without its pictures, where that is worth it."""
    if not isinstance(part, ToolResult):
        return part
    if len(part.content) <= WORTH or part.content.startswith(PRUNED):
        return cut_picture(part)
    fields = {"pruned": f"{len(part.content)} characters left out to save room", "began": part.content[:SHOWN]}
    if held := _held(part.content):
        fields["holds"] = held
    if len(_json(fields)) >= len(part.content):
        return cut_picture(part)
    return msgspec.structs.replace(part, content=_json(fields), images=())


@lru_cache(maxsize=256)
def _held(content: str) -> str:
    """The values of a result that are most like facts, as far as its beginning does not show them."""
    found = [one.text for one in _values.load()(content) if one.weight > 1 and one.text not in content[:SHOWN]]
    held = ""
    for text in found:
        if len(held) + len(text) > HOLDS:
            break
        held += f"{text}; "
    return held.rstrip("; ")


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
            tokens_before=tokens(before),
            tokens_after=tokens(messages),
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


def _gain(session: Session, keep: int, cut: Cut, *, in_tokens: bool = True) -> int:
    """About how many tokens, or bytes, would come free."""
    measure = tokens if in_tokens else size
    old, _ = _split(session.messages, keep)
    pairs = [(part, cut(part)) for message in old for part in message.parts]
    return sum(measure([part]) - measure([short]) for part, short in pairs if part is not short)


def _json(fields: dict[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()
