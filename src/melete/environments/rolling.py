"""The end of a text that only grows. Used by `processes`."""

from collections import deque

BUFFER = 200_000
"""Characters that are held."""


class RollingText:
    """The last `size` characters of a text that only grows, and how much of it was already asked for."""

    def __init__(self, size: int = BUFFER) -> None:
        self._size = size
        self._pieces: deque[str] = deque()
        self._held = 0
        self._total = 0
        self._seen = 0

    def add(self, text: str) -> None:
        """Put `text` at the end and forget what falls out at the front."""
        if not text:
            return
        self._pieces.append(text)
        self._held += len(text)
        self._total += len(text)
        while self._held - len(self._pieces[0]) >= self._size:
            self._held -= len(self._pieces.popleft())
        if self._held > self._size:
            self._pieces[0] = self._pieces[0][self._held - self._size :]
            self._held = self._size

    def all(self) -> tuple[str, int]:
        """What is held, and how many characters came before it."""
        return "".join(self._pieces), self._total - self._held

    def new(self) -> tuple[str, int]:
        """What came since the last such call, and how many characters of that are lost."""
        unseen = self._total - self._seen
        self._seen = self._total
        kept = min(unseen, self._held)
        text = "".join(self._pieces)
        return text[len(text) - kept :], unseen - kept
