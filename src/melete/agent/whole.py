"""Deltas without secrets: what a model writes arrives in pieces, and a key that is cut in two looks like none. Layer 2.

So the end of a piece is held back until a blank, or a letter of a script that keys are not written in, shows where the word ends.
A private key is held back until its last line.
"""

import re
from collections.abc import Callable
from typing import Final

from msgspec import structs

from melete.core.event import CallDelta, Delta

LONGEST: Final = 8_000
"""Characters of a word or a private key that are held back; of a longer one what is there goes out."""
_OPEN: Final = re.compile(
    rf"-----BEGIN[A-Z0-9 ]{{0,60}}+(?:-{{0,5}}+|-----(?:(?!-----END[A-Z0-9 ]{{1,60}}+-----[^!-~]).){{0,{LONGEST}}}+)\Z"
    rf"|(?<![!-~])[!-~]{{1,{LONGEST}}}+\Z",
    re.DOTALL,
)


class Whole:
    """Passes deltas on in whole words, secrets taken out; `flush` passes on what is held back."""

    def __init__(self, emit: Callable[[Delta], None], redact: Callable[[str], str]) -> None:
        self._emit = emit
        self._redact = redact
        self._held: Delta | None = None

    def put(self, delta: Delta) -> None:
        """Take a piece; what is certain by now goes out."""
        if self._held is not None and _kind(self._held) == _kind(delta):
            delta = _with(delta, _text(self._held) + _text(delta))
        else:
            self.flush()
        text = _text(delta)
        found = _OPEN.search(text)
        rest = text[found.start() :] if found else ""
        self._held = _with(delta, rest, later=True) if rest else None
        if len(rest) < len(text) or _begins(delta):
            self._emit(_with(delta, self._redact(text[: len(text) - len(rest)])))

    def flush(self) -> None:
        """Nothing more comes of the last word."""
        if self._held is not None:
            held, self._held = self._held, None
            self._emit(_with(held, self._redact(_text(held))))


def _kind(delta: Delta) -> tuple[type[Delta], int]:
    return type(delta), delta.index if isinstance(delta, CallDelta) else 0


def _text(delta: Delta) -> str:
    return delta.arguments if isinstance(delta, CallDelta) else delta.text


def _begins(delta: Delta) -> bool:
    return isinstance(delta, CallDelta) and bool(delta.id or delta.name)


def _with(delta: Delta, text: str, *, later: bool = False) -> Delta:
    """The delta with another text; `later` without the call's name, which is said once."""
    if isinstance(delta, CallDelta):
        named = {"id": "", "name": ""} if later else {}
        return structs.replace(delta, arguments=text, **named)
    return structs.replace(delta, text=text)
