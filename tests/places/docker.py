"""The row of `docker`: a container of a real engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

from melete.core.environment import Environment
from melete.environments.docker import Docker
from melete.testing import suites
from tests.docker_engine import RunningEngine
from tests.places.row import Row


@asynccontextmanager
async def _open(folder: Path, given: RunningEngine) -> AsyncIterator[Docker]:
    place = Docker(given.place(folder, key=token_hex(6), variables=suites.VARIABLES))
    try:
        yield place
    finally:
        await place.aclose()


async def _cut(place: Environment, given: RunningEngine) -> None:
    """Kill the container from outside, as an administrator would."""
    assert isinstance(place, Docker)
    found = await asyncio.to_thread(given, "ps", "--quiet", "--filter", f"label=melete.key={place.place.key}")
    await asyncio.to_thread(given, "kill", found)


ROW = Row(name="docker", open=_open, fixture="engine", needs=("docker",), cut=_cut, small="/dev/shm")
