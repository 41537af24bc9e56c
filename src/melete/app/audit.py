"""Who did what, and who was refused: HOME/logs/audit.log, one JSON object a line. Part of the composition root.

It holds names of routes, keys, sessions, runs and jobs; never a key, a query, or anything that was said.
"""

import logging
from datetime import datetime

import msgspec
from msgspec import Struct

from melete.app.home import Home
from melete.app.log_file import LogFile
from melete.core.errors import MeleteError

AUDIT_LOG = "audit.log"
LARGEST = 10 << 20
KEPT = 9
PERSON = "person"
"""How the home's own person is called there."""
NOBODY = "nobody"
"""How one is called who gave no key, or a wrong one."""

log = logging.getLogger("melete.audit")


class Act(Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"came_from": "from"}):
    """One line: `who` is `person`, `key:NAME` or `nobody`; `came_from` an address; `why` the reason of a refusal.

    `route` is the route's pattern or a command, never what was typed; `request` is the id that the answer carried; `skipped` the
    number of refusals before it that were left out because there were so many.
    """

    at: datetime
    who: str
    came_from: str
    method: str
    route: str
    status: int = 0
    session: str = ""
    run: str = ""
    job: str = ""
    key: str = ""
    why: str = ""
    request: str = ""
    skipped: int = 0


class Audit:
    """The audit log of a home. Work goes on where it cannot be written; the program's log says so, once until a line succeeds."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._file = LogFile(home.logs / AUDIT_LOG, largest=LARGEST, kept=KEPT)
        self._failing = False

    def write(self, act: Act) -> None:
        """Add a line; raises nothing."""
        try:
            self._home.folder(self._home.logs)
            self._file.append(msgspec.json.encode(act) + b"\n")
        except (OSError, MeleteError) as error:
            if not self._failing:
                log.error("the audit log cannot be written: %s", error)  # noqa: TRY400 - no bug of ours: no traceback
            self._failing = True
        else:
            self._failing = False

    def close(self) -> None:
        """Give the file back."""
        self._file.close()
