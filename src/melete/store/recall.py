"""Tables and index over sessions that live in memory: the real projections, fed from the facts. Part of the store.

Loaded only when something is listed or searched, since it loads SQLite.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from melete.core.event import Fact
from melete.store import tables
from melete.store.catchup import Projection
from melete.store.project import Answers, make_index
from melete.store.sqlite import Database

T = TypeVar("T")
NOWHERE = Path("/dev/null/sessions")
"""Where no log can stand."""


class Holder(Protocol):
    """What holds the facts of one session."""

    @property
    def facts(self) -> Sequence[Fact]:
        """The facts so far."""
        ...


class Fed:
    """A projection in memory that takes in what is new in the sessions before each use."""

    def __init__(self, projection: Projection, sessions: Mapping[str, Holder]) -> None:
        self._projection = projection
        self._sessions = sessions
        self._database = Database(None, schema=projection.schema)
        self._taken: dict[str, tuple[Holder, int]] = {}
        self._turn = threading.RLock()

    def use(self, act: Callable[[Database], T]) -> T:
        """What `act` makes of it."""
        with self._turn:
            self._catch_up()
            return act(self._database)

    def close(self) -> None:
        """Forget everything."""
        self._database.close()

    def _catch_up(self) -> None:
        new = {name: holder for name, holder in self._sessions.items() if self._taken.get(name) != _state(holder)}
        others = {name for name, (holder, _) in self._taken.items() if self._sessions.get(name) is not holder}
        if not new and not others:
            return
        with self._database.write() as connection:
            for name in others:
                self._projection.forget(connection, name)
                del self._taken[name]
            for name, holder in new.items():
                state = _state(holder)
                before = self._taken.get(name, (holder, 0))[1]
                self._projection.take(connection, name, holder.facts[before : state[1]])
                self._taken[name] = state


class Recalled(Answers):
    """Listings and search of sessions in memory; sizes, and whether one runs, are for their holder to tell."""

    def __init__(self, sessions: Mapping[str, Holder]) -> None:
        super().__init__(NOWHERE)
        self._sessions = sessions
        self._used: dict[str, Fed] = {}

    @property
    def _tables(self) -> Fed:
        return self._fed("sessions", tables.Tables)

    @property
    def _search(self) -> Fed:
        return self._fed("search", make_index)

    def close(self) -> None:
        """Forget everything."""
        for fed in self._used.values():
            fed.close()

    def _fed(self, name: str, make: Callable[[], Projection]) -> Fed:
        if name not in self._used:
            self._used[name] = Fed(make(), self._sessions)
        return self._used[name]


def _state(holder: Holder) -> tuple[Holder, int]:
    return holder, len(holder.facts)
