"""Checking the projections of a home without changing them. Part of the store; loads SQLite."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from melete.core.errors import StoreError
from melete.core.session import Problem
from melete.store import lines
from melete.store.catchup import Source, sources
from melete.store.derived import set_aside
from melete.store.log import LogReader
from melete.store.sqlite import DamagedError, Database, newest

SCHEMAS = ("sessions", "search")
HARM = "it will be remade from the logs when it is next used"


def check(state: Path, *, deep: bool = False) -> Sequence[Problem]:
    """Damage, and logs that lost what was read; with `deep`, also tables that hold something else than the logs."""
    problems: list[Problem] = []
    for schema in SCHEMAS:
        path = state / f"{schema}.db"
        if path.exists():
            problems += _check_file(path, schema, deep=deep)
        problems += [
            Problem(path=str(aside), what="was damaged and has been remade", kept=str(aside), harmless=True)
            for aside in map(path.with_name, set_aside(path))
        ]
        if (left := path.with_name(f".{schema}.rebuild")).exists():
            what = "is what a rebuild that goes on or was killed has made so far; the next one uses it up"
            problems.append(Problem(path=str(left), what=what, harmless=True))
    return problems


def _check_file(path: Path, schema: str, *, deep: bool) -> Sequence[Problem]:
    def damaged(why: object) -> Problem:
        return Problem(path=str(path), what=f"is damaged: {why}; {HARM}", harmless=True)

    try:
        database = Database(path, schema=schema, look=True)
    except DamagedError as error:
        return [damaged(error)]
    except StoreError as error:
        return [Problem(path=str(path), what=f"cannot be used: {error.what}", harmless=True)]
    try:
        problems = [damaged(row[0]) for row in database.read("PRAGMA integrity_check(5)") if row[0] != "ok"]
        if database.version < newest(schema):  # made anew by the next use
            return problems
        known = sources(database)
        problems += _lost(path.parent / "sessions", known)
        if deep and schema == "sessions":
            problems += _miscounted(path, database)
    except (DamagedError, StoreError, msgspec.ValidationError) as error:
        return [damaged(error)]
    finally:
        database.close()
    return problems


def _lost(folder: Path, known: Sequence[Source]) -> Iterator[Problem]:
    for source in known:
        log = folder / f"{source.session}.log"
        try:
            size = log.stat().st_size
        except OSError:
            continue  # deleted, or told of where logs are checked
        if size < source.offset:
            what = f"is shorter than what was read before: {source.offset} bytes with facts up to {source.seq}"
            yield Problem(path=str(log), what=what)


def _miscounted(path: Path, database: Database) -> Iterator[Problem]:
    """Sessions of which the tables hold another number of messages than the part of the log that they have read."""
    held = "SELECT count(*) FROM messages WHERE messages.session = sources.session"
    for session, seq, count in database.read(f"SELECT session, seq, ({held}) FROM sources"):  # noqa: S608 - ours
        try:
            reader = LogReader(path.parent / "sessions" / f"{session}.log")
        except StoreError:
            continue  # deleted, or told of where logs are checked
        try:
            facts = reader.new()
        finally:
            reader.close()
        there = sum(1 for fact in facts if fact.seq <= seq and lines.of_fact(fact) is not None)
        if there != count:
            what = (
                f"holds {count} messages of the session {session}, whose log holds {there}; `melete rebuild` remakes it"
            )
            yield Problem(path=str(path), what=what, harmless=True)
