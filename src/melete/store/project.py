"""The projections of one home together: tables for listing, the index for searching. Part of the store.

The only module through which the store reaches SQLite, and loaded only when something is listed or searched.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from melete.core.errors import StorageError
from melete.core.ports import Clock
from melete.core.session import Hit, Problem, Query, SessionInfo, SessionRef, Which
from melete.store import search, tables
from melete.store.catchup import CaughtUp, sources
from melete.store.sqlite import DamagedError, Database

SCHEMAS = (tables.Tables.schema, search.SearchIndex.schema)


class Projections:
    """Listings and search of the home whose state folder is `state`; each answer is up to date with the logs."""

    def __init__(self, state: Path, *, clock: Clock) -> None:
        self._folder = state / "sessions"
        self._tables = CaughtUp(tables.Tables(), state, clock=clock)
        self._search = CaughtUp(search.SearchIndex(), state, clock=clock)

    def catch_up(self) -> None:
        """Take in what is new, in the files that there are."""
        for projection in (self._tables, self._search):
            if projection.path.exists():
                projection.use(lambda _: None)

    def list(self, *, owner: str, which: Which, limit: int, offset: int) -> list[SessionInfo]:
        """Sessions, the last changed first."""
        found = tables.Listing(owner=owner, which=which, limit=limit, offset=offset)
        return self._tables.use(lambda database: tables.listing(database, found, folder=self._folder))

    def info(self, ref: SessionRef) -> SessionInfo | None:
        """One session's row."""
        return self._tables.use(lambda database: tables.one(database, ref, folder=self._folder))

    def titled(self, title: str, owner: str) -> "Sequence[SessionRef]":
        """Sessions with this title, the last changed first."""
        return self._tables.use(lambda database: tables.titled(database, title, owner=owner))

    def search(self, query: Query) -> "Sequence[Hit]":
        """Messages that match, with their sessions' titles."""
        hits = self._search.use(lambda database: search.find(database, query))
        named = self._tables.use(lambda database: tables.titles(database, [hit.session for hit in hits]))
        return [msgspec.structs.replace(hit, title=named.get(hit.session, "")) for hit in hits]

    def rebuild(self) -> "Sequence[str]":
        """Drop and remake both files; return a line for each thing done."""
        done: list[str] = []
        for projection in (self._tables, self._search):
            projection.remake()
            count = projection.use(lambda database: len(sources(database)))
            done += [*projection.done, f"{projection.path.name} was remade from {count} logs"]
            projection.done.clear()
        return done

    def close(self) -> None:
        """Close both files."""
        self._tables.close()
        self._search.close()


def check(state: Path) -> "Sequence[Problem]":
    """What is wrong with the projections below `state`, nothing changed: damage, and logs that lost what was read."""
    problems: list[Problem] = []
    for schema in SCHEMAS:
        path = state / f"{schema}.db"
        if path.exists():
            problems += _check_file(path, schema)
        problems += [
            Problem(path=str(aside), what="was damaged and has been remade", kept=str(aside), harmless=True)
            for aside in sorted(state.glob(f"{schema}.db.damaged-*"))
            if not aside.name.endswith(("-wal", "-shm"))
        ]
    return problems


def _check_file(path: Path, schema: str) -> "Sequence[Problem]":
    harm = "it will be remade from the logs when it is next used"
    try:
        database = Database(path, schema=schema)
    except DamagedError as error:
        return [Problem(path=str(path), what=f"is damaged: {error}; {harm}", harmless=True)]
    except StorageError as error:
        return [Problem(path=str(path), what=f"cannot be used: {error.what}", harmless=True)]
    try:
        verdicts = [str(row[0]) for row in database.read("PRAGMA integrity_check(5)")]
        known = sources(database)
    except (DamagedError, StorageError, msgspec.ValidationError) as error:
        return [Problem(path=str(path), what=f"is damaged: {error}; {harm}", harmless=True)]
    finally:
        database.close()
    problems = [
        Problem(path=str(path), what=f"is damaged: {verdict}; {harm}", harmless=True)
        for verdict in verdicts
        if verdict != "ok"
    ]
    for source in known:
        log = path.parent / "sessions" / f"{source.session}.log"
        if log.exists() and log.stat().st_size < source.offset:
            what = f"is shorter than what was read before: {source.offset} bytes with facts up to {source.seq}"
            problems.append(Problem(path=str(log), what=what))
    return problems
