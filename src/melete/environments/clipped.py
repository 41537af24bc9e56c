"""Output with a bound. Used wherever output of programs is kept."""

CONTINUATION = range(0x80, 0xC0)  # bytes within a UTF-8 character
LEADS = (0, 0xC0, 0xE0, 0xF0)  # from which first byte on it has one, two, three, four


class Clipped:
    """Output with a bound: the head and the tail are kept, what was between them is counted and forgotten."""

    def __init__(self, limit: int) -> None:
        self._head_limit = max(limit, 2) // 2
        self._tail_limit = max(limit, 2) - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take the next piece; memory stays below three times the limit."""
        self._total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._tail_limit :]
            if len(self._tail) > 2 * self._tail_limit:
                del self._tail[: -self._tail_limit]

    def skip(self, count: int) -> None:
        """Count bytes that somebody else left out here: what was added before is the head, what follows the tail."""
        self._total += count

    def result(self) -> tuple[bytes, int]:
        """The bytes, with a line that says where how many are missing, and that number; no character is cut in two."""
        tail = self._tail[-self._tail_limit :]
        if self._total == len(self._head) + len(tail):
            return bytes(self._head + tail), 0
        head = self._head[: len(self._head) - _cut_off(self._head)]
        start = next((n for n, byte in enumerate(tail[:4]) if byte not in CONTINUATION), 0)
        del tail[:start]
        dropped = self._total - len(head) - len(tail)
        return b"%b\n[%d bytes left out here]\n%b" % (head, dropped, tail), dropped


def _cut_off(head: bytearray) -> int:
    """How many bytes at the end begin a UTF-8 character without finishing it."""
    for back, byte in enumerate(reversed(head[-3:]), 1):
        if byte not in CONTINUATION:
            length = sum(byte >= first for first in LEADS)
            return back if back < length else 0
    return 0
