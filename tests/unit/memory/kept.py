"""The notes of a home in a folder, and what tests say about them."""

from pathlib import Path

from melete.core.memory import Noted, Noting, Operation, Target
from melete.core.ports import Clock
from melete.memory.notes import Notes, Rules
from melete.store.ledger import FileLedger
from melete.testing.clock import ManualClock

CLOCK = ManualClock()


def notes(home: Path, *, clock: Clock = CLOCK, rules: Rules | None = None) -> Notes:
    """The memory of a home."""
    ledger = FileLedger(home / "state", clock=clock)
    return Notes(home / "memories", home / "state", ledger=ledger, clock=clock, rules=rules)


def add(text: str, *, until: str = "", anchor: str = "") -> Operation:
    return Operation(action="add", content=text, until=until, anchor=anchor)


def replace(old: str, text: str) -> Operation:
    return Operation(action="replace", old_text=old, content=text)


def remove(old: str) -> Operation:
    return Operation(action="remove", old_text=old)


async def note(
    kept: Notes, *operations: Operation, target: Target = "memory", session: str = "s-1", **about: str
) -> Noted:
    return await kept.apply(Noting(target=target, operations=operations, session=session, **about))  # type: ignore[arg-type]


async def texts(kept: Notes) -> list[str]:
    return [entry.text for entry in await kept.entries("", "memory")]


def main_file(home: Path) -> Path:
    return home / "memories" / "MEMORY.md"


def by_hand(home: Path, text: str | bytes) -> None:
    """Write MEMORY.md as an editor does."""
    path = main_file(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
