"""Checking a home's logs, ledger and projections without changing them. Part of the store."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from melete.core.plugin import Lazy
from melete.core.session import Problem
from melete.store import record
from melete.store.aside import Finding, aside_path, kept
from melete.store.disk import read_regular
from melete.store.inbox import refused
from melete.store.ledger import NAME, ledger_path
from melete.store.log import examine, is_locked, logs, strangers

LOOKS = 3
_check_tables: Lazy[Callable[..., Sequence[Problem]]] = Lazy("melete.store.soundness:check")


def verify(state: Path, *, deep: bool = False) -> list[Problem]:
    """Everything that is wrong below `state`; what was set aside before is told again.

    With `deep`, the messages in the tables are counted and compared with those in the logs.
    """
    problems: list[Problem] = []
    for log in logs(state / "sessions"):
        problems += check_log(log, log.stem)
        problems += [
            Problem(path=str(path), what="a file in the inbox was no message and was set aside", kept=str(path))
            for path in refused(log)
        ]
    problems += [
        Problem(path=str(path), what="stands in the place of a log and is not a regular file")
        for path in strangers(state / "sessions")
    ]
    if os.path.lexists(ledger_path(state)):
        problems += check_log(ledger_path(state), NAME)
    if any((state / name).exists() for name in ("sessions.db", "search.db")):
        problems += _check_tables.load()(state, deep=deep)
    return problems


def check_log(path: Path, name: str) -> list[Problem]:
    """What is wrong with one log now, and what was found and set aside earlier."""
    aside = aside_path(path)
    try:
        earlier, now = kept(aside), _look(path, name)
        for _ in range(LOOKS):  # what is not whole yet is no accident while somebody writes
            if not any(finding.harmless for finding in now):
                break
            now, before = _look(path, name), now
            if now == before and not is_locked(path):
                break
        else:
            now = [finding for finding in now if not finding.harmless]
    except OSError as error:
        if not os.path.lexists(path):
            return []  # deleted meanwhile
        return [Problem(path=str(error.filename or path), what=f"cannot be read: {error.strerror}")]
    known = {finding.key for finding in earlier}
    return [_problem(path, finding, kept=str(aside)) for finding in earlier] + [
        _problem(path, finding, kept="") for finding in now if finding.key not in known
    ]


def _look(path: Path, name: str) -> Sequence[Finding]:
    """What is wrong with the bytes of a log; raises OSError."""
    data = read_regular(path)
    found = record.scan(data, record.seed(name))
    if found.records:
        return examine(found, [record.number(entry.body) for entry in found.records])
    what = "holds no whole record" if data else "is empty: a session that was never begun"
    return [Finding(what=what, offset=0, raw=data, harmless=b"\n" not in data)]


def _problem(path: Path, finding: Finding, *, kept: str) -> Problem:
    return Problem(path=str(path), what=finding.text, kept=kept, harmless=finding.harmless)
