"""The facts of a session one after the other: for `sessions show`, for who follows a run, for /history."""

from collections.abc import Callable

import msgspec

from melete.core.event import Compacted, Fact, Reply, ToolEnded, ToolStarted
from melete.core.transcript import Transcript
from melete.surfaces.cli.call_text import call_lines
from melete.surfaces.cli.output import err, one_line, visible
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.render import facts, redacted


class SessionView:
    """Shows the facts of a session: as JSON lines, or as people read them; `step` is the number of the last step shown."""

    def __init__(
        self,
        paint: Paint,
        redact: Callable[[str], str],
        *,
        write: Callable[[str], object],
        full: bool = False,
        as_json: bool = False,
    ) -> None:
        self.paint = paint
        self.write = write
        self.step = 0
        self.redact = redact
        self.as_json = as_json
        self._full = full
        self._started: dict[str, ToolStarted] = {}

    def show(self, fact: Fact) -> None:
        """One fact."""
        if self.as_json:
            self.write(self.redact(msgspec.json.encode(fact).decode()) + "\n")
            return
        event = redacted(fact, self.redact)
        if isinstance(event, ToolStarted):
            self._started[event.call.id] = event
        if isinstance(event, Reply):
            self.step += 1
        for line in facts(event, self.paint, started=self._started, step=self.step):
            self.write(f"{line}\n")
        if self._full and isinstance(event, Compacted):
            for line in event.summary.splitlines():
                self.write(f"    {visible(line)}\n")
        if self._full and isinstance(event, ToolEnded):
            for line in call_lines(event, self._started.get(event.result.call), self.paint):
                self.write(f"{line}\n")

    def questions(self, state: Transcript, session: str) -> None:
        """The open questions, with the command that answers them."""
        if self.as_json or not state.running:
            return
        for question in state.questions.values():
            text = self.redact(one_line(question.text))
            err(f"open: {text}; melete sessions answer {session} {self.redact(one_line(question.id))} VALUE\n")
