"""Background processes of a session, wired: their records, and how what they have to say reaches the model.

A message goes into the session's inbox, as a person's would. A run that goes on reads it when the model would stop; where none
does, whoever holds the conversation open is told and begins one. Part of the composition root.
"""

import asyncio
import logging
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from melete.app.unstored import SOURCE
from melete.app.wire import Melete
from melete.core.errors import MeleteError, StoreError
from melete.core.message import Origin
from melete.core.plugin import Lazy
from melete.core.ports import Environment, Processes
from melete.core.session import InboxMessage, Session, SessionRef
from melete.core.transcript import Transcript

log = logging.getLogger("melete.background")
FOLDER = "processes"
IN_A_ROW = 20
"""Runs that background processes may begin one after the other without a word from anybody else."""
EVERY = 600.0
"""Seconds between two looks of a server for old records."""
BY = Origin(kind="runtime", who="processes")
"""Who says what a background process has to say."""
_background: Lazy[Callable[..., Processes]] = Lazy("melete.environments.processes:Background")
_records: Lazy[Callable[..., Any]] = Lazy("melete.environments.records:Records")
_sweep: Lazy[Callable[..., Sequence[str]]] = Lazy("melete.environments.records:sweep")


class Waking:
    """What background processes have to say to one session; `idle` is called when it waits and no run goes on to read it."""

    def __init__(self, app: Melete, ref: SessionRef) -> None:
        self.idle: Callable[[], object] = _nobody
        self.held = False
        self._app = app
        self._ref = ref
        self._waiting: list[str] = []
        self._session: Session | None = None
        self._running = False
        self._in_a_row = 0

    @property
    def pending(self) -> bool:
        """Whether something waits for a run that it asks for."""
        return bool(self._waiting)

    async def tell(self, text: str, *, now: bool = True, outside: bool = False, id: str = "") -> str:
        """Put a message into the inbox and return its id; `now` asks for a run to read it. What goes wrong is logged.

        A second message with the same `id` counts for nothing.
        """
        message = InboxMessage(
            id=id or uuid4().hex,
            kind="queue",
            text=self._app.redact(text),
            taint="web" if outside else "tool",
            by=BY,
            at=self._app.clock.now(),
        )
        try:
            await self._app.store.send(self._ref, message, wait=0)
        except MeleteError as error:
            log.warning("the session %s is not told of its background process: %s", self._ref.id, error)
            return ""
        if now:
            self._waiting.append(message.id)
            self._look()
        return message.id

    def take_back(self, message: str) -> None:
        """Remove a message that no run has read yet, if one goes on here; what goes wrong is logged."""
        if self._session is None or message in self._session.transcript.inbox:
            return
        self._waiting = [one for one in self._waiting if one != message]
        try:
            self._session.settle(message)
        except StoreError as error:
            log.warning("a message that is not needed any more is still in the inbox: %s", error)

    def begin(self, *, prompted: bool) -> None:
        """A run begins; one with a prompt is no answer to a process."""
        self._running = True
        if prompted:
            self._in_a_row = 0

    @contextmanager
    def heard_by(self, session: Session) -> Generator[None]:
        """The session is owned here while the block lasts; what is in its conversation then has been heard."""
        self._session = session
        try:
            yield
        finally:
            read, self._session = session.transcript.inbox, None
            self._waiting = [message for message in self._waiting if message not in read]
            self.held = False

    def end(self) -> None:
        """The run has ended, and the session is let go."""
        self._running = False
        self._look()

    async def due(self) -> bool:
        """Whether a run is to begin now, without a prompt. Each message asks for one once; raises StoreError."""
        while self._waiting and not self._running:
            asked, self._waiting = self._waiting, []
            read = Transcript(await self._app.store.facts(self._ref)).inbox
            if all(message in read for message in asked):
                continue
            if self._in_a_row < IN_A_ROW:
                self._in_a_row += 1
                return True
            self.held = True
            log.warning("%s: %d runs in a row were begun by background processes", self._ref.id, IN_A_ROW)
        return False

    def _look(self) -> None:
        if self._waiting and not self._running:
            self.idle()


def open_processes(app: Melete, ref: SessionRef, env: Environment, waking: Waking, *, surface: str) -> Processes:
    """The background processes of a session, on record unless nothing of it is to be stored."""
    stored = not app.ephemeral and surface != SOURCE
    records = _records.load()(_root(app) / ref.id, redact=app.redact) if stored else None
    return _background.load()(env, spawn=app.group.create_task, clock=app.clock, records=records, wake=waking)


async def sweep(app: Melete) -> None:
    """Forget what ended long ago, and all of sessions that are gone; what goes wrong is logged."""
    root = _root(app)
    if app.ephemeral or not root.is_dir():
        return
    try:
        found = await asyncio.to_thread(_sweep.load(), root, now=app.clock.now())
        known = {info.id for info in await app.store.list(limit=1_000_000)} if found else frozenset[str]()
        for session in found:
            if session not in known:
                await asyncio.to_thread(shutil.rmtree, root / session)
    except (MeleteError, OSError) as error:
        log.warning("old records of background processes are still there: %s", error)


async def tend_records(app: Melete) -> None:
    """Forget what is to be forgotten, now and then, until cancelled."""
    while True:
        await sweep(app)
        await asyncio.sleep(EVERY)


def _root(app: Melete) -> Path:
    return app.loaded.home.state / FOLDER


def _nobody() -> None:
    """Nobody holds the conversation open between runs: the message waits for the next prompt."""
