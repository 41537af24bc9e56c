"""Conditions on sessions in SQL, as the tables and the search index share them. Part of the store, pure."""

from collections.abc import Sequence
from typing import Any

from melete.core.session import Which


class Conditions:
    """Conditions that all must hold, with their values, in order."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.values: list[Any] = []

    def need(self, condition: str, *given: Any) -> None:
        """Add one, with the values of its question marks."""
        self.parts.append(condition)
        self.values.extend(given)


def of_sessions(owner: str, which: Which, *, table: str = "") -> Conditions:
    """Owner, session, sources and folder of rows of `table` (with its dot); models, chains and times are kept in other ways."""
    found = Conditions()
    if owner or which.alone:
        found.need(f"{table}owner = ?", owner)
    if which.session:
        found.need(f"{table}id = ?", which.session)
    if which.sources:
        found.need(f"{table}source IN ({marks(which.sources)})", *which.sources)
    if which.apart:
        found.need(f"{table}source NOT IN ({marks(which.apart)})", *which.apart)
    if which.cwd:
        folder = which.cwd.rstrip("/")
        below = f"{table}cwd >= ? AND {table}cwd < ?"
        found.need(
            f"({table}cwd = ? OR ({below}))", folder or "/", f"{folder}/", f"{folder}0"
        )  # 0 comes right behind /
    return found


def marks(values: Sequence[object]) -> str:
    """A question mark for each value."""
    return ", ".join("?" * len(values))
