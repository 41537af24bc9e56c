"""Questions of a run at a terminal: shown whole, answered by a line, withdrawn when somebody else was faster."""

import asyncio
import os
import sys
import termios

from melete.app.reaching import choice, inbox_message, send
from melete.app.service import Conversation
from melete.core.event import Answered, Asked, Event, Question, RunEnded
from melete.surfaces.cli.output import err
from melete.surfaces.cli.paint import Paint
from melete.surfaces.cli.progress import Progress
from melete.surfaces.cli.render import answer_text, question_lines

LONGEST_LINE = 65_536


class Questions:
    """Puts the open questions of a session to the person at the terminal, one at a time, the oldest first.

    The terminal is read only while a question is open, on the event loop: nothing waits for a line that nobody needs.
    """

    def __init__(
        self, conversation: Conversation, paint: Paint, *, progress: Progress, group: asyncio.TaskGroup
    ) -> None:
        self._app = conversation.app
        self._ref = conversation.ref
        self._paint = paint
        self._progress = progress
        self._group = group
        self._open: dict[str, Question] = {}
        self._shown = ""
        self._mine = ""

    def see(self, event: Event) -> None:
        """Take notice of what the run asks and of what was answered."""
        match event:
            case Asked():
                self._open[event.question.id] = event.question
                self._next()
            case Answered():
                self._open.pop(event.question, None)
                if event.question == self._shown:
                    self._withdraw()
                self._progress.line(self._paint("dim", f"· {answer_text(event)}"))
                self._next()
            case RunEnded():
                self._open.clear()
                self._withdraw()
            case _:
                pass

    def close(self) -> None:
        """Leave the terminal alone."""
        self._open.clear()
        self._withdraw()

    def _next(self) -> None:
        if self._shown or not self._open:
            return
        question = next(iter(self._open.values()))
        self._shown = question.id
        self._progress.pause()
        err(self._app.redact("".join(f"{line}\n" for line in question_lines(question, self._paint))))
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # what was typed before the question is no answer to it
        self._read(question)

    def _read(self, question: Question) -> None:
        err(prompt(question))
        descriptor = sys.stdin.fileno()
        asyncio.get_running_loop().add_reader(descriptor, self._line, descriptor, question)

    def _line(self, descriptor: int, question: Question) -> None:
        """A line is there: a terminal hands out whole lines, so reading does not wait."""
        asyncio.get_running_loop().remove_reader(descriptor)
        try:
            data = os.read(descriptor, LONGEST_LINE)
        except OSError:  # the terminal is gone, which is an end of input
            data = b""
        value = choice(question, data.decode("utf-8", "replace").strip()) if data else no_answer(question)
        if value is None:
            err(self._paint("yellow", "That is none of the choices.") + "\n")
            self._read(question)
            return
        self._mine = question.id
        self._group.create_task(self._send(question.id, value))

    async def _send(self, question: str, value: str) -> None:
        await send(self._app, self._ref, inbox_message(self._app, "answer", text=value, question=question), wait=0)

    def _withdraw(self) -> None:
        """Stop waiting for a line: the question is answered, or nobody waits for it any more."""
        if self._shown and self._mine != self._shown:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            err("\n")
        self._shown = ""


def prompt(question: Question) -> str:
    """What stands before the answer."""
    return f"[1-{len(question.choices)}] " if question.choices else "> "


def no_answer(question: Question) -> str:
    """What the end of input stands for."""
    return "deny" if question.kind == "approval" else ""
