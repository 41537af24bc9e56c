"""What a service that runs sandboxes elsewhere is asked for, and how it says that one is gone. `modal` and `daytona` are two."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from melete.core.errors import ConfigError, EnvironmentFailure
from melete.environments.spool import Reply


class Gone(EnvironmentFailure):
    """The sandbox has ended, or nobody knows it any more."""


class Away(EnvironmentFailure):
    """The service did not answer; the sandbox may be as it was."""


class Terminal(Protocol):
    """A terminal there with a program in it."""

    async def receive(self) -> bytes:
        """The next piece of output; empty when there will be no more."""
        ...

    async def send(self, data: bytes) -> None:
        """Type something; raises EnvironmentFailure when it is closed."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


class Service(Protocol):
    """A service that runs one sandbox for one session. Everything raises `Gone`, `Away` or another EnvironmentFailure."""

    @property
    def name(self) -> str:
        """Such as `modal`."""
        ...

    async def open(self) -> None:
        """Find the sandbox of this session, else make it."""
        ...

    async def run(self, script: str, *, data: bytes = b"", seconds: float) -> Reply:
        """Run a POSIX sh script there with `data` as its input, and give back the bytes of its standard output."""
        ...

    async def terminal(self, path: str) -> Terminal:
        """A terminal in which sh runs the script at `path`."""
        ...

    def remarks(self) -> tuple[str, ...]:
        """What a person should know of the sandbox, said once."""
        ...

    async def lose(self) -> None:
        """Forget a sandbox that is gone."""
        ...

    async def close(self) -> None:
        """Keep the sandbox for later or end it, as the settings say, and give back what was borrowed."""
        ...


class LateService:
    """A service whose library takes a second to load: `make` is called in a thread, when the sandbox is first needed."""

    def __init__(self, name: str, make: Callable[[], Service]) -> None:
        self._name, self._make = name, make
        self._made: Service | None = None

    @property
    def name(self) -> str:
        """The name of the service."""
        return self._name

    @property
    def made(self) -> Service:
        """The service itself, once it was needed."""
        if self._made is None:
            raise Gone(f"there is no sandbox at {self._name}", next="run the command again: it makes one")
        return self._made

    async def open(self) -> None:
        """Load the library and find or make the sandbox."""
        if self._made is None:
            try:
                self._made = await asyncio.to_thread(self._make)
            except ConfigError as error:
                raise EnvironmentFailure(error.what, next=error.next) from error
        await self._made.open()

    async def run(self, script: str, *, data: bytes = b"", seconds: float) -> Reply:
        """Run a script there."""
        return await self.made.run(script, data=data, seconds=seconds)

    async def terminal(self, path: str) -> Terminal:
        """A terminal there."""
        return await self.made.terminal(path)

    def remarks(self) -> tuple[str, ...]:
        """What there is to say, once."""
        return self._made.remarks() if self._made is not None else ()

    async def lose(self) -> None:
        """Forget a sandbox that is gone."""
        if self._made is not None:
            await self._made.lose()

    async def close(self) -> None:
        """Keep or end the sandbox, if there is one."""
        if self._made is not None:
            await self._made.close()
