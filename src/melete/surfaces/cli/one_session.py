"""What the commands that work with one session share: it is found by id, the beginning of one, or title."""

from collections.abc import Awaitable, Callable

from melete.app.settings import Loaded
from melete.app.wire import Melete
from melete.core.session import SessionRef
from melete.surfaces.cli.running import run_with_app

Work = Callable[[Melete, SessionRef], Awaitable[int]]


def with_session(loaded: Loaded, name: str, work: Work) -> int:
    """Do `work` with the application and the session that `name` means; raises SessionNotFoundError."""

    async def body(app: Melete) -> int:
        return await work(app, await app.store.find(name))

    return run_with_app(loaded, body)
