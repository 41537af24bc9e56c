"""The skills that come with Melete, as a home has them. Part of the composition root."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from melete import __version__
from melete.app.settings import Loaded
from melete.app.wire import Melete
from melete.core.errors import StorageError
from melete.core.plugin import Lazy

if TYPE_CHECKING:
    from melete.skills.sync import Bundled

_mend: Lazy[Callable[..., None]] = Lazy("melete.skills.place:mend")
_bundled: "Lazy[Callable[..., Bundled]]" = Lazy("melete.skills.sync:Bundled")
log = logging.getLogger("melete.skills")


def bundled(loaded: Loaded) -> "Bundled":
    """The packaged skills and their copies in the home."""
    home = loaded.home
    off = not loaded.settings.skills.bundled
    return _bundled.load()(home.skills, lock=home.state / "skills.lock", version=__version__, off=off)


def start(app: Melete) -> None:
    """Bring the copies up to date, if the package has changed and anything may be stored; a failure is logged."""
    if app.ephemeral or app.then:
        return
    home = app.loaded.home
    try:
        _mend.load()(home.skills, home.state / "skills.lock")
        bundled(app.loaded).sync()
    except (StorageError, OSError) as error:
        log.warning("%s", error)
