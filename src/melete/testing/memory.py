"""A memory that is gone with it: it keeps the rules of the real one and its ledger, without files, and so without edits by hand."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Final

from melete.core.memory import Noting
from melete.core.ports import Clock
from melete.memory.fold import Row
from melete.memory.keeping import Keeping, Sheet, State
from melete.memory.notes import Notes, Rules
from melete.memory.plan import Plan
from melete.store.memory import MemoryLedger
from melete.testing.clock import ManualClock

NOWHERE: Final = Path("/nonexistent")


class MemoryNotes(Notes):
    """Memory that ends with the process; with the limits and secrets of `rules`."""

    def __init__(self, *, clock: Clock | None = None, rules: Rules | None = None) -> None:
        clock = clock or ManualClock()
        ledger = MemoryLedger(clock=clock)
        super().__init__(NOWHERE, NOWHERE, ledger=ledger, clock=clock, rules=rules)
        self._opened = _Kept(NOWHERE, NOWHERE, ledger=ledger, mark="", keeps=True)


class _Kept(Keeping):
    """Entries that stand in the ledger alone."""

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Nobody else is there."""
        return nullcontext()

    async def keep(self) -> None:
        """There is nothing to keep it in."""

    async def look(self, sheet: Sheet) -> State:
        """What the ledger tells."""
        self.books.catch_up()
        return State(data=b"", entries=self.books.book(sheet.key).entries)

    async def settled(self, sheet: Sheet) -> State:
        """What the ledger tells."""
        return await self.look(sheet)

    async def put(self, sheet: Sheet, state: State, change: Noting, *, plan: Plan, told: Sequence[Row]) -> int:
        """Tell the ledger, and return the number of the change."""
        return await self.tell(self.changed(sheet, change, plan, told, before=state.data, after=b""))
