"""What a run does, on standard error while it goes on: finished calls a line each, what runs now on a line that is taken back."""

import asyncio
from collections.abc import Callable

from melete.core.event import (
    Answered,
    Asked,
    CallDelta,
    ChildNow,
    Delegated,
    Event,
    Reply,
    Retried,
    RunEnded,
    RunStarted,
    Said,
    Steered,
    TextDelta,
    ThinkingDelta,
    Titled,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from melete.surfaces.cli.board import Board
from melete.surfaces.cli.output import err, one_line, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.render import child_line, ended_line, notes, redacted, short_argument, tool_line

Write = Callable[[str], None]
TICK = 1.0
"""Seconds between two looks at the clocks of children."""


class Progress:
    """Shows the events of a run; with `streaming` the model's text as it is written, else only what it says between calls.

    `asked_elsewhere` leaves questions and answers to whoever puts them to the person.
    """

    def __init__(
        self, paint: Paint, redact: Callable[[str], str], *, verbose: bool, streaming: bool = False, write: Write = err
    ) -> None:
        self._paint = paint
        self._redact = redact
        self._verbose = verbose
        self._streaming = streaming
        self._out = write
        self._started: dict[str, ToolStarted] = {}
        self._board = Board()
        self._status = ""
        self._ticking: asyncio.TimerHandle | None = None
        self._height = 0  # lines that are drawn and can be taken back
        self._open = ""  # the kind of text whose line is not ended yet
        self.asked_elsewhere = False

    def show(self, event: Event) -> None:
        """Show one event; the order is the stream's."""
        event = redacted(event, self._redact)
        match event:
            case TextDelta() if self._streaming:
                self._flow("text", event.text)
            case ThinkingDelta() if self._verbose:
                self._flow("thinking", event.text)
            case TextDelta() | ThinkingDelta() | CallDelta() | ToolProgress():
                self._delta(event)
            case ToolStarted():
                self._started[event.call.id] = event
                self._running()
            case ToolEnded():
                self.line(tool_line(event, self._started.pop(event.result.call, None), self._paint))
                self._running()
            case _:
                self._fact(event)

    def line(self, text: str) -> None:
        """Write a line of its own."""
        self.pause()
        self._out(f"{self._redact(text)}\n")

    def pause(self) -> None:
        """End the line that is open, so that something else can be written."""
        if self._open:
            self._out("\x1b[0m\n" if self._open == "thinking" and self._paint.colours else "\n")
            self._open = ""
        if self._status:
            self._out(self._back())
            self._status = ""

    def _fact(self, event: Event) -> None:
        match event:
            case Reply():
                self._reply(event)
            case Retried() if self._open == "text":
                self.line(self._paint("dim", "(what is above is void: the reply broke off)"))
                self._notes(event)
            case RunEnded():
                self._started.clear()
                self.line(ended_line(event, self._paint))
                if took := self._board.clear():
                    self.line(self._paint("dim", f"· beside it {took}"))
            case Delegated():
                self.line(child_line(event, self._paint))
                self._draw()
            case Steered():
                self.line(self._paint("cyan", f"» {one_line(event.message.text)}"))
            case Said() if event.inbox and event.message.by and event.message.by.kind == "runtime":
                self.line(self._paint("cyan", f"» {one_line(event.message.text.partition(chr(10))[0])}"))
            case RunStarted() | Titled() if not self._verbose:
                pass
            case Asked() | Answered() if self.asked_elsewhere:
                pass
            case _:
                self._notes(event)

    def _notes(self, event: Event) -> None:
        for line in notes(event, self._paint):
            self.line(line)

    def _reply(self, reply: Reply) -> None:
        if self._streaming:
            self.pause()
        elif reply.message.calls and reply.message.text:
            for line in visible(reply.message.text).splitlines():
                self.line(self._paint("dim", line))

    def _delta(self, event: TextDelta | ThinkingDelta | CallDelta | ToolProgress) -> None:
        match event:
            case ToolProgress() if event.child:
                self._child(event.child)
            case ToolProgress():
                self._say(f"… {one_line(event.text)}")
            case CallDelta() if event.name:
                self._say(f"… {one_line(event.name)}")
            case TextDelta() if not self._status:
                self._say("… answering")
            case ThinkingDelta() if not self._status:
                self._say("… thinking")
            case _:
                pass

    def _flow(self, kind: str, text: str) -> None:
        """Write a piece of text where the last one ended; thoughts are dimmed."""
        if self._open != kind or self._status:
            self.pause()
            self._open = kind
            if kind == "thinking" and self._paint.colours:
                self._out("\x1b[2m")
        self._out(visible(self._redact(text)))

    def _running(self) -> None:
        if self._started:
            last = list(self._started.values())[-1]
            more = f" (+{len(self._started) - 1})" if len(self._started) > 1 else ""
            self._say(f"… {one_line(last.call.name)}{more} {short_argument(last.call.arguments)}")

    def _say(self, text: str) -> None:
        """Show what goes on now on a line that the next one replaces; only where a terminal can take a line back."""
        if self._paint.redraws and not self._open:
            back, self._status = self._back(), self._paint.fit(self._redact(text), taken=1)
            lines = [self._status, *self._board.lines(self._paint)]
            self._height = len(lines)
            self._out(back + "\n".join(self._paint("dim", line) for line in lines))

    def _back(self) -> str:
        """What takes back the lines that are drawn."""
        up = f"\x1b[{self._height - 1}A" if self._height > 1 else ""
        self._height = 0
        return f"\r{up}\x1b[J" if up else "\r\x1b[K"

    def _child(self, now: ChildNow) -> None:
        """Show how far a child is; one below a child of this session leaves a line at its end as well."""
        ended = self._board.put(now)
        if ended and now.depth > 1:
            self.line(child_line(now, self._paint))
        self._draw()
        if self._ticking is None and self._paint.redraws:
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)

    def _draw(self) -> None:
        """The board, while somebody is on it; what runs besides, while nobody is."""
        if total := self._board.total():
            self._say(f"… {total}")
        else:
            self._running()

    def _tick(self) -> None:
        """The clocks of the board go on while nothing is heard."""
        self._ticking = None
        if self._board.total():
            if self._status:
                self._draw()
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)
