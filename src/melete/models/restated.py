"""Texts of a stream from servers that send in each piece all that was there before as well. Part: models.

Nothing announces such a stream. It is known by pieces that each begin with the whole of the one before; what was taken for new
until then is put right in the text, while a screen has shown those first words twice.
"""

SURE = 2
"""How often in a row a piece must begin with the one before."""
LEAST = 12
DIVERSE = 4
"""Characters, and different ones, that the piece before must have: rules and blanks repeat themselves in any stream."""


class Growing:
    """One text as it grows; `text` is all of it. `anew` says that the last piece showed the earlier ones to be repetitions."""

    def __init__(self) -> None:
        self.anew = False
        self._pieces: list[str] = []
        self._last = ""
        self._longer = 0
        self._restated = False

    @property
    def text(self) -> str:
        """All of the text."""
        return "".join(self._pieces)

    def add(self, piece: str) -> str:
        """Take a piece and give back what is new in it."""
        last, self._last = self._last, piece
        grown = bool(last) and piece.startswith(last)
        self._longer = self._longer + 1 if grown and len(piece) > len(last) else 0
        self.anew = not self._restated and self._longer >= SURE and len(last) >= LEAST and len(set(last)) >= DIVERSE
        if self.anew:
            self._restated = True
            self._pieces = [last]
        new = piece[len(last) :] if self._restated and grown else piece
        self._pieces.append(new)
        return new
