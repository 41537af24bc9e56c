"""The row of `daytona`: its own library against a service with its API on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from melete.core.environment import Environment, Place
from melete.core.places import DaytonaOptions
from melete.environments.daytona import Daytona
from melete.testing import suites
from tests import fake_daytona
from tests.places.row import Row


@asynccontextmanager
async def _open(folder: Path, _: Any) -> AsyncIterator[Daytona]:
    async with fake_daytona.serving() as service:
        options = DaytonaOptions(
            api_url=f"{service.url}/api",
            target="eu",
            workspace=str(folder),
            keep=False,
            sync=False,
            variables=tuple(suites.VARIABLES),
        )
        secrets = {"DAYTONA_API_KEY": fake_daytona.KEY}
        place = Daytona(
            Place(variables=suites.VARIABLES, options=options, key=token_hex(6), secret=lambda n: secrets.get(n, ""))
        )
        _services[place] = service
        try:
            yield place
        finally:
            del _services[place]
            await place.aclose()


_services: dict[Environment, fake_daytona.Daytona] = {}


async def _cut(place: Environment, _: Any) -> None:
    """End the sandbox at the service, as its owner can on the web page of the service."""
    await _services[place].stop_all()


ROW = Row(
    name="daytona",
    open=_open,
    packages=("daytona",),
    megabytes_of_file=20,
    megabytes_of_output=300,
    cut=_cut,
)
