"""Server-sent events out of bytes that arrive in any pieces. Part: models.

Own parser, because events must come out of bytes without decoding every line to text first, and because the last event of
a stream that ends without its blank line is wanted too: some servers close right after it.
"""

from collections.abc import Iterator

from msgspec import Struct

BOM = b"\xef\xbb\xbf"
FIELDS = frozenset({b"", b"data", b"event", b"id", b"retry"})


class ServerEvent(Struct, frozen=True, kw_only=True):
    """One event: its `name`, `message` where the server gave none, and its data, lines joined by a newline."""

    name: str
    data: bytes


class EventParser:
    """Turns pieces of a stream into events; the same events come out however the stream is cut.

    `met` says whether a line of the format has come at all, a comment or a field.
    """

    def __init__(self) -> None:
        self._start = True
        self._after_cr = False
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []
        self._name = b""
        self.buffered = 0
        self.met = False

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """Yield the events that `piece` completes; `buffered` then counts the bytes of what is still open."""
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        self.buffered += len(piece)
        if b"\n" not in piece and b"\r" not in piece:
            if piece:
                self._pieces.append(piece)
            return
        self._after_cr = piece.endswith(b"\r")
        lines = self._lines(piece)
        self._pieces = [lines.pop()]
        for line in lines:
            if line:
                self._line(line)
            elif (event := self._dispatch()) is not None:
                yield event
        self.buffered = len(self._pieces[0]) + sum(map(len, self._data))

    def close(self) -> Iterator[ServerEvent]:
        """Yield the event that lacks only its final blank line; its last line may be cut."""
        line = b"".join(self._pieces)
        self._pieces = []
        if self._start:
            line = line.removeprefix(BOM)
        if line:
            self._line(line)
        if (event := self._dispatch()) is not None:
            yield event

    def _lines(self, piece: bytes) -> list[bytes]:
        self._pieces.append(piece)
        text = b"".join(self._pieces)
        if self._start:
            text = text.removeprefix(BOM)
            self._start = False
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return text.split(b"\n")

    def _line(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        self.met = self.met or field in FIELDS
        if value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value

    def _dispatch(self) -> ServerEvent | None:
        data, name = self._data, self._name
        self._data, self._name = [], b""
        if not data:
            return None
        return ServerEvent(name=name.decode("utf-8", "replace") or "message", data=b"\n".join(data))
