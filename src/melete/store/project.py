"""The projections of one home together: tables for listing, the index for searching. Part of the store.

The only module through which the store on files reaches SQLite, and loaded only when something is listed or searched.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from melete.core.plugin import Lazy
from melete.core.ports import Clock
from melete.core.session import Hit, Query, RunInfo, SessionInfo, SessionRef, Which, WhichRuns
from melete.store import tables
from melete.store.catchup import OnProgress, Projection
from melete.store.derived import Derived
from melete.store.sqlite import Database
from melete.store.watch import Folder

if TYPE_CHECKING:
    from melete.core.statistics import Statistics
    from melete.store.retention import Holdings

T = TypeVar("T")

_statistics: Lazy[Callable[..., "Statistics"]] = Lazy("melete.store.statistics:statistics")
_holdings: Lazy[Callable[[Path], "Holdings"]] = Lazy("melete.store.retention:holdings")
_index: Lazy[Callable[[], Projection]] = Lazy("melete.store.index:SearchIndex")
_find: Lazy[Callable[[Database, Query], list[Hit]]] = Lazy("melete.store.search:find")


def make_index() -> Projection:
    """The projection behind the search."""
    return _index.load()()


class Used(Protocol):
    """A projection that is up to date whenever it is used."""

    def use(self, act: Callable[[Database], T]) -> T:
        """What `act` makes of it."""
        ...


class Answers(ABC):
    """Listings and search over two projections, of files or of what is in memory; `folder` is where the logs stand."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    @abstractmethod
    def _tables(self) -> Used: ...

    @property
    @abstractmethod
    def _search(self) -> Used: ...

    def list(self, *, owner: str, which: Which, limit: int, offset: int) -> list[SessionInfo]:
        """Sessions, the last changed first."""
        found = tables.Listing(owner=owner, which=which, limit=limit, offset=offset)
        return self._tables.use(lambda database: tables.listing(database, found, folder=self._folder))

    def info(self, ref: SessionRef) -> SessionInfo | None:
        """One session's row."""
        return self._tables.use(lambda database: tables.one(database, ref, folder=self._folder))

    def statistics(self, *, owner: str, which: Which) -> "Statistics":
        """What the sessions add up to."""
        wanted = tables.Listing(owner=owner, which=which)
        return self._tables.use(lambda database: _statistics.load()(database, wanted, folder=self._folder))

    def titled(self, title: str, owner: str) -> "Sequence[SessionRef]":
        """Sessions with this title, the last changed first."""
        return self._tables.use(lambda database: tables.titled(database, title, owner=owner))

    def of_run(self, run: str, owner: str) -> SessionRef | None:
        """The session of a run."""
        return self._tables.use(lambda database: tables.of_run(database, run, owner=owner))

    def runs(self, which: WhichRuns, *, limit: int, offset: int) -> "Sequence[RunInfo]":
        """Runs, the last begun first."""
        return self._tables.use(
            lambda database: tables.runs(database, which, folder=self._folder, limit=limit, offset=offset)
        )

    def unfinished(self, surfaces: "Sequence[str]") -> "Sequence[tuple[SessionRef, str]]":
        """Sessions whose last run, begun on one of the surfaces, has no end, with its id."""
        return self._tables.use(lambda database: tables.unfinished(database, surfaces))

    def search(self, query: Query) -> "Sequence[Hit]":
        """Messages that match, with the titles of their sessions and the names that imports gave these."""
        find = _find.load()
        hits = self._search.use(lambda database: find(database, query))
        if not hits:
            return hits
        sessions = list({hit.session for hit in hits})
        named = self._tables.use(lambda database: tables.named(database, sessions))
        nameless = ("", "")
        return [
            msgspec.structs.replace(hit, title=title, name=name)
            for hit in hits
            for title, name in (named.get(hit.session, nameless),)
        ]


class Projections(Answers):
    """Those of the home whose state folder is `state`; each answer is up to date with the logs.

    `live` holds the sessions that this process owns: their logs are looked at each time.
    """

    def __init__(self, state: Path, *, clock: Clock, live: set[str]) -> None:
        super().__init__(state / "sessions")
        self._state = state
        self._logs = Folder(self._folder)
        self._clock = clock
        self._live = live
        self._used: dict[str, Derived] = {}

    @property
    def _tables(self) -> Derived:
        return self._derived("sessions", tables.Tables)

    @property
    def _search(self) -> Derived:
        return self._derived("search", make_index)

    def _derived(self, name: str, make: Callable[[], Projection]) -> Derived:
        found = self._used.get(name)
        if found is None:
            found = Derived(make(), self._logs, self._state, clock=self._clock, live=self._live)
        return self._used.setdefault(name, found)

    def list(self, *, owner: str, which: Which, limit: int, offset: int) -> "list[SessionInfo]":
        """Sessions, the last changed first; never one that is gone."""
        rows = super().list(owner=owner, which=which, limit=limit, offset=offset)
        return [row for row in rows if self._logs.one(row.id) is not None] if self._tables.late else rows

    def statistics(self, *, owner: str, which: Which) -> "Statistics":
        """What the sessions add up to; sizes are the whole home's, and for its person alone."""
        found = super().statistics(owner=owner, which=which)
        return found if owner else msgspec.structs.replace(found, sizes=_holdings.load()(self._state).sizes)

    def search(self, query: Query) -> "Sequence[Hit]":
        """Messages that match, with their sessions' titles; never one of a session that is gone."""
        hits = super().search(query)
        return [hit for hit in hits if self._logs.one(hit.session) is not None] if self._search.late else hits

    def touch(self, session: str) -> None:
        """This process has changed the session's log."""
        for projection in list(self._used.values()):
            projection.touch(session)

    def forget(self, session: str) -> None:
        """Take a deleted session out of the files that there are, at once; raises StorageError."""
        for projection in (self._tables, self._search):
            if projection.path.exists():
                projection.forget(session)

    def rebuild(self, told: OnProgress | None = None) -> "Sequence[str]":
        """Drop and remake both files; return a line for each thing done."""
        done: list[str] = []
        both = (self._tables, self._search)
        for number, projection in enumerate(both):
            projection.remake(None if told is None else _part(told, number, of=len(both)))
            done += [*projection.done, f"{projection.path.name} was remade from {projection.count()} logs"]
            projection.done.clear()
        return done

    def close(self) -> None:
        """Close both files."""
        for projection in list(self._used.values()):
            projection.close()


def _part(told: OnProgress, number: int, *, of: int) -> OnProgress:
    """Tells of the progress of one of several equal parts as that of the whole."""
    return lambda done, total: told((number * total + done) // of, total)
