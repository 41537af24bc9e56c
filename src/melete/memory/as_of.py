"""Memory as it was at an earlier time, laid out in a folder of its own from what the ledger tells. Part of the memory.

A file that was not told of by then counts as long as it is older than the time. Nothing in the home is changed.
"""

import shutil
from datetime import datetime
from pathlib import Path

from melete.core.ports import Ledger
from melete.memory.files import rendered
from melete.memory.fold import Books
from melete.memory.keeping import Keeping
from melete.memory.snapshot import NAMES

PRIVATE = 0o600


def lay_out(ledger: Ledger, *, at: datetime, now: Path, to: Path) -> None:
    """Put the memory of the folder `now` into the folder `to` as it was when this ledger ended; raises OSError, StoreError."""
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    keeping = Keeping(to, to, ledger=ledger, mark="", keeps=False)
    books = Books(ledger, to / "none", mark="")
    books.catch_up()
    told: set[str] = set()
    for target, who in books.whose():
        sheet = keeping.sheet(target, who)
        told.add(sheet.path.name)
        sheet.path.parent.mkdir(mode=0o700, exist_ok=True)
        sheet.path.write_bytes(rendered([one.text for one in books.book(sheet.key).entries], like=b""))
        sheet.path.chmod(PRIVATE)
    for _, name in NAMES.values():
        if name not in told and (now / name).is_file() and (now / name).stat().st_mtime <= at.timestamp():
            shutil.copy(now / name, to / name)
