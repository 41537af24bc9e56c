"""JSON in which a server has cut a character in two: half a surrogate pair in one event, half in the next. Part: models.

JSON may say so with `\\ud83d` and UTF-8 may not, so that a strict reader refuses the event. The halves are joined here; one that
stays alone is dropped.
"""

import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

from melete.core.plugin import Lazy
from melete.models.encoder import sound_text

_ESCAPED = rb"\\u[dD][89a-fA-F]"
_loads: Lazy[Callable[[bytes], Any]] = Lazy("json:loads")


class Halves:
    """Reads the events of one stream, and keeps a half that waits for the other one."""

    def __init__(self) -> None:
        self._waiting = ""

    def decode(self, data: bytes) -> Any:
        """The JSON value; raises msgspec.DecodeError, UnicodeDecodeError and RecursionError as a strict reader does."""
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if not re.search(_ESCAPED, data):
                raise
            try:
                value = _loads.load()(data)
            except ValueError as error:
                raise msgspec.DecodeError(str(error)) from error
            return sound_text(self._joined(value))
        return value

    def _joined(self, value: Any) -> Any:
        """The value with the waiting half before the text that begins with its other half, and a last half kept for later."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {name: self._joined(item) for name, item in cast(dict[str, Any], value).items()}
        if isinstance(value, list):
            return [self._joined(item) for item in cast(list[Any], value)]
        return value

    def _text(self, text: str) -> str:
        if self._waiting and "\udc00" <= text[:1] <= "\udfff":
            text, self._waiting = self._waiting + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._waiting = text[:-1], text[-1]
        return text
