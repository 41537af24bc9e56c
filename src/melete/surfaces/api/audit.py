"""Which requests the audit log holds, and how callers are called there: all that act, and all that are refused."""

import time

from msgspec import structs

from melete.app.audit import NOBODY, PERSON, Act, Audit
from melete.app.home import Home
from melete.app.server_keys import Who
from melete.surfaces.api.limits import Allowance, network_of

LINES = 60
"""Lines about refusals that one address may cause at once, and each minute: it must not wash out what others did."""


class Trail:
    """Writes the audit log of a server."""

    def __init__(self, home: Home) -> None:
        self._audit = Audit(home)
        self._lines = Allowance(burst=LINES, per_minute=LINES, now=time.monotonic)
        self._skipped = 0

    def write(self, act: Act) -> None:
        """Add a line; of refusals only so many for each address, and the next line says how many are missing."""
        if act.why and not self._lines.take(network_of(act.came_from)):
            self._skipped += 1
            return
        self._audit.write(structs.replace(act, skipped=self._skipped))
        self._skipped = 0

    def close(self) -> None:
        """Give the file back."""
        self._audit.close()


def called(who: Who | None) -> str:
    """How the audit log calls somebody."""
    if who is None or not who.scopes:
        return NOBODY
    return who.owner or PERSON
