"""Which lines of a background process's output its session is told of, and how often. Used by `processes`.

Patterns are plain text, whatever the case of its letters: a regular expression could take for ever on a line that somebody else
writes. A line that stays unfinished, such as a question, counts once nothing has followed it for half a second.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence

PAUSE = 5.0
"""Seconds from one message about lines of a process to the next; what matches meanwhile goes into that."""
MOST = 20
"""Messages about lines that one process may cause in all."""
GATHER = 0.2
"""Seconds in which lines are gathered that come right after the first one."""
QUIET = 0.5
"""Seconds after which an unfinished line is looked at as it is."""
SHOWN = 10
COUNTED = 1000
"""Matching lines of one message that are counted; there are more than that when somebody prints for ever."""
LINE = 400
LONGEST = 10_000
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")


class Watch:
    """Looks through the output of one process; `say` gets each report, at most one in `pause` seconds."""

    def __init__(self, patterns: Sequence[str], *, say: Callable[[str], None], pause: float = PAUSE) -> None:
        wanted = [re.escape(text.strip()) for text in patterns if text.strip()]
        self._wanted = re.compile("|".join(wanted), re.IGNORECASE) if wanted else None
        self._say = say
        self._pause = pause
        self._line = ""
        self._told = ""
        self._lines: deque[str] = deque(maxlen=SHOWN)
        self._count = 0
        self._sent = 0
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._quiet: asyncio.TimerHandle | None = None
        self.matched = False

    @property
    def waits(self) -> bool:
        """Whether lines have matched that are still to be told."""
        return self._count > 0

    @property
    def hopes(self) -> bool:
        """Whether there is something to look for that has not been seen yet."""
        return self._wanted is not None and not self.matched

    def add(self, text: str) -> None:
        """Look through what was printed next."""
        if self._wanted is None or self._sent >= MOST:
            return
        text = plain(self._line + text)
        end = text.rfind("\n") + 1
        self._line = text[end:][-LONGEST:]
        self._scan(text[:end])
        self._stop_quiet()
        if self._line and self._line != self._told and self._wanted.search(self._line):
            self._quiet = asyncio.get_running_loop().call_later(QUIET, self._look_at_the_rest)

    def close(self) -> str:
        """There will be no more output: a report of what is left to tell, or nothing."""
        self._stop_quiet()
        self._look_at_the_rest()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return self._report() if self._count and self._sent < MOST else ""

    def _scan(self, text: str) -> None:
        at = 0
        while self._wanted and self._count <= COUNTED and (found := self._wanted.search(text, at)):
            start = text.rfind("\n", 0, found.start()) + 1
            at = text.find("\n", found.end())
            at = len(text) if at < 0 else at
            self._take(text[start:at])

    def _look_at_the_rest(self) -> None:
        self._quiet = None
        line = self._line
        if self._wanted and line and line != self._told and self._wanted.search(line):
            self._take(line)
            self._told = line

    def _take(self, line: str) -> None:
        told, self._told = self._told, ""
        if told and line.startswith(told):  # the rest of one that was told while it was unfinished
            return
        self.matched = True
        self._count += 1
        if len(self._lines) < SHOWN:
            self._lines.append(line if len(line) <= LINE else f"{line[:LINE]}…")
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(loop.time() + GATHER, self._next), self._send)

    def _send(self) -> None:
        self._timer = None
        self._sent += 1
        self._next = asyncio.get_running_loop().time() + self._pause
        text = self._report()
        if self._sent >= MOST:
            text += f"\nThis was message {MOST}, the last one about lines of this process: look with `process poll`."
        self._say(text)

    def _report(self) -> str:
        more = self._count - len(self._lines)
        text = quoted("\n".join(self._lines))
        self._lines.clear()
        counted, self._count = self._count, 0
        if more <= 0:
            return text
        return f"{text}\nand {'more than ' if counted > COUNTED else ''}{more:,} more lines that match"

    def _stop_quiet(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None


def plain(text: str) -> str:
    """Output without colours and cursor movements, a carriage return being the end of a line."""
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def quoted(text: str) -> str:
    """Each line of what a program printed marked as such: nothing in it can look like the message round it."""
    return "\n".join(f"> {line}" for line in text.split("\n"))
