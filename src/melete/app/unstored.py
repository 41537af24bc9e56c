"""Sessions that are to leave nothing behind once they have been answered. Part of the composition root.

They are marked by where they come from, so that those which the end of a process left behind are found again and removed; a run
in one of them is never taken up again.
"""

import logging

from melete.app.wire import Melete
from melete.core.errors import MeleteError, SessionBusyError, SessionNotFoundError
from melete.core.session import SessionRef, Which

SOURCE = "unstored"
"""What `Opened.source` and `RunStarted.surface` say of them."""
log = logging.getLogger("melete.unstored")


async def forget(app: Melete, ref: SessionRef) -> bool:
    """Remove such a session; False where that cannot be done now, which is logged unless somebody owns it."""
    try:
        await app.store.delete(ref)
    except SessionNotFoundError:
        return True
    except SessionBusyError:
        return False
    except MeleteError as error:
        log.warning("the session %s, which was not to be stored, is still there: %s", ref.id, error)
        return False
    return True


async def forget_left(app: Melete) -> int:
    """Remove all that earlier processes left behind; returns how many there were. Raises StorageError."""
    now = app.clock.now()  # what begins from here on is somebody's
    found = await app.store.list(which=Which(sources=(SOURCE,)), limit=1_000_000)
    left = [SessionRef(id=info.id) for info in found if not info.running and info.started < now]
    return sum([await forget(app, ref) for ref in left])
