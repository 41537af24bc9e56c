"""Learning beside the conversations of a process: after the answer, in a task of its own, never in their way. Composition root.

A process that lives on reads and reviews while it waits; one that ends leaves a process behind that does so. Either says in a line
what was learned, through the events of the session that it is about.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from melete.app.learn_lock import is_locked, wanted
from melete.app.settings import Loaded
from melete.app.wire import Melete
from melete.core.errors import MeleteError, SessionBusyError, SessionNotFoundError
from melete.core.event import Fact, Learned, RunEnded, RunStarted
from melete.core.plugin import Lazy
from melete.core.session import SessionRef

if TYPE_CHECKING:
    from melete.app.learn_work import Worker
    from melete.learn.facts import Review

_worker: "Lazy[Callable[..., Worker]]" = Lazy("melete.app.learn_work:Worker")
_line_of: Lazy[Callable[..., Awaitable[Learned | None]]] = Lazy("melete.app.learned:learned")
log = logging.getLogger("melete.learn")
AFTER = 0.5
"""Seconds after an answer before anything is read: the prompt comes first."""
BUSY = 2.0
"""Seconds after which it is tried again while another process learns, or a session that is to be told is at work."""
LOOK = 3600.0
"""Seconds after which is looked for what was put off."""
UNSEEN = "learned.txt"
"""The file of the state with the lines that nobody has seen yet."""
MOST = 10_000
"""Bytes of such lines: where nobody comes by they need not grow."""
REVIEW = "review"
"""The surface of a review's own run."""
SHELL, LATER = "/bin/sh", 'sleep 1; exec nice -n 10 "$0" "$@"'
"""How a process is left behind: it begins when this one is gone, and stands back for others."""
FLAGS = {"model.name": "--model", "model.base_url": "--base-url", "model.wire": "--wire"}
Show = Callable[[Learned], None]


class Telling:
    """Says what reviews brought: in the events of the sessions that they are about, and to `show`, or to whoever comes next."""

    def __init__(self, app: Melete, *, show: Show | None = None) -> None:
        self._app = app
        self._show = show
        self.waiting: list[tuple[SessionRef, Learned]] = []

    async def tell(self, review: "Review") -> None:
        """Say what a review brought, if anything; where its session is at work, it waits."""
        if line := await _line_of.load()(self._app, review):
            await self._record(SessionRef(id=review.session), line)

    async def again(self) -> None:
        """Try anew to say what waits."""
        waiting, self.waiting = self.waiting, []
        for ref, line in waiting:
            await self._record(ref, line)

    def leave(self) -> None:
        """Keep what still waits for whoever comes next."""
        for _, line in self.waiting:
            keep(self._app, line)

    async def _record(self, ref: SessionRef, line: Learned) -> None:
        try:
            ref = await self._app.store.find(ref.id)
            async with self._app.store.claim(ref) as session:
                await session.record(line)
        except SessionBusyError:
            self.waiting.append((ref, line))
            return
        except SessionNotFoundError:
            log.info("the session %s, from which something was learned, is gone", ref.id)
        if self._show:
            self._show(line)
        else:
            keep(self._app, line)


