"""The working folder of here in a sandbox elsewhere: `Synced`, for places that can be replaced by an empty one at any moment.

A copy that is gone must never be taken for a folder in which everything was removed. So each round is bound to the sandbox that
it began with, and when there is another one everything is copied there anew.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from melete.core.environment import Completed, Environment, Missing, Place
from melete.environments.hosted import Hosted, Job
from melete.environments.scripts import Runs
from melete.environments.sync import Sync
from melete.environments.synced import Synced


class CopyOptions(Protocol):
    """What the settings of a hosted environment say about the copy."""

    @property
    def sync(self) -> bool:
        """Whether the working folder is copied."""
        ...

    @property
    def sync_mb(self) -> int:
        """The most megabytes in one direction."""
        ...

    @property
    def sync_skip(self) -> tuple[str, ...]:
        """Names that are not copied."""
        ...


class Bound:
    """The same environment as long as it is the same sandbox: commands in another one are refused."""

    def __init__(self, env: Hosted, folder: str) -> None:
        self._env, self._bound = env, folder

    @property
    def cwd(self) -> str:
        """The working folder there."""
        return self._env.cwd

    async def exec(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str = "", timeout: float = 180.0, limit: int = 1_000_000
    ) -> Completed:
        """Run a program there; raises Vanished when the sandbox is not the one of before."""
        return await self._env.perform(
            Job(argv=argv, stdin=stdin, cwd=cwd, timeout=timeout, limit=limit), only=self._bound
        )


class Copied(Synced):
    """A hosted environment with a copy of the folder `here`."""

    def __init__(self, env: Hosted, here: Path, options: CopyOptions, *, hidden: Sequence[str] = ()) -> None:
        super().__init__(env, here, cap_mb=options.sync_mb, skip=(*options.sync_skip, *hidden))
        self._hosted = env
        self._copied_to = ""
        self._looking = asyncio.Lock()

    @property
    def note(self) -> str:
        """Where commands run, for the model."""
        return f"{getattr(self._hosted, 'note', '')} It is a copy of the folder here and kept alike."

    async def about(self) -> Mapping[str, Sequence[str]]:
        """What a person may want to know."""
        tell = getattr(self._hosted, "about", None)
        return {**(await tell() if tell else {}), "copy": ["the working folder is copied there, and changes come back"]}

    def _way(self) -> Runs:
        return Bound(self._hosted, self._copied_to)

    async def _begun(self) -> Sync:
        async with self._looking:
            folder = await self._hosted.ready()
            if folder != self._copied_to:
                if self.sync is not None:
                    self._notes.append("the sandbox there is a new one: the working folder was copied to it again")
                self.sync, self._copied_to = None, folder
            return await super()._begun()


class HostedOpener:
    """An `Opener` of a hosted environment; `missing` is what it asks of this machine."""

    def __init__(self, make: Callable[[Place], Hosted], missing: Callable[[Place], Missing | None]) -> None:
        self._make = make
        self.missing = missing

    def __call__(self, place: Place) -> Environment:
        """The environment, with the working folder copied there when its settings say so."""
        env = self._make(place)
        options: CopyOptions | None = place.options
        if options is None or not options.sync:
            return env
        here = Path(place.cwd or Path.cwd()).expanduser().resolve()
        if not here.is_dir():
            raise FileNotFoundError(str(here))
        return Copied(env, here, options, hidden=place.hidden)
