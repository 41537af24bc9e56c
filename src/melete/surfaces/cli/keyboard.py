"""Lines typed by a person, for a conversation on an event loop: the main thread types, another thread runs the loop.

So the loop goes on while a line is edited (background processes are read, timers fire), and Ctrl-C reaches whoever it is
meant for: the line while there is one, the run otherwise.
"""

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from queue import SimpleQueue
from types import FrameType
from typing import Any

from melete.core.errors import MeleteError
from melete.core.plugin import Lazy
from melete.surfaces.cli.output import err, is_terminal
from melete.surfaces.cli.running import BY_SIGNAL, leave

_readline: Lazy[Callable[..., Any]] = Lazy("readline:parse_and_bind")
_completer: Lazy[Callable[..., Any]] = Lazy("readline:set_completer")
_delimiters: Lazy[Callable[..., Any]] = Lazy("readline:set_completer_delims")
_typed: Lazy[Callable[[], str]] = Lazy("readline:get_line_buffer")
_at_start: Lazy[Callable[..., Any]] = Lazy("readline:set_startup_hook")
_insert: Lazy[Callable[[str], Any]] = Lazy("readline:insert_text")

NAMING = ("/resume",)
"""Commands that a session's id follows."""
KNOCK = 0.2
"""Seconds after which the typing thread is told again that its line is to be taken back."""
SOON = 1.0
"""Seconds in which ids have to be found; a person waits for them with a key pressed."""

Answer = asyncio.Future[str]


class LineCleared(Exception):
    """Ctrl-C took back the line that was being typed."""


class LineWithdrawn(Exception):
    """The line that was being typed was taken back; what was typed of it stands in the next one."""


class _Withdrawn(Exception):
    """The loop asks for the line back."""


class _Ended(Exception):
    """A signal asks the program to end."""


