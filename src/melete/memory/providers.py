"""A memory provider at arm's length: it may hang or fail, and nothing waits for it longer than it should. Part of memory."""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from textwrap import shorten
from typing import Any, TypeVar, cast

import msgspec

from melete.core.errors import MeleteError
from melete.core.tool import ToolError

T = TypeVar("T")
log = logging.getLogger("melete.memory")
SECONDS = 5.0
"""What a call may take that no answer waits for."""
MOST_WAITING = 64
"""Calls that wait to be made in the background; those that come behind are dropped, with a notice."""
IN_A_ROW = 3
"""Failures in a row after which a provider rests for the session."""
FAILED = object()
"""What is returned inside where a call has failed."""
STEP = 0.01
GRACE = 0.2
"""Seconds in which a provider that was too late must be done with being cancelled."""


class Hosted:
    """One provider for one conversation, in a thread of its own: not even a call that blocks holds anything up.

    `make` is called there, then `open` with what it is `about`; what is asked meanwhile waits for that, once. Hooks are called
    by name, and one that the provider does not have, or that returns None, is nothing. What fails, is late or is of the wrong
    type is told once by `problems`; after three in a row, or when it blocks, the provider rests: nothing is asked of it any more.
    """

    def __init__(
        self, make: Callable[[], object], *, name: str, about: Mapping[str, str], deadline: float = 1.0
    ) -> None:
        self.name = name
        self._about = about
        self._begun = time.monotonic()
        self._ready = threading.Event()
        self._late = False
        self.resting = False
        self._make = make
        self._deadline = deadline
        self._provider: object = None
        self._problems: list[str] = []
        self._failures = 0
        self._loop = asyncio.new_event_loop()
        self._waiting: asyncio.Queue[tuple[str, Sequence[Any], Mapping[str, Any]]] = asyncio.Queue(MOST_WAITING)
        self._over = False
        threading.Thread(target=self._live, name=f"melete-memory-{name}", daemon=True).start()

    def _live(self) -> None:
        """The thread: the provider's loop, with one task that makes the calls that nothing waits for."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._open())
            self._loop.run_until_complete(self._work())
        finally:
            if not self._over:
                self.rest("it has ended its own thread")
            self._loop.close()

    async def _open(self) -> None:
        try:
            self._provider = await _kept_within(self._make)
            if why := await self._call("available", (), {}):
                self.rest(str(why))
            else:
                await self._call("open", (), self._about)
        except Exception as error:  # noqa: BLE001 - what others wrote may fail in any way; it is told
            self.rest(told(error))
        self._ready.set()

    async def _is_ready(self) -> bool:
        """Whether it is open; what it needs longer for than the deadline is waited for once, whatever is asked."""
        while not self._ready.is_set() and time.monotonic() < self._begun + self._deadline:  # noqa: ASYNC110 - of a thread
            await asyncio.sleep(STEP)
        if not self._ready.is_set() and not self._late:
            self._late = True
            self._problems.append(f"the memory {self.name!r} is not ready yet: the answer goes on without it")
        return self._ready.is_set() and not self.resting

    async def _work(self) -> None:
        while not self._over:
            hook, args, named = await self._waiting.get()
            try:
                async with asyncio.timeout(SECONDS):
                    await self._call(hook, args, named)
                self._failures = 0
            except Exception as error:  # noqa: BLE001 - what others wrote may fail in any way; it is told
                self._failed(hook, error)
            finally:
                self._waiting.task_done()

    async def _call(self, hook: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        found = getattr(self._provider, hook, None)
        return await _kept_within(partial(found, *args, **named)) if found else None

    def problems(self) -> list[str]:
        """What went wrong since this was asked last, a line each."""
        found, self._problems = self._problems, []
        return found

    async def ask(self, hook: str, *args: Any, kind: type[T], seconds: float = 0, **named: Any) -> T | None:
        """What a hook returns, at the latest after `seconds` (the deadline); None where that is nothing, and where it fails.

        Raises only what a tool of its own says to the model: ToolError.
        """
        found = await self._ask(hook, args, named, seconds=seconds, kind=kind)
        return None if found is FAILED else cast("T | None", found)

    async def rows(self, hook: str, *args: Any, of: type[T], seconds: float = 0, **named: Any) -> list[T] | None:
        """The same for a hook that returns several; None where it fails."""
        found = await self._ask(hook, args, named, seconds=seconds, kind=list[of])
        return None if found is FAILED else cast("list[T]", found or [])

    async def _ask(
        self, hook: str, args: Sequence[Any], named: Mapping[str, Any], *, seconds: float, kind: Any
    ) -> object:
        if not await self._is_ready():
            return FAILED
        try:
            async with asyncio.timeout(seconds or self._deadline):
                found = await self._there(self._call(hook, args, named))
            found = None if found is None else _as(kind, found)
        except ToolError:
            self._failures = 0
            raise
        except Exception as error:  # noqa: BLE001 - what others wrote may fail in any way; it is told
            self._failed(hook, error)
            if isinstance(error, TimeoutError) and not await self._lives():
                self.rest("it blocks")
            return FAILED
        self._failures = 0
        return found

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _lives(self) -> bool:
        """Whether the thread still does anything."""
        try:
            async with asyncio.timeout(GRACE):
                await self._there(asyncio.sleep(0))
        except (TimeoutError, RuntimeError):  # the thread hangs, or has ended
            return False
        return True

    def later(self, hook: str, *args: Any, **named: Any) -> None:
        """Call a hook in the background, after those that wait already; never waits."""
        if not self.resting:
            self._soon(self._put, hook, args, named)

    def _soon(self, call: Callable[..., None], *args: Any) -> None:
        with suppress(RuntimeError):  # the thread has ended: then it rests
            self._loop.call_soon_threadsafe(call, *args)

    def _put(self, hook: str, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        try:
            self._waiting.put_nowait((hook, args, named))
        except asyncio.QueueFull:
            self._failed(hook, TimeoutError("too much is waiting"))

    async def flush(self, seconds: float = SECONDS) -> bool:
        """Wait until everything in the background is done, at most so long; whether it is."""
        if not await self._is_ready():
            return False
        try:
            async with asyncio.timeout(seconds):
                await self._there(self._waiting.join())
        except TimeoutError:
            return False
        return True

    async def aclose(self) -> None:
        """Let it finish what is waiting, close it, and end its thread; one that hangs is left behind."""
        try:
            if await self.flush():
                await self.ask("aclose", kind=object, seconds=SECONDS)
        finally:
            self._soon(self._last)

    def _last(self) -> None:
        """Wake the task of the thread, which then ends."""
        self._over = True
        while self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(("", (), {}))

    def _failed(self, what: str, error: Exception) -> None:
        log.warning("the memory %r failed in %s: %s", self.name, what, told(error))
        self._failures += 1
        if self.resting:
            return
        self._problems.append(
            f"the memory {self.name!r} failed in {what}: {told(error)}; the answer goes on without it"
        )
        if self._failures >= IN_A_ROW:
            self.rest(f"it failed {IN_A_ROW} times in a row")

    def rest(self, why: str) -> None:
        """Ask nothing of it any more, and say why."""
        if not self.resting:
            self.resting = True
            self._problems.append(f"the memory {self.name!r} is not used in this session: {why}")


async def _kept_within(act: Callable[[], Any]) -> Any:
    """What it returns; what would end the thread, or look as if somebody had cancelled the answer, is a failure like others."""
    try:
        made = act()
        return await made if inspect.isawaitable(made) else made
    except (SystemExit, KeyboardInterrupt, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
            raise
        raise RuntimeError(f"it raised {type(error).__name__}") from error


def _as(kind: Any, found: object) -> object:
    """What a hook returned, as what it should be in every field; raises TypeError for what could not be stored as that."""
    try:
        return found if kind is object else msgspec.json.decode(msgspec.json.encode(found), type=kind)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"it returned {shorten(repr(found), 80)}") from error


def told(error: Exception) -> str:
    """What went wrong, in a few words."""
    try:
        said = str(error)
    except Exception as worse:
        log.warning("what a memory failed with cannot be told", exc_info=worse)
        said = ""
    if isinstance(error, TimeoutError) and not said:
        return "it was too late"
    return said if isinstance(error, MeleteError) else f"{type(error).__name__}: {said}".rstrip(": ")
