"""The store: sessions and the ledger as append-only logs; tables and search index are remade from them. Layer 2, a part.

`open_store` and `open_ledger` give the ports `Store` and `Ledger` of core on files; the twins in memory stand in
`melete.store.memory`.
"""

from pathlib import Path

from melete.core.ports import Clock, Ledger
from melete.core.session import Store
from melete.store.files import FileStore
from melete.store.ledger import FileLedger
from melete.store.session import OnFact

__all__ = ["OnFact", "open_ledger", "open_store"]


def open_store(state: Path, *, clock: Clock, on_fact: OnFact | None = None) -> Store:
    """The sessions below the folder `state`; `on_fact` is called with each fact once it is stored. Nothing is made yet."""
    return FileStore(state, clock=clock, on_fact=on_fact)


def open_ledger(state: Path, *, clock: Clock) -> Ledger:
    """The ledger in the folder `state`; nothing is made yet."""
    return FileLedger(state, clock=clock)
