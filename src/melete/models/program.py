"""A program in a model's place: it is told the conversation on its standard input, and what it prints is its one reply.

Part: models. It runs where commands run, behind the same walls and with the same variables, through the session's environment:
no key of Melete's is among them. It works with tools and permissions of its own; of its tokens and its cost nothing is known.
What it prints is text from outside, and marked so.
"""

import codecs
import re
import shlex
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import PurePosixPath
from secrets import token_hex
from typing import Final

from melete.core.delegation import PROGRAM
from melete.core.environment import Environment
from melete.core.errors import EnvironmentFailure
from melete.core.event import Delta, Reply, Retried, TextDelta
from melete.core.message import Message, Part, Text, Thinking, ToolCall, ToolResult
from melete.core.model import Capabilities, EmptyReplyError, ModelRequest, ProgramFailedError, UnknownModelError

MOST: Final = 200_000
"""Characters of a reply; of a longer one the beginning and the end are kept."""
LONGEST_LINE: Final = 65_536
"""Characters of a line after which it is not waited for its end any more."""
LAST_LINES: Final = 8
LAST: Final = 1_500
"""Lines, and characters, of what a program said last that an error repeats."""
LOOKING: Final = 60.0
"""Seconds within which an environment says whether the program is there."""
RUN: Final = 'in=$1 err=$2; shift 2; exec <"$in" 2>"$err"; rm -f -- "$in"; exec "$@"'
"""Standard input is a file, which never makes anybody wait, however little of it is read; standard error goes into another."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), 127])
_WHO: Mapping[str, str] = {"user": "You were told", "assistant": "You said", "tool": "You were given"}


class ProgramModel:
    """A `ModelClient` that runs `argv` in `env` for each request.

    Raises UnknownModelError where there is no such program, ProgramFailedError where it could not be run or ended with another
    status than 0, EmptyReplyError where it printed nothing; none of them is tried again by this class. When whoever asks stops, the
    program ends with all that it started.
    """

    wire = PROGRAM
    provider = PROGRAM
    can = Capabilities(context=1_000_000, max_output=1, tools=False, images=False)
    """Nothing is known of its window; tokens of a reply are none of ours, so next to none are set aside."""

    def __init__(self, argv: Sequence[str], env: Environment) -> None:
        self._argv = tuple(argv)
        self._env = env
        self.name = PurePosixPath(argv[0]).name
        self._printed = Printed()

    @property
    def said(self) -> str:
        """What it has printed so far."""
        return self._printed.text

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | Retried | Reply]:
        """Yield what the program prints, line by line as far as it is kept, then all of it as the reply."""
        began, printed = time.monotonic(), Printed()
        self._printed = printed
        try:
            await self._look()
            base = f"{await self._env.temp()}/program-{token_hex(8)}"
            files = f"{base}.in", f"{base}.err"
            await self._env.write(files[0], told(request).encode("utf-8", "replace"))
            process = await self._env.start(["sh", "-c", RUN, "sh", *files, *self._argv])
            try:
                while data := await process.read():
                    if new := printed.add(data):
                        yield TextDelta(text=new)
                code = await process.wait()
            except BaseException:
                await process.kill()
                raise
            if rest := printed.end():
                yield TextDelta(text=rest)
            self._judge(code, await self._errors(files[1]))
        except (EnvironmentFailure, OSError) as error:
            raise ProgramFailedError(f"{self._shown} could not be run: {error}") from error
        message = Message(role="assistant", parts=(Text(text=self.said.strip(), taint="import"),))
        seconds = round(time.monotonic() - began, 3)
        yield Reply(message=message, model=self.name, provider=self.provider, seconds=seconds)

    async def aclose(self) -> None:
        """Nothing is held open between two requests."""

    @property
    def _shown(self) -> str:
        return f"the program `{shlex.join(self._argv)}`"

    async def _look(self) -> None:
        """Raise UnknownModelError where there is no such program."""
        found = await self._env.exec(["sh", "-c", 'command -v "$1"', "sh", self._argv[0]], timeout=LOOKING)
        if found.code != 0:
            raise UnknownModelError(
                f"there is no program {self._argv[0]} where commands run ({self._env.name})",
                next="install it there, or write its whole path into delegation.command",
            )

    async def _errors(self, path: str) -> str:
        """The last lines that it wrote to standard error; the file goes."""
        found = await self._env.stat(path)
        if found is None:
            return ""
        data = await self._env.read(path, offset=max(0, found.size - 4 * LAST))
        await self._env.remove(path)
        return last_lines(data.decode("utf-8", "replace"))

    def _judge(self, code: int, errors: str) -> None:
        """Raise where what it did is no answer."""
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code}"
        lines = errors or last_lines(self.said)
        last = f"; its last lines:\n{lines}" if lines else ""
        if code:
            raise ProgramFailedError(f"{self._shown} {how}{last}", kept="what it changed stands")
        if not self.said.strip():
            raise EmptyReplyError(f"{self._shown} {how} and printed nothing{last}", kept="what it changed stands")


class Printed:
    """What a program prints, in whole lines and as a person would see it: no colours, no overwritten progress, no controls.

    Of very much the beginning and the end are kept, with a line between them that says how much is missing.
    """

    def __init__(self, most: int = MOST) -> None:
        self._half = most // 2
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = self._head = self._tail = ""
        self._dropped = 0

    @property
    def text(self) -> str:
        """What is kept so far."""
        gap = f"\n[{self._dropped} characters left out here]\n" if self._dropped else ""
        return f"{self._head}{gap}{self._tail}{clean(self._line)}"

    def add(self, data: bytes) -> str:
        """Take the next piece; return what of it is new in the beginning."""
        self._line += self._decoder.decode(data)
        cut = len(self._line) if len(self._line) > LONGEST_LINE else self._line.rfind("\n") + 1
        whole, self._line = self._line[:cut], self._line[cut:]
        return self._keep(clean(whole))

    def end(self) -> str:
        """There is no more; return what of the last line is new in the beginning."""
        rest, self._line = self._line + self._decoder.decode(b"", final=True), ""
        return self._keep(clean(rest))

    def _keep(self, text: str) -> str:
        room = max(0, self._half - len(self._head))
        new, rest = text[:room], text[room:]
        self._head += new
        self._tail += rest
        if over := max(0, len(self._tail) - self._half):
            self._tail, self._dropped = self._tail[over:], self._dropped + over
        return new


def clean(text: str) -> str:
    """Text of a program as a person would see it."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return text.translate(_CONTROLS)


def last_lines(text: str) -> str:
    """The last lines that say something, at most so many characters of them."""
    lines = [line.rstrip() for line in clean(text).splitlines() if line.strip()]
    return "\n".join(lines[-LAST_LINES:])[-LAST:]


def told(request: ModelRequest) -> str:
    """What the program reads: the instructions, then the one message, or all of the conversation where there was more."""
    messages = (*request.prefill, *request.messages)
    rows = [*request.system, request.ephemeral]
    if len(messages) == 1:
        rows.append(_text(messages[0]))
    else:
        rows.append("What was said so far, the last of it now:")
        rows += [f"{_WHO[message.role]}:\n{_text(message)}" for message in messages]
    return "\n\n".join(row for row in rows if row) + "\n"


def _text(message: Message) -> str:
    return "\n\n".join(text for part in message.parts if (text := _words(part)))


def _words(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Thinking():
            return ""
        case ToolCall():
            return f"[called {part.name} {part.arguments}]"
        case ToolResult():
            return f"[result of {part.name}] {part.content}"
        case _:
            return f"[{type(part).__name__.lower()} left out]"
