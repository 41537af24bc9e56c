"""The numbers of a response's events: each tells a place that does not depend on how the model's words came in pieces.

An answer of the model begins a block of numbers, what follows from it another one, and within a block every character counts one.
So whoever was cut off goes on behind the last number that was read, also after a restart, when the facts of the log stand for all
pieces.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct

from melete.surfaces.api.response_events import Numbered, ResponseEvent, ThoughtWords, WordsAdded

BLOCK = 100_000
"""Where blocks begin: at multiples of this, so that a longer answer takes several, and whole runs stay below what 32 bits hold."""
E = TypeVar("E", bound=Numbered)


class Open(Struct, kw_only=True):
    """An item that is being written."""

    id: str
    index: int
    text: str = ""


class Numbers:
    """Numbers events as they come, and keeps those behind the number `after` until they are asked for."""

    def __init__(self, after: int = -1) -> None:
        self.after = after
        self._next = 0
        self._new: list[ResponseEvent] = []

    def told(self) -> Sequence[ResponseEvent]:
        """The events since this was asked last."""
        new, self._new = self._new, []
        return new

    def next_block(self) -> None:
        """Begin another block."""
        self._next = (self._next // BLOCK + 1) * BLOCK

    def number(self) -> int:
        """The next number."""
        self._next += 1
        return self._next - 1

    def add(self, event: ResponseEvent) -> None:
        """Tell an event that has its number."""
        self._new.append(event)

    def say(self, kind: type[E], **fields: Any) -> None:
        """Tell an event of this kind."""
        if (number := self.number()) > self.after:
            self._new.append(kind(sequence_number=number, **fields))  # pyright: ignore[reportArgumentType]

    def spell(self, kind: type[WordsAdded | ThoughtWords], one: Open, text: str) -> None:
        """Tell words of an item, each character of which has a number; of those that were read before only the rest."""
        one.text += text
        before = self._next - 1
        self._next += len(text)
        number = before + len(text)
        if number > self.after:
            rest = text[max(0, self.after - before) :]
            self._new.append(kind(sequence_number=number, item_id=one.id, output_index=one.index, delta=rest))