class Learning:
    """What one process that lives on learns from the sessions that run in it, and from what others have left.

    `show` is called with what was learned, once it is stored.
    """

    def __init__(self, app: Melete, *, show: Show | None = None) -> None:
        self._app = app
        self._telling = Telling(app, show=show)
        self._open: dict[str, float] = {}
        self._wanted = asyncio.Event()
        self._soon = False

    def hear(self, ref: SessionRef, fact: Fact) -> None:
        """Take note of a fact that was stored; returns at once."""
        if isinstance(fact, RunStarted) and fact.surface != REVIEW:
            self._open[ref.id] = float("inf")
        elif isinstance(fact, RunEnded) and ref.id in self._open:
            self._open[ref.id] = time.monotonic()
            self._wanted.set()

    def closed(self, session: str) -> None:
        """A session of this process was closed: it is over."""
        if session in self._open:
            self._open[session] = 0.0
            self._wanted.set()

    def leave(self) -> None:
        """Keep what nobody was told yet for whoever comes next."""
        self._telling.leave()

    async def run(self) -> None:
        """Read and review whenever there is something to do, until cancelled."""
        worker: Worker | None = None
        while True:
            await asyncio.sleep(AFTER)
            self._wanted.clear()
            self._soon = False
            try:
                worker = worker or _worker.load()(self._app, live=self._live, told=self._telling.tell)
                self._soon = not await worker.turn()
                await self._telling.again()
            except MeleteError as error:
                log.warning("learning did not come to its end, and is tried again: %s", error)
            except Exception:
                log.exception("learning failed; it is tried again")
            await self._wait()

    async def _wait(self) -> None:
        """Until a run has ended, a session is idle, or it is time to look again."""
        now, idle = time.monotonic(), self._app.loaded.settings.learning.idle_seconds
        until = [at + idle - now for at in self._open.values() if 0 < at + idle - now < LOOK]
        patience = BUSY if self._soon or self._telling.waiting else min([*until, LOOK])
        try:
            async with asyncio.timeout(patience):
                await self._wanted.wait()
        except TimeoutError:
            return

    def _live(self, session: str) -> bool | None:
        """Whether a session that ran here is still open; None for one that did not."""
        used = self._open.get(session)
        if used is None:
            return None
        if time.monotonic() - used < self._app.loaded.settings.learning.idle_seconds:
            return True
        del self._open[session]
        return False


@asynccontextmanager
async def learning(app: Melete, *, show: Show | None = None) -> AsyncGenerator[Learning | None]:
    """Learn beside what goes on in the block; a review that goes on at its end is cancelled, and gone on with elsewhere."""
    if app.ephemeral or app.then or not app.loaded.settings.learning.enabled:
        yield None
        return
    one = Learning(app, show=show)
    task = app.group.create_task(one.run())
    app.listeners.append(one.hear)
    try:
        yield one
    finally:
        app.listeners.remove(one.hear)
        task.cancel()
        await asyncio.wait([task])
        one.leave()


def leave_behind(loaded: Loaded) -> None:
    """Start a process that learns from what this one did, and outlives it, unless one is at work already."""
    given, home = loaded.settings.learning, loaded.home
    if not (given.enabled and given.detach) or not home.state.is_dir():
        return
    try:
        wanted(home)
        if is_locked(home):
            return
        os.posix_spawn(SHELL, [SHELL, "-c", LATER, sys.executable, *_words(loaded)], loaded.environ, **_apart())
    except OSError as error:
        log.warning("no process could be left behind to learn; the next one does it: %s", error)


def _words(loaded: Loaded) -> Sequence[str]:
    """The command that works here as this process did."""
    flags = [(flag, str(loaded.get(key))) for key, flag in FLAGS.items() if loaded.origin(key).kind == "flag"]
    return [
        "-P",
        "-m",
        "melete",
        "--profile",
        loaded.home.profile,
        "learn",
        "work",
        "--detached",
        *(word for pair in flags for word in pair),
    ]


def _apart() -> dict[str, Any]:
    """A session of its own, with nothing to read and nobody to read it."""
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    return {"file_actions": null, "setsid": True}


# ---- lines that nobody has seen yet ----------------------------------------------------------------------------------


def keep(app: Melete, line: Learned) -> None:
    """Keep a line for the next person who comes by; one that cannot be kept is logged."""
    path = app.loaded.home.state / UNSEEN
    try:
        if path.exists() and path.stat().st_size > MOST:
            return
        with path.open("a", encoding="utf-8") as out:
            out.write(f"{text(line)}\n")
    except OSError as error:
        log.warning("%s could not be kept to be shown: %s", text(line), error)


def unseen(loaded: Loaded) -> Sequence[str]:
    """The lines that nobody has seen yet; they are handed out once."""
    path = loaded.home.state / UNSEEN
    if not path.exists():
        return ()
    mine = path.with_name(f"{UNSEEN}.{os.getpid()}")
    try:
        path.rename(mine)
        lines = mine.read_text(encoding="utf-8", errors="replace").splitlines()
        mine.unlink()
    except OSError as error:  # somebody else shows them
        log.info("lines of what was learned could not be read: %s", error)
        return ()
    return lines


def text(line: Learned) -> str:
    """What was learned as one line."""
    return f"{line.status}: {line.what}" + (f" · {line.about}" if line.about else "")
