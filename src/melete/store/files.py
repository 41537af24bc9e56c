"""The store: every session of one home as a log file, with tables and a search index that are remade from them.

Part of the store; `melete.store.open_store` makes it. Folder `sessions`: `<id>.log`, and beside it, made when needed,
`<id>.inbox` and `<id>.damaged`. Only listing and searching load SQLite.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from melete.core.errors import SessionBusyError, SessionNotFoundError, StorageError
from melete.core.event import Fact, Opened, RunStarted, Titled
from melete.core.plugin import Lazy
from melete.core.ports import Clock
from melete.core.session import (
    ALL,
    ALL_RUNS,
    UNTALKED,
    Hit,
    InboxMessage,
    Line,
    Problem,
    Query,
    Receipt,
    RunInfo,
    Session,
    SessionInfo,
    SessionRef,
    Which,
    WhichRuns,
)
from melete.store import adding, delivery, lines, verify, watch
from melete.store.aside import aside_path
from melete.store.disk import make_folder, storage_error, sync_folder, wait_for, write_new
from melete.store.inbox import Inbox, inbox_path
from melete.store.ledger import FileLedger
from melete.store.log import Log, LogReader, first_fact, is_locked, lock_soon
from melete.store.names import is_session_id, new_session_id, only, safe_name
from melete.store.session import OnFact, OwnedSession

if TYPE_CHECKING:
    from contextvars import ContextVar

    from melete.core.statistics import Statistics
    from melete.store.project import Projections

T = TypeVar("T")

POLL = 0.03
PIECE = 256 << 10
"""Bytes of a log that are read at once for a reader who takes the facts one by one."""
"""Seconds between two looks at a log that is followed."""

_remove_tree: Lazy[Callable[[Path], None]] = Lazy("shutil:rmtree")
_given_up: "Lazy[ContextVar[Event | None]]" = Lazy("melete.store.catchup:given_up")
_projections: Lazy["Callable[..., Projections]"] = Lazy("melete.store.project:Projections")


class FileStore:
    """Sessions as files below `state`; nothing is made before it is needed.

    An empty `owner` stands for the person whose home it is: it sees every session. Any other sees its own only.
    """

    def __init__(self, state: Path, *, clock: Clock, on_fact: OnFact | None = None) -> None:
        self.state = state
        self.folder = state / "sessions"
        self._clock = clock
        self._on_fact = on_fact
        self._opened_tables: Projections | None = None
        self._live: set[str] = set()
        self._tidied = False

    # ---- one session

    async def create(self, opened: Fact, *, id: str = "") -> SessionRef:
        """Make a session whose first fact is `opened`; it is durable from its first durable fact on."""
        name = id or new_session_id(self._clock.now())
        adding.check_id(name)
        opened = adding.check_opened(opened)
        make_folder(self.folder)
        log = Log(self._path(name), await lock_soon(self._path(name), create=True))
        try:
            log.load()
            if log.seq:
                raise adding.taken(name)
            session = OwnedSession(log, Inbox(log.path), owner=opened.owner, clock=self._clock, on_fact=self._on_fact)
            await session.record(opened)
        except StorageError:
            if not log.size:  # what was not begun is not left to lie about
                log.path.unlink(missing_ok=True)
            raise
        finally:
            log.close()
            self._changed(name)
        return session.ref

    async def add(self, facts: Sequence[Fact], *, id: str = "") -> SessionRef:
        """Make a session of facts that exist already, the first an `Opened`; durable when this returns, all or nothing.

        They keep their times and runs, are numbered anew from 1, and are not published. Raises StoreError when the id is taken.
        """
        now = self._clock.now()
        name = id or new_session_id(now)
        adding.check_id(name)
        data = adding.encoded(adding.numbered(facts, name, now), name)
        make_folder(self.folder)
        if not self._tidied:
            adding.drop_left(self.folder)
            self._tidied = True
        cancelled = await wait_for(lambda: adding.put(self._path(name), data, at=adding.latest(facts, now)))
        self._changed(name)
        if cancelled is not None:
            raise cancelled
        return SessionRef(id=name, owner=adding.check_opened(facts[0]).owner)

    @asynccontextmanager
    async def claim(self, ref: SessionRef) -> AsyncGenerator[Session, None]:
        """Own the session until the block ends; raises SessionBusyError while another does, SessionNotFoundError."""
        path = self._known(ref)
        try:
            handle = await lock_soon(path)
        except SessionBusyError as error:
            raise self._busy(ref, error) from None
        log = Log(path, handle)
        try:
            log.load()
            if log.findings and not log.facts:
                raise SessionNotFoundError(
                    f"nothing readable is left of the session {ref.id}", kept=f"its bytes are in {aside_path(path)}"
                )
            owner = _allowed(ref, log.facts)
            session = OwnedSession(log, Inbox(log.path), owner=owner, clock=self._clock, on_fact=self._on_fact)
            self._live.add(ref.id)
            await session.tell_findings()
            yield session
        finally:
            log.close()
            self._live.discard(ref.id)
            self._changed(ref.id)

    async def facts(self, ref: SessionRef, *, after: int = 0) -> Sequence[Fact]:
        """The stored facts behind `after`, without owning the session."""
        reader = LogReader(self._known(ref))
        try:
            facts = reader.new()
        finally:
            reader.close()
        _allowed(ref, facts)
        return [fact for fact in facts if fact.seq > after]

    async def follow(self, ref: SessionRef, *, after: int = 0) -> AsyncGenerator[Fact]:
        """The stored facts behind `after`, then each new one; ends when the session is deleted."""
        reader = LogReader(self._known(ref))
        try:
            read, facts = reader.offset, reader.new(PIECE)
            _allowed(ref, facts)
            while True:
                for fact in facts:
                    if fact.seq > after:
                        yield fact
                if read == reader.offset and reader.gone:
                    return
                await asyncio.sleep(0 if read != reader.offset else POLL)
                read, facts = reader.offset, reader.new(PIECE)
        finally:
            reader.close()

    async def send(self, ref: SessionRef, message: InboxMessage, *, wait: float = 5.0) -> Receipt:
        """Put a message into the session's inbox, durably, and wait for the fact that carries it.

        `queued` also means that the owner has not taken it within `wait` seconds: it waits in the inbox.
        """
        path = self._known(ref)
        self._check_owner(ref)
        return await delivery.send(path, message, wait=wait)

    async def rename(self, ref: SessionRef, title: str) -> None:
        """Give the session a title; raises SessionBusyError while it runs."""
        async with self.claim(ref) as session:
            await session.record(Titled(title=title), durable=True)

    async def delete(self, ref: SessionRef) -> None:
        """Remove the session's log, inbox, rows and all else of it; raises SessionBusyError while it runs."""
        path = self._known(ref)
        self._check_owner(ref)
        handle = await lock_soon(path)
        try:
            await FileLedger(self.state, clock=self._clock).append("session.deleted", {"session": ref.id})
            for part in (
                aside_path(path),
                inbox_path(path),
                self._spilled(ref),
                self.state / "processes" / ref.id,  # what is known of its background processes
                self.state / "children" / ref.id,  # and of its children in the background
                path,
            ):  # the log last: it leads to the rest
                _remove(part)
            sync_folder(self.folder)
        except OSError as error:
            raise storage_error(
                error, f"deleting the session {ref.id}", kept="what is left of it is in place; delete it again"
            ) from error
        finally:
            os.close(handle)
        if any((self.state / name).exists() for name in ("sessions.db", "search.db")):
            await self._ask(lambda tables: tables.forget(ref.id))

    async def spill(self, ref: SessionRef, name: str, text: str) -> str:
        """Keep a text that is too long for a result and return the path under which it can be read."""
        self._known(ref)
        folder = self._spilled(ref)
        make_folder(folder)
        path = folder / f"{safe_name(name)}.txt"
        try:
            write_new(path, text.encode("utf-8", "replace"))
        except OSError as error:
            raise storage_error(error, f"writing {path}", kept="the session's facts are untouched") from error
        return str(path)

    async def scroll(self, ref: SessionRef, *, around: int, window: int = 5) -> Sequence[Line]:
        """The messages round the fact `around`."""
        return lines.around(lines.of(await self.facts(ref)), around, window)

    # ---- many sessions

    async def find(self, name: str, *, owner: str = "") -> SessionRef:
        """The session with this id, unique id prefix or title; raises SessionNotFoundError."""
        if is_session_id(name) and (ref := self._ref(name, owner)) is not None:
            return ref
        names = watch.beginning(self.folder, name) if is_session_id(name) else []
        found: Sequence[SessionRef] = [ref for candidate in names if (ref := self._ref(candidate, owner)) is not None]
        if len(found) != 1 and name.strip():
            found = await self._ask(lambda tables: tables.titled(name, owner)) or found
        return only(name, found)

    async def latest(self, *, owner: str = "", cwd: str = "") -> SessionRef | None:
        """The session that changed last, of those in which somebody talks."""
        for name in watch.latest_first(self.folder):
            opened = first_fact(self._path(name))
            if opened is None or opened.source in UNTALKED:
                continue
            if (not owner or opened.owner == owner) and (not cwd or opened.cwd == cwd):
                return SessionRef(id=name, owner=opened.owner)
        return None

    async def list(
        self, *, owner: str = "", which: Which = ALL, limit: int = 50, offset: int = 0
    ) -> Sequence[SessionInfo]:
        """Sessions, the last changed first."""
        return await self._ask(lambda tables: tables.list(owner=owner, which=which, limit=limit, offset=offset))

    async def info(self, ref: SessionRef) -> SessionInfo:
        """One session's row."""
        self._known(ref)
        found = await self._ask(lambda tables: tables.info(ref))
        if found is None:
            raise SessionNotFoundError(f"there is no session {ref.id!r}", next="see `melete sessions list`")
        return found

    async def of_run(self, run: str, *, owner: str = "") -> SessionRef:
        """The session that a run with this id belongs to; raises SessionNotFoundError."""
        found = await self._ask(lambda tables: tables.of_run(run, owner))
        if found is None:
            raise SessionNotFoundError(f"there is no run {run!r}", next="see `melete sessions list`")
        return found

    async def runs(self, which: WhichRuns = ALL_RUNS, *, limit: int = 50, offset: int = 0) -> Sequence[RunInfo]:
        """Runs, the last begun first."""
        return await self._ask(lambda tables: tables.runs(which, limit=limit, offset=offset))

    async def unfinished(self, surfaces: Sequence[str]) -> Sequence[tuple[SessionRef, str]]:
        """Sessions whose last run, begun on one of the surfaces, has no end although nobody owns them; with that run's id."""
        found = await self._ask(lambda tables: tables.unfinished(surfaces))
        return [(ref, run) for ref, run in found if not is_locked(self._path(ref.id))]

    async def owned(self, ref: SessionRef) -> bool:
        """Whether some process owns the session at this moment."""
        return is_locked(self._known(ref))

    async def search(self, query: Query) -> Sequence[Hit]:
        """Messages that match, the best first; any text is a valid query."""
        return await self._ask(lambda tables: tables.search(query))

    async def statistics(self, *, owner: str = "", which: Which = ALL) -> "Statistics":
        """What the sessions add up to, in the local time zone; `since` and `until` are times of what is counted."""
        return await self._ask(lambda tables: tables.statistics(owner=owner, which=which))

    async def verify(self, *, deep: bool = False) -> Sequence[Problem]:
        """Check every log, the ledger and the projections without changing them; with `deep`, also count messages."""
        return await asyncio.to_thread(verify.verify, self.state, deep=deep)

    async def rebuild(self, *, on_progress: Callable[[int, int], None] | None = None) -> Sequence[str]:
        """Drop and remake every projection from the logs; return a line for each thing done."""
        return await self._ask(lambda tables: tables.rebuild(on_progress))

    async def aclose(self) -> None:
        """Close files; a second call does nothing."""
        if self._opened_tables is not None:
            self._opened_tables.close()
            self._opened_tables = None

    # ---- inside

    def _tables(self) -> "Projections":
        if self._opened_tables is None:
            self._opened_tables = _projections.load()(self.state, clock=self._clock, live=self._live)
        return self._opened_tables

    async def _ask(self, ask: "Callable[[Projections], T]") -> T:
        """Ask the projections in a worker thread; when nobody waits any more, it comes to an end soon."""
        given_up = _given_up.load()
        event = Event()
        token = given_up.set(event)
        try:
            return await asyncio.to_thread(ask, self._tables())
        except asyncio.CancelledError:
            event.set()
            raise
        finally:
            given_up.reset(token)

    def _changed(self, session: str) -> None:
        """What this process has written, the next listing or search sees."""
        if self._opened_tables is not None:
            self._opened_tables.touch(session)

    def _path(self, session: str) -> Path:
        return self.folder / f"{session}.log"

    def _spilled(self, ref: SessionRef) -> Path:
        return self.state / "spill" / ref.id

    def _known(self, ref: SessionRef) -> Path:
        if not is_session_id(ref.id):
            raise SessionNotFoundError(f"{ref.id!r} is no session's id", next="see `melete sessions list`")
        return self._path(ref.id)

    def _ref(self, session: str, owner: str) -> SessionRef | None:
        opened = first_fact(self._path(session))
        if opened is None or (owner and opened.owner != owner):
            return None
        return SessionRef(id=session, owner=opened.owner)

    def _check_owner(self, ref: SessionRef) -> None:
        if self._ref(ref.id, ref.owner) is None:
            raise SessionNotFoundError(f"there is no session {ref.id!r}", next="see `melete sessions list`")

    def _busy(self, ref: SessionRef, error: SessionBusyError) -> SessionBusyError:
        reader = LogReader(self._path(ref.id))
        try:
            started = [fact for fact in reader.new() if isinstance(fact, RunStarted)]
        finally:
            reader.close()
        if not started or not started[-1].pid:
            return error
        who = f"process {started[-1].pid} ({started[-1].surface})"
        return SessionBusyError(f"{who} runs the session {ref.id}", kept=error.kept, next=error.next)


def _allowed(ref: SessionRef, facts: Sequence[Fact]) -> str:
    """The session's owner; somebody else's session is as good as none, one whose first fact is lost is the person's."""
    owner = next((fact.owner for fact in facts if isinstance(fact, Opened)), "")
    if not facts or (ref.owner and ref.owner != owner):
        raise SessionNotFoundError(f"there is no session {ref.id!r}", next="see `melete sessions list`")
    return owner


def _remove(path: Path) -> None:
    """Remove what stands there, whatever it is; nothing is fine. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        _remove_tree.load()(path)
    else:
        path.unlink(missing_ok=True)