class Keyboard:
    """The bridge between the two threads. `interrupt` is called on the loop's thread when Ctrl-C finds no line to clear.

    `words` are offered behind a slash. `sessions` gives the ids that are offered where a session is to be named; it is awaited
    on the loop.
    """

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.interrupt: Callable[[], object] = lambda: None
        self.sessions: Callable[[], Coroutine[Any, Any, Sequence[str]]] | None = None
        self.words = words
        self._offered: Sequence[str] = ()
        self._requests: SimpleQueue[tuple[str, Answer] | None] = SimpleQueue()
        self._request: tuple[str, Answer] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._interrupted = False
        self._open = False
        self._typing = False
        self._withdrawn = False
        self._listened = False
        self._half: str | None = None
        self._got: list[str] = []
        self._signal = 0
        self._result: int | BaseException = 0

    async def line(self, prompt: str) -> str:
        """The next line, without its end; raises EOFError at the end of input, LineCleared after Ctrl-C, LineWithdrawn."""
        self._interrupted = False
        if self._signal:
            raise EOFError
        answer: Answer = asyncio.get_running_loop().create_future()
        self._open, self._withdrawn, self._listened = True, False, False
        self._requests.put((prompt, answer))
        try:
            return await answer
        finally:
            self._open = False

    def withdraw(self) -> None:
        """Take back the line that is being typed, so that something else can be shown; on the loop's thread. No line, no effect."""
        if self._open and not self._withdrawn:
            self._withdrawn = True
            self._knock()

    def _knock(self) -> None:
        """Tell the other thread, again and again until it listens: there are moments in which it cannot."""
        typist = threading.main_thread().ident
        if self._open and self._withdrawn and not self._listened and typist is not None:
            signal.pthread_kill(typist, signal.SIGUSR1)
            asyncio.get_running_loop().call_later(KNOCK, self._knock)

    def run(self, work: Callable[[], Coroutine[Any, Any, int]]) -> int:
        """Run `work` on a loop of its own while this thread types; return its status or raise its error."""
        if is_terminal(sys.stdin):
            self._edit()
        before = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGHUP)}
        before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._take_back)
        thread = threading.Thread(target=self._work, args=(work,), name="melete-chat")
        thread.start()
        try:
            while self._attend():
                pass
            thread.join()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if isinstance(self._result, BaseException):
            raise self._result
        return BY_SIGNAL + self._signal if self._signal else self._result

    def _work(self, work: Callable[[], Coroutine[Any, Any, int]]) -> None:
        async def body() -> int:
            self._loop = asyncio.get_running_loop()
            return await work()

        try:
            self._result = asyncio.run(body())
        except BaseException as error:  # noqa: BLE001 - kept: run() raises it in the other thread
            self._result = error
        finally:
            self._loop = None
            self._requests.put(None)

    def _attend(self) -> bool:
        """Type one line for the other thread; False when it has ended."""
        try:
            if self._request is None:
                self._request = self._requests.get()
            if self._request is None:
                return False
            self._type(*self._request)
        except (KeyboardInterrupt, _Ended):  # not while a line was typed: it is meant for the run
            self._pass_on()
        except _Withdrawn:  # while an interrupt was taken in: the line is asked for again, and taken back
            pass
        return True

    def _type(self, prompt: str, answer: Answer) -> None:
        what: str | BaseException
        try:
            what = self._input(prompt)
            what.encode()
        except KeyboardInterrupt:
            what = LineCleared()
        except _Withdrawn:
            what = LineWithdrawn()
        except (EOFError, _Ended):
            what = EOFError()
        except UnicodeError:
            err("melete: that line was not UTF-8; type it again\n")
            return
        finally:
            self._typing = False
        self._request = None
        self._give(answer, what)

    def _input(self, prompt: str) -> str:
        """A line from the terminal. It is kept in the same instant in which it ends: no signal can come between and lose it."""
        self._got.clear()
        self._typing = True
        if self._withdrawn:
            raise _Withdrawn
        self._got.extend(map(input, (prompt,)))
        self._typing = False
        return self._got[0]

    def _give(self, answer: Answer, what: str | BaseException) -> None:
        def settle() -> None:
            if answer.done():
                return
            if isinstance(what, str):
                answer.set_result(what)
            else:
                answer.set_exception(what)

        if self._loop:
            self._loop.call_soon_threadsafe(settle)

    def _pass_on(self) -> None:
        if self._interrupted:
            leave(BY_SIGNAL + (self._signal or signal.SIGINT))
        self._interrupted = True
        if self._loop:
            self._loop.call_soon_threadsafe(self.interrupt)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self._signal = number
        raise _Ended

    def _take_back(self, _number: int, frame: FrameType | None) -> None:
        putting_back = (
            frame is not None and frame.f_code is self._put_back.__code__
        )  # readline swallows what is raised there
        if not self._typing or self._got or putting_back:
            return
        self._typing, self._listened = False, True  # a second signal while the first one unwinds would be one too many
        if is_terminal(sys.stdin) and self._half is None:
            with contextlib.suppress(MeleteError):  # lines cannot be edited here: what the terminal holds stays there
                self._half = _typed.load()()
                _at_start.load()(self._put_back)
        raise _Withdrawn

    def _put_back(self) -> None:
        """Put what was typed of a line that was taken back into the next one; nothing interrupts that."""
        if self._half is not None:
            self._typing = False
            _insert.load()(self._half)
            self._half = None
            self._typing = True

    def _edit(self) -> None:
        """History and completion where this Python has readline; plain lines elsewhere."""
        try:
            _delimiters.load()(" \t\n")
            _completer.load()(self._complete)
            _readline.load()("tab: complete")
        except MeleteError as error:
            err(f"melete: lines cannot be edited here: {error.what}\n")

    def _complete(self, text: str, state: int) -> str | None:
        if state == 0:
            self._offered = [word for word in self._candidates(text) if word.startswith(text)]
        return f"{self._offered[state]} " if state < len(self._offered) else None

    def _candidates(self, text: str) -> Sequence[str]:
        if text.startswith("/"):
            return self.words
        command = _typed.load()().split(maxsplit=1)[:1]
        if command and command[0] in NAMING and self.sessions and self._loop:
            found = asyncio.run_coroutine_threadsafe(self.sessions(), self._loop)
            try:
                return found.result(SOON)
            except (
                TimeoutError,
                MeleteError,
            ):  # nothing is offered then: an error would stand in the line that is typed
                found.cancel()
        return ()
